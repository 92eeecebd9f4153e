"""A small copy of Pascal VOC for several test files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    """VOC's layout: two pictures for training, two for testing, one without masks."""
    root = tmp_path / "VOCdevkit" / "VOC2012"
    for part in ("JPEGImages", "SegmentationObject", "SegmentationClass", "ImageSets/Segmentation"):
        (root / part).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(5):
        pixels = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(root / "JPEGImages" / f"p{number}.jpg")
        if number < 4:
            labels = np.zeros((32, 32), np.uint8)
            labels[4:12, 4:12], labels[20:30, 20:30] = 1, 2
            labels[12:14, 4:12] = 255  # the seam
            for kind, mask in (("SegmentationObject", labels), ("SegmentationClass", np.where(labels == 2, 1, labels))):
                picture = Image.fromarray(mask.astype(np.uint8), "P")
                picture.putpalette(list(range(256)) * 3)
                picture.save(root / kind / f"p{number}.png")
    (root / "ImageSets/Segmentation/train.txt").write_text("p0\np1\n")
    (root / "ImageSets/Segmentation/val.txt").write_text("p2\np3\n")
    return tmp_path
