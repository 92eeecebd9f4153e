"""Tables of rendered scenes: which records fill them, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from akorn.ledger.tables import Table, chosen, value
from akorn.objects.data.sets import SETS
from results.pages import objects
from results.pages.scenes import CLEVR_SCENES, COUNTS, TEXTURED_SCENES, TRUTH
from results.pages.standing import stands_on


def record(
    name: str = "clevr_akorn",
    overrides: dict[str, Any] | None = None,
    kind: str = "eval",
    fingerprint: str = "",
    **config: object,
) -> dict[str, Any]:
    training = {"recipe": name, "overrides": overrides or {}, "weights": "average", "precision": "bf16"}
    return {
        "kind": kind,
        "name": name,
        "seed": 0,
        "data": fingerprint,
        "date": "2026-11-18",
        "metrics": {"fg_ari": 91.0, "mbo": 46.0, "fg_ari_error": 0.5},
        "wall_time": 600.0,
        "overrides": overrides or {},
        "config": {
            "data": "clevr", "source": "generated", "split": "test", "pictures": 320, "clusters": 11, "uptile": 1,
            "method": "average", "components": 128, "bilinear": 1, "fit": "crop", "size": None, "input": None,
            "steps": 8, **config,
        },
        "extra": {"training": {**training, "steps": 15_912}},
    }  # fmt: skip


TRUE = {"source": "truth-test.npz", "pictures": 24}
DESCRIBED = {"scenes": "clevr", "split": "test", "described": "scenes.json", "samples": 16, "size": 128}
MADE = {"scenes": "clevr", "split": "test", "seed": 3, "objects": [3, 6], "samples": 16, "size": 128}


def filled(found: dict[str, Any], table: Table) -> list[tuple[str, str]]:
    """Row and column of each cell that a record fills."""
    return [
        (row.label, column)
        for row in table.rows
        for column, cell in zip(table.headings, row.cells, strict=True)
        if chosen([found], cell)
    ]


@pytest.mark.parametrize(
    ("found", "label", "columns"),
    [
        (record(), "AKOrN, attention", ("ours, FG-ARI", "ours, MBO", "epochs")),
        (record(overrides={"init": "clevr-60-epochs"}), "AKOrN, attention", ("ours, FG-ARI", "ours, MBO", "epochs")),
        (record(overrides={"data.endless": True}), "AKOrN, attention", ("ours, FG-ARI", "ours, MBO", "epochs")),
        (record(overrides={"train.epochs": 68}), "AKOrN, attention", ("ours, FG-ARI", "ours, MBO", "epochs")),
        (record(uptile=4), "AKOrN, attention, up-tiling ×4", ("ours, FG-ARI", "ours, MBO", "epochs")),
        (record(source="my-test.npz", made=MADE), "AKOrN, attention", ("ours, FG-ARI", "ours, MBO", "epochs")),
        (record("clevr_itrsa", fingerprint=TRUTH, **TRUE), "ItrSA", ("original's, FG-ARI", "original's, MBO")),
        (
            record("clevr_itrsa", source="same-test.npz", pictures=24, made=DESCRIBED),
            "ItrSA",
            ("the same scenes by ours, FG-ARI", "the same scenes by ours, MBO"),
        ),
        (record("clevr_itrsa", kind="train"), "ItrSA", ("training, minutes",)),
    ],
)
def test_a_record_fills_the_cells_of_its_row(found: dict[str, Any], label: str, columns: tuple[str, ...]) -> None:
    there = filled(found, CLEVR_SCENES)
    assert {column for row, column in there if row == label} == set(columns)
    others = {column for row, column in there if row != label}
    assert others <= {"epochs", "training, minutes"}  # of the same training
    assert not filled(found, TEXTURED_SCENES)


@pytest.mark.parametrize(
    "found",
    [
        record(pictures=100),
        record(split="valid"),
        record(clusters=10),
        record(places=0.5),
        record(steps=16),
        record(overrides={"train.steps": 500}),
        record(overrides={"model.gamma": 1.0}),
        record(overrides={"init": "other"}),
        record(source="truth-test.npz", pictures=23, fingerprint=TRUTH),
        record(**TRUE),  # 24 other pictures
        record(source="my-test.npz"),
        record(source="my-test.npz", made={**MADE, "objects": [3, 10]}),
        record(source="my-test.npz", made={**MADE, "samples": 64}),
        record(source="my-test.npz", made={**MADE, "scenes": "clevrtex"}),
        record(source="my-test.npz", made={}),
        record(source="my-test.npz", pictures=24, made={**DESCRIBED, "samples": 64}),
    ],
)
def test_another_protocol_fills_no_cell(found: dict[str, Any]) -> None:
    assert not filled(found, CLEVR_SCENES)
    assert not filled(found, TEXTURED_SCENES)


def test_the_longest_training_counts_and_the_first_part_has_its_own_row() -> None:
    first = record(pictures=2000)
    first["extra"]["training"]["steps"] = 60 * 234
    longer = record(overrides={"init": "clevr-60-epochs"}, pictures=1000)
    longer["extra"]["training"]["steps"] = 240 * 234
    first["metrics"]["fg_ari"], longer["metrics"]["fg_ari"] = 80.0, 90.0
    rows = {row.label: dict(zip(CLEVR_SCENES.headings, row.cells, strict=True)) for row in CLEVR_SCENES.rows}
    for of in ([first, longer], [longer, first]):
        for label, score, epochs in (("AKOrN, attention", 90.0, 300), ("AKOrN, attention, after 60 epochs", 80.0, 60)):
            assert [found["metrics"]["fg_ari"] for found in chosen(of, rows[label]["ours, FG-ARI"])] == [score]
            (behind,) = chosen(of, rows[label]["epochs"])
            assert value(behind, rows[label]["epochs"].metric) == epochs
        (synth,) = (row for row in objects.SYNTH.rows if row.label == "AKOrN, attention")
        (clevr,) = chosen(of, synth.cells[objects.SYNTH.headings.index("CLEVR FG-ARI")])
        assert clevr is longer


def test_textured_scenes_of_our_own_are_not_the_papers() -> None:
    own = record("clevrtex_akorn_l2", data="clevrtex-ood", pictures=10_000)
    assert filled(own, TEXTURED_SCENES) == [("AKOrN, L = 2", "OOD FG-ARI"), ("AKOrN, L = 2", "OOD MBO")]
    assert not filled(own, objects.CLEVRTEX_TABLE)
    made = {**MADE, "scenes": "clevrtex-ood", "objects": [3, 10]}
    written = record("clevrtex_akorn_l2", data="clevrtex-ood", pictures=10_000, source="test.npz", made=made)
    assert filled(written, TEXTURED_SCENES) == filled(own, TEXTURED_SCENES)
    assert not filled(written, objects.CLEVRTEX_TABLE)
    benchmark = record("clevrtex_akorn_l2", data="clevrtex-ood", pictures=10_000, source="clevrtex_outd")
    assert not filled(benchmark, TEXTURED_SCENES)
    assert filled(benchmark, objects.CLEVRTEX_TABLE) == [("AKOrN, L = 2", "OOD FG-ARI"), ("AKOrN, L = 2", "OOD MBO")]


def test_a_vit_has_one_step() -> None:
    vit = record("clevrtex_vit", data="clevrtex", pictures=1000, steps=1)
    assert ("ViT, 8 blocks", "textured FG-ARI") in filled(vit, TEXTURED_SCENES)


def test_scenes_in_a_file_are_of_our_own_too() -> None:
    def said(**config: object) -> str:
        return stands_on([record(**config)], "mbo").removesuffix(" †")  # type: ignore[arg-type]

    assert said(source="my-test.npz", made=MADE) == "320 CLEVR test pictures of our own"
    assert said(source="clevr_test.npz") == "320 CLEVR test pictures"
    assert said(fingerprint=TRUTH, **TRUE) == "24 CLEVR scenes rendered from the original's files"


def test_the_note_tells_the_errors() -> None:
    assert callable(CLEVR_SCENES.note)
    assert "FG-ARI of 0.5 to 0.5" in CLEVR_SCENES.note([record()])
    assert "standard errors of not recorded" in CLEVR_SCENES.note([record()])  # of the original's scenes


def test_epochs_have_as_many_scenes_as_training() -> None:
    for name, count in COUNTS.items():
        counts = SETS[name].counts
        assert counts is not None
        assert counts[0] == count
