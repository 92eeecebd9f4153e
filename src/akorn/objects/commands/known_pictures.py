"""Which shipped model `akorn segment` uses by default, and what a model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from akorn.errors import AkornError

COLOURS, GREY, PHOTOS = "dsprites", "shapes", "photos"
"""The shipped models for drawings in colour and in grey, and for photographs. Of the two for colour, this one was
trained on larger pictures and more kinds of objects."""

PHOTO = 160
"""A picture whose sides have at least this many pixels is taken for a photograph, if that model is there."""
_SEEN = 2**20  # enough pixels to tell grey from colours

_LARGE = 4  # times the side in training: such a picture is surely of another kind


def choose_model(images: Sequence[str]) -> str:
    """The shipped model for the first readable picture, chosen by its size and colours."""
    from akorn.models import list_models
    from akorn.runtime.pictures import flatten, open_within

    photos = PHOTOS in list_models(pretrained=True)
    for name in images:
        try:
            picture, size = open_within(name, _SEEN)
            bands = flatten(picture).convert("RGB").split()
        except AkornError:  # reported later, when the file is processed
            continue
        if photos and min(size) >= PHOTO:
            return PHOTOS
        return GREY if bands[0].tobytes() == bands[1].tobytes() == bands[2].tobytes() else COLOURS
    return COLOURS


def what_it_knows(model: str, config: Any) -> str:
    """One line for people: what a model was trained on."""
    from akorn.model_cards import CARD, read_card
    from akorn.models import WEIGHTS

    about = read_card(WEIGHTS / model / CARD).about or read_card(Path(model) / CARD).about
    kind = "grey" if config.image_channels == 1 else "coloured"
    told = f" ({about})" if about else ""
    if knows_photographs(model):
        return f"{model}{told} was trained on photographs, without labels"
    return f"{model}{told} was trained only on {kind} drawings of {config.image_size} × {config.image_size} pixels"


def knows_photographs(model: str) -> bool:
    """Whether a model was trained on photographs."""
    from akorn.objects.segmenter import data_set_of

    return data_set_of(model) in (PHOTOS, "imagenet")


def doubts(model: str, config: Any, size: tuple[int, int]) -> list[str]:
    """A caveat about the mask of a picture of that height and width; empty for sizes like those in training."""
    side = config.image_size
    if min(size) < _LARGE * side or knows_photographs(model):
        return []
    return [
        f"{size[1]} × {size[0]} pixels, and {model} was trained on drawings of {side} × {side}: if this is a"
        " photograph, the mask means little"
    ]
