"""Tiny-ImageNet from its folders or a pack, for pre-training: 200 classes of 64 × 64 pictures, read into bytes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from akorn.errors import AkornError
from akorn.robustness.data.labelled_pictures import Pictures
from akorn.runtime.packs import SUFFIX, Pack, parts_of

_ENDINGS = (".jpeg", ".jpg", ".png")


def load_tiny_imagenet(
    folder: str | Path,
    split: Literal["train", "val"] = "train",
    size: int = 32,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Pictures:
    """The pictures of a split, [B, 3, size, size], as bytes; labels are places in the sorted list of class names
    (wnids).

    folder: `tiny-imagenet-200`, or the folder that holds it, with `train/WNID/images/*.JPEG`, and `val/images/*.JPEG`
    listed in `val/val_annotations.txt`; or a file, a pack of the training pictures (`akorn data pack`). size: 64 as
    they are, 32 to match CIFAR-10 (each pixel is the mean of four), or any other (Pillow's box filter). Grey pictures
    become grey in three colours. `progress(done, count)` is called as pictures are read. AkornError if something is
    missing or unreadable.
    """
    if split not in ("train", "val"):
        raise ValueError(f"split must be train or val, got {split!r}")
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}")
    if Path(folder).suffix == SUFFIX and Path(folder).is_file():
        if split != "train":
            raise AkornError(f"{folder}: a pack has training pictures, not those of {split!r}")
        return _from_pack(Path(folder), size, workers, progress)
    root = _find(Path(folder))
    classes = tuple(sorted(entry.name for entry in (root / "train").iterdir() if entry.is_dir()))
    if not classes:
        raise AkornError(f"{root / 'train'} has no folder in it: expected one per class, such as n01443537")
    files = _train_files(root, classes) if split == "train" else _val_files(root, classes)
    images = _read_all(len(files), lambda place: _read(files[place][0], size), size, workers, progress)
    labels = torch.tensor([label for _, label in files], dtype=torch.int64)
    return Pictures(torch.from_numpy(images), labels, classes)


def _read_all(
    count: int,
    read: Callable[[int], NDArray[np.uint8]],
    size: int,
    workers: int | None,
    progress: Callable[[int, int], None] | None,
) -> NDArray[np.uint8]:
    """All pictures [count, 3, size, size], read by threads, since Pillow releases Python's lock while it decodes."""
    images = np.empty((count, 3, size, size), dtype=np.uint8)
    done = 0
    with ThreadPoolExecutor(workers or cpu_count() or 1) as pool:
        # A block of pictures per task, to keep the queue short.
        blocks = [range(start, min(start + 256, count)) for start in range(0, count, 256)]
        tasks = [pool.submit(lambda block: np.stack([read(place) for place in block]), block) for block in blocks]
        try:
            for block, task in zip(blocks, tasks, strict=True):
                images[block.start : block.stop] = task.result()
                done += len(block)
                if progress is not None:
                    progress(done, count)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return images


def _from_pack(path: Path, size: int, workers: int | None, progress: Callable[[int, int], None] | None) -> Pictures:
    """The pictures of a pack; their names give the classes: WNID/images/NAME.JPEG, perhaps below train."""
    packs = [Pack(file) for file in parts_of(path)]
    places = [(pack, number) for pack in packs for number in range(len(pack))]
    wnids = [_class_of(path, pack.names[number]) for pack, number in places]
    classes = tuple(sorted(set(wnids)))
    label = {wnid: number for number, wnid in enumerate(classes)}

    def read(place: int) -> NDArray[np.uint8]:
        pack, number = places[place]
        return _fitted(pack.picture(number), size, f"{pack.path}, {pack.names[number]}")

    images = _read_all(len(places), read, size, workers, progress)
    labels = torch.tensor([label[wnid] for wnid in wnids], dtype=torch.int64)
    return Pictures(torch.from_numpy(images), labels, classes)


def _class_of(path: Path, name: str) -> str:
    parts = Path(name).parts
    parts = parts[1:] if parts[:1] == ("train",) else parts
    if len(parts) < 2:
        raise AkornError(f"{path}: its picture {name!r} has no class, expected names such as WNID/images/NAME.JPEG")
    return parts[0]


def _find(path: Path) -> Path:
    for root in (path, path / "tiny-imagenet-200"):
        if (root / "train").is_dir():
            return root
    if not path.is_dir():
        wrong = "is not a folder" if path.exists() else "does not exist"
        raise AkornError(f"{path} {wrong}: expected the folder tiny-imagenet-200")
    raise AkornError(f"{path} has no train folder: expected tiny-imagenet-200, with train/WNID/images/*.JPEG")


def _train_files(root: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    files = []
    for label, wnid in enumerate(classes):
        folder = root / "train" / wnid / "images"
        if not folder.is_dir():
            raise AkornError(f"{folder} does not exist: expected train/WNID/images/*.JPEG")
        found = sorted(path for path in folder.iterdir() if path.suffix.lower() in _ENDINGS)
        if not found:
            raise AkornError(f"{folder} has no picture in it")
        files += [(path, label) for path in found]
    return files


def _val_files(root: Path, classes: tuple[str, ...]) -> list[tuple[Path, int]]:
    """The pictures that val_annotations.txt lists: a line has the file's name, a tab, the wnid, and a box."""
    listing = root / "val" / "val_annotations.txt"
    try:
        lines = listing.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AkornError(f"{listing} cannot be read ({error}): it says which class each picture has") from None
    label = {wnid: number for number, wnid in enumerate(classes)}
    files = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, _, rest = line.partition("\t")
        wnid = rest.split("\t")[0].strip()
        if wnid not in label:
            raise AkornError(f"{listing}, line {number}: the class {wnid!r} has no folder in {root / 'train'}")
        if Path(name).name != name or not name:
            raise AkornError(f"{listing}, line {number}: {name!r} is not a file name")
        files.append((root / "val" / "images" / name, label[wnid]))
    if not files:
        raise AkornError(f"{listing} lists no picture")
    return files


def _read(path: Path, size: int) -> NDArray[np.uint8]:
    """One picture, [3, size, size]."""
    try:
        with Image.open(path) as picture:
            return _fitted(picture, size, str(path))
    except AkornError:
        raise
    except Exception as error:  # missing, cut short, not a picture: Pillow and the codecs fail in many ways
        raise AkornError(f"{path} cannot be read as a picture ({error})") from None


def _fitted(picture: Image.Image, size: int, where: str) -> NDArray[np.uint8]:
    """A square picture as [3, size, size]."""
    if picture.width != picture.height:
        raise AkornError(f"{where} is {picture.width} × {picture.height}, expected a square picture")
    colours = picture.convert("RGB")
    if colours.width != size:
        colours = colours.resize((size, size), Image.Resampling.BOX)
    return np.asarray(colours).transpose(2, 0, 1)
