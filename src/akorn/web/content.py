"""What the page consists of: its own files, some of the package's code to read, and the README."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from pathlib import Path

STATIC = Path(__file__).parent / "static"
PACKAGE = Path(__file__).parents[1]
KINDS = (".html", ".css", ".mjs", ".json", ".wasm", ".svg", ".png", ".txt")
CODE = ("sudoku/solver.py", "simulate/lattice.py", "robustness/classifier.py", "objects/segmenter.py")
"""Modules of the package that do on the command line what the page shows; it links to them."""


@cache
def static_files() -> dict[str, Path]:
    """Path of a URL → file; a file NAME.gz is listed as NAME."""
    found = {}
    for path in sorted(STATIC.rglob("*")):
        url = "/" + path.relative_to(STATIC).as_posix().removesuffix(".gz")
        if path.is_file() and Path(url).suffix in KINDS:
            found[url] = path
    found["/"] = found["/index.html"]
    return found | {f"/code/{name}": PACKAGE / name for name in CODE}


def readme() -> str:
    """The README, from the installed package's metadata."""
    try:
        told = metadata.metadata("akorn")
    except metadata.PackageNotFoundError:
        told = None
    text = told.get_payload() if told is not None else ""  # type: ignore[attr-defined]
    return str(text) or "akorn is not installed as a package here, so its README is not known.\n"
