"""Object discovery's tables: which record fills which cell."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from akorn.ledger.tables import chosen, render
from akorn.objects.data.sets import SETS
from akorn.objects.recipes import RECIPES

objects = pytest.importorskip("results.pages.objects", reason="the repository's folder results/ is not here")
speed = pytest.importorskip("results.pages.speed")
NATURAL, SHAPES_TABLE, SYNTH, TABLES, TRIED = (
    getattr(objects, name) for name in ("NATURAL", "SHAPES_TABLE", "SYNTH", "TABLES", "TRIED")
)
CLUSTERING = speed.CLUSTERING

PARTS = ("loop/ms", "threads/ms", "akorn/ms", "speedup over loop", "speedup over threads", "same partitions")


def record(name: str = "tetrominoes_akorn", seed: int = 0, **config: object) -> dict[str, Any]:
    settings = {"data": "tetrominoes-test", "uptile": 1, "clusters": 4, "method": "average", "pictures": 320}
    settings |= {"steps": 8, **config}
    metrics = {"fg_ari": 90.0 + seed, "mbo": 57.0}
    return {"kind": "eval", "name": name, "seed": seed, "metrics": metrics, "config": settings, "date": f"2026-0{seed}"}


def test_a_record_fills_its_own_cell_only() -> None:
    plain, tiled = SYNTH.rows[3], SYNTH.rows[4]
    assert (plain.label, tiled.label) == ("AKOrN, attention", "AKOrN, attention, up-tiling ×4")
    records = [record(), record(seed=1, data="tetrominoes"), record(uptile=4, seed=2)]
    assert [r["seed"] for r in chosen(records, plain.cells[0])] == [0, 1]
    assert [r["seed"] for r in chosen(records, tiled.cells[1])] == [2]
    others = [row for row in SYNTH.rows if row.label not in (plain.label, tiled.label)]
    assert not any(chosen(records, cell) for row in others for cell in row.cells)
    assert not any(chosen(records, cell) for cell in plain.cells[2:])
    text = render(records, TABLES)
    assert "90.5 ± 0.7 (2) | 88.6 ± 1.7" in text
    assert "92.0 (1) | 93.1 ± 0.3" in text


@pytest.mark.parametrize(
    "other",
    [
        {"pictures": 100},
        {"clusters": 5},
        {"method": "kmeans"},
        {"steps": 16},
        {"uptile": 2},
        {"bilinear": 4},
        {"data": "tetrominoes-valid"},
        {"split": "valid"},
        {"split": None},  # a file that does not tell
        {"source": "tetrominoes.tfrecords"},  # the benchmark's own pictures are not those we generate
        {"size": 64},
        {"components": 16},
        {"places": 0.5},
        {"edges": 3.0},
    ],
)
def test_another_protocol_fills_no_cell(other: dict[str, object]) -> None:
    assert not any(chosen([record(**other)], cell) for table in TABLES for row in table.rows for cell in row.cells)


@pytest.mark.parametrize(("split", "fits"), [("test", 1), ("valid", 1), ("train", 0)])
def test_voc_is_tested_on_what_it_calls_val(split: str, fits: int) -> None:
    found = record("imagenet_akorn", data="voc", pictures=1449, clusters=4, steps=4, split=split, source="VOCdevkit")
    found["metrics"] = {"mbo_i": 50.0}
    assert len(chosen([found], NATURAL.rows[0].cells[0])) == fits


def test_trials_fill_no_cell() -> None:
    cell = SYNTH.rows[3].cells[0]
    trials: list[tuple[dict[str, object], int]] = [
        ({"model.gamma": 1.0}, 0),
        ({"train.steps": 500}, 0),
        ({"train.precision": "tf32"}, 0),
        ({"train.precision": "bf16"}, 1),  # as the recipe says, whatever it said then
        ({"data.count": 2000}, 0),
        ({"data.path": "pictures"}, 0),
        ({"init": "shapes"}, 0),
        ({"train.optimiser.learning_rate": 1e-4}, 0),
        ({"train.compile": "yes", "train.graph": True, "train.seed": 3, "valid.uptile": 4, "model.recompute": True}, 1),
        ({"train.epochs": 20}, 1),  # the record tells
    ]
    for overrides, fits in trials:
        trial = {**record(), "extra": {"training": {"recipe": "tetrominoes_akorn", "overrides": overrides}}}
        assert len(chosen([trial], cell)) == fits
    facts: list[tuple[dict[str, object], int]] = [
        ({"weights": "average", "precision": "bf16"}, 1),
        ({"weights": "last"}, 0),
        ({"precision": "tf32"}, 0),  # the recipe of the time may have said so
    ]
    for fact, fits in facts:
        trial = {**record(), "extra": {"training": {"recipe": "tetrominoes_akorn", "overrides": {}, **fact}}}
        assert len(chosen([trial], cell)) == fits
    assert len(chosen([{**record(), "extra": {"training": None}}], cell)) == 1
    assert len(chosen([record(source="generated", split="test", size=None, components=128)], cell)) == 1
    clevr = record("clevr_akorn", data="clevr", clusters=11, source="clevr.tfrecords")
    clevr["extra"] = {"training": {"overrides": {"data.path": "clevr.tfrecords"}}}  # which it cannot do without
    assert len(chosen([clevr], SYNTH.rows[3].cells[4])) == 1


def test_a_quick_look_replaces_no_figure_of_more_pictures() -> None:
    """`akorn eval tetrominoes --limit 330` leaves a record too."""
    many = {**record(pictures=5000), "date": "2026-01", "metrics": {"fg_ari": 92.0, "mbo": 58.0}}
    quick = {**record(pictures=330), "date": "2026-02", "metrics": {"fg_ari": 70.0, "mbo": 40.0}}
    again = {**record(pictures=5000), "date": "2026-03", "metrics": {"fg_ari": 93.0, "mbo": 59.0}}
    plain = SYNTH.rows[3]
    assert [chosen([quick, many], cell) for cell in plain.cells[:2]] == [[many], [many]]
    assert [chosen([again, many, quick], cell) for cell in plain.cells[:2]] == [[again], [again]]


def test_the_note_tells_what_is_behind_the_figures() -> None:
    few, many, more = (
        record(pictures=n, seed=seed, uptile=u) for n, seed, u in ((320, 0, 1), (2000, 1, 1), (5000, 0, 4))
    )
    assert callable(SYNTH.note)
    assert "ours on 320 test pictures, the paper's on 320." in SYNTH.note([few])
    assert "ours on 320 to 2,000 test pictures, the paper's" in SYNTH.note([few, many])
    for found, error in ((many, 0.31), (more, 0.08)):
        found["metrics"] |= {"fg_ari_error": error, "mbo_error": error}
    assert "ours on 2,000 to 5,000 test pictures, with standard errors of 0.1 to 0.3, the" in SYNTH.note([many, more])
    assert "ours on 320 to 5,000 test pictures, the paper's" in SYNTH.note([few, more])  # not all have errors


def test_the_baselines_weights_stand_beside_ours() -> None:
    rows = {row.label: row.cells[0] for row in TRIED.rows}
    for data, clusters in (("tetrominoes", 4), ("dsprites", 7)):
        for weights, pictures in (("last", 320), ("average", 5000)):
            found = record(f"{data}_itrsa", data=data, split="test", pictures=pictures, clusters=clusters)
            found["extra"] = {"training": {"weights": weights, "steps": 11_700, "overrides": {}}}
            labels = [label for label, cell in rows.items() if chosen([found], cell)]
            assert len(labels) == 1
            assert "ItrSA" in labels[0]
            assert weights in labels[0]
            assert f"{pictures:,} test pictures" in labels[0]
            in_synth = [row.label for row in SYNTH.rows if any(chosen([found], cell) for cell in row.cells)]
            assert in_synth == (["ItrSA"] if weights == "average" else [])  # the recipe's weights only


def test_clustering_stands_beside_scipy() -> None:
    metrics = {f"{kind}/{part}": 1.0 for kind in ("objects", "noise") for part in PARTS}
    config = {"pictures": 32, "patches": 1600, "features": 128, "threads": 2, "best": False}
    found = {"kind": "bench", "name": "clustering", "seed": 0, "metrics": metrics, "config": config, "date": "2026",
             "hardware": {"device": "cpu"}}  # fmt: skip
    cells = [cell for row in CLUSTERING.rows for cell in row.cells]
    assert all(chosen([found], cell) == [found] for cell in cells)
    differing = metrics | {f"{kind}/same partitions": 0.0 for kind in ("objects", "noise")}
    others: list[dict[str, Any]] = [
        {"hardware": {"device": "cuda"}}, {"config": {**config, "threads": 16}}, {"metrics": differing},
    ]  # fmt: skip
    for other in others:
        assert not any(chosen([{**found, **other}], cell) for cell in cells)


def test_trials_are_told_by_what_they_were_trained_with() -> None:
    """Not by what the recipe said then or says now."""
    rows = {row.label: row.cells[0] for row in TRIED.rows}
    trained: list[tuple[dict[str, object], str]] = [
        ({"overrides": {"train.epochs": 10}}, "Tetrominoes: γ = 0.5, C as it is, TF32, seed 0"),  # of then
        ({"overrides": {"train.epochs": 10}, "precision": "bf16"}, "bf16, seed 0"),  # of now
        ({"overrides": {"train.epochs": 10, "model.gamma": 1.0}}, "γ = 1, seed 0"),
        ({"overrides": {}, "weights": "last", "steps": 11_700}, "Tetrominoes, 50 epochs: the last weights"),
    ]
    for facts, label in trained:
        found = {**record(split="valid", pictures=1000), "extra": {"training": facts}}
        assert [name for name, cell in rows.items() if chosen([found], cell)] == [label]


def test_every_recipe_has_its_row_and_rows_have_recipes() -> None:
    found = set()
    for name, recipe in RECIPES.items():
        model = recipe().model
        for data in ("tetrominoes", "dsprites", "clevr", "shapes", "clevrtex", "voc"):
            clusters = SETS[data].clusters
            for uptile in (1, 4):
                probe = record(name, data=data, clusters=clusters, pictures=10_000, steps=model.steps, uptile=uptile)
                probe["metrics"] |= {"mbo_i": 1.0, "mbo_c": 2.0}
                if name.startswith("photos_"):  # whose protocol says more
                    probe["config"] |= {
                        "pictures": 1449,
                        "split": "test",
                        "input": 64,
                        "components": 128,
                        "fit": "crop",
                    }
                if any(chosen([probe], cell) for table in TABLES for row in table.rows for cell in row.cells):
                    found.add(name)
    assert found == set(RECIPES)


def test_the_papers_figures_stand_beside() -> None:
    last = {row.label: [cell.paper for cell in row.cells] for row in SHAPES_TABLE.rows}
    assert last["AKOrN, attention, L = 3"] == ["71.3 ± 4.2", "46.9 ± 1.4", "100"]
    assert all(dataclasses.is_dataclass(table) for table in TABLES)


@pytest.mark.parametrize(
    ("training", "epochs"),
    [
        ({"overrides": {"train.epochs": 50}, "weights": "last"}, "50.0 (1)"),
        ({"steps": 7800, "weights": "last"}, "50.0 (1)"),
        ({"steps": 15_600, "overrides": {"train.epochs": 200}, "weights": "last"}, "100.0 (1)"),  # killed half-way
        ({"weights": "last"}, "100.0 (1)"),
        (None, "–"),
    ],
)
def test_shapes_tells_for_how_many_epochs(training: dict[str, Any] | None, epochs: str) -> None:
    one = record("shapes_akorn_l3", data="shapes", clusters=5, pictures=1000, steps=4)
    if training is not None:
        one["extra"] = {"training": {"recipe": "shapes_akorn_l3", **training}}
    (line,) = [
        line for line in render([one], [SHAPES_TABLE]).splitlines() if line.startswith("| AKOrN, attention, L = 3")
    ]
    assert [part.strip() for part in line.split("|")][6:8] == [epochs, "100"]
