"""Tables of photographs: which records fill them, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from akorn.ledger.tables import Table, chosen
from results.pages import objects
from results.pages.photos import LOSSES, PHOTOS


def record(name: str = "photos_akorn", overrides: dict[str, Any] | None = None, **config: object) -> dict[str, Any]:
    training = {"recipe": name, "overrides": overrides or {}, "weights": "average", "precision": "bf16"}
    return {
        "kind": "eval",
        "name": name,
        "seed": 0,
        "date": "2026-11-18",
        "metrics": {"mbo_i": 41.0, "mbo_c": 46.0, "fg_ari": 20.0, "mbo_i_error": 0.5},
        "config": {
            "data": "voc", "split": "test", "pictures": 1449, "clusters": 4, "method": "average", "components": 128,
            "fit": "crop", "input": 64, "uptile": 4, "size": None, **config,
        },
        "extra": {"training": training if name.startswith("photos") else None},
    }  # fmt: skip


def filled(found: dict[str, Any], table: Table = PHOTOS) -> list[str]:
    return [row.label for row in table.rows if any(chosen([found], cell) for cell in row.cells)]


def trial(**overrides: object) -> dict[str, Any]:
    said = {"train.steps": 1500, "valid.count": 1464, "train.batch_size": 256}
    said |= {name.replace("__", "."): value for name, value in overrides.items()}
    return {**record(), "kind": "train", "overrides": said, "config": {}}


@pytest.mark.parametrize(
    ("found", "label"),
    [
        (record(), "AKOrN, SimCLR"),
        (record("photos_itrsa"), "ItrSA, SimCLR"),
        (record("floor:colours"), "colours"),
        (record(uptile=1), "AKOrN, SimCLR, without up-tiling"),
        (record("photos_akorn_dense", {"init": "model"}), "AKOrN, SimCLR and patches (`photos`)"),
        (record("photos_akorn_dense", places=0.5), "the same, clusters look at places too"),
        (
            record("photos_akorn_dense", uptile=1, edges=3.0),
            "`photos`, without up-tiling; clusters end at edges, not the paper's protocol",
        ),
        (record(data="coco", clusters=7, pictures=158), "AKOrN, SimCLR"),
    ],
)
def test_a_record_fills_its_own_row_alone(found: dict[str, Any], label: str) -> None:
    assert filled(found) == [label]


@pytest.mark.parametrize(
    "found",
    [
        record(split="train", pictures=1464),
        record(pictures=1000),
        record(input=128),
        record(clusters=5),
        record(read="x", least=0.02),
        record(edges=3.0),
        record(overrides={"model.channels": 512}),
        record(overrides={"loss.dense": 1.0}),
        record(overrides={"train.steps": 1500}),
    ],
)
def test_other_protocols_fill_no_row(found: dict[str, Any]) -> None:
    assert filled(found) == []


def test_trials_have_a_table_of_their_own() -> None:
    assert filled(trial(), LOSSES) == ["AKOrN, SimCLR"]
    assert filled(trial(loss__regions=1.0), LOSSES) == ["AKOrN, SimCLR and regions"]
    assert filled(trial(train__optimiser__name="muon"), LOSSES) == ["AKOrN, SimCLR, Muon instead of Adam"]
    assert filled(trial(loss__regions=2.0), LOSSES) == []
    for other in ("train__ema__decay", "model__image_size", "loss__teacher__regions", "data__augment__flip", "init"):
        assert filled(trial(loss__regions=1.0, **{other: 1.0}), LOSSES) == []
    assert filled(trial(valid__count=320), LOSSES) == []
    assert filled(trial(), PHOTOS) == []


def test_the_protocol_and_the_errors_are_named() -> None:
    assert callable(PHOTOS.note)
    note = PHOTOS.note([record()])
    assert "Masks are compared at 256 × 256" in note
    assert "standard errors of MBO_i over the pictures of 0.5 to 0.5 on VOC" in note
    assert PHOTOS in objects.TABLES
