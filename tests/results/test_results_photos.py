"""Tables of photographs: which records fill them, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from akorn.ledger.tables import chosen
from results.pages import objects
from results.pages.photos import PHOTOS


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


def filled(found: dict[str, Any]) -> list[str]:
    return [row.label for row in PHOTOS.rows if any(chosen([found], cell) for cell in row.cells)]


@pytest.mark.parametrize(
    ("found", "label"),
    [
        (record(), "AKOrN, SimCLR"),
        (record("photos_itrsa"), "ItrSA, SimCLR"),
        (record("floor:colours"), "colours"),
        (record(uptile=1), "AKOrN, SimCLR, without up-tiling"),
        (record(overrides={"loss.dense": 1.0}), "AKOrN, SimCLR and patches"),
        (record(overrides={"loss.dense": 1.0, "loss.simclr": 0.0, "train.epochs": 30}), "AKOrN, patches alone"),
        (record(read="x"), "AKOrN, SimCLR, states x clustered"),
        (record(clusters="auto"), "AKOrN, SimCLR, number of clusters chosen by the data"),
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
        record(overrides={"model.channels": 512}),
    ],
)
def test_other_protocols_fill_no_row(found: dict[str, Any]) -> None:
    assert filled(found) == []


def test_the_protocol_and_the_errors_are_named() -> None:
    assert callable(PHOTOS.note)
    note = PHOTOS.note([record()])
    assert "Masks at 256 × 256" in note
    assert "standard errors of MBO_i over the pictures of 0.5 to 0.5 on VOC" in note
    assert PHOTOS in objects.TABLES
