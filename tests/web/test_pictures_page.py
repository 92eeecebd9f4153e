"""The page's pictures in a real browser: classes as from `akorn classify`, masks as from `akorn segment`."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from akorn.cli import main
from akorn.robustness.classifier import Classifier, read_picture
from akorn.robustness.config import CLASSES
from akorn.web.server import STATIC

from .chromium import Chromium

pytestmark = pytest.mark.slow

DRAWN = STATIC / "pictures" / "drawn"
VERDICT = "document.querySelector('#picture-verdict').textContent"
IDLE = "!document.querySelector('#classify').disabled && document.querySelector('#picture-progress').hidden"
DROP = """
(async () => {
  const files = new DataTransfer();
  files.items.add(new File([%s], '%s'));
  document.querySelector('#drop').dispatchEvent(new DragEvent('drop', { dataTransfer: files, cancelable: true }));
})()"""
ROWS = "[...document.querySelectorAll('#classes li')]"


@pytest.fixture
def pictures(page: Chromium) -> Chromium:
    page.click("#tab-pictures")
    page.wait_for("document.querySelectorAll('#example-picture option').length > 6")
    page.wait_for("document.querySelector('#classify').textContent")
    return page


def drop(page: Chromium, content: bytes, name: str) -> None:
    code = f"Uint8Array.from(atob('{base64.b64encode(content).decode()}'), (sign) => sign.charCodeAt(0))"
    page.evaluate(DROP % (code, name))


def choose(page: Chromium, selector: str, value: str) -> None:
    element = f"document.querySelector('{selector}')"
    page.evaluate(f"{element}.value = '{value}'; {element}.dispatchEvent(new Event('change'))")


def as_png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def noisy(side: int, seed: int = 0) -> np.ndarray:
    """A drawing under noise: no class is sure."""
    drawing = np.asarray(Image.open(DRAWN / "frog.png").resize((side, side)), dtype=np.float64)
    noise = np.random.default_rng(seed).normal(0, 30, drawing.shape)
    return np.clip(drawing + noise, 0, 255).astype(np.uint8)


@pytest.mark.usefixtures("_onnx")
@pytest.mark.parametrize("shape", [(32, 32), (90, 75)])
def test_a_dropped_picture_is_classified_as_the_command_does(
    pictures: Chromium, tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: tuple[int, int]
) -> None:
    """From the same four starts, within 1e-3; a picture of another size is cut and resized in the same way."""
    path = tmp_path / "dropped.png"
    path.write_bytes(as_png(noisy(90)[: shape[0], : shape[1]]))
    drop(pictures, path.read_bytes(), path.name)
    pictures.wait_for(f"{VERDICT}.startsWith('Of its ten classes')", 240)
    shown = pictures.evaluate(f"{ROWS}.map((row) => [row.children[0].textContent, Number(row.dataset.chance)])")
    assert [name for name, _ in shown] == list(CLASSES)
    with pytest.raises(SystemExit):
        main(["classify", str(path), "--json", "--top", "10", "--device", "cpu"])
    told = json.loads(capsys.readouterr().out)
    wanted = {row["label"]: row["confidence"] for row in told["top"]}
    assert dict(shown) == pytest.approx(wanted, abs=1e-3)
    assert max(wanted.values()) < 0.9999  # else much would be within 1e-3
    assert told["label"] in pictures.evaluate(VERDICT)
    assert pictures.complaints() == []


def test_a_file_that_is_no_picture_is_refused_in_words(pictures: Chromium) -> None:
    pictures.evaluate(DROP % ("'not a picture'", "x.png"))
    pictures.wait_for(f"{VERDICT} === 'x.png: this browser cannot read it as a picture.'")


def test_a_dropped_picture_is_cut_to_its_middle(pictures: Chromium) -> None:
    pixels = np.full((32, 64, 3), (0x40, 0x80, 0xFF), np.uint8)
    pixels[:, :16] = pixels[:, 48:] = (255, 0, 0)
    code = f"new Blob([Uint8Array.from({list(as_png(pixels))})])"
    got = pictures.evaluate(
        "import('./pictures/files.mjs').then(async ({ asSquare, readPicture }) =>"
        f" asSquare(await readPicture({code}, 'x'), 32).map((plane) => [...new Set(plane)]))"
    )
    assert got[2] == [255]
    assert max(got[0]) < 0x40 + 30  # no more of the red sides than the filter spreads


@pytest.mark.usefixtures("_onnx")
@pytest.mark.parametrize(("name", "factor"), [("tetrominoes", 1), ("tetrominoes", 4), ("dsprites", 2), ("shapes", 1)])
def test_objects_are_those_of_the_command(
    pictures: Chromium, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, factor: int
) -> None:
    choose(pictures, "#task", name)
    choose(pictures, "#uptile", str(factor))
    path = DRAWN / f"{name}.png"
    pictures.evaluate("document.querySelector('#picture-seed').value = '3'")
    drop(pictures, path.read_bytes(), path.name)
    pictures.wait_for("document.querySelector('#mask').dataset.labels", 240)
    pictures.wait_for(IDLE)
    choose(pictures, "#uptile", str(factor))  # a new picture brings the model's own settings
    pictures.evaluate("delete document.querySelector('#mask').dataset.labels")
    pictures.click("#classify")
    pictures.wait_for("document.querySelector('#mask').dataset.labels", 240)
    labels = np.array(pictures.evaluate("document.querySelector('#mask').dataset.labels").split(), dtype=int)
    words = ["--uptile", str(factor), "--seed", "3", "--format", "npz", "--out", str(tmp_path), "--device", "cpu"]
    with pytest.raises(SystemExit) as end:
        main(["segment", str(path), "--model", name, *words])
    assert end.value.code == 0
    wanted = np.load(tmp_path / f"{name}-mask.npz")["labels"]
    side = round(len(labels) ** 0.5)
    times = len(wanted) // side
    assert np.array_equal(labels.reshape(side, side).repeat(times, 0).repeat(times, 1), wanted)
    assert pictures.evaluate("document.querySelectorAll('#parts li').length") == wanted.max() + 1
    assert pictures.complaints() == []


def test_attacks_are_shown_with_the_pages_own_pictures(pictures: Chromium) -> None:
    """Without a model: what was computed beforehand is there at once."""
    pictures.evaluate(
        "import('./pictures/attacks.mjs').then(async ({ Attacks }) => {"
        " const attacks = new Attacks(() => {}); await attacks.load(); await attacks.show('ship'); })"
    )
    told = json.loads((DRAWN / "attacks.json").read_text(encoding="utf-8"))
    assert not pictures.evaluate("document.querySelector('#attack').hidden")
    words = pictures.evaluate("document.querySelector('#attack-words').textContent")
    assert f"more than {told['epsilon']} of 255" in words
    assert f"{told['steps']} steps" in words
    pictures.evaluate("import('./pictures/attacks.mjs').then(({ Attacks }) => new Attacks(() => {}).show('x.png'))")
    assert pictures.evaluate("document.querySelector('#attack').hidden")


def test_the_bundled_attacks_are_what_the_model_says() -> None:
    """Within ε, at the tables' budget; and the model's answers are those in the file."""
    told = json.loads((DRAWN / "attacks.json").read_text(encoding="utf-8"))
    assert (told["epsilon"], told["steps"], told["eot"]) == (8, 50, 20)
    classifier = Classifier.from_pretrained(told["model"], "cpu")
    for row in told["pictures"]:
        files = {kind: DRAWN / f"{row['name']}{end}.png" for kind, end in (("clean", ""), ("attacked", "-attacked"))}
        clean, attacked = (np.asarray(Image.open(path), dtype=int) for path in files.values())
        assert abs(attacked - clean).max() <= told["epsilon"]
        assert CLASSES[int(np.argmax(row["clean"]))] == row["name"]
    row = told["pictures"][0]  # one is enough to see that the file tells the truth
    for kind in ("clean", "attacked"):
        ending = "" if kind == "clean" else "-attacked"
        picture = read_picture(DRAWN / f"{row['name']}{ending}.png")
        ranking = dict(classifier.classify([picture], told["starts"], told["seed"])[0].ranking)
        assert [ranking[name] for name in CLASSES] == pytest.approx(row[kind], abs=1e-3)
