"""Which shipped model `akorn segment` uses by default, and what a model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from akorn.errors import AkornError

COLOURS, GREY = "dsprites", "shapes"
"""The shipped models for colour and for grey pictures. Of the two for colour, this one was trained on larger
pictures and more kinds of objects."""

_LARGE = 4  # times the side in training: such a picture is surely of another kind


def choose_model(images: Sequence[str]) -> str:
    """The shipped model for the first readable picture, chosen by its colours."""
    from akorn.runtime.pictures import flatten, open_picture

    for name in images:
        try:
            bands = flatten(open_picture(name)).convert("RGB").split()
        except AkornError:  # reported later, when the file is processed
            continue
        return GREY if bands[0].tobytes() == bands[1].tobytes() == bands[2].tobytes() else COLOURS
    return COLOURS


def what_it_knows(model: str, config: Any) -> str:
    """One line for people: what a model was trained on."""
    from akorn.model_cards import CARD, read_card
    from akorn.models import WEIGHTS

    about = read_card(WEIGHTS / model / CARD).about or read_card(Path(model) / CARD).about
    kind = "grey" if config.image_channels == 1 else "coloured"
    told = f" ({about})" if about else ""
    return f"{model}{told} was trained only on {kind} drawings of {config.image_size} × {config.image_size} pixels"


def doubts(model: str, config: Any, size: tuple[int, int]) -> list[str]:
    """A caveat about the mask of a picture of that height and width; empty for sizes like those in training."""
    side = config.image_size
    if min(size) < _LARGE * side:
        return []
    return [
        f"{size[1]} × {size[0]} pixels, and {model} was trained on drawings of {side} × {side}: if this is a"
        " photograph, the mask means little"
    ]
