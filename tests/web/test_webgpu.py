"""The runtime's build for WebGPU, which is not shipped: what is refused, and that it answers as WASM does."""

from __future__ import annotations

import io
import os
import tarfile
import threading
from pathlib import Path

import pytest

from akorn.cli import main
from akorn.web.server import make_server
from akorn.web.webgpu import FILES, webgpu_files

from .chromium import Chromium, find_chromium

PACKAGE = os.environ.get("AKORN_TEST_WEBGPU")


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"package/dist/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "not onnxruntime-web-1.23.2.tgz as `npm pack` writes it"),
        (dict.fromkeys(FILES, b"other code"), "is not that of onnxruntime-web 1.23.2"),
    ],
)
def test_other_packages_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, bytes], words: str
) -> None:
    path = packed(tmp_path / "x.tgz", files)
    with pytest.raises(SystemExit) as end:
        main(["web", "--no-browser", "--port", "0", "--webgpu", str(path)])
    assert end.value.code == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_files_that_are_none_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "x.tgz").write_bytes(content)
    with pytest.raises(SystemExit) as end:
        main(["web", "--no-browser", "--port", "0", "--webgpu", str(tmp_path / "x.tgz")])
    assert end.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("_onnx")
@pytest.mark.skipif(PACKAGE is None, reason="AKORN_TEST_WEBGPU names no onnxruntime-web-1.23.2.tgz")
def test_webgpu_answers_as_wasm_does(exports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU that the CPU computes: the masks of a picture are the same."""
    program = find_chromium()
    if program is None:
        pytest.skip("no Chromium is installed")
    assert PACKAGE is not None
    monkeypatch.setenv("AKORN_CACHE", str(exports))
    masks = {}
    with (
        make_server("127.0.0.1", 0, webgpu_files(Path(PACKAGE))) as server,
        Chromium(program, tmp_path / "profile", gpu=True) as browser,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(server.url)
        if not browser.evaluate("navigator.gpu?.requestAdapter().then(Boolean)"):
            pytest.skip("this Chromium has no WebGPU")
        for wish, where in (("webgpu", "on WebGPU"), ("wasm", "on WASM, one thread"), ("", "on WASM, one thread")):
            browser.open(f"{server.url}?runtime={wish}#pictures")
            browser.wait_for("document.querySelectorAll('#example-picture option').length > 6")
            browser.evaluate(
                "document.querySelector('#example-picture').value = 'tetrominoes.png';"
                "document.querySelector('#example-picture').dispatchEvent(new Event('change'))"
            )
            browser.wait_for("document.querySelector('#mask').dataset.labels", 240)
            masks[wish] = browser.evaluate("document.querySelector('#mask').dataset.labels")
            assert browser.evaluate("document.querySelector('#runs-on').textContent.trim()") == where
        assert browser.complaints() == []
        server.shutdown()
    assert masks["webgpu"] == masks["wasm"] == masks[""]
