"""`load`: any data set by its name or path. Which layout a folder or file has, its content tells.

| layout | recognised by |
|---|---|
| a generated set | the names shapes, tetrominoes, dsprites, where the disk has nothing of that name |
| npz | a file `*.npz`, or a folder with `train.npz`, `valid.npz`, `test.npz`; others beside pictures are left alone |
| the multi-object benchmark | `*.tfrecords`, a file or a folder of one set's shards |
| Pascal VOC 2012 | `VOCdevkit/VOC2012`, `VOC2012`, or JPEGImages and SegmentationObject |
| COCO 2017 | `annotations/instances_*.json` |
| CLEVRTex, OOD, CAMO | scenes `CLEVRTEX_full_000123.png` below the folder |
| ImageNet | folders `train` and `val` of pictures, or `ILSVRC/Data/CLS-LOC` with them |
| pictures | a picture, or a folder with pictures anywhere below it; beside `test` or `val` they are for training |
"""

from __future__ import annotations

import logging
from pathlib import Path

from akorn.errors import AkornError
from akorn.objects.data import clevrtex, coco, picture_files, voc
from akorn.objects.data.fitting import Fit, fitted
from akorn.objects.data.generated import Progress, check_memory, default_count, generate
from akorn.objects.data.multiobject import is_shard, read_multiobject
from akorn.objects.data.npz import read_npz
from akorn.objects.data.picture_sets import Pictures
from akorn.objects.data.sets import ALIASES, GENERATED, Split, check_limit, check_split

_KNOWN = "npz or TFRecord files, VOC, COCO, CLEVRTex, ImageNet, or any pictures"


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
) -> Pictures | picture_files.FileSet:
    """Pictures and masks of a generated set, a file or a folder.

    split: "train", "valid" or "test"; a single npz file, and a folder of pictures without such parts, is what it is.
    size: the side pictures are resized to, by `fit`; without it arrays stay as they are and files come in the size of
    the paper's tables. limit: of a file or folder at most so many, the first ones; of a generated set, which has no
    end, exactly so many, by default the paper's number. seed, progress: of a generated set. labels: false where arrays
    of masks need not be made, as for training; masks in files are read only when they are asked for.
    """
    part = check_split(split)
    check_limit(limit)
    expected = f"expected a file, a folder, or one of {', '.join(GENERATED)}"
    if not str(source):
        raise AkornError(f"the data's name is empty: {expected}")
    path = Path(source)
    if str(source) in GENERATED and not path.exists():
        return load_generated(str(source), part, size, limit, fit=fit, seed=seed, labels=labels, progress=progress)
    if not path.exists():
        raise AkornError(f"{source} does not exist: {expected}")
    if not path.is_file() and not path.is_dir():  # a pipe, a device
        raise AkornError(f"{source} is neither a file nor a folder: {expected}")
    found = _from_file(path, part, limit, labels) if path.is_file() else _arrays_in(path, part, limit, labels)
    if found is not None:
        return found if size is None else fitted(found, size, fit)
    if path.is_file():
        return picture_files.FileSet(path.parent, [path], "imagenet", size, fit)
    return _pictures_in(path, part, size, limit, fit)


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
) -> Pictures:
    """`load` of a generated set, whatever the disk has under that name."""
    part = check_split(split)
    check_limit(limit)
    count = default_count(name, part) if limit is None else limit
    check_memory(name, count, size, labels=labels)
    arrays = generate(name, part, count, seed, labels=labels, progress=progress)
    return arrays if size is None else fitted(arrays, size, fit)


def _from_file(path: Path, split: Split, limit: int | None, labels: bool) -> Pictures | None:
    if path.suffix.lower() == ".npz":
        return read_npz(path, limit, labels)
    if is_shard(path):
        return read_multiobject([path], split, limit, labels)
    if path.suffix.lower() in picture_files.ENDINGS:
        return None
    raise AkornError(f"{path} is of no known kind: expected {_KNOWN}")


def _arrays_in(folder: Path, split: Split, limit: int | None, labels: bool) -> Pictures | None:
    """What npz or TFRecord files of a folder hold; None where it has neither, or pictures beside files of no split."""
    archives = sorted(folder.glob("*.npz"))
    if archives:
        for ending in ALIASES[split]:
            named = [path for path in archives if _is_named(path, ending)]
            if len(named) == 1:
                return read_npz(named[0], limit, labels)
            if named:
                raise AkornError(f"{folder} has several files for {split}: {', '.join(path.name for path in named)}")
        said = ", ".join(path.name for path in archives)
        pictures = bool(picture_files.find_pictures(folder, 1))
        every = [part for parts in ALIASES.values() for part in parts]
        if pictures and not any(_is_named(path, part) for path in archives for part in every):
            logging.getLogger(__name__).warning("%s: its pictures are read, not %s", folder, said)
            return None
        beside = ", or a folder with nothing but the pictures" if pictures else ""
        raise AkornError(
            f"{folder} has no split {split!r}: expected {split}.npz, found {said}; name the file that is meant{beside}"
        )
    shards = sorted(path for path in folder.iterdir() if path.is_file() and is_shard(path))
    if not shards:
        return None
    sets = {path.name.partition(".tfrecord")[0] for path in shards}
    if len(sets) > 1:
        raise AkornError(f"{folder} has TFRecord files of several sets ({', '.join(sorted(sets))}): name one of them")
    return read_multiobject(shards, split, limit, labels)


def _is_named(path: Path, part: str) -> bool:
    """Whether a file's name is that of a part of the data."""
    return path.stem == part or path.stem.endswith((f"_{part}", f"-{part}"))


def _pictures_in(folder: Path, split: Split, size: int | None, limit: int | None, fit: Fit) -> picture_files.FileSet:
    if voc.find_voc(folder) is not None:
        return voc.read_voc(folder, split, size, limit, fit)
    if coco.is_coco(folder):
        return coco.read_coco(folder, split, size, limit, fit)
    if clevrtex.has_scenes(folder):
        return clevrtex.read_clevrtex(folder, split, size, limit, fit)
    root = folder
    for place in ("ILSVRC/Data/CLS-LOC", "Data/CLS-LOC"):
        if (folder / place).is_dir():
            root = folder / place
    parts = [alias for aliases in ALIASES.values() for alias in aliases if (root / alias).is_dir()]
    mine = [alias for alias in ALIASES[split] if alias in parts]
    if mine:
        root = root / mine[0]
    elif parts:  # what lies beside the pictures of other parts is for training
        paths = picture_files.find_pictures(root, limit, parts) if split == "train" else []
        said = ", ".join(sorted(parts))
        if not paths:
            raise AkornError(f"{folder} has no split {split!r}: found {said}; name the folder that is meant")
        logging.getLogger(__name__).warning("%s: its pictures are read without those in %s", folder, said)
        return picture_files.FileSet(root, paths, "imagenet", size, fit)
    paths = picture_files.find_pictures(root, limit)
    if not paths:
        raise AkornError(f"{root} holds nothing that can be read: expected {_KNOWN}")
    return picture_files.FileSet(root, paths, "imagenet", size, fit)
