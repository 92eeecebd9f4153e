"""`akorn segment IMAGE…`: the objects in a picture, as masks."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from akorn.cli.common import CommonOptions, check_seed, pick_device, print_json, printable, say
from akorn.errors import AkornError
from akorn.objects.commands.known_pictures import choose_model, doubts, what_it_knows
from akorn.runtime.files import check_writable, make_folder
from akorn.runtime.picture_folders import expand_folders

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from akorn.objects.model_input import Read
    from akorn.objects.segmenter import Segmenter

FORMATS = {"png": "-mask.png", "npz": "-mask.npz", "overlay": "-overlay.png"}


@dataclass(frozen=True)
class Options(CommonOptions):
    """Find the objects in pictures. The mask gives every pixel the number of its cluster, 0 for the background.

    The background is the largest of the clusters that touch the border. The shipped models were trained only on
    drawings of simple things (akorn models), so masks of photographs mean little.
    """

    images: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="IMAGE [IMAGE ...]", help_behavior_hint="(required)"),
    ] = ()
    """Picture files (PNG, JPEG, …), or folders of them."""
    model: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME|FOLDER",
            help_behavior_hint="(default: dsprites if the first picture has colours, else shapes)",
        ),
    ] = None
    """Shipped weights by name (akorn models), or a model's folder."""
    clusters: int | None = None
    """Number of clusters, including the background; by default that of the model's training data."""
    uptile: int = 1
    """Up-tiling by this factor makes masks finer. It must divide the patch size; the time grows with its square."""
    size: int | None = None
    """The size in pixels at which the model sees a picture, a multiple of the patch size; by default that of training.
    A larger size gives finer masks, but objects then look larger to the model than in training."""
    method: Literal["average", "kmeans"] = "average"
    """Average linkage or k-means."""
    steps: int | None = None
    """Kuramoto steps T of each block; by default as in training."""
    out: Path = Path()
    """The folder for the files, NAME-mask.png and so on; existing files with these names are replaced."""
    format: str = "png,overlay"
    """Comma-separated list of: png (the labels as a picture with a palette), npz (key `labels`), overlay (colours on
    the picture, enlarged if it is small)."""
    gif: bool = False
    """Also write NAME.gif, which shows the oscillators step by step."""
    resize: bool = True
    """Resize pictures that are not of the model's size (or --size); masks get the size of the picture. --no-resize
    refuses them instead."""


def run(options: Options) -> int:
    """Segment the pictures, with one line for each. Unreadable ones are reported and lead to exit status 2; the others
    are still segmented.
    """
    formats = _check(options)
    from akorn.objects.segmenter import Segmenter, SegmentSettings, data_set_of

    settings = SegmentSettings(options.method, options.uptile, steps=options.steps, seed=options.seed)
    options = replace(options, images=expand_folders(options.images, without=tuple(FORMATS.values())))
    model = options.model if options.model is not None else choose_model(options.images)
    segmenter = Segmenter.from_pretrained(model, settings, str(pick_device(options.device)))
    clusters = _clusters(options, model, data_set_of(model))
    chosen = options.model is None
    options = replace(options, model=model)
    side = _side(options, segmenter)
    segmenter.check(clusters, side, side)
    wrong = False
    owners: dict[str, str] = {}  # prefix of the output files → the picture they belong to
    for name in dict.fromkeys(options.images):
        try:
            _segment(options, formats, segmenter, side, clusters, name, owners)
        except AkornError as error:
            wrong = True
            if options.json:
                print_json({"image": name, "error": str(error)})
            say(f"akorn: {' '.join(str(error).split())}")
    if chosen and not wrong and not options.json:
        say(f"no --model was given: {what_it_knows(model, segmenter.model.config)}")
    return 2 if wrong else 0


