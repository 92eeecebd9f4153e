"""Rendered scenes as files, for `akorn data make clevr` and the like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from akorn.objects.data.sets import SETS, Split

if TYPE_CHECKING:
    from akorn.objects.commands.make import Options
    from akorn.objects.data.npz import NpzParts
    from akorn.runtime.progress import Bar
    from akorn.scenes.studio import Studio


def make_scenes(options: Options, counts: Mapping[Split, int], files: Mapping[Split, Path]) -> None:
    """Render scenes into `files`, in batches: memory does not grow with their number.

    Beside each npz file there is one with a line of JSON for each scene: its objects, camera and lamps.
    """
    from akorn.objects.data.npz import NpzParts
    from akorn.objects.data.scenes import renderer_device
    from akorn.runtime.progress import progress_bar
    from akorn.scenes.families import family_of
    from akorn.scenes.render import SAMPLES
    from akorn.scenes.studio import Studio

    device = renderer_device(options.device)
    family = family_of(options.name, options.objects)
    size = SETS[options.name].size if options.size is None else options.size
    samples = SAMPLES if options.samples is None else options.samples
    total = sum(counts.values())
    with progress_bar(f"{total} scenes of {options.name}", total) as bar:
        for split, file in files.items():
            studio = Studio(family, split, options.seed, device, size, samples)
            clusters = max(SETS[options.name].clusters, family.most + 1)
            made = _made(studio, split, options.seed)
            with (
                NpzParts(file, counts[split], clusters, options.name, made) as parts,
                open(parts.beside(described(file)), "w", encoding="utf-8") as lines,
            ):
                _write(studio, counts[split], options.geometry, parts, lines, bar)


def described(file: Path) -> Path:
    """The file with the scenes' descriptions beside an npz file."""
    return file.with_name(f"{file.stem}-scenes.jsonl")


def _made(studio: Studio, split: Split, seed: int) -> dict[str, object]:
    """What the pictures depend on, for their file."""
    family = studio.family
    return {
        "scenes": family.name, "split": split, "seed": seed, "objects": [family.least, family.most],
        "samples": studio.samples, "size": len(studio.view.rows),
    }  # fmt: skip


def _write(studio: Studio, count: int, geometry: bool, parts: NpzParts, lines: TextIO, bar: Bar) -> None:
    """Render `count` scenes batch by batch."""
    import numpy as np

    from akorn.objects.data.scenes import batches

    for _, shots in batches(studio, 0, count, geometry=geometry):
        assert shots.labels is not None
        arrays = {"images": shots.images.cpu().numpy(), "labels": shots.labels.cpu().numpy().astype(np.int8)}
        if shots.depth is not None and shots.normals is not None:
            arrays["depth"] = shots.depth.cpu().numpy().astype(np.float16)
            arrays["normals"] = (shots.normals * 127).round().cpu().numpy().astype(np.int8)
        parts.add(arrays)
        for b in range(len(shots.images)):
            lines.write(json.dumps(shots.drafts.described(b)) + "\n")
        bar.advance(len(shots.images))
