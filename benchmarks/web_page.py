"""The page of `akorn web` in headless Chromium: how large it is, how soon it appears, and how fast its parts run.

    python benchmarks/web_page.py [--wheel dist/akorn-….whl] [--record results]

Sudoku is solved by WASM on one thread: the medium example, one start, T = 64, first right after loading and then again.
The field has 128 × 128 oscillators; frames are those that the browser draws, at most 60 per second, and the other
figure is the time of one step and its picture. Nothing uses a GPU. The best of several repetitions counts, because
other work on the machine can only add time. Models are exported first, unless the cache folder has them.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

TOP = Path(__file__).parents[1]
sys.path.insert(0, str(TOP / "tests"))

from web.chromium import Chromium, find_chromium  # noqa: E402

from akorn.ledger import write_record  # noqa: E402
from akorn.sudoku.examples import EXAMPLES  # noqa: E402
from akorn.web.content import STATIC  # noqa: E402
from akorn.web.exported import SUDOKU  # noqa: E402
from akorn.web.server import PageServer, make_server  # noqa: E402

STEPS = 64
PRESETS = ("fish", "waves", "classic")
SOLVE = """
Promise.all([import('./sudoku/solver.mjs'), import('./sudoku/board.mjs')]).then(async ([{ Solver }, { faults, likeliest, parse }]) => {
  const solver = new Solver();
  await solver.load(() => {});
  const puzzle = parse('%(puzzle)s');
  const rows = [];
  for (let round = 0; round < %(rounds)d; round++) {
    let last;
    const { seconds } = await solver.solve({ puzzle, starts: 1, steps: %(steps)d, seed: 0 }, (block) => (last = block));
    rows.push({ seconds, solved: faults(puzzle, likeliest(last.probabilities).digits).solved });
  }
  return rows;
})"""  # noqa: E501
STEP = """
Promise.all(['lattice', 'presets'].map((name) => import(`./field/${name}.mjs`))).then(([field, presets]) => {
  const settings = { ...presets.PRESETS['%(preset)s'], size: 128, seed: 0 };
  const frequencies = '%(preset)s' === 'classic' ? field.lorentzian(128 * 128, 0) : null;
  const made = new field.Field({ ...settings, frequencies, coupling: presets.makeCoupling('%(preset)s', settings) });
  const pixels = new Uint8ClampedArray(4 * 128 * 128);
  let best = Infinity;
  for (let round = 0; round < 10; round++) {
    const began = performance.now();
    for (let step = 0; step < 10; step++) {
      made.step();
      field.paint(pixels, made);
    }
    best = Math.min(best, (performance.now() - began) / 10);
  }
  return best;
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wheel", type=Path, help="a wheel whose size is recorded too")
    parser.add_argument("--record", type=Path)
    words = parser.parse_args()
    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium is installed")
    began = time.monotonic()
    found: dict[str, float] = {"page_kB": page_bytes() / 1000}
    if words.wheel is not None:
        found["wheel_MB"] = words.wheel.stat().st_size / 1e6
    with (
        tempfile.TemporaryDirectory() as profile,
        make_server("127.0.0.1", 0) as server,
        Chromium(program, Path(profile)) as browser,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        version = browser.call("Browser.getVersion")["product"]
        while (state := server.exported.models["sudoku"].state())["state"] == "making":
            time.sleep(0.5)
        if state["state"] != "ready":
            raise SystemExit(state["message"])
        found |= seen(browser, server, words.rounds)
        for preset in PRESETS:
            found |= field(browser, server, preset)
        found |= sudoku(browser, server, words.rounds)
        server.shutdown()
    print(version)
    for name, value in found.items():
        print(f"{name:24s} {value:.3g}")
    if words.record is not None:
        settings = {"browser": version, "weights": SUDOKU, "steps": STEPS, "starts": 1, "rounds": words.rounds}
        digest = hashlib.sha256(json.dumps(EXAMPLES["medium"]).encode()).hexdigest()
        path = write_record(
            "bench", "web-page", found, config=settings, seed=0, data_fingerprint=digest,
            wall_time=time.monotonic() - began, device="cpu", folder=words.record,
        )  # fmt: skip
        print(f"recorded in {path}")


def page_bytes() -> int:
    """The bytes of the page's own files, without the weights and the runtime that runs them."""
    own = (path for path in STATIC.rglob("*") if path.is_file() and "vendor" not in path.parts)
    return sum(path.stat().st_size for path in own)


def seen(browser: Chromium, server: PageServer, rounds: int) -> dict[str, float]:
    """Seconds until the board is shown, and the kilobytes transferred for it, without the browser's cache."""
    browser.call("Network.setCacheDisabled", cacheDisabled=True)
    times = []
    for _ in range(rounds):
        browser.open("about:blank")
        browser.events.clear()
        browser.open(server.url)
        browser.wait_for("document.querySelectorAll('#grid input').length === 81")
        paint = browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null")
        last = browser.evaluate("Math.max(...performance.getEntriesByType('resource').map((one) => one.responseEnd))")
        times.append(max(last, paint or 0) / 1000)
    sent = [event["params"] for event in list(browser.events) if event["method"] == "Network.loadingFinished"]
    browser.call("Network.setCacheDisabled", cacheDisabled=False)
    return {"first_view_seconds": min(times), "first_view_kB": sum(one["encodedDataLength"] for one in sent) / 1000}


def sudoku(browser: Chromium, server: PageServer, rounds: int) -> dict[str, float]:
    """Seconds for a board right after loading, and for the next ones; every round loads everything again."""
    seconds = []
    for _ in range(rounds):
        browser.open("about:blank")
        browser.open(server.url)
        rows = browser.evaluate(SOLVE % {"puzzle": EXAMPLES["medium"], "rounds": 3, "steps": STEPS})
        assert all(row["solved"] for row in rows), rows
        seconds.append([row["seconds"] for row in rows])
    return {
        "sudoku_first_seconds": min(first for first, *_ in seconds),
        "sudoku_seconds": min(min(rest) for _, *rest in seconds),
    }


def field(browser: Chromium, server: PageServer, preset: str) -> dict[str, float]:
    """Frames per second of a preset, the best of five seconds, and the milliseconds of one step and its picture."""
    browser.open(server.url)
    milliseconds = browser.evaluate(STEP % {"preset": preset})
    browser.click("#tab-field")
    browser.wait_for("document.querySelector('#slider-gamma')")
    browser.evaluate(
        f"document.querySelector('#preset').value = '{preset}';"
        "document.querySelector('#preset').dispatchEvent(new Event('change'))"
    )
    rates = []
    count = "Number(document.querySelector('#lattice').dataset.step)"
    pair = f"[{count}, performance.now()]"
    for _ in range(5):
        (first, start), (second, end) = browser.evaluate(
            f"new Promise((done) => {{ const before = {pair}; setTimeout(() => done([before, {pair}]), 1000); }})"
        )
        rates.append(1000 * (second - first) / (end - start))
    return {f"{preset}_frames_per_second": max(rates), f"{preset}_step_ms": milliseconds}


if __name__ == "__main__":
    main()