def _check(options: Options) -> list[str]:
    """The requested formats; AkornError for impossible options, before torch is imported."""
    check_seed(options.seed)
    if not options.images:
        raise AkornError("akorn segment needs a picture: akorn segment IMAGE…")
    for name in ("clusters", "uptile", "size", "steps"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise AkornError(f"--{name} must be at least 1, got {value}")
    formats = list(dict.fromkeys(word.strip() for word in options.format.split(",") if word.strip()))
    if foreign := [word for word in formats if word not in FORMATS]:
        raise AkornError(f"--format: there is no {foreign[0]!r}, expected some of {', '.join(FORMATS)}")
    if not formats and not options.gif:
        raise AkornError(f"--format names nothing to write, expected some of {', '.join(FORMATS)}")
    if options.clusters is not None and options.clusters > 256 and "png" in formats:
        raise AkornError(f"a PNG with a palette has at most 256 clusters, got {options.clusters}; use --format npz")
    return formats


def _side(options: Options, segmenter: Segmenter) -> int:
    """The side at which the model sees pictures; AkornError if patches do not fit."""
    config = segmenter.model.config
    if options.size is not None and options.size % config.patch:
        patch = config.patch
        below, above = options.size // patch * patch, -(-options.size // patch) * patch
        near = f"{below} or {above}" if below else str(above)
        raise AkornError(f"--size must be a multiple of the patch size, {patch}: got {options.size}, try {near}")
    return int(config.image_size if options.size is None else options.size)


def _clusters(options: Options, model: str, data_set: str | None) -> int:
    from akorn.objects.data.sets import SETS

    if options.clusters is not None:
        return options.clusters
    if data_set is None:
        raise AkornError(f"--clusters is missing: the training data of {model} is unknown")
    return SETS[data_set].clusters


def _segment(
    options: Options, formats: list[str], segmenter: Segmenter, side: int, clusters: int, name: str,
    owners: dict[str, str],
) -> None:  # fmt: skip
    """One picture, from its file to its masks. Pictures are processed one by one, so masks do not depend on others."""
    from akorn.objects.colouring import background_first
    from akorn.objects.features import as_masks
    from akorn.objects.model_input import read_picture

    picture = read_picture(name, side, segmenter.model.config.image_channels, resize=options.resize)
    stem = Path(name).stem  # only pictures claim names: photo.json beside photo.png is no conflict
    owner = owners.setdefault(stem, name)
    if owner != name:
        raise AkornError(f"{name}: its files would have the same names as those of {owner}")
    mask = segmenter.segment(picture.pixels[None], clusters)
    labels = as_masks(mask.flatten(1), (side, side), picture.size)[0]
    _deliver(options, formats, segmenter, clusters, picture, name, background_first(labels.cpu().numpy()))


def _deliver(
    options: Options, formats: list[str], segmenter: Segmenter, clusters: int, picture: Read, name: str,
    labels: NDArray[np.integer],
) -> None:  # fmt: skip
    """Write the files of one picture and say so."""
    import numpy as np

    stem = Path(name).stem
    make_folder(options.out)
    paths = {kind: options.out / f"{stem}{FORMATS[kind]}" for kind in formats}
    if options.gif:
        paths["gif"] = options.out / f"{stem}.gif"
    for path in paths.values():  # either all files are written or none
        check_writable(path)
        for image in options.images:  # a picture may have the name of another one's mask
            if path.exists() and os.path.exists(image) and path.samefile(image):  # Path.exists may raise
                whose = "the picture itself" if image == name else f"another input, which {name} must not replace"
                raise AkornError(f"{path}: that is {whose}; choose another folder with --out")
    for kind, path in paths.items():
        _write(kind, path, segmenter, picture, labels)
    # If a picture is smaller than the grid of patches, a cluster may have no pixel, but it still counts.
    counts = np.bincount(labels.ravel(), minlength=clusters).tolist()
    doubtful = doubts(str(options.model), segmenter.model.config, picture.size)
    if options.json:
        files: dict[str, Any] = {kind: str(path) for kind, path in paths.items()}
        print_json({"image": name, "clusters": len(counts), "pixels": counts, "files": files,
                    "changes": list(picture.changes), "model": options.model, "warnings": doubtful})  # fmt: skip
        return
    for change in (*picture.changes, *doubtful):
        say(f"{name}: {change}")
    print(printable(f"{name}: {len(counts)} clusters → {', '.join(str(path) for path in paths.values())}"))


def _write(kind: str, path: Path, segmenter: Segmenter, picture: Read, labels: NDArray[np.integer]) -> None:
    import numpy as np

    from akorn.objects import colouring
    from akorn.runtime.files import replacing

    if kind == "png":
        colouring.write_mask(path, labels)
    elif kind == "overlay":
        colouring.write_rgb(path, colouring.shown_overlay(picture.original, labels))
    elif kind == "npz":
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, labels=labels.astype(np.int32))
    else:
        from akorn.objects.animation import write_animation

        write_animation(path, picture.original, segmenter.trajectory(picture.pixels[None]), labels)
