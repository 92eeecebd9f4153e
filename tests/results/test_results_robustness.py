"""Robustness's tables: which records fill them, and what they say about the training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from akorn.ledger.records import read_records
from akorn.ledger.tables import Table, chosen, render, summary, value
from akorn.robustness.corruptions.constants import COMMON

robustness = pytest.importorskip("results.pages.robustness", reason="the repository's folder results/ is not here")
ATTACKS, CHECKS, CORRUPTIONS, GENERATOR, PRETRAINED, RANDOM_NOISE, SCRATCH, STARTS, TABLES = (
    getattr(robustness, name)
    for name in (
        *("ATTACKS", "CHECKS", "CORRUPTIONS", "GENERATOR", "PRETRAINED", "RANDOM_NOISE", "SCRATCH", "STARTS", "TABLES"),
    )
)


def record(name: str, date: str, metrics: dict[str, float], **config: object) -> dict[str, object]:
    return {"kind": "eval", "name": name, "seed": 0, "date": date, "metrics": metrics,
            "config": {"data_split": "test", "pretrained": False, **config}}  # fmt: skip


def test_tables_show_the_records_beside_the_paper() -> None:
    attack = {"attacked": 1000, "epsilon": 8 / 255, "eot": 20, "random_start": True}
    clean = record("cifar10_akorn_conv", "2026-01-01", {"clean": 85.12, "ece": 1.0}, pictures=10_000, starts=1)
    attacked = record("cifar10_akorn_conv", "2026-01-02", {"clean": 80.0, "autoattack": 61.3}, pictures=1000,
                      starts=16, **attack)  # fmt: skip
    quick = record("cifar10_akorn_conv", "2026-01-03", {"clean": 70.0, "autoattack": 99.0}, pictures=50, starts=1,
                   **{**attack, "attacked": 50})  # fmt: skip
    weak = record("cifar10_akorn_conv", "2026-01-04", {"autoattack": 98.0}, **{**attack, "epsilon": 1 / 255})
    page = render([clean, attacked, quick, weak], TABLES)
    (row,) = [line for line in page.splitlines() if line.startswith("| AKOrN-conv, N = 2") and "84.6" in line]
    assert row == "| AKOrN-conv, N = 2 | 85.1 (1) | 84.6 | 61.3 (1) | 64.9 | – | 78.3 | – | 1.8 |"
    assert "99.0 (1)" not in page
    assert "98.0 (1)" not in page


CLEAN = {"pictures": 10_000, "starts": 1, "noise_epsilon": 64 / 255}
CORRUPTED = {"starts": 1, "severity": 5, "corrupted_pictures": 10_000, "corruptions_by": "akorn"}
ATTACK = {"attacked": 1000, "epsilon": 8 / 255, "eot": 20, "queries": 5000, "random_start": True}


@pytest.mark.parametrize(
    ("metric", "right", "wrong"),
    [
        ("clean", CLEAN, {"starts": 16}),
        ("clean", CLEAN, {"pictures": 1000}),
        ("clean", CLEAN, {"data_split": "train"}),
        ("noise", CLEAN, {"pictures": 1000}),
        ("noise", CLEAN, {"starts": 16}),
        ("noise", CLEAN, {"noise_epsilon": 8 / 255}),
        ("ece", CLEAN, {"starts": 16}),
        ("corrupted", CORRUPTED, {"severity": 3}),
        ("corrupted", CORRUPTED, {"corrupted_pictures": 100}),
        ("corrupted", CORRUPTED, {"corruptions_by": "CIFAR-10-C"}),
        ("corrupted", CORRUPTED, {"frost": "photographs of imagecorruptions 1.1.2"}),
        ("corrupted_ece", CORRUPTED, {"starts": 4}),
        ("autoattack", ATTACK, {"attacked": 999}),
        ("autoattack", ATTACK, {"eot": 1}),
        ("autoattack", ATTACK, {"epsilon": 4 / 255}),
        ("autoattack", ATTACK, {"precision": "bf16"}),
        ("autoattack", {**ATTACK, "random_start": False, "eot": 1}, {"queries": 50}),
    ],
)
def test_another_protocol_fills_no_cell_of_robustness(
    metric: str, right: dict[str, object], wrong: dict[str, object]
) -> None:
    def count(found: dict[str, object]) -> int:
        rows = [row for table in (SCRATCH, PRETRAINED, RANDOM_NOISE) for row in table.rows]
        single = [row for row in rows if not row.label.endswith(" starts")]
        return sum(bool(chosen([found], cell)) for row in single for cell in row.cells)

    name = "cifar10_akorn_conv"
    assert count(record(name, "2026-01-01", {metric: 50.0}, **right)) == 1
    assert count(record(name, "2026-01-01", {metric: 50.0}, **{**right, **wrong})) == 0
    assert count(record(name, "2026-01-01", {metric: 50.0}, **right) | _trained({"data.path": "x", "train.epochs": 9}))
    for data, fills in (({"augmix_operations": "thirteen"}, False), ({"noise": 0.0}, True)):  # the first had nine
        assert bool(count(record(name, "2026-01-01", {metric: 50.0}, **right) | _trained({}, data=data))) == fills
    for trial in ({"train.steps": 100}, {"model.n": 4}, {"data.noise": 0.1}, {"data.limit": 5}):
        assert not count(record(name, "2026-01-01", {metric: 50.0}, **right) | _trained(trial))


def _trained(overrides: dict[str, object], **more: object) -> dict[str, object]:
    return {"extra": {"training": {"recipe": "cifar10_akorn_conv", "overrides": overrides, **more}}}


def filled(table: Table, *found: dict[str, object]) -> dict[tuple[str, str], str]:
    """The cells of a table that records fill, by row and heading."""
    behind = {
        (row.label, heading): [value(record, cell.metric) for record in chosen(found, cell)]
        for row in table.rows
        for heading, cell in zip(table.headings, row.cells, strict=True)
    }
    return {place: summary(values) for place, values in behind.items() if values}


EVERY = {
    "fgsm": 1.0, "pgd": 2.0, "pgd_smooth": 3.0, "pgd_adaptive": 4.0, "transfer": 5.0, "square": 6.0,
    "square_unattacked": 7.0,
    "autoattack": 8.0, "autoattack_adaptive": 9.0, "autoattack_unattacked": 10.0, "autoattack_standard": 11.0,
    "autoattack_standard_unattacked": 12.0,
}  # fmt: skip
HARD = {**ATTACK, "starts": 1, "attack_steps": 50, "smooth_eot": 20, "source": "cifar10_resnet18"}


def test_each_attack_has_its_row() -> None:
    found = record("cifar10_akorn_conv", "2026-01-01", EVERY, **HARD)
    place = {heading: figures for (_, heading), figures in filled(ATTACKS[0], found).items()}
    assert place.keys() == {"AKOrN-conv, N = 2"}
    assert list(filled(ATTACKS[0], found).values()) == [f"{k}.0 (1)" for k in range(1, 13)]
    later = filled(ATTACKS[1], found | {"config": {**found["config"], "pretrained": True}})  # type: ignore[dict-item]
    assert len(later) == 12
    assert not filled(ATTACKS[1], found)


def test_answers_of_several_starts_have_rows_of_their_own() -> None:
    metrics = {"clean": 1.0, "autoattack": 2.0, "corrupted": 3.0, "corrupted_ece": 4.0}
    found = record("cifar10_akorn_conv", "2026-01-01", metrics, **{**CLEAN, **CORRUPTED, **ATTACK, "starts": 4})
    assert filled(SCRATCH, found) == {
        ("AKOrN-conv, N = 2", "AutoAttack, 8/255"): "2.0 (1)",  # which asks one start at a time
        ("AKOrN-conv, N = 2, four starts", "clean"): "1.0 (1)",
        ("AKOrN-conv, N = 2, four starts", "corrupted"): "3.0 (1)",
        ("AKOrN-conv, N = 2, four starts", "ECE on corrupted"): "4.0 (1)",
    }
    name = "cifar10_resnet18_always_noise02"
    found = record(name, "2026-01-01", metrics, **{**CLEAN, **CORRUPTED, **ATTACK, "starts": 16})
    assert filled(SCRATCH, found) == {
        ("ResNet-18, σ = 0.2 in tests too", "AutoAttack, 8/255"): "2.0 (1)",
        ("ResNet-18, σ = 0.2 in tests too, sixteen starts", "clean"): "1.0 (1)",
        ("ResNet-18, σ = 0.2 in tests too, sixteen starts", "corrupted"): "3.0 (1)",
        ("ResNet-18, σ = 0.2 in tests too, sixteen starts", "ECE on corrupted"): "4.0 (1)",
    }


def test_our_corruptions_stand_beside_the_published_ones() -> None:
    each = {name: {"accuracy": 50.0 + place} for place, name in enumerate(COMMON)}
    metrics = {"clean": 95.0, "corrupted": 57.0}
    found = record("cifar10_resnet18_usual", "2026-01-01", metrics, **CLEAN | CORRUPTED) | {
        "extra": {"corrupted": each}
    }
    page = render([found], [GENERATOR])
    for line in (
        "|  | ResNet-18 on ours | a wide ResNet on CIFAR-10-C |",
        "| no corruption | 95.0 (1) | – |",
        "| gaussian noise | 50.0 (1) | 27.7 |",
        "| jpeg compression | 64.0 (1) | 69.7 |",
        "| mean | 57.0 (1) | 56.5 |",
    ):
        assert line in page.splitlines()
    assert sum(float(row.cells[0].paper) for row in GENERATOR.rows[1:-1]) / 15 == pytest.approx(56.5, abs=0.05)


@pytest.mark.parametrize("said", [True, False])
def test_a_model_that_continues_another_is_not_pretrained(said: bool) -> None:
    found = record("cifar10_akorn_conv_falling_rate", "2026-01-01", {"clean": 84.0}, **{**CLEAN, "pretrained": said})
    assert filled(SCRATCH, found) == {("AKOrN-conv, then a falling rate", "clean"): "84.0 (1)"}


@pytest.mark.parametrize(
    ("wrong", "left"),
    [
        ({"attacked": 999}, ""),
        ({"epsilon": 16 / 255}, ""),
        ({"precision": "bf16"}, ""),
        ({"eot": 5}, "square square_unattacked autoattack_standard autoattack_standard_unattacked"),
        (
            {"queries": 1000},
            "fgsm pgd pgd_smooth pgd_adaptive transfer autoattack autoattack_adaptive autoattack_unattacked",
        ),
        ({"starts": 16}, " ".join(list(EVERY)[5:])),
        ({"attack_steps": 10}, "fgsm " + " ".join(list(EVERY)[5:])),
        ({"source": "cifar10_vit"}, " ".join(name for name in EVERY if name != "transfer")),
        ({"smooth_eot": 2}, " ".join(name for name in EVERY if name != "pgd_smooth")),
    ],
)
def test_a_weaker_attack_fills_no_row(wrong: dict[str, object], left: str) -> None:
    found = record("cifar10_akorn_conv", "2026-01-01", EVERY, **{**HARD, **wrong})
    assert list(filled(ATTACKS[0], found).values()) == [f"{EVERY[name]:.1f} (1)" for name in left.split()]


def test_each_corruption_has_its_row() -> None:
    each = {name: {"accuracy": 50.0 + k, "ece": float(k)} for k, name in enumerate(COMMON)}
    found = record("cifar10_itrconv", "2026-01-01", {"corrupted": 57.0, "corrupted_ece": 7.0}, **CORRUPTED)
    found["extra"] = {"corrupted": each}
    accuracy, error = (filled(table, found) for table in CORRUPTIONS[:2])
    assert len(accuracy) == len(error) == 16
    assert {heading for _, heading in accuracy} == {"ItrConv"}
    assert (accuracy["fog", "ItrConv"], error["fog", "ItrConv"]) == (
        f"{50 + COMMON.index('fog')}.0 (1)",
        f"{COMMON.index('fog')}.0 (1)",
    )
    assert (accuracy["mean", "ItrConv"], error["mean", "ItrConv"]) == ("57.0 (1)", "7.0 (1)")
    milder = found | {"config": {**found["config"], "severity": 3}}  # type: ignore[dict-item]
    assert not filled(CORRUPTIONS[0], milder)


def test_the_checks_have_their_verdicts_and_figures() -> None:
    found = record("cifar10_akorn_conv", "2026-01-01", {"clean": 80.0}, starts=1, checked=200, check_epsilon=8 / 255)
    steps = {"name": "steps", "passed": True, "accuracies": {"10": 61.04, "20": 60.0}, "reason": "falls and settles"}
    black = {
        "name": "black-box",
        "passed": False,
        "accuracies": {"pgd": 60.0},
        "reason": "square gets 9.0 points below",
    }
    found["extra"] = {"checks": [steps, {"name": "eot", "passed": True, "accuracies": {}, "reason": "none"}, black]}
    shown = {(label.split(":")[0], heading): words for (label, heading), words in filled(CHECKS[0], found).items()}
    assert shown == {
        ("steps", "verdict"): "holds (1)",
        ("steps", "accuracies, %"): "10: 61.0, 20: 60.0 (1)",
        ("eot", "verdict"): "holds (1)",
        ("black-box", "verdict"): "**fails**: square gets 9.0 points below (1)",
        ("black-box", "accuracies, %"): "pgd: 60.0 (1)",
    }
    for wrong in ({"checked": 50}, {"check_epsilon": 1 / 255}, {"starts": 16}, {"precision": "bf16"}):
        assert not filled(CHECKS[0], found | {"config": {**found["config"], **wrong}})  # type: ignore[dict-item]


def test_several_starts_have_rows_of_their_own() -> None:
    metrics = {"clean": 80.0, "ece": 1.0, "noise_sign": 70.0, "pgd": 60.0, "corrupted": 75.0, "corrupted_ece": 2.0}
    config = {**CLEAN, **HARD, **CORRUPTED, "starts": 16}
    found = filled(STARTS[0], record("cifar10_akorn_conv", "2026-01-01", metrics, **config))
    assert {label for label, _ in found} == {"K = 16"}
    assert len(found) == 6


def test_final_runs_of_the_common_protocol_have_a_table_of_their_own() -> None:
    metrics = {"clean": 80.0, "noise": 50.0, "autoattack": 60.0, "autoattack_adaptive": 5.0, "corrupted": 70.0,
               "corrupted_ece": 2.0}  # fmt: skip
    config = {**CLEAN, **ATTACK, **CORRUPTED, "noise_kind": "sign", "frost": "photographs of imagecorruptions 1.1.2"}
    found = record("cifar10_akorn_conv_no_c", "2026-01-01", metrics, **config)
    chosen_by_trials = {"train.epochs": 100, "train.optimiser.learning_rate": 1e-3, "train.schedule.name": "linear"}
    right = _trained(chosen_by_trials, data={"augmix_operations": "thirteen"})
    shown = filled(robustness.COMMON_RUNS, found | right)
    assert {row for row, _ in shown} == {"AKOrN-conv without C"}
    assert list(shown.values()) == [f"{figure:.1f} (1)" for figure in (80, 50, 60, 5, 70, 2)]
    assert not any(filled(table, found | right) for table in TABLES if table is not robustness.COMMON_RUNS)
    for wrong in (
        _trained(chosen_by_trials),  # nine operations
        _trained({**chosen_by_trials, "train.epochs": 20}, data={"augmix_operations": "thirteen"}),
        _trained(chosen_by_trials, data={"augmix_operations": "thirteen", "split": "train"}),
        _trained({**chosen_by_trials, "model.n": 4}, data={"augmix_operations": "thirteen"}),
    ):
        assert not filled(robustness.COMMON_RUNS, found | wrong)
    textured = record("cifar10_akorn_conv_no_c", "2026-01-01", metrics, **{**config, "frost": "procedural texture"})
    assert len(filled(robustness.COMMON_RUNS, textured | right)) == 4


def corrected(overrides: dict[str, object], **more: object) -> dict[str, object]:
    """What a record says of a training after the corrections."""
    ema = {"decay": 0.99, "warmup": True}
    return _trained(overrides, ema=ema, data={"augmix_operations": "thirteen", **more.pop("data", {})}, **more)  # type: ignore[dict-item]


def test_a_model_trained_in_tf32_fills_its_cells_and_is_named() -> None:
    """The precision makes no trial, but a table says where it is not the recipe's."""
    found = record("cifar10_akorn_conv", "2026-01-01", {"clean": 85.0}, **CLEAN)
    in_tf32 = found | corrected({"train.precision": "tf32"}, precision="tf32", steps=156_000)
    assert filled(SCRATCH, in_tf32) == {("AKOrN-conv, N = 2", "clean"): "85.0 (1)"}
    told = "**Trained in another precision than the recipe's: `cifar10_akorn_conv` in tf32.**"
    assert told in render([in_tf32], [SCRATCH])
    as_it_is = found | corrected({}, precision="bf16", steps=156_000)
    assert filled(SCRATCH, as_it_is)
    assert "another precision" not in render([as_it_is], [SCRATCH])
    attacked = record("cifar10_akorn_conv", "2026-01-02", {"autoattack": 60.0}, **ATTACK)
    both = [in_tf32, attacked | corrected({}, precision="bf16", steps=156_000)]
    assert "`cifar10_akorn_conv` in tf32 (clean).**" in render(both, [SCRATCH])


