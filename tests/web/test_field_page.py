"""The page's field of oscillators in a real browser."""

from __future__ import annotations

import io
import json
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from akorn.simulate.lattice import fish_silhouette
from akorn.simulate.presets import PRESETS

from .chromium import Chromium

pytestmark = pytest.mark.slow

STEP = "Number(document.querySelector('#lattice').dataset.step || 0)"
ENERGIES = """
Promise.all([import('./field/lattice.mjs'), import('./field/presets.mjs')]).then(([{ Field }, { makeCoupling }]) => {
  const settings = { n: %(n)d, strength: 2, kernelSize: 5, width: 0.7, omega: %(omega)s, gamma: 0.1, seed: 3 };
  const field = new Field({ ...settings, size: 24, coupling: makeCoupling('%(preset)s', settings) });
  field.stimulus.fill(1, 0, 200);
  const rows = Array.from({ length: 80 }, () => field.step());
  const [area, lengths] = [field.area, []];
  for (let i = 0; i < area; i++) {
    let sum = 0;
    for (let k = 0; k < field.n; k++) sum += field.x[k * area + i] ** 2;
    lengths.push(sum);
  }
  return { energy: rows.map((row) => row.energy), order: rows.map((row) => row.order), lengths, falls: field.falls };
})"""


@pytest.fixture
def field(page: Chromium) -> Chromium:
    page.click("#tab-field")
    page.wait_for("document.querySelector('#lattice').width === 512 && document.querySelector('#slider-gamma')")
    return page


def test_the_field_moves_and_stops(field: Chromium) -> None:
    before = field.evaluate("document.querySelector('#lattice').toDataURL()")
    begun = field.evaluate(STEP)
    field.wait_for(f"{STEP} > {begun + 10}")
    assert field.evaluate("document.querySelector('#lattice').toDataURL()") != before
    field.click("#run")
    stopped = field.evaluate(STEP)
    field.evaluate("new Promise((next) => setTimeout(next, 300))")
    assert field.evaluate(STEP) == stopped
    field.click("#step")
    assert field.evaluate(STEP) == stopped + 1
    assert field.complaints() == []


@pytest.mark.parametrize("preset", ["waves", "classic"])
def test_other_presets_run(field: Chromium, preset: str) -> None:
    field.evaluate(f"document.querySelector('#preset').value = '{preset}'")
    field.evaluate("document.querySelector('#preset').dispatchEvent(new Event('change'))")
    field.wait_for(f"{STEP} > 5")
    assert 0 <= float(field.evaluate("document.querySelector('#lattice').dataset.order")) <= 1
    assert field.complaints() == []


@pytest.mark.parametrize(("n", "omega"), [(2, 0), (4, 0), (4, 1)])
def test_energy_falls_where_theory_says_so(page: Chromium, n: int, omega: float) -> None:
    """Ω = 0 and a symmetric kernel; or a rotation at right angles to c, which a kernel k ⊗ I does not feel."""
    told = page.evaluate(ENERGIES % {"n": n, "omega": omega, "preset": "fish"})
    assert told["falls"]
    assert all(after <= before + 1e-6 for before, after in pairwise(told["energy"]))
    assert told["energy"][-1] < told["energy"][0] - 1
    np.testing.assert_allclose(told["lengths"], 1, atol=1e-5)


def test_energy_need_not_fall_otherwise(page: Chromium) -> None:
    assert not page.evaluate(ENERGIES % {"n": 4, "omega": 0, "preset": "waves"})["falls"]
    told = page.evaluate(ENERGIES % {"n": 2, "omega": 3, "preset": "fish"})  # the rotation turns x away from c
    assert not told["falls"]
    assert any(after > before for before, after in pairwise(told["energy"]))


def test_the_pen_draws_the_stimulus(field: Chromium) -> None:
    """Where it holds, oscillators turn to white."""
    field.click("#stimulus-none")
    place = field.evaluate(
        "(() => { const box = document.querySelector('#lattice').getBoundingClientRect();"
        " return [box.left + box.width / 4, box.top + box.height / 4]; })()"
    )
    for kind in ("mousePressed", "mouseReleased"):
        field.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
    pixel = "Math.min(...document.querySelector('#lattice').getContext('2d').getImageData(128, 128, 1, 1).data)"
    field.wait_for(f"{pixel} > 200")


def test_the_pages_fish_and_presets_are_the_packages(page: Chromium) -> None:
    size = 64
    code = (
        "import('./field/lattice.mjs').then(({ onFish }) =>"
        f" Array.from({{ length: {size**2} }}, (_, i) => onFish(Math.floor(i / {size}), i % {size}, {size})))"
    )
    assert (np.array(page.evaluate(code)).reshape(size, size) == fish_silhouette(size)).all()
    told = page.evaluate("import('./field/presets.mjs').then(({ PRESETS }) => PRESETS)")
    for name in ("fish", "waves"):
        ours, same = PRESETS[name], ("n", "strength", "omega", "gamma")
        assert {key: told[name][key] for key in same} == {key: getattr(ours, key) for key in same}
        assert told[name]["width"] == ours.kernel_width


def test_what_is_saved_can_be_read(field: Chromium) -> None:
    code = """
Promise.all(['field/lattice', 'field/presets', 'field/saving', 'field/history'].map((name) => import(`./${name}.mjs`)))
  .then(([{ Field }, { PRESETS, makeCoupling }, { asJson }, { History }]) => {
    const settings = { ...PRESETS.fish, size: 8, seed: 1 };
    const field = new Field({ ...settings, coupling: makeCoupling('fish', settings) });
    const history = new History(10);
    for (let step = 0; step < 25; step++) history.add(step, field.step());
    return JSON.parse(asJson('fish', settings, field, history));
  })"""
    told = field.evaluate(code)
    assert (told["steps"], told["stride"], len(told["energy"])) == (25, 4, 7)
    assert len(told["stimulus"]) == 8
    np.testing.assert_allclose(np.square(told["oscillators"]).sum(0), 1, atol=1e-2)


@pytest.mark.parametrize(("button", "name"), [("save-png", "akorn-fish.png"), ("save-json", "akorn-fish.json")])
def test_what_is_seen_is_saved(field: Chromium, tmp_path: Path, button: str, name: str) -> None:
    field.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    field.click(f"#{button}")
    content = downloaded(tmp_path / name)
    if name.endswith(".png"):
        assert Image.open(io.BytesIO(content)).size == (512, 512)
    else:
        assert json.loads(content)["preset"] == "fish"


def test_a_film_is_saved(field: Chromium, tmp_path: Path) -> None:
    field.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    field.click("#save-film")
    assert field.evaluate("document.querySelector('#save-film').textContent") == "End the film"
    begun = field.evaluate(STEP)
    field.wait_for(f"{STEP} > {begun + 15}")
    field.click("#save-film")
    end = time.monotonic() + 60
    while not (films := [path for path in tmp_path.glob("akorn-fish.*") if path.suffix != ".crdownload"]):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert films[0].suffix in (".webm", ".mp4", ".x-matroska")
    assert len(downloaded(films[0])) > 1000


def downloaded(path: Path) -> bytes:
    """A file's content, once the browser has written it."""
    end = time.monotonic() + 60
    while not path.is_file() or not path.stat().st_size:
        assert time.monotonic() < end, f"{path.name} was not saved"
        time.sleep(0.1)
    return path.read_bytes()
