"""`akorn segment IMAGE…`: the objects in a picture, as masks."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from akorn.cli.common import CommonOptions, check_seed, pick_device, print_json, printable, say
from akorn.errors import AkornError
from akorn.objects.commands.known_pictures import (
    choose_model,
    doubts,
    knows_photographs,
    knows_scenes,
    what_it_knows,
)
from akorn.objects.commands.output_names import output_prefixes
from akorn.runtime.files import check_writable, make_folder
from akorn.runtime.picture_folders import expand_folders

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from akorn.objects.model_input import Read
    from akorn.objects.results_page import Shown
    from akorn.objects.segmenter import Segmenter

FORMATS = {"png": "-mask.png", "npz": "-mask.npz", "overlay": "-overlay.png"}
TOGETHER = {"coco": "masks.coco.json"}
"""Formats that are one file for all pictures."""
PAGE = "index.html"
_TILES = 4  # up-tiling of photographs and rendered scenes, as in the paper
_PHOTO_EDGES = 3.0  # the best of 3 and 6 on VOC's training pictures
_PLAIN = 4  # of 255: colours that differ by no more count as one
_MOST_SIDE = 1024  # edges are looked for in pictures of at most about this side


@dataclass(frozen=True)
class Options(CommonOptions):
    """Find the objects in pictures. The mask gives every pixel the number of its cluster, 0 for the background.

    The background is the largest of the clusters that touch the border. Models that were trained only on drawings of
    simple things, or on rendered scenes (akorn models), say little about photographs.
    """

    images: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="IMAGE [IMAGE ...]", help_behavior_hint="(required)"),
    ] = ()
    """Picture files (PNG, JPEG, …), or folders of them, without their subfolders."""
    model: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME|FOLDER",
            help_behavior_hint=(
                "(default: photos if at least half of the pictures have 160 pixels or more on each side and these"
                " weights are there; otherwise dsprites if they have colours, else shapes)"
            ),
        ),
    ] = None
    """Shipped weights by name (akorn models), or a model's folder."""
    clusters: int | Literal["auto"] | None = None
    """Number of clusters, including the background, or auto: the picture's own tree of clusters says how many, and
    a picture of one colour has one. By default that of the model's training data. With models of photographs, clusters
    have at least 2 % of the picture, so there may be fewer."""
    uptile: int | None = None
    """Up-tiling by this factor makes masks finer. It must divide the patch size; the time grows with its square. By
    default 4 for models of photographs and of rendered scenes, 1 for others."""
    size: int | None = None
    """The size in pixels at which the model sees a picture, a multiple of the patch size; by default that of training.
    A larger size gives finer masks, but objects then look larger to the model than in training."""
    method: Literal["average", "kmeans"] = "average"
    """Average linkage or k-means."""
    edges: float | None = None
    """Let clusters end at the edges of the picture: how much neighbours of similar colours count, 0 for not at all. By
    default 3 for models of photographs, 0 for others."""
    steps: int | None = None
    """Kuramoto steps T of each block; by default as in training."""
    out: Path = Path()
    """The folder for the files, NAME-mask.png and so on; existing files with these names are replaced. Pictures
    that differ only in their suffix get NAME-jpg-mask.png and NAME-png-mask.png."""
    format: str = "png,overlay"
    """Comma-separated list of: png (the labels as a picture with a palette), npz (key `labels`), overlay (colours on
    the picture, in its own size, enlarged if it is small), coco (all masks in one file, masks.coco.json)."""
    page: Literal["auto", "yes", "no"] = "auto"
    """Also write index.html, a page with all pictures and their clusters. auto: if a folder is among the pictures."""
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
    from akorn.objects.tree import LEAST

    names = expand_folders(options.images, without=tuple(FORMATS.values()))
    # Folders with pictures are no longer among the names; one without any is reported later.
    folder = any(name not in names for name in options.images)
    page = folder if options.page == "auto" else options.page == "yes"
    options = replace(options, images=tuple(dict.fromkeys(names)))
    model = options.model if options.model is not None else choose_model(options.images)
    photos = knows_photographs(model)
    tiles = options.uptile if options.uptile is not None else _TILES if photos or knows_scenes(model) else 1
    # In photographs average linkage makes clusters of a few outliers, which are useless.
    least = LEAST if photos and options.method == "average" else 0.0
    edges = options.edges if options.edges is not None else _PHOTO_EDGES if photos else 0.0
    settings = SegmentSettings(options.method, tiles, steps=options.steps, seed=options.seed, least=least, edges=edges)
    segmenter = Segmenter.from_pretrained(model, settings, str(pick_device(options.device)))
    clusters = _clusters(options, model, data_set_of(model))
    chosen = options.model is None and not options.json
    options = replace(options, model=model)
    side = _side(options, segmenter)
    segmenter.check(clusters, side, side)
    for name in [TOGETHER[word] for word in formats if word in TOGETHER] + [PAGE] * page:
        make_folder(options.out)
        check_writable(options.out / name)
    wrong = 0
    prefixes = output_prefixes(options.images)
    owners: dict[str, str] = {}  # prefix of the output files → the picture they belong to
    knows = f"using the model {what_it_knows(model, segmenter.model.config)} (--model chooses another)"
    together = _Together("coco" in formats, page, knows if chosen else "")
    for name in options.images:
        try:
            _segment(options, formats, segmenter, side, clusters, name, prefixes[name], owners, together)
        except AkornError as error:
            wrong += 1
            reason = " ".join(str(error).split())
            together.fail(name, reason)
            if options.json:
                print_json({"image": name, "error": str(error)})
            say(f"akorn: {reason}")
    together.write(options.out, f"{model}, {_counted(clusters)}, up-tiling ×{tiles}, seen at {side} × {side}")
    if folder:
        done = len(options.images) - wrong
        say(f"{done:,} {'picture' if done == 1 else 'pictures'} segmented, {wrong:,} failed")
    return 2 if wrong else 0