def test_the_trial_of_two_precisions_has_its_rows() -> None:
    config = {"data_split": "valid", "pictures": 5000, "starts": 1, "noise_epsilon": 64 / 255, "noise_kind": "sign"}
    metrics = {"clean": 70.0, "ece": 2.0, "noise": 40.0}
    found = record("cifar10_akorn_conv", "2026-01-01", metrics, **{**config, "precision": "tf32"})
    short = {"train.epochs": 20, "data.split": "train"}
    for precision, overrides in (("bf16", short), ("tf32", {**short, "train.precision": "tf32"})):
        trained = corrected(overrides, precision=precision, data={"split": "train"})
        shown = filled(robustness.PRECISION, found | trained)
        assert [precision in row.lower() for row, _ in shown] == [True] * 3
        assert list(shown.values()) == ["70.0 (1)", "2.0 (1)", "40.0 (1)"]
        assert not filled(SCRATCH, found | trained)
        for wrong in ({"train.epochs": 30}, {"train.optimiser.learning_rate": 1e-3}, {"model.gamma": 0.5}):
            other = corrected({**overrides, **wrong}, precision=precision, data={"split": "train"})
            assert not filled(robustness.PRECISION, found | other)


def test_models_with_smaller_steps_have_a_table_of_their_own() -> None:
    metrics = {"clean": 80.0, "noise": 50.0, "autoattack": 60.0, "autoattack_adaptive": 5.0}
    found = record("cifar10_akorn_conv", "2026-01-01", metrics, **CLEAN, **ATTACK, noise_kind="sign")
    chosen_by_trials = {"train.epochs": 100, "train.optimiser.learning_rate": 1e-3, "train.schedule.name": "linear"}
    half = found | corrected({**chosen_by_trials, "model.gamma": 0.5})
    shown = filled(robustness.STEP_SIZES, half)
    assert {row for row, _ in shown} == {"AKOrN-conv, γ = 0.5"}
    assert len(shown) == 4
    assert not any(filled(table, half) for table in TABLES if table is not robustness.STEP_SIZES)
    whole = filled(robustness.STEP_SIZES, found | corrected(chosen_by_trials))
    assert {row for row, _ in whole} == {"AKOrN-conv, γ = 1"}
    assert not filled(robustness.STEP_SIZES, found | corrected({**chosen_by_trials, "model.gamma": 0.3}))


