"""Weights that ship in 8 bits: a record says that they lose no more than chance explains, and the card quotes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from akorn.models import list_models, shipped_folder
from akorn.settings import WEIGHTS_FILE
from akorn.stored import SCALE

RESULTS = Path(__file__).parents[2] / "results"
SCORES = {"accuracy", "board accuracy", "FG-ARI", "MBO"}


def in_8_bits(name: str) -> bool:
    return any(tensor.endswith(SCALE) for tensor in load_file(shipped_folder(name) / WEIGHTS_FILE))


EIGHT = [name for name in list_models(pretrained=True) if in_8_bits(name)]


def test_cards_say_how_weights_are_stored() -> None:
    assert EIGHT
    for name in list_models(pretrained=True):
        card = (shipped_folder(name) / "README.md").read_text(encoding="utf-8")
        assert ("as 8-bit integers with a scale per row" in card) == (name in EIGHT)
        assert ("stored in float16" in card) == (name not in EIGHT)


@pytest.mark.parametrize("name", EIGHT)
def test_8_bits_cost_less_than_chance_does(name: str) -> None:
    newest = max(RESULTS.glob(f"bench-stored-weights-{name}-seed*.json"))
    found = json.loads(newest.read_text(encoding="utf-8"))["metrics"]
    scores = SCORES & {metric.partition(",")[0] for metric in found}
    assert scores
    card = " ".join((shipped_folder(name) / "README.md").read_text(encoding="utf-8").split())
    for score in scores:
        lost, error = -found[f"{score}, 8 bits less 16"], found[f"{score}, 8 bits less 16, standard error"]
        assert lost <= error
        assert f"{found[f'{score}, 8 bits']:.1f} % in 8 bits and {found[f'{score}, 16 bits']:.1f} in 16" in card
        assert f"{error:.1f}" in card


@pytest.mark.parametrize("name", EIGHT)
def test_most_numbers_are_in_8_bits(name: str) -> None:
    stored = load_file(shipped_folder(name) / WEIGHTS_FILE)
    eight = sum(tensor.numel() for tensor in stored.values() if tensor.dtype == torch.int8)
    assert eight > 0.9 * sum(tensor.numel() for tensor in stored.values())
