"""The page as static files, for any web server and for the documentation's site."""

from __future__ import annotations

import functools
import json
import re
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from akorn.cli import main
from akorn.errors import AkornError
from akorn.sudoku.examples import EXAMPLES
from akorn.web import exported
from akorn.web.content import static_files
from akorn.web.written import write_page

from .chromium import Chromium


def only_sudoku(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(exported, "MODELS", {"sudoku": exported.MODELS["sudoku"]})
    monkeypatch.setenv("AKORN_CACHE", str(cache))


def made_of(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Replace an export by this Python code, which gets the file's path."""

    def command(model: exported.ExportedModel) -> list[str]:
        return [sys.executable, "-c", code, str(model.path)]

    monkeypatch.setattr(exported.ExportedModel, "_command", command)


def test_everything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_sudoku(monkeypatch, tmp_path / "cache")
    made_of(monkeypatch, "import sys; open(sys.argv[1], 'wb').write(b'model')")
    folder = tmp_path / "new" / "page"
    folder.parent.mkdir()
    said: list[str] = []
    write_page(folder, "../a&b.html", tell=said.append)
    assert said == [f"{exported.SUDOKU}: exporting to ONNX"]
    written = {f"/{path.relative_to(folder).as_posix()}" for path in folder.rglob("*") if path.is_file()}
    assert written == set(static_files()) - {"/"} | {"/README.txt", "/models/sudoku.json", "/models/sudoku.onnx"}
    assert json.loads((folder / "models/sudoku.json").read_text())["state"] == "ready"
    assert (folder / "models/sudoku.onnx").read_bytes() == b"model"
    assert 'id="docs" href="../a&amp;b.html"' in (folder / "index.html").read_text(encoding="utf-8")
    assert (folder / "vendor/onnxruntime-web/ort-wasm-simd-threaded.wasm").read_bytes().startswith(b"\0asm")
    assert [path.name for path in folder.parent.iterdir()] == ["page"]
    write_page(tmp_path / "again", tell=said.append)
    assert len(said) == 1  # the file is in the cache


def test_nothing_is_left_of_a_page_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_sudoku(monkeypatch, tmp_path / "cache")
    made_of(monkeypatch, "import sys; sys.exit('akorn: ONNX needs packages')")
    with pytest.raises(AkornError, match="ONNX needs packages"):
        write_page(tmp_path / "page")
    assert [path.name for path in tmp_path.iterdir()] in ([], ["cache"])


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(SystemExit) as end:
        main(["web", "--out", str(tmp_path)])
    assert end.value.code == 2
    assert capsys.readouterr().err == f"akorn: {tmp_path}: already exists and is not an empty folder\n"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_documentation_states_the_figures_of_its_record() -> None:
    top = Path(__file__).parents[2]
    text = (top / "docs" / "web.md").read_text(encoding="utf-8")
    (name,) = re.findall(r"results/bench-web-page-[^)]+\.json", text)
    known = json.loads((top / name).read_text(encoding="utf-8"))["metrics"]
    rows = [row for row in text.splitlines() if row.startswith("|")][2:]
    told = [row.split("|")[2].split()[0] for row in rows]
    keys = [("page_kB", 0), ("first_view_seconds", 2), ("sudoku_first_seconds", 1), ("sudoku_seconds", 1)]
    keys += [(f"{preset}_frames_per_second", 0) for preset in ("fish", "waves", "classic")]
    assert told == [f"{known[key]:.{digits}f}" for key, digits in [*keys, ("wheel_MB", 0)]]


def test_docs_without_a_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["web", "--docs", "x.html"])
    assert end.value.code == 2
    assert "--docs x.html is for --out" in capsys.readouterr().err


class Quiet(SimpleHTTPRequestHandler):
    """Python's own file server, without a line for every request."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.mark.slow
@pytest.mark.usefixtures("_onnx")
def test_it_works_from_any_web_server(
    chromium: Chromium, exports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of a site, without our server's headers: the policy against other hosts is in the page too."""
    only_sudoku(monkeypatch, exports)
    write_page(tmp_path / "play")
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        chromium.events.clear()
        chromium.open(f"http://127.0.0.1:{other.server_address[1]}/play/")
        chromium.wait_for("document.querySelectorAll('#grid input').length === 81")
        chromium.evaluate(
            f"document.querySelector('#text').value = '{EXAMPLES['easy']}';"
            "document.querySelector('#text').dispatchEvent(new Event('input'));"
            "document.querySelector('#starts').value = '1'; document.querySelector('#solve').click()"
        )
        verdict = "document.querySelector('#verdict').textContent"
        chromium.wait_for(f"!document.querySelector('#solve').disabled && {verdict}", 240)
        assert chromium.evaluate(verdict).startswith("Solved: every row")
        assert chromium.complaints() == []
        refused = chromium.evaluate("fetch('http://localhost:9/').then(() => 'sent', () => 'refused')")
        assert refused == "refused"
        assert any("Content Security Policy" in line for line in chromium.complaints())
        chromium.open("about:blank")
        other.shutdown()
