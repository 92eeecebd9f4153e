"""`akorn web` without a browser: what is served, how, and what is refused."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urljoin

import pytest

from akorn.cli import main
from akorn.web import exported
from akorn.web.server import STATIC, PageServer, make_server, static_files

RUNTIME = "/vendor/onnxruntime-web/ort-wasm-simd-threaded.wasm"


def ask(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
    """A raw request: nothing cleans up the path."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/", "/style.css", "/nothing.html", "/models/sudoku.onnx"])
def test_every_answer_forbids_requests_to_others(server: PageServer, path: str) -> None:
    answer, _ = ask(server, path)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self';" in policy
    assert "script-src 'self' 'wasm-unsafe-eval';" in policy
    assert "unsafe-inline" not in policy
    assert "http" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "text/html"), ("/main.mjs", "text/javascript"), ("/style.css", "text/css"), (RUNTIME, "application/wasm")],
)
def test_browsers_are_told_what_files_are(server: PageServer, path: str, kind: str) -> None:
    answer, content = ask(server, path)
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith(kind)
    assert len(content) == int(answer.headers["Content-Length"]) > 0
    head, nothing = ask(server, path, "HEAD")
    assert (head.status, head.headers["Content-Length"], nothing) == (200, answer.headers["Content-Length"], b"")


def test_the_runtime_is_sent_packed_to_those_who_take_it(server: PageServer) -> None:
    packed, content = ask(server, RUNTIME, Accept_Encoding="gzip, deflate, br")
    plain, same = ask(server, RUNTIME)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert plain.headers["Content-Encoding"] is None
    assert gzip.decompress(content) == same
    assert same.startswith(b"\0asm")


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/../server.py",
        "/static/../../server.py",
        "/%2e%2e/server.py",
        "//etc/passwd",
        "/sudoku/",
        "/models/../server.py",
        "/models/%2e%2e/x.onnx",
        "/models/sudoku-paper.onnx",
        "/models/sudoku-paper.json",
        "/vendor/onnxruntime-web/ort-wasm-simd-threaded.wasm.gz",
    ],
)
def test_nothing_else_is_served(server: PageServer, path: str) -> None:
    answer, content = ask(server, path)
    assert answer.status == 404
    assert content.startswith(b"There is no")


def test_only_reading_is_possible(server: PageServer) -> None:
    assert ask(server, "/", "POST")[0].status == 501


def test_all_that_the_page_names_is_there() -> None:
    files = static_files()
    for url, path in files.items():
        if url.endswith((".mjs", ".html")) and "/vendor/" not in url:
            for name in re.findall(r'(?:from|import\() ?"(\.[^"]+)"', path.read_text(encoding="utf-8")):
                assert urljoin(url, name) in files, f"{url} imports {name}"


def test_the_page_is_small_and_its_code_is_ours() -> None:
    """300 kB without the runtime, which has its licence beside it."""
    own = [path for path in STATIC.rglob("*") if path.is_file() and "vendor" not in path.parts]
    assert sum(path.stat().st_size for path in own) < 300_000
    assert "MIT License" in (STATIC / "vendor/onnxruntime-web/LICENSE.txt").read_text(encoding="utf-8")


def test_a_port_in_use_is_one_line(server: PageServer, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["web", "--no-browser", "--port", str(server.port)])
    assert end.value.code == 2
    told = capsys.readouterr().err
    assert f"port {server.port} of 127.0.0.1 is in use" in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("words", [["--port", "70000"], ["--port", "-1"], ["--host", "256.1.1.1"]])
def test_what_cannot_be_listened_on_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["web", "--no-browser", *words])
    assert end.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_server_listens_to_this_machine_alone() -> None:
    with make_server("127.0.0.1", 0) as made:
        assert made.socket.getsockname()[0] == "127.0.0.1"
        assert made.url == f"http://127.0.0.1:{made.port}/"


def test_ctrl_c_ends_the_command(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "akorn", "web", "--no-browser", "--port", "0", "--json"]
    environment = {**os.environ, "AKORN_CACHE": str(tmp_path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", told["port"]), timeout=60):
            process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told["url"] in errors
    assert "Traceback" not in errors


def test_the_server_needs_no_torch() -> None:
    code = "import sys, akorn.web.server, akorn.web.commands.web; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


@pytest.mark.parametrize(
    ("modules", "known"), [("akorn", set()), ("akorn.cli", {"akorn.web", "akorn.web.commands"})]
)  # the second holds the names of commands and no more
def test_whoever_never_opens_the_page_imports_nothing_of_it(modules: str, known: set[str]) -> None:
    code = f"import sys, {modules}; print(*(name for name in sys.modules if name.startswith('akorn.web')))"
    assert set(subprocess.check_output([sys.executable, "-c", code], text=True).split()) <= known


@pytest.mark.parametrize("path", ["/README.txt", "/code/sudoku/solver.py", "/pictures/drawn/ship.png", "/runtime.json"])
def test_documentation_code_and_pictures_are_served(server: PageServer, path: str) -> None:
    answer, content = ask(server, path)
    assert answer.status == 200
    assert len(content) > 10


class Failing(exported.ExportedModel):
    """An export that ends as one without the packages does."""

    def _command(self) -> list[str]:
        return [sys.executable, "-c", "import sys; sys.exit('akorn: ONNX needs packages')"]


def test_an_export_that_fails_is_told_and_may_be_tried_again(tmp_path: Path) -> None:
    model = Failing("sudoku", tmp_path)
    for _ in range(2):
        assert model.state()["state"] == "making"
        end = time.monotonic() + 60
        while (told := model.state())["state"] == "making" and time.monotonic() < end:
            time.sleep(0.05)
        assert told == {"state": "failed", "message": "ONNX needs packages"}
    assert list(tmp_path.iterdir()) == []


def test_files_are_named_by_their_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that other weights are never taken for them."""
    for name, content in (("one", b"1"), ("two", b"2")):
        (tmp_path / name / exported.SUDOKU).mkdir(parents=True)
        (tmp_path / name / exported.SUDOKU / exported.WEIGHTS_FILE).write_bytes(content)
    names = []
    for name in ("one", "two"):
        monkeypatch.setattr(exported, "WEIGHTS", tmp_path / name)
        names.append(exported.ExportedModel("sudoku", tmp_path).path.name)
    assert names[0] != names[1]
