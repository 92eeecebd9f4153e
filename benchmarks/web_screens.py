"""Pictures of the page for the documentation: every tab, wide and light, narrow and dark.

    python benchmarks/web_screens.py [FOLDER]        # docs/images unless told otherwise

Each wide view is a file of its own; the narrow ones stand side by side in one file. All are WebP files, to stay small.
"""

import argparse
import base64
import io
import sys
import tempfile
import threading
import time
from pathlib import Path

from PIL import Image

TOP = Path(__file__).parents[1]
sys.path.insert(0, str(TOP / "tests"))

from web.chromium import Chromium, find_chromium  # noqa: E402

from akorn.web.server import make_server  # noqa: E402

VIEWS = ("sudoku", "field", "classes", "objects")
IDLE = "!document.querySelector('#classify').disabled && document.querySelector('#picture-progress').hidden"
QUALITY = 80


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=TOP / "docs" / "images")
    words = parser.parse_args()
    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium is installed")
    with (
        tempfile.TemporaryDirectory() as profile,
        make_server("127.0.0.1", 0) as server,
        Chromium(program, Path(profile)) as browser,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        wide = taken(browser, server.url, 1180, "light")
        narrow = taken(browser, server.url, 390, "dark")
        server.shutdown()
    for name, picture in wide.items():
        save(picture, words.folder / f"web-{name}.webp")
    gap = 12
    height = max(narrow[name].height for name in VIEWS[1:])  # the first view is longer: its votes continue below
    page = Image.new("RGB", (len(VIEWS) * (390 + gap) - gap, height), "white")
    for place, name in enumerate(VIEWS):
        page.paste(narrow[name].crop((0, 0, 390, min(height, narrow[name].height))), (place * (390 + gap), 0))
    save(
        page.resize((page.width * 3 // 5, page.height * 3 // 5), Image.Resampling.LANCZOS),
        words.folder / "web-narrow.webp",
    )


def taken(browser: Chromium, url: str, width: int, scheme: str) -> dict[str, Image.Image]:
    """Every view at one width."""
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=850, deviceScaleFactor=1, mobile=width < 600)
    browser.open("about:blank")
    browser.open(url)
    browser.wait_for("document.querySelectorAll('#grid input').length === 81")
    found = {}
    browser.evaluate("document.querySelector('#example').selectedIndex = 3")
    browser.evaluate("document.querySelector('#example').dispatchEvent(new Event('change'))")
    browser.evaluate("document.querySelector('#steps').value = '128'")
    browser.click("#solve")
    browser.wait_for("!document.querySelector('#watch').hidden", 300)
    browser.wait_for("!document.querySelector('#solve').disabled", 300)
    found["sudoku"] = picture_of(browser)
    browser.click("#tab-field")
    browser.wait_for("Number(document.querySelector('#lattice').dataset.step ?? 0) > 150", 300)
    browser.click("#run")
    found["field"] = picture_of(browser)
    browser.click("#tab-pictures")
    browser.wait_for("document.querySelectorAll('#example-picture option').length > 6")
    for name, example in (("classes", "bird"), ("objects", "dsprites")):
        browser.evaluate(f"document.querySelector('#example-picture').value = '{example}.png'")
        browser.evaluate("document.querySelector('#example-picture').dispatchEvent(new Event('change'))")
        browser.wait_for(
            f"{IDLE} && document.querySelector('#picture-verdict').textContent.includes(' by {example}')"
            if name == "objects"
            else f"{IDLE} && document.querySelector('#picture-verdict').textContent"
        )
        if name == "objects":
            browser.evaluate("document.querySelector('#uptile').value = '2'")
            browser.click("#classify")
            browser.wait_for("Number(document.querySelector('#mask').width) === 32")
        browser.wait_for(IDLE)
        found[name] = picture_of(browser)
    return found


def picture_of(browser: Chromium) -> Image.Image:
    """The whole page, including what is below the window."""
    time.sleep(0.5)  # the last frame
    told = browser.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
    return Image.open(io.BytesIO(base64.b64decode(told["data"]))).convert("RGB")


def save(picture: Image.Image, path: Path) -> None:
    picture.save(path, quality=QUALITY, method=6)
    print(f"{path}: {picture.width} × {picture.height}, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
