"""Chromium driven through a pipe by its DevTools protocol: no driver and no package are needed."""

from __future__ import annotations

import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--mute-audio",
    "--remote-debugging-pipe",
    "--no-default-browser-check",
    "--disable-features=Translate,OptimizationHints",
]
GPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"]
"""Instead of --disable-gpu: WebGPU, computed by the CPU."""
WATCHED = ("Runtime", "Log", "Network")
PATIENCE = 120.0
"""Seconds to wait for anything: machines that run tests are busy."""


def find_chromium() -> str | None:
    """The browser of this machine, if it has one."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Chromium:
    """A browser with an empty profile and one page; a context manager. gpu: with WebGPU, which the CPU computes."""

    def __init__(self, program: str, profile: Path, width: int = 1280, height: int = 900, *, gpu: bool = False) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def as_3_and_4() -> None:  # where the browser looks for its pipe
            first, second = os.dup(to_browser), os.dup(from_browser)  # neither may be overwritten before it is copied
            os.dup2(first, 3)
            os.dup2(second, 4)

        flags = [*(flag for flag in FLAGS if flag != "--disable-gpu"), *GPU] if gpu else FLAGS
        words = [program, *flags, f"--user-data-dir={profile}", f"--window-size={width},{height}", "about:blank"]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=as_3_and_4, close_fds=False, start_new_session=True,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._numbers, self._answers = itertools.count(1), dict[int, queue.Queue[Any]]()
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._listen, daemon=True).start()
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", *WATCHED):
            self.call(f"{domain}.enable")
        self.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True)  # Workers too

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):  # its own group: its renderers go with it
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)

    def call(self, method: str, **given: Any) -> Any:
        """One command of the protocol."""
        answer = self._send(self._session, method, given).get(timeout=PATIENCE)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url: str) -> None:
        """Go to a page and wait for it."""
        self.evaluate("window.left = true")
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && !window.left")

    def evaluate(self, code: str) -> Any:
        """The value of an expression, awaited."""
        told = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in told:
            raise RuntimeError(f"{code}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def wait_for(self, code: str, patience: float = PATIENCE) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            with suppress(RuntimeError):  # while a page is being left
                if self.evaluate(f"Boolean({code})"):  # an element alone would come as an empty object
                    return
            time.sleep(0.1)
        raise TimeoutError(f"not true after {patience:.0f} s: {code}")

    def press(self, key: str) -> None:
        """A key, as someone at the keyboard presses it."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, selector: str) -> None:
        """A click on an element."""
        self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    def complaints(self) -> list[str]:
        """Errors on the console, and exceptions that nobody caught."""
        found = []
        for event in list(self.events):
            given = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(given["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and given["entry"]["level"] == "error":
                found.append(f"{given['entry']['text']} ({given['entry'].get('url')})")
            elif event["method"] == "Runtime.consoleAPICalled" and given["type"] == "error":
                found.append(str(given["args"]))
        return found

    def requests(self) -> list[str]:
        """Every address that the page has asked for."""
        sent = [event for event in list(self.events) if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def _send(self, session: str | None, method: str, given: dict[str, Any]) -> queue.Queue[Any]:
        number = next(self._numbers)
        waiting = self._answers[number] = queue.Queue[Any]()
        message = {"id": number, "method": method, "params": given}
        os.write(
            self._write, json.dumps(message if session is None else {**message, "sessionId": session}).encode() + b"\0"
        )
        return waiting

    def _watch(self, session: str) -> None:
        """Observe what a Worker requests and its errors, from its first line on."""
        for method in (*(f"{domain}.enable" for domain in WATCHED), "Runtime.runIfWaitingForDebugger"):
            self._send(session, method, {})

    def _listen(self) -> None:
        rest = b""
        while got := os.read(self._read, 1 << 16):
            *whole, rest = (rest + got).split(b"\0")
            for text in whole:
                message = json.loads(text)
                if "id" in message:
                    self._answers.pop(message["id"]).put(message)
                    continue
                self.events.append(message)
                if message["method"] == "Target.attachedToTarget" and self._session is not None:
                    self._watch(message["params"]["sessionId"])
        os.close(self._read)
        for waiting in list(self._answers.values()):
            waiting.put({"error": "the browser has ended"})
