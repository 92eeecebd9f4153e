"""What the site takes from outside docs/: results, model cards, changelog, and every file that a page links to.

MkDocs knows the pages in docs/ alone. Pages elsewhere in the repository are rendered where `PAGES` says. A link to any
other file, such as a record, leads to a copy under files/; a Markdown file there is rendered, though no menu has it. In
the repository links lead to the files themselves; they are changed only on the way into the site. The page to play with
is written into the site's play/ by `akorn web --out`, with its models.
"""

from __future__ import annotations

import atexit
import logging
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # so that tests can check links where MkDocs is not installed
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

TOP = Path(__file__).parents[1]
log = logging.getLogger("mkdocs.plugins.akorn")

PAGES = {
    "RESULTS.md": "results/index.md",
    "results/README.md": "results/records.md",
    **{f"results/{name}.md": f"results/{name}.md" for name in ("sudoku", "objects", "robustness", "speed")},
    **{
        card.relative_to(TOP).as_posix(): f"cards/{card.parent.name}.md"
        for card in sorted((TOP / "src/akorn/weights").glob("*/README.md"))
    },
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Pages outside docs/, by their path in the repository: their place in the site."""

PLAY, PLAYED = "src/akorn/web/static/", "play/"
"""The page to play with: where it is in the repository, and in the site."""

LINK = re.compile(r"(?P<name>\[[^][]+\.md)?\]\((?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")
"""A link to a file: `](target#anchor)`, with its text where that is the name of a file, as in `[speed.md](speed.md)`.

Addresses on the web have a colon, links within a page have no target.
"""


def place(source: str) -> str:
    """Where a file of the repository stands in the site; both are paths with slashes."""
    if source in PAGES:
        return PAGES[source]
    if source.startswith(PLAY):
        return source.replace(PLAY, PLAYED, 1)
    return source.removeprefix("docs/") if source.startswith("docs/") else f"files/{source}"


def source_of(place: str) -> str:
    """The inverse of `place`."""
    if place.startswith("files/"):
        return place.removeprefix("files/")
    if place.startswith(PLAYED):
        return place.replace(PLAYED, PLAY, 1)
    return {there: source for source, there in PAGES.items()}.get(place, f"docs/{place}")


def title(source: str) -> str:
    """The first heading of a page."""
    return next(line for line in (TOP / source).read_text(encoding="utf-8").splitlines() if line.startswith("# "))[2:]


def linked(source: str) -> Iterator[str]:
    """The files of the repository to which a page links."""
    for match in LINK.finditer((TOP / source).read_text(encoding="utf-8")):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["target"]))
        if (TOP / target).is_file():
            yield target


def relinked(text: str, source: str) -> str:
    """A page whose links lead to where things stand in the site, and name the page there instead of the file.

    Links that lead nowhere stay as they are, for MkDocs to report.
    """
    folder = posixpath.dirname(place(source)) or "."

    def change(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match["target"]))
        if not (TOP / target).is_file():
            return match[0]
        name = f"[{title(target)}" if match["name"] else ""
        return f"{name}]({posixpath.relpath(place(target), folder)}{match['anchor'] or ''})"

    return LINK.sub(change, text)


def lists_apart(text: str) -> str:
    """A page with an empty line before every list: GitHub needs none behind a paragraph, Python-Markdown does."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        before = lines[-1] if lines else ""
        if not fenced and line.startswith("- ") and before and not before.startswith(("- ", " ")):
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def written_page() -> Path | None:
    """The page to play with as static files, by `akorn web --out`; None where akorn or its extra `onnx` is missing.

    `AKORN_PYTHON` names the Python that has them, by default the one that runs MkDocs; `AKORN_WEBGPU`, if it is set,
    names the npm package that `akorn web --webgpu` takes. What was written is kept for the next build of the same
    process, as of `mkdocs serve`.
    """
    if not _WRITTEN:
        folder = Path(tempfile.mkdtemp(prefix="akorn-site-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        python = os.environ.get("AKORN_PYTHON", sys.executable)
        words = [python, "-m", "akorn", "web", "--out", str(folder / "play"), "--docs", "../index.html"]
        if package := os.environ.get("AKORN_WEBGPU"):
            words += ["--webgpu", package]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
            log.error("the page to play with is left out: %s -m akorn web --out: %s", python, reason)
            return None
        _WRITTEN.append(folder / "play")
    return _WRITTEN[0]


_WRITTEN: list[Path] = []


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page to play with, the pages from outside docs/, and the files that pages link to."""
    from mkdocs.structure.files import File, InclusionLevel

    if (folder := written_page()) is not None:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            there = f"{PLAYED}{path.relative_to(folder).as_posix()}"
            level = InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, there, abs_src_path=str(path), inclusion=level))
    for source, there in PAGES.items():
        files.append(File.generated(config, there, abs_src_path=str(TOP / source)))
    pages = [source_of(file.src_uri) for file in files.documentation_pages()]
    for page in pages:  # grows on the way: pages link to pages
        for target in linked(page):
            if files.get_file_from_path(place(target)) is None:
                level = InclusionLevel.NOT_IN_NAV
                files.append(File.generated(config, place(target), abs_src_path=str(TOP / target), inclusion=level))
                if target.endswith(".md"):
                    pages.append(target)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where things stand in the site, and lists be lists."""
    return lists_apart(relinked(markdown, source_of(page.file.src_uri)))
