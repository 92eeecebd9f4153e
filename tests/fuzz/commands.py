"""Every command with the smallest possible work, and every option it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from .seeds import CIFAR, OBJECTS, PUZZLE, SMALL_RUN, SUDOKU
from .seeds_sets import RECORDS, SCENES, TINY, VOC

_SOLVE = ("--model", SUDOKU, "--steps", "1", "--votes", "1")
_SEGMENT = ("--model", OBJECTS, "--clusters", "2", "--out", "out")
_CLASSIFY = ("--model", CIFAR, "--starts", "1")
_SET = ("--size", "16", "--components", "4", "--limit", "1")
_NARROW = ("--model.channels", "4", "4", "4", "--model.steps", "1", "1", "1", "--model.kernels", "3", "3", "3")
_SHORT = ("--train.steps", "1", "--train.batch-size", "2", "--out", "trained", "--results", "None")
_TRAIN = (*SMALL_RUN, "--valid", "boards.csv", "--out", "trained", "--results", "None")

BASES: dict[str, tuple[str, ...]] = {
    "solve": ("solve", PUZZLE, *_SOLVE),
    "solve-file": ("solve", "boards.csv", *_SOLVE),
    "segment": ("segment", "picture.png", *_SEGMENT),
    "classify": ("classify", "picture.png", *_CLASSIFY),
    "simulate": ("simulate", "--size", "16", "--steps", "2", "--frames", "2", "--out", "x.gif"),
    "simulate-classic": (
        *("simulate", "--preset", "classic", "--oscillators", "10", "--steps", "2", "--k-count", "2"),
        *("--frames", "2", "--out", "x.gif"),
    ),
    "train": ("train", "sudoku_akorn", "--data", "boards.csv", *_TRAIN),
    "train-satnet": ("train", "sudoku_akorn", "--data", "satnet", *_TRAIN),
    "resume": ("train", "sudoku_akorn", "--data", "boards.csv", *_TRAIN, "--out", "run", "--resume"),
    "export": ("export", "run", "--weights", "last"),
    "eval-sudoku": ("eval", SUDOKU, "--data", "boards.csv", "--limit", "1"),
    "eval-satnet": ("eval", SUDOKU, "--data", "satnet"),
    "pack": ("data", "pack", "photos", "x.pack", "--size", "8"),
    "eval-objects": ("eval", OBJECTS, "--data", "squares.npz", "--components", "4"),
    "train-photos": (
        *("train", "clevrtex_akorn_l1", "--data", "photos", *_TRAIN, "--valid", "squares.npz"),
        *("--model.image-size", "16", "--model.patch", "4"),
    ),
    "eval-tfrecords": ("eval", OBJECTS, "--data", RECORDS, *_SET),
    "eval-coco": ("eval", OBJECTS, "--data", "coco", *_SET),
    "eval-voc": ("eval", OBJECTS, "--data", VOC, *_SET),
    "eval-clevrtex": ("eval", OBJECTS, "--data", SCENES, *_SET),
    "train-cifar": ("train", "cifar10_akorn_conv", "--data", "cifar", "--init", CIFAR, *_NARROW, *_SHORT),
    "train-tiny": ("train", "tiny_imagenet_akorn_conv", "--data", TINY, *_NARROW, *_SHORT),
    "eval-cifar": ("eval", CIFAR, "--data", "cifar", "--limit", "2", "--corrupted", "corrupted"),
    "recipes": ("recipes",),
    "models": ("models",),
    "results": ("results", "--folder", "records"),
    "make-sudoku": ("data", "make", "sudoku", "made", "--count", "1", "--test", "1", "--givens", "40"),
    "make-shapes": ("data", "make", "shapes", "made", "--count", "1", "--valid", "1", "--test", "1"),
    "make-tetrominoes": ("data", "make", "tetrominoes", "made", "--count", "1", "--valid", "1", "--test", "1"),
    "make-dsprites": ("data", "make", "dsprites", "made", "--count", "1", "--valid", "1", "--test", "1"),
    "make-cifar10-c": ("data", "make", "cifar10-c", "made", "--data", "cifar", "--limit", "1"),
    "bench": ("bench", "--size", "tiny", "--couplings", "dense", "--steps", "1", "--channels", "4"),
}
"""By a name of ours. Each ends with status 0 in the folder of the seeds, or 1 where a tiny model finds no answer."""


def options_of(base: str) -> list[str]:
    """The names of all options of a command, from the dataclasses that tyro reads."""
    from akorn.cli import COMMANDS
    from akorn.objects.commands import pack
    from akorn.rooms import parts, recipes

    words = BASES[base]
    if words[:2] == ("data", "pack"):
        kinds = [pack.Options]
    elif words[0] == "data":
        kinds = [module.Options for module in parts("commands.make").values() if words[2] in module.NAMES]
    elif words[0] == "eval":
        room = {SUDOKU: "sudoku", OBJECTS: "objects", CIFAR: "robustness"}[words[1]]
        kinds = [parts("commands.evaluate")[room].Options]
    else:
        from importlib import import_module

        kinds = [import_module(COMMANDS[words[0]][0]).Options]
    found = [name for kind in kinds for name in _names(kind)]
    if words[0] == "train":
        found += _names(recipes()[words[1]]())
    return [f"--{name.replace('_', '-')}" for name in found]


def _names(holder: Any, before: str = "") -> list[str]:
    return list(_walk(holder, before))


def _walk(holder: Any, before: str) -> Iterator[str]:
    for field in dataclasses.fields(holder):
        value = None if isinstance(holder, type) else getattr(holder, field.name)
        if dataclasses.is_dataclass(value):
            yield from _walk(value, f"{before}{field.name}.")
        elif field.name != "settings":
            yield f"{before}{field.name}"
