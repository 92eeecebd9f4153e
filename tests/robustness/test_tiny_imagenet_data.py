"""Tiny-ImageNet is read from its usual folders; anything missing, cut short or of another kind is reported in one
line.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from akorn.cli import main
from akorn.errors import AkornError
from akorn.robustness.data import load_tiny_imagenet


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Two classes of two pictures, and three for validation; each picture of one colour."""
    root = tmp_path / "tiny-imagenet-200"
    for wnid, colours in (("n02", [(200, 10, 10), 128]), ("n01", [(10, 200, 10), (10, 10, 200)])):
        folder = root / "train" / wnid / "images"
        folder.mkdir(parents=True)
        for number, colour in enumerate(colours):
            save(folder / f"{wnid}_{number}.JPEG", colour)
    (root / "val" / "images").mkdir(parents=True)
    for number in range(3):
        save(root / "val" / "images" / f"val_{number}.JPEG", (60 * number, 0, 0))
    lines = ["val_2.JPEG\tn02\t0\t0\t1\t1", "val_0.JPEG\tn01\t0\t0\t1\t1", ""]
    (root / "val" / "val_annotations.txt").write_text("\n".join(lines))
    return root


def save(path: Path, colour: Any) -> None:
    buffer = io.BytesIO()
    Image.new("L" if isinstance(colour, int) else "RGB", (64, 64), colour).save(buffer, "JPEG", quality=95)
    path.write_bytes(buffer.getvalue())


@pytest.mark.parametrize("size", [32, 64])
def test_tiny_imagenet(tiny: Path, size: int) -> None:
    seen = []
    train = load_tiny_imagenet(tiny.parent, "train", size, progress=lambda done, count: seen.append((done, count)))
    assert train.classes == ("n01", "n02")
    assert train.labels.tolist() == [0, 0, 1, 1]
    assert train.images.shape == (4, 3, size, size)
    wanted = torch.tensor([[10, 200, 10], [10, 10, 200], [200, 10, 10], [128, 128, 128]])
    assert (train.images.float().mean((2, 3)) - wanted).abs().max() < 4  # JPEG
    assert seen == [(4, 4)]
    val = load_tiny_imagenet(tiny, "val", size)
    assert val.labels.tolist() == [1, 0]
    assert (val.images[:, 0].float().mean((1, 2)) - torch.tensor([120.0, 0])).abs().max() < 4


def test_half_size_is_the_mean_of_four_pixels(tiny: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tiny / "train" / "n01" / "images" / "a.png")
    found = load_tiny_imagenet(tiny, "train").images[0].permute(1, 2, 0).numpy()
    means = pixels.reshape(32, 2, 32, 2, 3).astype(float).mean((1, 3))
    assert np.abs(found - means).max() <= 1  # Pillow rounds after the rows and after the columns


def test_bad_tiny_imagenets_are_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(AkornError, match="does not exist"):
        load_tiny_imagenet(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(AkornError, match="file is not a folder"):
        load_tiny_imagenet(tmp_path / "file")
    empty = tmp_path / "empty"
    (empty / "train").mkdir(parents=True)
    with pytest.raises(AkornError, match="has no folder in it"):
        load_tiny_imagenet(empty)
    (empty / "train").rmdir()
    with pytest.raises(AkornError, match="has no train folder"):
        load_tiny_imagenet(empty)
    with pytest.raises(ValueError, match="split must be train or val"):
        load_tiny_imagenet(tiny, "test")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size must be at least 1"):
        load_tiny_imagenet(tiny, size=0)
    listing = tiny / "val" / "val_annotations.txt"
    for line, message in (
        ("val_0.JPEG\tn99", "line 1: the class 'n99' has no folder"),
        ("../train/x.JPEG\tn01", "line 1: '../train/x.JPEG' is not a file name"),
        ("val_9.JPEG\tn01", r"val_9.JPEG cannot be read as a picture"),
        ("", "lists no picture"),
    ):
        listing.write_text(line)
        with pytest.raises(AkornError, match=message):
            load_tiny_imagenet(tiny, "val")
    listing.unlink()
    with pytest.raises(AkornError, match=r"val_annotations.txt cannot be read"):
        load_tiny_imagenet(tiny, "val")
    picture = tiny / "train" / "n01" / "images" / "n01_0.JPEG"
    picture.write_bytes(picture.read_bytes()[:300])
    with pytest.raises(AkornError, match=r"n01_0.JPEG cannot be read as a picture"):
        load_tiny_imagenet(tiny)
    Image.new("RGB", (64, 32)).save(picture)
    with pytest.raises(AkornError, match="64 × 32, expected a square picture"):
        load_tiny_imagenet(tiny)
    for path in picture.parent.iterdir():
        path.unlink()
    with pytest.raises(AkornError, match="has no picture in it"):
        load_tiny_imagenet(tiny)
    picture.parent.rmdir()
    with pytest.raises(AkornError, match="images does not exist"):
        load_tiny_imagenet(tiny)


def test_a_pack_is_the_folder(tiny: Path, tmp_path: Path) -> None:
    words = ["data", "pack", str(tiny), str(tmp_path / "tiny.pack"), "--size", "64", "--quality", "100"]
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 0
    file = tmp_path / "tiny.pack"
    packed, folder = load_tiny_imagenet(file, size=32), load_tiny_imagenet(tiny, size=32)
    assert packed.classes == folder.classes
    assert bool((packed.labels == folder.labels).all())
    assert bool((packed.images == folder.images).all())
    with pytest.raises(AkornError, match="not those of 'val'"):
        load_tiny_imagenet(file, "val")
