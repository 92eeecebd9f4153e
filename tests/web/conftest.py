"""A server for the tests of a folder, and a browser if there is one."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from akorn.web.server import PageServer, make_server

from .chromium import Chromium, find_chromium


@pytest.fixture(scope="session")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for exported models: that of `AKORN_TEST_CACHE`, or one that all processes of this run share."""
    if given := os.environ.get("AKORN_TEST_CACHE"):
        return Path(given)
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "web-exports"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def server(exports: Path) -> Iterator[PageServer]:
    """On any free port."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AKORN_CACHE", str(exports))
        with make_server("127.0.0.1", 0) as made:
            threading.Thread(target=made.serve_forever, daemon=True).start()
            yield made
            made.shutdown()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for all tests; its errors are kept until the end."""
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium is installed")
    with Chromium(program, tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture
def page(chromium: Chromium, server: PageServer) -> Chromium:
    """The page, freshly opened."""
    chromium.events.clear()
    chromium.open(server.url)
    chromium.wait_for("document.querySelectorAll('#grid input').length === 81")
    return chromium


@pytest.fixture(scope="session")
def _onnx() -> None:
    if any(find_spec(name) is None for name in ("onnx", "onnxscript")):
        pytest.skip("exporting a model needs onnx and onnxscript")
