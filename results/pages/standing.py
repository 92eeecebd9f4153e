"""What a figure is based on: how much of which data, and which of it is a stand-in. Torch-free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from akorn.ledger.records import Record
from akorn.ledger.tables import Metric
from results.pages.corrections import corrected
from results.pages.objects_own import is_ours
from results.pages.scenes import TRUTH

BOARDS = {
    "test-id": "rebuilt ID boards",
    "test-ood": "rebuilt OOD boards",
    "valid-ood": "rebuilt OOD validation boards",
}
OOD_BOARDS = 18_000

PICTURES = {"tetrominoes": "Tetrominoes", "dsprites": "dSprites", "shapes": "Shapes", "clevr": "CLEVR"}
"""Sets that we generate."""
NAMES = {**PICTURES, "coco": "COCO"}
"""How sets are called on the pages."""

WHOLE = ("clean", "ece", "noise", "noise_sign")
CORRUPTED = ("corrupted", "corrupted_ece")


def stands_on(records: Sequence[Record], metric: Metric) -> str:
    """Return what the records behind a figure were measured on, in words; a dash for no record.

    † marks models that were trained before the corrections.
    """
    said = dict.fromkeys(_one(record, metric) for record in records)
    text = "; ".join(said) or "–"
    evaluated = [record for record in records if record["kind"] == "eval" and ":" not in record["name"]]  # no floors
    return f"{text} †" if evaluated and not any(map(corrected, evaluated)) else text


def _one(record: Record, metric: Metric) -> str:
    config = record["config"]
    if record["kind"] == "bench":
        return _machine(record)
    if "boards" in config:
        boards = int(config["boards"])
        part = (
            f"{boards:,} of {OOD_BOARDS:,}" if config["data"] == "test-ood" and boards < OOD_BOARDS else f"{boards:,}"
        )
        return f"{part} {BOARDS.get(str(config['data']), 'boards')}"
    if "clusters" in config:
        return "its training" if callable(metric) else _pictures(record)  # for how many epochs
    if "data_split" in config:
        return _classified(config, metric)
    return "data that the record does not name"


def _classified(config: Mapping[str, Any], metric: Metric) -> str:
    if metric in WHOLE or callable(metric):
        return f"{int(config['pictures']):,} CIFAR-10 test pictures"
    if metric in CORRUPTED:
        return f"{int(config['corrupted_pictures']):,} CIFAR-10 test pictures under 15 corruptions of our own"
    return f"{int(config['attacked']):,} CIFAR-10 test pictures" if "attacked" in config else "CIFAR-10 test pictures"


def _pictures(record: Record) -> str:
    config = record["config"]
    data = str(config.get("data")).lower().replace("_", "-").removesuffix("-test")
    split = {"valid": "validation"}.get(str(config.get("split", "test")), "test")
    if data == "voc" and split == "test":
        return f"{int(config['pictures']):,} pictures of Pascal VOC's val"
    if record.get("data") == TRUTH:
        return f"{int(config['pictures']):,} CLEVR scenes rendered from the original's files"
    ours = data in PICTURES and ("source" not in config or is_ours(config))  # early records name no other source
    own = " of our own" if ours else ""
    return f"{int(config['pictures']):,} {NAMES.get(data, data)} {split} pictures{own}"


def _machine(record: Record) -> str:
    hardware = record.get("hardware") or {}
    if hardware.get("gpu") and str(hardware.get("device", "")).startswith("cuda"):
        count = int(hardware.get("gpus") or 1)
        return f"one {hardware['gpu']}" if count == 1 else f"{count} × {hardware['gpu']}"
    return f"{hardware.get('cores', '?')} CPU cores"
