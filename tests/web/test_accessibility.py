"""What axe-core finds in the page: every tab, light and dark, wide and narrow, and after something was done there."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from .chromium import Chromium

pytestmark = pytest.mark.slow

AXE = Path(__file__).parent / "axe-core" / "axe.min.js.gz"
READY = {
    "sudoku": "document.querySelectorAll('#grid input').length === 81",
    "field": "document.querySelector('#slider-gamma')",
    "pictures": "document.querySelectorAll('#example-picture option').length > 6",
}
FAULTS = """
axe.run(document, { resultTypes: ['violations'] }).then(({ violations, passes }) => ({
  passes: passes.length,
  faults: violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`),
}))"""


@pytest.fixture
def looked_at(page: Chromium) -> Iterator[Chromium]:
    """The page with axe-core, and afterwards as it was."""
    if not AXE.is_file():
        pytest.skip("axe-core is not here: it comes with the repository, not with the source distribution")
    page.evaluate(gzip.decompress(AXE.read_bytes()).decode() + "; void 0")
    yield page
    page.call("Emulation.setEmulatedMedia", features=[])
    page.call("Emulation.clearDeviceMetricsOverride")


def faults(page: Chromium) -> list[str]:
    told = page.evaluate(FAULTS)
    assert told["passes"] > 10  # it has looked
    return list(told["faults"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("tab", READY)
def test_no_tab_has_a_serious_fault(looked_at: Chromium, tab: str, width: int, scheme: str) -> None:
    looked_at.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    looked_at.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=850, deviceScaleFactor=1, mobile=width < 600
    )
    looked_at.click(f"#tab-{tab}")
    looked_at.wait_for(READY[tab])
    assert faults(looked_at) == []
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert looked_at.evaluate(wide) <= 0  # nothing sticks out on a phone


def test_a_refused_board_has_no_serious_fault(looked_at: Chromium) -> None:
    looked_at.click("#clear")
    looked_at.evaluate("document.querySelector('#grid input').focus()")
    for key in "5000000050":
        looked_at.press(key)
    assert "twice" in looked_at.evaluate("document.querySelector('#verdict').textContent")
    assert faults(looked_at) == []


@pytest.mark.usefixtures("_onnx")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_solved_board_has_no_serious_fault(looked_at: Chromium, scheme: str) -> None:
    """With oscillators, curves and the boards of all starts."""
    looked_at.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    looked_at.click("#solve")
    looked_at.wait_for("!document.querySelector('#solve').disabled && !document.querySelector('#watch').hidden", 240)
    assert looked_at.evaluate("document.querySelectorAll('#votes li').length") == 4
    assert faults(looked_at) == []


def test_an_attack_that_is_shown_has_no_serious_fault(looked_at: Chromium) -> None:
    looked_at.click("#tab-pictures")
    looked_at.wait_for(READY["pictures"])
    looked_at.evaluate(
        "import('./pictures/attacks.mjs').then(async ({ Attacks }) => {"
        " const attacks = new Attacks(() => {}); await attacks.load(); await attacks.show('ship'); })"
    )
    assert faults(looked_at) == []


def test_tabs_are_reached_by_keyboard(page: Chromium) -> None:
    page.evaluate("document.querySelector('#tab-sudoku').focus()")
    for wanted in ("field", "pictures", "sudoku"):
        page.press("ArrowRight")
        page.wait_for(f"!document.querySelector('#{wanted}').hidden")
        assert page.evaluate("document.activeElement.id") == f"tab-{wanted}"


def test_axe_finds_faults_where_there_are_some(looked_at: Chromium) -> None:
    looked_at.evaluate(
        "document.querySelector('#verdict').insertAdjacentHTML('afterend', '<img src=\"icon.svg\"><button></button>')"
    )
    assert {fault.split(":")[0] for fault in faults(looked_at)} >= {"image-alt", "button-name"}
