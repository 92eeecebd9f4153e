"""`python -m results.pages`: rewrite RESULTS.md and the pages of tables from the records, or check them."""

from __future__ import annotations

import argparse
import sys

from akorn.errors import AkornError
from akorn.runtime.files import replacing
from results.pages.render import ROOT, pages


def main() -> int:
    """Render; exit status 1 if --check finds a page that differs, 2 if the records do not make a page."""
    parser = argparse.ArgumentParser(prog="python -m results.pages", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; say which pages are not up to date")
    check = parser.parse_args().check
    try:
        made = pages()
    except AkornError as error:
        print(f"results.pages: {error}", file=sys.stderr)
        return 2
    stale = [name for name, text in made.items() if not (ROOT / name).is_file() or (ROOT / name).read_text() != text]
    for name in stale:
        if check:
            print(f"{name} is not what the records say", file=sys.stderr)
            continue
        with replacing(ROOT / name) as temporary:
            temporary.write_text(made[name], encoding="utf-8")
        print(f"wrote {name}")
    return 1 if check and stale else 0


sys.exit(main())
