"""CLEVRTex and its variants OOD (`clevrtex_outd`) and CAMO (`clevrtex_camo`).

Anywhere below a folder there are scenes such as `CLEVRTEX_full_000123.png` and their masks,
`CLEVRTEX_full_000123_flat.png`. As in the benchmark, the middle 0.8 of a scene is kept (192 of 240 pixels), in 128×128;
the first tenth of the scenes is for testing, the second for validation, the rest for training (5,000, 5,000 and 40,000
of the full set; 2,000 of CAMO for testing), and all 10,000 of OOD are for testing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from akorn.errors import AkornError
from akorn.objects.data.fitting import Fit
from akorn.objects.data.picture_files import FileSet, open_mask
from akorn.objects.data.picture_sets import Mask
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.scenes import rendered
from akorn.objects.data.sets import SETS, DataSet, Split

NAMES: Mapping[str, str] = {"full": "clevrtex", "outd": "clevrtex-ood", "camo": "clevrtex-camo"}
# As many as the published sets have; ours are rendered if no folder is given.
_COUNTS = {"full": (40_000, 5_000, 5_000), "outd": (10_000, 1_000, 10_000), "camo": (16_000, 2_000, 2_000)}
for _variant, _name in NAMES.items():
    SETS.register(_name, DataSet(clusters=11, size=128, counts=_COUNTS[_variant], render=rendered(_name)))
_SCENE = re.compile(r"CLEVRTEX_([a-z]+)_(\d+)\.png")
_TENTHS: Mapping[Split, tuple[int, int]] = {"test": (0, 1), "valid": (1, 2), "train": (2, 10)}


class CLEVRTexSet(FileSet):
    """Scenes and the masks of their objects."""

    zoom = 0.8
    turn = False

    def masks(self, index: int) -> tuple[Mask | None, Mask | None]:
        """The labels of the scene's objects, 1 to 10."""
        path = self.paths[index].with_name(f"{self.paths[index].stem}_flat.png")
        if not path.exists():
            raise AkornError(f"{path} does not exist: expected the masks of {self.paths[index].name}")
        return open_mask(path), None


@READERS.add("CLEVRTex")
def open_clevrtex(path: Path, asked: Asked) -> CLEVRTexSet | None:
    """The scenes of a split; None if the folder has none."""
    if path.is_file() or not has_scenes(path):
        return None
    return read_clevrtex(path, asked.split, asked.size, asked.limit, asked.fit)


def read_clevrtex(
    folder: Path, split: Split = "train", size: int | None = None, limit: int | None = None, fit: Fit = "crop"
) -> CLEVRTexSet:
    """The scenes of a split, in the order of their numbers."""
    scenes = _scenes(folder)
    variants = {variant for variant, _, _ in scenes}
    if len(variants) != 1:
        said = f"scenes of {', '.join(sorted(variants))}" if variants else "no scene CLEVRTEX_full_000000.png"
        raise AkornError(f"{folder} has {said}: expected one of clevrtex_full, clevrtex_outd and clevrtex_camo")
    variant = variants.pop()
    if variant not in NAMES:
        raise AkornError(f"{folder} holds the variant {variant!r} of CLEVRTex, expected one of {', '.join(NAMES)}")
    low, high = (tenths * len(scenes) // 10 for tenths in _TENTHS[split])
    if variant == "outd":
        low, high = (0, len(scenes)) if split == "test" else (0, 0)
    chosen = [path for _, _, path in sorted(scenes)[low:high]][:limit]
    if not chosen:
        raise AkornError(f"{folder} has no split {split!r}: its {len(scenes)} scenes of {variant!r} leave none for it")
    return CLEVRTexSet(folder, chosen, NAMES[variant], size, fit)


def has_scenes(folder: Path) -> bool:
    """Whether the folder or its first subfolders contain a scene."""
    for number, (_, folders, names) in enumerate(os.walk(folder)):
        folders.sort()
        if any(_SCENE.fullmatch(name) for name in names):
            return True
        if number > 8 or any(name.lower().endswith((".jpg", ".jpeg")) for name in names):
            return False
    return False


def _scenes(folder: Path) -> list[tuple[str, int, Path]]:
    """Variant, number and file of every scene."""
    matches = ((_SCENE.fullmatch(name), here) for here, _, names in os.walk(folder, followlinks=True) for name in names)
    return [(match[1], int(match[2]), Path(here, match[0])) for match, here in matches if match]
