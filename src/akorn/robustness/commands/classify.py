"""`akorn classify IMAGE…`: the class of a picture, with a confidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import tyro

from akorn.cli.common import CommonOptions, check_seed, print_json, printable, say
from akorn.errors import AkornError
from akorn.robustness.config import CLASSES, SIDE
from akorn.runtime.picture_folders import expand_folders

if TYPE_CHECKING:
    from akorn.robustness.classifier import Picture, Prediction


@dataclass(frozen=True)
class Options(CommonOptions):
    """Classify pictures into CIFAR-10's classes, each with the probability that the answer is right.

    The model knows ten things and nothing else: airplane, automobile, bird, cat, deer, dog, frog, horse, ship and
    truck, on photographs of 32 × 32 pixels. Any picture gets one of them, and the confidence is meaningful
    only for such photographs.
    """

    images: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="IMAGE [IMAGE ...]", help_behavior_hint="(required)"),
    ] = ()
    """Picture files (PNG, JPEG, …), or folders of them. The model sees 32 × 32 pixels: other sizes are cropped to
    the middle square and resized."""
    model: str = "cifar10-conv"
    """Shipped weights by name (akorn models), or a model's folder."""
    starts: int = 4
    """Number of random starts K whose probabilities are averaged. With four, cifar10-conv's confidence matches its
    accuracy to within 1 point on clean pictures; with more, answers vary less."""
    top: int = 3
    """How many classes to show."""
    resize: bool = True
    """Resize and convert pictures of other sizes and modes; --no-resize refuses them."""


def run(options: Options) -> int:
    """Classify, and print one line per picture. A picture that cannot be read leads to exit status 2 and a line that
    says why; the others are still classified.
    """
    _check(options)
    options = replace(options, images=expand_folders(options.images))
    from akorn.robustness.classifier import Classifier

    pictures, wrong = _read(options)
    found: dict[str, Prediction] = {}  # by name: a picture that is named twice gets the same answer
    if pictures:
        classifier = Classifier.from_pretrained(options.model, options.device)
        answers = classifier.classify(list(pictures.values()), options.starts, options.seed)
        found = dict(zip(pictures, answers, strict=True))
        if not options.json:
            say(f"{options.model} knows {', '.join(CLASSES)}, on {SIDE} × {SIDE} photographs, and nothing else")
    for name in options.images:
        if name in found:
            _tell(name, pictures[name], found[name], options)
        elif options.json:
            print_json({"image": name, "error": wrong[name]})
    return _complain([wrong[name] for name in options.images if name in wrong])


def _check(options: Options) -> None:
    check_seed(options.seed)
    if not options.images:
        raise AkornError("akorn classify needs a picture: akorn classify IMAGE…")
    for name in ("starts", "top"):
        if getattr(options, name) < 1:
            raise AkornError(f"--{name} must be at least 1, got {getattr(options, name)}")


def _read(options: Options) -> tuple[dict[str, Picture], dict[str, str]]:
    """The pictures that can be read, and why the others cannot, by name."""
    from akorn.robustness.classifier import read_picture

    pictures: dict[str, Picture] = {}
    wrong: dict[str, str] = {}
    for name in dict.fromkeys(options.images):
        try:
            pictures[name] = read_picture(name, resize=options.resize)
        except AkornError as error:
            wrong[name] = str(error)
    return pictures, wrong


def _tell(name: str, picture: Picture, answer: Prediction, options: Options) -> None:
    from akorn.robustness.classifier import doubts

    doubtful = doubts(picture, answer)
    if options.json:
        told = {"changes": list(picture.changes), "warnings": doubtful}
        print_json({"image": name, **answer.as_json(options.top), **told})
        return
    for change in (*picture.changes, *doubtful):
        say(f"{name}: {change}")
    classes = ", ".join(f"{label} {100 * chance:.1f} %" for label, chance in answer.ranking[: options.top])
    print(printable(f"{name}: {classes}"))


def _complain(wrong: list[str]) -> int:
    for reason in wrong:
        say(f"akorn: {' '.join(reason.split())}")
    return 2 if wrong else 0
