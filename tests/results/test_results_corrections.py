"""Trainings before and after the corrections, figures of others, and what a figure is based on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from akorn.ledger import read_records
from akorn.ledger.tables import Cell, Row, Table, chosen, render

corrections = pytest.importorskip("results.pages.corrections", reason="the repository's folder results/ is not here")
quoted = pytest.importorskip("results.pages.quoted")
claims = pytest.importorskip("results.pages.claims")
compared = pytest.importorskip("results.pages.claims_compared")
figures = pytest.importorskip("results.pages.figures")
pages = pytest.importorskip("results.pages.render")
standing = pytest.importorskip("results.pages.standing")
sudoku = pytest.importorskip("results.pages.sudoku")
objects = pytest.importorskip("results.pages.objects")
robustness = pytest.importorskip("results.pages.robustness")

RECORDS = read_records(Path(__file__).parents[2] / "results")
OWN = ("sudoku", "sudoku-paper", "sudoku_akorn", "sudoku_best", "sudoku_hard", "shared-solutions")
SUDOKU_RECORDS = [record for record in RECORDS if record["name"] in OWN]  # to which tests add what it is compared with


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    found: dict[str, str] = pages.pages(RECORDS)
    return found


def evaluated(name: str, value: float, seed: int = 0, later: bool = True, **config: object) -> dict[str, Any]:
    """A record of a model that was trained before or after the corrections."""
    training: dict[str, Any] = {"recipe": name, "weights": "average", "overrides": {}}
    if later:
        training["ema"] = {"decay": 0.995, "warmup": True}
    metrics = dict.fromkeys(("board_accuracy", "sum", "last", "fg_ari", "mbo"), value)
    return {
        "kind": "eval", "name": name, "seed": seed, "metrics": metrics, "config": config,
        "date": f"20{30 + later}-01-0{seed + 1}", "extra": {"training": training}, "file": f"{name}-{seed}.json",
    }  # fmt: skip


def boards(name: str, value: float, steps: int, votes: int = 1, **more: Any) -> dict[str, Any]:
    return evaluated(name, value, **{"data": "test-ood", "boards": 18000, "steps": steps, "votes": votes, **more})


def test_later_trainings_replace_the_earlier_ones_of_all_seeds() -> None:
    cell, alone = (Cell("a", {"name": name}, prime=corrections.corrected) for name in ("m", "old"))
    rows = (Row("r", (cell,)), Row("s", (alone,)))
    table = Table("t", ("a",), rows, "Note.", marked="trained before the corrections")
    old = [evaluated("m", 1.0, seed, later=False) for seed in range(3)]
    new, other = evaluated("m", 5.0), evaluated("old", 2.0, later=False)
    for each in (*old, new, other):
        each["metrics"] = {"a": each["metrics"]["mbo"]}
    assert chosen(old, cell) == old
    assert chosen([*old, new], cell) == [new]
    before = render(old, [table])
    assert "All of our figures here: trained before the corrections." in before
    assert "†" not in before
    both = render([*old, new, other], [table])
    assert "| r | 5.0 (1) |" in both
    assert "| s | 2.0 (1)† |" in both
    assert "† trained before the corrections." in both
    assert corrections.earlier(old, [table]) == []
    (replaced,) = corrections.earlier([*old, new, other], [table])
    text = render([*old, new, other], [replaced])
    assert "## Before the corrections: t" in text
    assert [line for line in text.splitlines() if line.startswith("| r")] == ["| r | 1.0 ± 0.0 (3) |"]
    assert "| s |" not in text  # nothing has replaced it


@pytest.mark.parametrize(
    ("table", "figures", "some"),
    [
        ("sudoku.PAPER", "SUDOKU", "| IRED, quoted from the paper | – | 99.4 | – | 62.1 |"),
        ("objects.SYNTH", "SYNTH", "| SynCx (synchrony), quoted from the paper | – | 89 ± 1 |"),
        ("objects.CLEVRTEX_TABLE", "CLEVRTEX", "| BO-SA, quoted from the paper | – | 80.5 ± 2.5 |"),
        ("objects.NATURAL", "NATURAL", "| SPOT, on DINO, quoted from the paper | – | 48.3 | – | 55.6 | – | 35.0 |"),
        ("robustness.PRETRAINED", "ROBUSTNESS", "| Bartoldson et al. 2024, quoted from the paper | – | 93.68 |"),
    ],
)
def test_figures_of_others_are_quoted_and_never_ours(
    rendered: dict[str, str], table: str, figures: str, some: str
) -> None:
    module, name = table.split(".")
    found = getattr({"sudoku": sudoku, "objects": objects, "robustness": robustness}[module], name)
    rows = {row.label: row for row in found.rows}
    for label, values in getattr(quoted, figures).items():
        cells = rows[f"{label}, quoted from the paper"].cells
        assert [cell.paper for cell in cells] == list(values)
        assert not any(chosen(RECORDS, cell) for cell in cells)
    assert some in rendered[f"results/{module}.md"]


def test_a_figure_says_what_it_stands_on() -> None:
    on = standing.stands_on
    assert on([boards("sudoku_akorn", 50.0, 128)], "sum") == "18,000 rebuilt OOD boards"
    few = evaluated("sudoku_akorn", 90.0, later=False, data="test-ood", boards=1000)
    assert on([few], "sum") == "1,000 of 18,000 rebuilt OOD boards †"
    own = evaluated("shapes_akorn_l1", 50.0, data="shapes", clusters=5, pictures=1000, split="valid")
    assert on([own, own], "mbo") == "1,000 Shapes validation pictures of our own"
    theirs = {**own, "config": {**own["config"], "source": "shapes.npz", "split": "test"}}
    assert on([theirs], "mbo") == "1,000 Shapes test pictures"
    config = {"data_split": "test", "pictures": 10_000, "attacked": 1000, "corrupted_pictures": 10_000}
    cifar = evaluated("cifar10_vit", 50.0, **config)
    assert on([cifar], "clean") == "10,000 CIFAR-10 test pictures"
    assert on([cifar], lambda record: 1.0) == "10,000 CIFAR-10 test pictures"
    assert on([own], lambda record: 100.0) == "its training"
    assert on([cifar], "autoattack") == "1,000 CIFAR-10 test pictures"
    assert on([cifar], "corrupted") == "10,000 CIFAR-10 test pictures under 15 corruptions of our own"
    assert on([], "clean") == "–"


def test_every_figure_of_the_claims_has_its_data_and_seeds(rendered: dict[str, str]) -> None:
    text = rendered["RESULTS.md"]
    for line in text.splitlines():
        if "](results/" in line and line.startswith("| "):
            parts = [part.strip() for part in line.split("|")]
            assert parts[4].isdigit(), line
            assert len(parts[5]) > 5, line
            assert "does not name" not in line
    votes = "85.5 ± 9.0 and 88.4, of 1,000 boards; by confidence 91.8 ± 1.3"
    assert f"{votes} | 1 to 3 | 1,000 of 18,000 rebuilt OOD boards" in text


def baselines(itrsa: float) -> list[dict[str, Any]]:
    return [
        boards("sudoku_itrsa", 14.0, 16),
        boards("sudoku_itrsa", itrsa, 32),
        boards("sudoku_transformer", 5.0, 1),
    ]


def without_omega(vote: float) -> list[dict[str, Any]]:
    voted = boards("sudoku_akorn_no_omega", vote, 128, votes=100, **{"boards": 1800})
    voted["metrics"]["single"] = 49.0
    return [voted]


@pytest.mark.parametrize(
    ("new", "claim", "verdict"),
    [
        ([], "AKOrN is far ahead of the same networks", "open"),
        (baselines(34.0)[:2], "AKOrN is far ahead of the same networks", "open"),
        (baselines(34.0), "AKOrN is far ahead of the same networks", "confirmed"),
        (baselines(48.0), "AKOrN is far ahead of the same networks", "open"),
        (baselines(60.0), "AKOrN is far ahead of the same networks", "refuted"),
        (without_omega(47.0), "Without natural frequencies", "confirmed"),
        (without_omega(79.0), "Without natural frequencies", "refuted"),
        (without_omega(60.0), "Without natural frequencies", "open"),
        ([boards("sudoku_akorn_n2", 0.0, 128)], "Projection, normalisation", "open"),
    ],
)
def test_new_records_find_their_cells_and_claims(new: list[dict[str, Any]], claim: str, verdict: str) -> None:
    """Pages are rendered by themselves, whichever of these figures comes first, and whatever it is."""
    text = pages.claims_page([*SUDOKU_RECORDS, *new], [claims.SUDOKU])
    (line,) = [line for line in text.splitlines() if line.startswith(f"| [{claim}")]
    assert f"| **{verdict}** |" in line
    for record in new:
        assert record["file"] in text


def test_new_records_of_objects_find_their_cells() -> None:
    """ItrSA on dSprites and Shapes after the corrections decides the comparison; Shapes' 100 epochs are reported."""
    sprites = {"data": "dsprites", "split": "test", "pictures": 2000, "clusters": 7, "size": 64}
    shapes = {"data": "shapes", "split": "test", "pictures": 1000, "clusters": 5, "size": 40}
    both = {"method": "average", "uptile": 1}
    new = [evaluated("dsprites_itrsa", 68.0, steps=8, **sprites, **both)]
    for name, value in (("akorn_l1", 52.0), ("akorn_l2", 65.0), ("akorn_l3", 71.0), ("itrsa_l3", 57.0)):
        for weights, less in (("last", 0.0), ("average", 1.0)):
            new.append(evaluated(f"shapes_{name}", value - less, steps=4, **shapes, **both))
            new[-1]["extra"]["training"] |= {"steps": 15_600, "weights": weights}
    found = pages.pages([*RECORDS, *new])
    results, tables = found["RESULTS.md"], found["results/objects.md"]
    assert "by the last weights as by the moving average (51.0, 64.0 and 70.0)." in results
    for claim, ours in (("AKOrN separates objects", "77.1 against 68.0"), ("More blocks", "52.0, 65.0, 71.0")):
        (line,) = [line for line in results.splitlines() if line.startswith(f"| [{claim}")]
        assert "| **confirmed** |" in line
        assert ours in line
        assert "†" not in line
    assert "of the paper's 100 epochs" not in results
    before = tables.split("## Before the corrections: Shapes\n")[1]
    assert "| AKOrN, attention, L = 3 | 74.1 (1) | 48.9 (1) | 50.0 (1) |" in before
    assert (
        "| ItrSA | 75.9 (1) | 58.3 (1) | 74.8 (1) | 67.2 (1) |" in tables.split("## Before the corrections: Tetro")[1]
    )


