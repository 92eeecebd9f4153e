"""Which shipped model `akorn segment` uses by default, and what a model was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from akorn.errors import AkornError

COLOURS, GREY, PHOTOS = "dsprites", "shapes", "photos"
"""The shipped models for drawings in colour and in grey, and for photographs. Of the two for colour, this one was
trained on larger pictures and more kinds of objects."""

PHOTO = 160
"""A picture whose sides have at least this many pixels is taken for a photograph, if that model is there."""
_ASKED = 100  # pictures whose size is looked at; that reads only the first bytes of a file
_OPENED = 9  # drawings whose colours are looked at
_SEEN = 2**20  # enough pixels to tell grey from colours

_LARGE = 4  # times the side in training: such a picture is surely of another kind


def choose_model(images: Sequence[str]) -> str:
    """The shipped model for most of the readable pictures, chosen by their sizes, and for drawings by their colours.

    A tie goes to photographs, and among drawings to colours. Only the first pictures are asked.
    """
    from akorn.models import list_models
    from akorn.runtime.pictures import picture_size

    photos = PHOTOS in list_models(pretrained=True)
    large, small = 0, []
    for name in images:
        try:
            size = picture_size(name)
        except AkornError:  # reported later, when the file is processed
            continue
        if photos and min(size) >= PHOTO:
            large += 1
        else:
            small.append(name)
        if large + len(small) == _ASKED:
            break
    if large and large >= len(small):
        return PHOTOS
    greys = [grey for grey in map(_is_grey, small[:_OPENED]) if grey is not None]
    return GREY if 2 * sum(greys) > len(greys) else COLOURS


def _is_grey(name: str) -> bool | None:
    """Whether a picture has no colours, None if it is damaged."""
    from akorn.runtime.pictures import flatten, open_within

    try:
        bands = flatten(open_within(name, _SEEN)[0]).convert("RGB").split()
    except AkornError:
        return None
    return bands[0].tobytes() == bands[1].tobytes() == bands[2].tobytes()


def what_it_knows(model: str, config: Any) -> str:
    """A few words for people: a model, and what it was trained on."""
    if knows_photographs(model):
        return f"{model}, for photographs"
    return f"{model}, trained only on {_kind(model, config)} of {config.image_size} × {config.image_size} pixels"


def knows_photographs(model: str) -> bool:
    """Whether a model was trained on photographs."""
    from akorn.objects.segmenter import data_set_of

    return data_set_of(model) in (PHOTOS, "imagenet")


def knows_scenes(model: str) -> bool:
    """Whether a model was trained on rendered scenes."""
    from akorn.objects.data import SETS
    from akorn.objects.segmenter import data_set_of

    data = data_set_of(model)
    return data is not None and data in SETS and SETS[data].render is not None


def _kind(model: str, config: Any) -> str:
    if knows_scenes(model):
        return "rendered scenes"
    return "grey drawings" if config.image_channels == 1 else "coloured drawings"


def doubts(model: str, config: Any, size: tuple[int, int]) -> list[str]:
    """A caveat about the mask of a picture of that height and width; empty for sizes like those in training."""
    side = config.image_size
    if min(size) < _LARGE * side or knows_photographs(model):
        return []
    kind = "rendered scenes" if knows_scenes(model) else "drawings"
    return [
        f"{size[1]} × {size[0]} pixels, and {model} was trained on {kind} of {side} × {side}: if this is a"
        " photograph, the mask means little"
    ]
