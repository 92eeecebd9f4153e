"""`load`: any data set by its name or path. The layout of a folder or file is recognised by its content.

| layout | recognised by |
|---|---|
| a generated set | its name (`akorn data make --help` lists them), if the disk has nothing of that name |
| npz | a file `*.npz`, or a folder with `train.npz`, `valid.npz`, `test.npz`; others beside pictures are ignored |
| the multi-object benchmark | `*.tfrecords`, a file or a folder of one set's shards |
| Pascal VOC 2012 | `VOCdevkit/VOC2012`, `VOC2012`, or JPEGImages and SegmentationObject |
| COCO 2017 | `annotations/instances_*.json` |
| CLEVRTex, OOD, CAMO | scenes `CLEVRTEX_full_000123.png` below the folder |
| ImageNet | folders `train` and `val` of pictures, or `ILSVRC/Data/CLS-LOC` with them |
| pictures | a picture, or a folder with pictures anywhere below it; beside `test` or `val` they are for training |
"""

from __future__ import annotations

from pathlib import Path

from akorn.errors import AkornError
from akorn.objects.data.fitting import Fit, fitted
from akorn.objects.data.generated import Progress, check_memory, default_count, generate
from akorn.objects.data.picture_files import FileSet
from akorn.objects.data.picture_sets import Pictures
from akorn.objects.data.readers import READERS, Asked
from akorn.objects.data.sets import GENERATED, check_limit, check_split


def load(
    source: str | Path,
    split: str = "train",
    size: int | None = None,
    limit: int | None = None,
    *,
    fit: Fit = "crop",
    seed: int = 0,
    labels: bool = True,
    progress: Progress | None = None,
    device: str = "auto",
) -> Pictures | FileSet:
    """Pictures and masks of a generated set, a file or a folder.

    split: "train", "valid" or "test"; ignored for a single npz file and for folders without such parts.
    size: the side pictures are resized to, by `fit`; without it arrays stay as they are and files come in the size of
    the paper's tables. limit: only the first pictures of a file or folder; of a generated set, which is endless,
    exactly this many, by default the paper's number. seed, progress, device (where scenes are rendered): for generated
    sets. labels: false if no arrays of masks are needed, as in training; masks in files are read only on access.
    """
    part = check_split(split)
    check_limit(limit)
    expected = f"expected a file, a folder, or one of {', '.join(GENERATED)}"
    if not str(source):
        raise AkornError(f"the data's name is empty: {expected}")
    path = Path(source)
    if str(source) in GENERATED and not path.exists():
        return load_generated(
            str(source), part, size, limit, fit=fit, seed=seed, labels=labels, progress=progress, device=device
        )
    if not path.exists():
        raise AkornError(f"{source} does not exist: {expected}")
    if not path.is_file() and not path.is_dir():  # a pipe, a device
        raise AkornError(f"{source} is neither a file nor a folder: {expected}")
    asked = Asked(part, size, limit, fit, labels)
    for read in READERS.values():
        found = read(path, asked)
        if found is not None:
            return found
    raise AssertionError("the last reader reads or refuses everything")


def load_generated(
    name: str,
    split: str = "train",
    size: int | None = None,
    limit: int | None = None,
    *,
    fit: Fit = "crop",
    seed: int = 0,
    labels: bool = True,
    progress: Progress | None = None,
    device: str = "auto",
) -> Pictures:
    """`load` of a generated set, even if the disk has something of that name."""
    part = check_split(split)
    check_limit(limit)
    count = default_count(name, part) if limit is None else limit
    check_memory(name, count, size, labels=labels)
    arrays = generate(name, part, count, seed, labels=labels, progress=progress, device=device)
    return arrays if size is None else fitted(arrays, size, fit)