def _check(options: Options) -> list[str]:
    """The requested formats; AkornError for impossible options, before torch is imported."""
    check_seed(options.seed)
    if not options.images:
        raise AkornError("akorn segment needs a picture: akorn segment IMAGE…")
    for name in ("clusters", "uptile", "size", "steps"):
        value = getattr(options, name)
        if isinstance(value, int) and value < 1:
            raise AkornError(f"--{name} must be at least 1, got {value}")
    formats = list(dict.fromkeys(word.strip() for word in options.format.split(",") if word.strip()))
    known = ", ".join({**FORMATS, **TOGETHER})
    if foreign := [word for word in formats if word not in {**FORMATS, **TOGETHER}]:
        raise AkornError(f"--format: there is no {foreign[0]!r}, expected some of {known}")
    if not formats and not options.gif:
        raise AkornError(f"--format names nothing to write, expected some of {known}")
    if options.clusters == "auto" and options.method != "average":
        raise AkornError(f"--clusters auto needs average linkage, got --method {options.method}")
    if isinstance(options.clusters, int) and options.clusters > 256 and "png" in formats:
        raise AkornError(f"a PNG with a palette has at most 256 clusters, got {options.clusters}; use --format npz")
    return formats


def _counted(clusters: int | str) -> str:
    return f"{clusters} cluster{'' if clusters == 1 else 's'}"


def _side(options: Options, segmenter: Segmenter) -> int:
    """The side at which the model sees pictures; AkornError if patches do not fit."""
    config = segmenter.model.config
    if options.size is not None and options.size % config.patch:
        patch = config.patch
        below, above = options.size // patch * patch, -(-options.size // patch) * patch
        near = f"{below} or {above}" if below else str(above)
        raise AkornError(f"--size must be a multiple of the patch size, {patch}: got {options.size}, try {near}")
    return int(config.image_size if options.size is None else options.size)


def _clusters(options: Options, model: str, data_set: str | None) -> int | Literal["auto"]:
    from akorn.objects.data.sets import SETS

    if options.clusters is not None:
        return options.clusters
    if data_set is None:
        raise AkornError(f"--clusters is missing: the training data of {model} is unknown")
    return SETS[data_set].clusters


def _segment(
    options: Options, formats: list[str], segmenter: Segmenter, side: int, clusters: int | Literal["auto"], name: str,
    prefix: str, owners: dict[str, str], together: _Together,
) -> None:  # fmt: skip
    """One picture, from its file to its masks. Pictures are processed one by one, so masks do not depend on others."""
    from akorn.objects.colouring import background_first
    from akorn.objects.data.fitting import stretch_mask
    from akorn.objects.model_input import read_picture

    picture = read_picture(name, side, segmenter.model.config.image_channels, resize=options.resize)
    owner = owners.setdefault(prefix, name)
    if owner != name:
        raise AkornError(f"{name}: its files would have the same names as those of {owner}")
    if clusters == "auto" and _is_plain(picture):  # its tree would divide what differs only by the oscillators' start
        clusters = 1
    mask = segmenter.segment(picture.pixels[None], clusters, original=_reduced(picture))[0].cpu().numpy()
    fewer = isinstance(clusters, str) or segmenter.settings.least > 0 or segmenter.settings.edges > 0
    count = int(mask.max()) + 1 if fewer else int(clusters)
    mask = mask.astype("int16" if count < 2**15 else "int32")  # masks of large photographs take memory
    labels = background_first(stretch_mask(mask, *picture.size))
    together.begin()
    _deliver(options, formats, segmenter, count, picture, name, prefix, labels)
    together.add(name, picture, labels)


