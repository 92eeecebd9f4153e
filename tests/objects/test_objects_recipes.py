"""Recipes and tables of object discovery: the paper's settings, overrides, and which record fills which cell."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import tyro

from akorn.engine.config import check as check_training
from akorn.ledger.tables import chosen, render
from akorn.objects.config import AkornConfig, AkornConvConfig, ItrConvConfig, ViTConfig, check
from akorn.objects.data.sets import SETS
from akorn.objects.model import build
from akorn.objects.recipes import RECIPES, SHIPPED, ObjectsRecipe
from akorn.objects.tables import CLUSTERING, NATURAL, SHAPES_TABLE, SYNTH, TABLES, TRIED

PARTS = ("loop/ms", "threads/ms", "akorn/ms", "speedup over loop", "speedup over threads", "same partitions")


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_whole(name: str) -> None:
    recipe = RECIPES[name]()
    assert recipe.name == name
    assert RECIPES[name].__doc__
    check(recipe.model)
    check_training(recipe.train)
    about = SETS[recipe.data.name]
    assert (recipe.model.image_size, recipe.model.image_channels) == (about.size, about.channels)
    assert name.startswith(recipe.data.name)


# Tab. `synth_settings`, `clevrtex_settings`, `real_settings`: patch, patches a side, channels, T, epochs, rate, batch.
PAPER = {
    "tetrominoes_akorn": (4, 8, 128, 8, 50, 1e-3, 256),
    "dsprites_akorn": (4, 16, 128, 8, 50, 1e-3, 256),
    "clevr_akorn": (8, 16, 256, 8, 300, 1e-3, 256),
    "shapes_akorn_l3": (2, 20, 256, 4, 100, 1e-3, 256),
    "clevrtex_akorn_l2": (8, 16, 256, 8, 500, 5e-4, 256),
    "clevrtex_akorn_large": (8, 16, 512, 8, 1000, 5e-4, 256),
    "imagenet_akorn": (16, 16, 768, 4, 400, 5e-4, 512),
}


@pytest.mark.parametrize("name", PAPER)
def test_settings_are_the_papers(name: str) -> None:
    recipe = RECIPES[name]()
    model, train = recipe.model, recipe.train
    assert isinstance(model, AkornConfig)
    side = model.image_size // model.patch
    found = (model.patch, side, model.channels, model.steps, train.epochs)
    assert (*found, train.optimiser.learning_rate, train.batch_size) == PAPER[name]
    assert (model.n, model.heads, model.gamma) == (4, 8, 0.5)
    assert model.norm_c == (recipe.data.name in ("shapes", "clevrtex", "imagenet"))
    assert (train.ema.decay, train.ema.every, train.ema.after) == (0.998, 10, 200)
    assert (train.optimiser.name, train.optimiser.clip, train.schedule.warmup) == ("adam", 0.0, 0)
    assert recipe.data.augment.flip == (0.5 if name == "imagenet_akorn" else 0.0)


def test_baselines_are_trained_as_akorn_is() -> None:
    for name, recipe in RECIPES.items():
        data = recipe().data.name
        blocks = "_l3" if name.endswith("_l3") else ""  # of Shapes, whose last weights count
        reference = next(other for key, other in RECIPES.items() if key.startswith(f"{data}_akorn{blocks}"))
        if name != "clevrtex_akorn_large":
            assert recipe().train == reference().train


def test_kernels_are_the_papers() -> None:
    for data, kernel in (("tetrominoes", 5), ("dsprites", 7), ("clevr", 9)):
        for kind in ("akorn_conv", "itrconv"):
            model = RECIPES[f"{data}_{kind}"]().model
            assert isinstance(model, AkornConvConfig | ItrConvConfig)
            assert (model.kernel, model.blocks, model.steps) == (kernel, 1, 8)


def test_blocks_and_dimensions_are_those_of_the_names() -> None:
    for name, recipe in RECIPES.items():
        model, last = recipe().model, name.rpartition("_")[2]
        if last[0] == "l" and last[1:].isdigit():
            assert model.blocks == int(last[1:])
        if last[0] == "n" and last[1:].isdigit():
            assert isinstance(model, AkornConfig)
            assert model.n == int(last[1:])
        if isinstance(model, ViTConfig):
            assert (model.blocks, model.steps) == (8, 1)


def test_shipped_weights_have_recipes() -> None:
    assert set(SHIPPED) == {"shapes", "tetrominoes", "dsprites"}
    assert all(SHIPPED[name].startswith(f"{name}_akorn") and SHIPPED[name] in RECIPES for name in SHIPPED)


def test_settings_can_be_overridden_from_the_command_line() -> None:
    words = "--model.gamma 1.0 --model.norm-c --train.precision bf16 --model.recompute --data.augment.hue 0.2"
    words += " --init tetrominoes --valid.uptile 4 --train.optimiser.learning-rate 5e-4"
    kind = tyro.conf.AvoidSubcommands[ObjectsRecipe]
    recipe = tyro.cli(kind, args=words.split(), default=RECIPES["tetrominoes_akorn"]())
    before = RECIPES["tetrominoes_akorn"]()
    assert recipe.model == replace(before.model, gamma=1.0, norm_c=True, recompute=True)
    assert (recipe.train.precision, recipe.train.optimiser.learning_rate) == ("bf16", 5e-4)
    assert (recipe.data.augment.hue, recipe.init, recipe.valid.uptile) == (0.2, "tetrominoes", 4)


def test_reading_recipes_and_tables_imports_no_torch() -> None:
    code = "import sys, akorn.objects.recipes, akorn.objects.tables, akorn.augment; print('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


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


@pytest.mark.parametrize(
    ("ours", "baseline", "more"),
    [
        ("shapes_akorn_l1", "shapes_itrsa_l1", 0.0),
        ("shapes_akorn_l2", "shapes_itrsa_l2", -5.8),
        ("shapes_akorn_l3", "shapes_itrsa_l3", -8.5),
        ("clevrtex_akorn_l2", "clevrtex_itrsa_l2", -3.8),
        ("clevrtex_akorn_l2", "clevrtex_vit", -0.9),
        ("tetrominoes_akorn_conv", "tetrominoes_itrconv", 0.0),
    ],
)
def test_baselines_have_as_many_parameters_as_the_docs_say(ours: str, baseline: str, more: float) -> None:
    counts = [sum(p.numel() for p in build(RECIPES[name]().model).parameters()) for name in (baseline, ours)]
    assert 100 * (counts[0] / counts[1] - 1) == pytest.approx(more, abs=0.1)
