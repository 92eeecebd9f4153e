"""The page for a sceptic: its figures are the records', it says what it waits for, and no record may contradict it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from akorn.errors import AkornError
from akorn.ledger import read_records, recipe_of

sceptic = pytest.importorskip("results.pages.sceptic", reason="the repository's folder results/ is not here")
speed = pytest.importorskip("results.pages.speed")

RECORDS = [{**record, "name": recipe_of(record)} for record in read_records(Path(__file__).parents[2] / "results")]


def changed(metric: str, change: Callable[[float], float]) -> list[dict[str, Any]]:
    """The records, with another value of one metric wherever it occurs."""
    found = copy.deepcopy(RECORDS)
    for record in found:
        if metric in record["metrics"]:
            record["metrics"][metric] = change(record["metrics"][metric])
    return found


def test_figures_follow_the_records() -> None:
    """The share that the adaptive attack leaves is on the page as it is in the records, before and after a change."""
    found = sceptic.look(RECORDS, sceptic.FIGURES["last"])
    assert f"with a better gradient leaves {found} %" in sceptic.page(RECORDS)
    later = changed("autoattack_adaptive", lambda value: value / 2)
    assert f"with a better gradient leaves {found.mean / 2:.1f} %" in sceptic.page(later)


@pytest.mark.parametrize(
    ("metric", "value"),
    [("autoattack_adaptive", 60.0), ("autoattack_standard", 40.0), ("autoattack", 2.0), ("noise_sign", 10.0)],
)
def test_a_record_that_contradicts_the_page_stops_it(metric: str, value: float) -> None:
    with pytest.raises(AkornError, match=r"docs/sceptic\.md: the figures no longer support its words"):
        sceptic.page(changed(metric, lambda _: value))


def test_it_says_what_it_waits_for() -> None:
    without = [record for record in RECORDS if record["name"] not in ("gradients-untrained", "lyapunov")]
    page = sceptic.page(without)
    assert "they wait for `benchmarks/gradients.py --untrained`" in page
    assert "they wait for `benchmarks/lyapunov.py`" in page


def test_run_times_are_of_the_pairs_that_are_measured() -> None:
    runtime = pytest.importorskip("akorn.bench.runtime")
    assert tuple(speed._PAIRS.values()) == runtime.PAIRS
