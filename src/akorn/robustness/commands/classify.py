"""`akorn classify IMAGE…`: the class of a picture, with a confidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from akorn.cli.common import CommonOptions, check_seed, print_json, printable, say
from akorn.errors import AkornError
from akorn.robustness.config import CLASSES, SIDE
from akorn.robustness.protocol import NOISE
from akorn.runtime.files import check_writable, make_folder
from akorn.runtime.picture_folders import expand_folders

if TYPE_CHECKING:
    from akorn.robustness.classifier import Classifier, Picture, Prediction


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
    """Picture files (PNG, JPEG, …), or folders of them, without their subfolders. The model sees 32 × 32 pixels: other
    sizes are cropped to the middle square and resized."""
    model: str = "cifar10-conv"
    """Shipped weights by name (akorn models), or a model's folder."""
    starts: int = 4
    """Number of random starts K whose probabilities are averaged. With four, cifar10-conv's confidence matches its
    accuracy to within 1 point on clean pictures; with more, answers vary less."""
    top: int = 3
    """How many classes to show."""
    resize: bool = True
    """Resize and convert pictures of other sizes and modes; --no-resize refuses them."""
    gif: bool = False
    """Also write NAME.gif: the oscillators of the first block step by step, for the picture with and without noise."""
    noise: Annotated[float, tyro.conf.arg(help_behavior_hint="(default: 64/255, which is 0.251)")] = NOISE
    """Size of the noise in that animation: ±this on every value of a picture from 0 to 1."""
    steps: int = 24
    """Number of Kuramoto steps in that animation. Answers come after as many steps as in training, 3."""
    out: Path = Path()
    """The folder for animations; existing files with their names are replaced."""


def run(options: Options) -> int:
    """Classify, and print one line per picture. A picture that cannot be read leads to exit status 2 and a line that
    says why; the others are still classified.
    """
    _check(options)
    options = replace(options, images=expand_folders(options.images))
    from akorn.robustness.classifier import Classifier

    pictures, wrong = _read(options)
    animations = _animations(options, list(pictures))
    found: dict[str, Prediction] = {}  # by name: a picture that is named twice gets the same answer
    if pictures:
        classifier = Classifier.from_pretrained(options.model, options.device)
        answers = classifier.classify(list(pictures.values()), options.starts, options.seed)
        found = dict(zip(pictures, answers, strict=True))
        if not options.json:
            say(f"{options.model} knows {', '.join(CLASSES)}, on {SIDE} × {SIDE} photographs, and nothing else")
        for name, path in animations.items():
            _animate(path, classifier, pictures[name], found[name], options)
            say(f"wrote {path}")
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
    for name in ("starts", "top", "steps"):
        if getattr(options, name) < 1:
            raise AkornError(f"--{name} must be at least 1, got {getattr(options, name)}")
    if not 0 <= options.noise <= 1:
        raise AkornError(f"--noise must be from 0 to 1 (64/255 is 0.251), got {options.noise}")


def _animations(options: Options, names: list[str]) -> dict[str, Path]:
    """Where the animation of each picture goes; AkornError before any work if one cannot be written there."""
    if not options.gif:
        return {}
    make_folder(options.out)
    paths = {name: options.out / f"{Path(name).stem}.gif" for name in names}
    owners: dict[Path, str] = {}
    for name, path in paths.items():
        check_writable(path)
        owner = owners.setdefault(path, name)
        if owner != name:
            raise AkornError(f"{name}: its animation would have the same name as that of {owner}")
        if any(path.resolve() == Path(image).resolve() for image in options.images):
            raise AkornError(f"{path}: that is one of the pictures; choose another folder with --out")
    return paths


def _animate(path: Path, classifier: Classifier, picture: Picture, answer: Prediction, options: Options) -> None:
    """The oscillators under the picture, and under the picture with noise."""
    import torch

    from akorn.robustness.animation import trajectory, write_animation
    from akorn.robustness.random_noise import random_noise

    clean = picture.pixels[None].float() / 255
    noisy = random_noise(clean, options.noise, torch.Generator().manual_seed(options.seed))
    (then,) = classifier.classify(noisy, options.starts, options.seed)
    images = torch.cat([clean, noisy]).to(classifier.device)
    states = trajectory(classifier.model, images, options.steps, options.seed)
    size = f"{255 * options.noise:.0f}/255"
    headings = (
        f"{answer.label}, {100 * answer.confidence:.0f} %",
        f"±{size}: {then.label}, {100 * then.confidence:.0f} %",
    )
    write_animation(path, images, states, headings)


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