def shapes_by(weights: str, *values: float, later: bool = True) -> list[dict[str, Any]]:
    """FG-ARI of one, two and three blocks with these weights."""
    found = []
    for count, value in enumerate(values, 1):
        config = {"data": "shapes", "split": "test", "pictures": 1000, "clusters": 5, "steps": 4, "uptile": 1}
        found.append(evaluated(f"shapes_akorn_l{count}", value, later=later, method="average", **config))
        found[-1]["extra"]["training"] |= {"steps": 15_600, "weights": weights}
    return found


@pytest.mark.parametrize(
    ("last", "average", "later", "said"),
    [
        ((50, 60, 70), (50, 60, 70), True, "**Confirmed.** FG-ARI on Shapes rises with the number of blocks L, by the"),
        ((50, 60, 70), (50, 60, 55), False, "55.0: the decay of the last of these averages was constant"),
        ((50, 60, 70), (50, 60, 55), True, "By the moving average (50.0, 60.0 and 55.0) it does not."),
        ((50, 60, 55), (50, 60, 70), True, "if the moving average counts (50.0, 60.0 and 70.0). By the last weights"),
        ((50, 60, 55), (50, 60, 55), True, "**Open.** In our figures FG-ARI on Shapes does not rise"),
    ],
)
def test_blocks_are_compared_by_one_kind_of_weights(
    last: tuple[float, ...], average: tuple[float, ...], later: bool, said: str
) -> None:
    found = [*shapes_by("last", *last, later=later), *shapes_by("average", *average, later=later)]
    section = figures.Section("Task", "What it is.", "results/objects.md", (compared.BLOCKS,))
    assert said in pages.claims_page(found, [section])


@pytest.mark.parametrize(("itrsa", "told"), [(68.0, True), (60.0, False)])
def test_it_is_said_where_attention_has_the_better_masks(itrsa: float, told: bool) -> None:
    """The claim goes by FG-ARI; where ItrSA's MBO on dSprites is higher, the words say so."""
    sprites = {"data": "dsprites", "split": "test", "pictures": 2000, "clusters": 7, "size": 64, "steps": 8}
    new = evaluated("dsprites_itrsa", 68.0, method="average", uptile=1, **sprites)
    new["metrics"]["mbo"] = itrsa
    section = figures.Section("Task", "What it is.", "results/objects.md", (compared.AHEAD,))
    assert (f"ItrSA is ahead on dSprites: {itrsa} against" in pages.claims_page([*RECORDS, new], [section])) == told
