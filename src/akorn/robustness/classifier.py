"""The classifier for people: picture files in, classes out, each with the chance that it is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from akorn.augment.image_batch import check_range
from akorn.errors import AkornError
from akorn.robustness.config import CLASSES, SIDE, check_classifier
from akorn.robustness.evaluate import as_float, asked, probabilities
from akorn.robustness.net import CifarNet
from akorn.runtime.devices import pick_device
from akorn.runtime.pictures import flatten, open_picture
from akorn.runtime.randomness import derive_seed

_LARGE = 4  # times CIFAR-10's side: such a picture was surely not made like CIFAR-10's
_UNSURE = 0.5


@dataclass(frozen=True)
class Prediction:
    """The model's answer for one picture."""

    label: str
    confidence: float
    """The chance that the label is right, from 0 to 1: the mean over the starts."""
    ranking: tuple[tuple[str, float], ...]
    """All classes with their chances, the likeliest first."""
    starts: int
    """Over how many random starts the chances are averaged."""
    spread: float
    """Standard deviation of the label's chance over the starts; 0 for a single one."""

    def as_json(self, top: int = 3) -> dict[str, Any]:
        """JSON values, with the `top` likeliest classes."""
        likely = [{"label": name, "confidence": chance} for name, chance in self.ranking[:top]]
        return {
            "label": self.label,
            "confidence": self.confidence,
            "top": likely,
            "starts": self.starts,
            "spread": self.spread,
        }


@dataclass(frozen=True)
class Picture:
    """A picture as the model takes it, and how it was changed for that."""

    pixels: Tensor  # uint8 [3, 32, 32]
    changes: tuple[str, ...]
    size: tuple[int, int] = (SIDE, SIDE)
    """Height and width of the file's picture."""


class Classifier:
    """A trained model that classifies pictures.

    Args:
        model: any of the CIFAR models, with a head for the ten classes.
        device: "auto", "cpu", "cuda", "cuda:1", "mps".

    """

    def __init__(self, model: CifarNet, device: str = "auto") -> None:
        check_classifier(model.config)
        self.device = pick_device(device)
        self.model = model.to(self.device).eval()

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path = "cifar10-conv", device: str = "auto") -> Classifier:
        """A classifier with shipped weights (by name), or with weights from a folder or the hub."""
        return cls(CifarNet.from_pretrained(name_or_folder), device)

    @torch.no_grad()
    def classify(self, images: Tensor | Sequence[Picture], starts: int = 4, seed: int = 0) -> list[Prediction]:
        """Classify pictures [B, 3, 32, 32], bytes or numbers from 0 to 1, or what `read_picture` returned.

        Each is classified from `starts` random starts. The same picture gets the same answer wherever it is in the
        batch.
        """
        if starts < 1:
            raise AkornError(f"starts must be at least 1, got {starts}")
        if not len(images):
            return []
        batch = images if isinstance(images, Tensor) else torch.stack([picture.pixels for picture in images])
        if batch.ndim != 4 or tuple(batch.shape[1:]) != (3, SIDE, SIDE):
            raise ValueError(f"pictures are [B, 3, {SIDE}, {SIDE}], got the shape {list(batch.shape)}")
        check_range(batch)
        count = starts if self.model.random_start else 1
        found = []
        with asked(self.model):  # in float32 on any device, as `akorn eval` scores
            for picture in as_float(batch.to(self.device)):
                generator = torch.Generator(self.device).manual_seed(derive_seed(seed, "classify"))
                many = picture.expand(count, -1, -1, -1)  # one picture, all its starts at once
                found.append(_prediction(probabilities(self.model, many, 1, generator)))
        return found


def read_picture(path: str | Path, *, resize: bool = True) -> Picture:
    """Read a picture file as 32×32 in three colours.

    Another size or mode is converted, and noted in `changes`; with `resize=False` it is refused. A picture that is not
    square is first cropped to its middle.
    """
    picture = open_picture(path)
    own_size = (picture.height, picture.width)
    changes = []
    if picture.mode != "RGB":
        if not resize:
            raise AkornError(f"{path}: its mode is {picture.mode}, expected RGB (--no-resize was asked for)")
        changes.append(f"converted from {picture.mode} to RGB")
        picture = flatten(picture).convert("RGB")
    if picture.size != (SIDE, SIDE):
        if not resize:
            size = f"{picture.width} × {picture.height}"
            raise AkornError(f"{path}: {size} pixels, expected {SIDE} × {SIDE} (--no-resize was asked for)")
        changes.append(_resizing(picture))
        side = min(picture.size)
        left, top = (picture.width - side) // 2, (picture.height - side) // 2
        box = (left, top, left + side, top + side)
        picture = picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC, box=box)
    pixels = torch.from_numpy(np.array(picture, dtype=np.uint8)).permute(2, 0, 1).contiguous()
    return Picture(pixels, tuple(changes), own_size)


def doubts(picture: Picture, answer: Prediction) -> list[str]:
    """Why an answer's confidence may mean little, at most one line; empty for a picture like CIFAR-10's."""
    height, width = picture.size
    if min(picture.size) >= _LARGE * SIDE:
        return [
            f"{width} × {height} pixels, and the model knows {SIDE} × {SIDE} photographs of one thing each: if this"
            " is another kind of picture, the confidence means little"
        ]
    if answer.confidence < _UNSURE:
        return [f"no class has a chance of {100 * _UNSURE:.0f} % or more: the model does not know"]
    return []


def _resizing(picture: Image.Image) -> str:
    cut = "" if picture.width == picture.height else f"cut to its middle {min(picture.size)} × {min(picture.size)} and "
    return f"{cut}resized from {picture.width} × {picture.height} to {SIDE} × {SIDE}"


def _prediction(chances: Tensor) -> Prediction:
    """chances: [starts, classes] of one picture."""
    mean = chances.mean(0)
    order = mean.argsort(descending=True).tolist()
    ranking = tuple((CLASSES[place], float(mean[place])) for place in order)
    spread = float(chances[:, order[0]].std()) if len(chances) > 1 else 0.0
    return Prediction(ranking[0][0], ranking[0][1], ranking, len(chances), spread)
