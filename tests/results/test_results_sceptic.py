"""The page for a sceptic: its figures are the records', it says what it waits for, and no record may contradict it."""

from __future__ import annotations

import copy
import math
import re
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
    found = sceptic.look(RECORDS, sceptic.FIGURES["shipped_last"])
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


def test_the_growth_over_all_steps_is_that_of_the_exponents() -> None:
    """exp(3 · Σλ) of the three layers; without a record there is no such sentence."""
    page = sceptic.page(changed("trained/layer 2, γ = 1", lambda _: 0.0))
    (each, factor) = re.search(r"exp\(3 · \(([\d. +]+)\)\) ≈ (\d+),", page).groups()  # type: ignore[union-attr]
    assert each.split(" + ")[1] == "0.00"
    assert float(factor) == pytest.approx(math.exp(3 * sum(map(float, each.split(" + ")))), abs=0.51)
    assert "exp(3" not in sceptic.page([record for record in RECORDS if record["name"] != "lyapunov"])


def test_it_says_in_how_many_bits_the_weights_were() -> None:
    assert "measured with its weights in 16 bits" in sceptic.page(RECORDS)
    other = copy.deepcopy(RECORDS)
    for record in other:
        if "autoattack_adaptive" in record["metrics"]:
            record["extra"]["training"]["weights_sha256"] = "that of the weights in 8 bits"
    assert "16 bits" not in sceptic.page(other)


def test_a_model_of_smaller_steps_gets_its_row() -> None:
    """What has no figure is named as pending; a record takes its row out of that list."""
    pending = "AKOrN-conv, γ = 0.5; AKOrN-conv, γ = 0.1; AKOrN-conv without Proj, γ = 1"
    assert f"*Pending, with no figures yet: AKOrN-conv, γ = 1; {pending}" in sceptic.page(RECORDS)
    overrides = {"train.epochs": 100, "model.gamma": 0.1}
    training = {"recipe": "cifar10_akorn_conv", "overrides": overrides, "ema": {"warmup": True},
                "data": {"augmix_operations": "thirteen"}}  # fmt: skip
    config = {"data_split": "test", "pictures": 10_000, "starts": 1, "noise_epsilon": 64 / 255, "noise_kind": "sign"}
    new = {"kind": "eval", "name": "cifar10_akorn_conv", "seed": 0, "date": "2030", "file": "new.json",
           "metrics": {"clean": 71.5, "noise": 31.5}, "config": config, "extra": {"training": training}}  # fmt: skip
    page = sceptic.page([*RECORDS, new])
    assert "| AKOrN-conv, γ = 0.1 | 71.5 | 31.5 | – | – |" in page
    assert "*Pending: AKOrN-conv, γ = 1; AKOrN-conv, γ = 0.5; AKOrN-conv without Proj" in page


def test_run_times_are_of_the_pairs_that_are_measured() -> None:
    runtime = pytest.importorskip("akorn.bench.runtime")
    assert tuple(speed._PAIRS.values()) == runtime.PAIRS