def test_noise_keeps_its_kind_whenever_it_was_recorded() -> None:
    first = record("cifar10_akorn_conv", "2026-01-01", {"noise": 70.0, "noise_sign": 50.0}, **CLEAN)
    now = record("cifar10_akorn_conv", "2026-01-02", {"noise": 50.0, "noise_uniform": 70.0}, noise_kind="sign", **CLEAN)
    for found in (first, now):
        assert filled(RANDOM_NOISE, found) == {
            ("AKOrN-conv, N = 2", "±ε on every value"): "50.0 (1)",
            ("AKOrN-conv, N = 2", "uniform in the box"): "70.0 (1)",
        }
    old = record("cifar10_akorn_conv", "2026-01-01", {"noise": 70.0}, **CLEAN)  # which had uniform noise alone
    assert filled(RANDOM_NOISE, old) == {("AKOrN-conv, N = 2", "uniform in the box"): "70.0 (1)"}


def test_the_longest_training_counts_and_fewer_epochs_are_told() -> None:
    def trained(date: str, clean: float, steps: int, **metrics: float) -> dict[str, object]:
        found = record("cifar10_akorn_conv", date, {"clean": clean, **metrics}, **CLEAN, **ATTACK)
        return found | _trained({"train.epochs": 30} if steps == 11_700 else {}, steps=steps)

    whole, short = trained("2026-01-01", 85.0, 156_000), trained("2026-01-02", 74.0, 11_700, autoattack=50.0)
    row = "| AKOrN-conv, N = 2 | {} | 84.6 | {} | 64.9 |"
    page = render([short], TABLES)
    assert row.format("74.0 (1)", "50.0 (1)") in page
    assert "**Trained for fewer epochs than the recipe has: `cifar10_akorn_conv` 30 of 400.**" in page
    page = render([whole, short], TABLES)  # though the other is newer
    assert row.format("85.0 (1)", "50.0 (1)") in page
    assert "recipe has: `cifar10_akorn_conv` 30 of 400 (AutoAttack, 8/255).**" in page
    page = render([whole, trained("2026-01-03", 86.0, 156_000)], TABLES)  # the newest among equals
    assert row.format("86.0 (1)", "–") in page
    assert "fewer epochs" not in page
    unfinished = trained("2026-01-04", 80.0, 3900) | _trained({}, steps=3900)  # taken out of a run by `akorn export`
    assert "`cifar10_akorn_conv` 10 of 400" in render([unfinished], TABLES)
    untold = record("cifar10_akorn_conv", "2026-01-05", {"clean": 90.0}, **CLEAN)
    assert row.format("85.0 (1)", "–") in render([whole, untold], TABLES)
    assert "`cifar10_akorn_conv` unknown of 400" in render([untold], TABLES)


def test_records_that_are_kept_can_be_read() -> None:
    records = read_records(Path(__file__).parents[2] / "results")
    assert [found for found in records if found["name"].startswith("cifar10")]
    page = render(records, TABLES)
    assert all(table.title in page for table in TABLES)


def test_what_help_reads_needs_no_torch() -> None:
    code = "import sys, akorn.robustness.recipes, akorn.robustness.config;"
    code += "import akorn.robustness.commands.classify, akorn.robustness.commands.evaluate;"
    code += "assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