def _is_plain(picture: Read) -> bool:
    """Whether a picture has one colour only, as the model sees it."""
    channels = picture.pixels.flatten(1).int()
    return int((channels.amax(1) - channels.amin(1)).max()) <= _PLAIN


def _reduced(picture: Read) -> Tensor:
    """The picture in its own size [1, C, H, W], bytes, with rows and columns left out if it is very large."""
    import torch

    step = -(-max(picture.size) // _MOST_SIDE)
    return torch.from_numpy(picture.original[None, :, ::step, ::step].copy())


class _Together:
    """What is written once for all pictures: their masks in COCO's format, and the page.

    first: a line to say before the first picture that is segmented.
    """

    def __init__(self, coco: bool, page: bool, first: str) -> None:
        self.first = first
        self.coco: dict[str, list[Any]] | None = {"images": [], "annotations": []} if coco else None
        self.page: list[Shown] | None = [] if page else None

    def begin(self) -> None:
        """Say the first line, unless it was said."""
        if self.first:
            say(self.first)
        self.first = ""

    def add(self, name: str, picture: Read, labels: NDArray[np.integer]) -> None:
        """A picture that was segmented."""
        height, width = picture.size
        if self.coco is not None:
            from akorn.objects.coco_json import annotate

            number = len(self.coco["images"]) + 1
            self.coco["images"].append({"id": number, "file_name": Path(name).name, "height": height, "width": width})
            self.coco["annotations"] += annotate(labels, number, len(self.coco["annotations"]) + 1)
        if self.page is not None:
            from akorn.objects.colouring import as_rgb, shown_overlay
            from akorn.objects.results_page import shown_picture

            step = max(1, max(height, width) // 720)  # the page shows no more than that anyway
            image, mask = picture.original[:, ::step, ::step], labels[::step, ::step]
            words = f"{_counted(int(labels.max()) + 1)}, {width} × {height} pixels"
            self.page.append(shown_picture(Path(name).name, as_rgb(image), shown_overlay(image, mask), words))

    def fail(self, name: str, reason: str) -> None:
        """A picture that could not be segmented."""
        if self.page is not None:
            from akorn.objects.results_page import Shown

            self.page.append(Shown(Path(name).name, words=reason, wrong=True))

    def write(self, folder: Path, about: str) -> None:
        """Write the files, and say where they are."""
        if self.coco is not None:
            import json

            from akorn.objects.coco_json import CATEGORY
            from akorn.runtime.files import replacing

            with replacing(folder / TOGETHER["coco"]) as temporary:
                temporary.write_text(json.dumps({**self.coco, "categories": [CATEGORY]}) + "\n", encoding="utf-8")
            say(f"wrote {folder / TOGETHER['coco']}")
        if self.page is not None:
            from akorn.objects.results_page import write_results

            say(f"wrote {write_results(folder / PAGE, self.page, about)}")


def _deliver(
    options: Options, formats: list[str], segmenter: Segmenter, clusters: int, picture: Read, name: str,
    prefix: str, labels: NDArray[np.integer],
) -> None:  # fmt: skip
    """Write the files of one picture and say so."""
    import numpy as np

    make_folder(options.out)
    paths = {kind: options.out / f"{prefix}{FORMATS[kind]}" for kind in formats if kind in FORMATS}
    if options.gif:
        paths["gif"] = options.out / f"{prefix}.gif"
    for path in paths.values():  # either all files are written or none
        check_writable(path)
        for image in options.images:  # a picture may have the name of another one's mask
            if path.exists() and os.path.exists(image) and path.samefile(image):  # Path.exists may raise
                whose = "the picture itself" if image == name else f"another input, which {name} must not replace"
                raise AkornError(f"{path}: that is {whose}; choose another folder with --out")
    for kind, path in paths.items():
        _write(kind, path, segmenter, picture, labels)
    # If a picture is smaller than the grid of patches, a cluster may have no pixel, but it still counts.
    counts = [int(np.count_nonzero(labels == number)) for number in range(max(clusters, int(labels.max()) + 1))]
    doubtful = doubts(str(options.model), segmenter.model.config, picture.size)
    if options.json:
        files: dict[str, Any] = {kind: str(path) for kind, path in paths.items()}
        print_json({"image": name, "clusters": len(counts), "pixels": counts, "files": files,
                    "changes": list(picture.changes), "model": options.model, "warnings": doubtful})  # fmt: skip
        return
    for change in (*picture.changes, *doubtful):
        say(f"{name}: {change}")
    written = ", ".join(str(path) for path in paths.values())
    print(printable(f"{name}: {_counted(len(counts))}" + (f" → {written}" if written else "")))


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
