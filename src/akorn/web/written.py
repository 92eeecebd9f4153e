"""The page as static files, for any web server: `akorn web --out FOLDER`, and the documentation's site."""

from __future__ import annotations

import gzip
import html
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from akorn.errors import AkornError
from akorn.runtime.files import check_writable
from akorn.web.content import readme, static_files
from akorn.web.exported import ExportedModel, ExportedModels

_DOCS = 'href="README.txt"'


def write_page(
    folder: Path,
    docs: str | None = None,
    added: Mapping[str, bytes] | None = None,
    tell: Callable[[str], None] = lambda words: None,
) -> None:
    """Write the page and its models into a folder that is new or empty; all of it or nothing.

    docs: where the documentation is, for the page's link; by default the README, which is written beside it.
    added: path of a URL → content, in place of the page's own files.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AkornError(f"{folder}: already exists and is not an empty folder")
    check_writable(folder)
    with tempfile.TemporaryDirectory(prefix=".akorn-web-", dir=folder.absolute().parent) as temporary:
        page = Path(temporary) / "page"
        for url, path in static_files().items():
            content = path.read_bytes()
            _put(page, url, gzip.decompress(content) if path.suffix == ".gz" else content)
        for url, content in (added or {}).items():
            _put(page, url, content)
        _put(page, "/README.txt", readme().encode())
        if docs is not None:
            text = (page / "index.html").read_text(encoding="utf-8")
            _put(page, "/index.html", text.replace(_DOCS, f'href="{html.escape(docs)}"').encode())
        exported = ExportedModels()
        try:
            for name, model in exported.models.items():
                if not model.path.is_file():  # otherwise it is in the cache
                    tell(f"{model.weights}: exporting to ONNX")
                state = _made(model)
                _put(page, f"/models/{name}.json", json.dumps(state).encode())
                _put(page, f"/models/{name}.onnx", model.path.read_bytes())
        finally:
            exported.close()
        if folder.is_dir():
            folder.rmdir()
        os.replace(page, folder)


def _put(page: Path, url: str, content: bytes) -> None:
    path = page / ("index.html" if url == "/" else url.removeprefix("/"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _made(model: ExportedModel) -> dict[str, object]:
    """The state of a model that is ready; waits for it."""
    while (state := model.state())["state"] == "making":
        time.sleep(0.1)
    if state["state"] == "failed":
        raise AkornError(str(state["message"]))
    return state
