"""The page over HTTP: the files of `static/`, and the models that it requests. No other host is contacted.

Only paths that were listed when the server started are served, so no path leads out of the folder. A file NAME.gz is
served as NAME, compressed for browsers that accept that.
"""

from __future__ import annotations

import errno
import gzip
import json
import socket
import socketserver
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from akorn.errors import AkornError
from akorn.web.content import STATIC, readme, static_files
from akorn.web.exported import ExportedModels

__all__ = ["STATIC", "PageServer", "make_server", "static_files"]

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".onnx": "application/octet-stream",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".txt": "text/plain; charset=utf-8",
    ".py": "text/plain; charset=utf-8",
}
"""A file's ending → its type for browsers; files of other kinds are not served."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval';"
    " object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PageServer(ThreadingHTTPServer):
    """Serves the page until it is closed."""

    daemon_threads = True

    def __init__(self, host: str, port: int, added: Mapping[str, bytes]) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.host, self.added = host, added
        self.exported = ExportedModels()
        try:
            super().__init__((host, port), _Handler)
        except BaseException:
            self.exported.close()
            raise

    def server_bind(self) -> None:
        """Bind, without asking the network for this machine's name as HTTPServer does."""
        socketserver.TCPServer.server_bind(self)

    def server_close(self) -> None:
        """Close the port, and stop exports that are running."""
        super().server_close()
        self.exported.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves in the middle of an answer is not worth a message."""

    @property
    def port(self) -> int:
        """The port, also if any port was requested."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where the page is."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"


def make_server(host: str, port: int, added: Mapping[str, bytes] | None = None) -> PageServer:
    """A server that is already listening; AkornError if it cannot. added: files served in place of the page's own."""
    try:
        return PageServer(host, port, added or {})
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AkornError(f"port {port} of {host} is in use: choose another with --port, or 0 for any") from error
        raise AkornError(f"cannot listen on port {port} of {host} ({error.strerror or error})") from error


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "akorn", ""

    def do_GET(self) -> None:
        """A file of the page, a model, or the state of a model."""
        path = urlsplit(self.path).path
        if path in self.server.added:
            self._send(HTTPStatus.OK, TYPES[Path(path).suffix], self.server.added[path])
        elif path in static_files():
            self._send_file(path, static_files()[path])
        elif path == "/README.txt":
            self._send(HTTPStatus.OK, TYPES[".txt"], readme().encode())
        elif path.startswith("/models/"):
            self._send_model(path.removeprefix("/models/"))
        else:
            self._send(HTTPStatus.NOT_FOUND, TYPES[".txt"], b"There is nothing here.\n")

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line each."""

    def _send_model(self, asked: str) -> None:
        name, _, ending = asked.rpartition(".")
        model = self.server.exported.models.get(name)
        if model is not None and ending == "json":
            self._send(HTTPStatus.OK, TYPES[".json"], json.dumps(model.state()).encode())
        elif model is not None and ending == "onnx" and model.path.is_file():
            self._send(HTTPStatus.OK, TYPES[".onnx"], model.path.read_bytes())
        else:
            self._send(HTTPStatus.NOT_FOUND, TYPES[".txt"], b"There is no such model here.\n")

    def _send_file(self, url: str, path: Path) -> None:
        kind = TYPES[Path(url).suffix] if url != "/" else TYPES[".html"]
        content = path.read_bytes()
        if path.suffix != ".gz":
            self._send(HTTPStatus.OK, kind, content)
        elif "gzip" in self.headers.get("Accept-Encoding", ""):
            self._send(HTTPStatus.OK, kind, content, {"Content-Encoding": "gzip"})
        else:
            self._send(HTTPStatus.OK, kind, gzip.decompress(content))

    def _send(self, status: HTTPStatus, kind: str, content: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind, "Content-Length": str(len(content)), "Cache-Control": "no-cache"}
        for name, value in {**headers, **HEADERS, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
