"""`akorn web`: serve the page on this machine and open it in the browser, or write it into a folder."""

from __future__ import annotations

import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Annotated

import tyro

from akorn.cli.common import CommonOptions, print_json, printable, say
from akorn.errors import AkornError

PORT = 8410


@dataclass(frozen=True)
class Options(CommonOptions):
    """Open a page to play with: watch oscillators solve Sudoku, synchronise and name pictures. All in the browser."""

    port: int = PORT
    """The port to listen on; 0 takes any that is free."""
    host: str = "127.0.0.1"
    """The address to listen on: by default only this machine can see the page; 0.0.0.0 is for everyone who can reach
    it."""
    browser: bool = True
    """Open the page in the browser."""
    out: Path | None = None
    """Instead, write the page as static files into this folder, new or empty, for any web server."""
    docs: str | None = None
    """With --out: where the documentation is, for the page's link to it; by default the README beside it."""
    webgpu: Annotated[Path | None, tyro.conf.arg(metavar="TGZ")] = None
    """onnxruntime-web's npm package, which has its build for WebGPU: the page then uses a GPU if there is one."""


def run(options: Options) -> int:
    """Serve until Ctrl-C, or write the page."""
    from akorn.web.webgpu import webgpu_files

    added = webgpu_files(options.webgpu) if options.webgpu is not None else {}
    if options.out is not None:
        from akorn.web.written import write_page

        write_page(options.out, options.docs, added, say)
        if options.json:
            print_json({"page": str(options.out / "index.html")})
        else:
            print(printable(f"{options.out / 'index.html'}: the page, for any web server"))
        return 0
    if options.docs is not None:
        raise AkornError(f"--docs {options.docs} is for --out, which writes the page")
    if not 0 <= options.port <= 65535:
        raise AkornError(f"--port must be from 0 to 65535, got {options.port}")
    from akorn.web.server import make_server

    with make_server(options.host, options.port, added) as server:
        say(f"akorn's page is at {server.url} (Ctrl-C ends it)")
        if options.json:
            print_json({"url": server.url, "host": options.host, "port": server.port})
            sys.stdout.flush()  # the reader waits for it, and this process goes on
        if options.browser:  # some browsers keep the caller waiting until they are closed
            Thread(target=webbrowser.open, args=(server.url,), daemon=True).start()
        server.serve_forever()
    return 0
