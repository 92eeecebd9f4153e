"""Valid data sets as folders and TFRecords, as small as they can be."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

PICTURES = 65  # of the TFRecord file: the first 64 are set aside
COCO, VOC = "coco/annotations/instances_val2017.json", "VOC2012"
SCENES, TINY, RECORDS = "scenes", "tiny-imagenet-200", "blocks.tfrecords"


def write_sets() -> None:
    """Write COCO, VOC, CLEVRTex, Tiny-ImageNet and Tetrominoes into this folder."""
    import numpy as np
    from PIL import Image

    generator = np.random.default_rng(2)
    masks = np.zeros((16, 16), dtype=np.uint8)
    masks[:8, :8], masks[10:, 10:] = 1, 2

    def picture(path: str, pixels: object = None) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        drawn = generator.integers(0, 255, (16, 16, 3), dtype=np.uint8) if pixels is None else np.asarray(pixels)
        Image.fromarray(drawn).save(path)

    picture("coco/val2017/000001.jpg")
    Path(COCO).parent.mkdir()
    Path(COCO).write_text(json.dumps(_instances()))
    picture(f"{VOC}/JPEGImages/one.jpg")
    for kind in ("SegmentationObject", "SegmentationClass"):
        picture(f"{VOC}/{kind}/one.png", masks)
    Path(VOC, "ImageSets/Segmentation").mkdir(parents=True)
    Path(VOC, "ImageSets/Segmentation/val.txt").write_text("one\n")
    for number in range(10):
        picture(f"{SCENES}/CLEVRTEX_full_{number:06}.png")
    picture(f"{SCENES}/CLEVRTEX_full_000000_flat.png", masks)
    for name in ("n1", "n2"):
        picture(f"{TINY}/train/{name}/images/a.png")
        picture(f"{TINY}/val/images/{name}.png")
    Path(TINY, "val/val_annotations.txt").write_text("n1.png\tn1\t0\t0\t1\t1\nn2.png\tn2\t0\t0\t1\t1\n")
    Path(RECORDS).write_bytes(gzip.compress(framed([example()] * PICTURES)))


def _instances() -> dict[str, object]:
    square = [0, 0, 8, 0, 8, 8, 0, 8]
    return {
        "images": [{"id": 1, "file_name": "000001.jpg", "height": 16, "width": 16}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 3, "iscrowd": 0, "segmentation": [square]},
            {"id": 2, "image_id": 1, "category_id": 4, "iscrowd": 1,
             "segmentation": {"size": [16, 16], "counts": [200, 56]}},
        ],
        "categories": [{"id": 3, "name": "car"}, {"id": 4, "name": "motorcycle"}],
    }  # fmt: skip


def framed(messages: list[bytes]) -> bytes:
    """Messages as a TFRecord file, with their checksums."""
    from akorn.objects.data.tfrecord import checksum

    parts = []
    for message in messages:
        length = len(message).to_bytes(8, "little")
        parts += [length, checksum(length), message, checksum(message)]
    return b"".join(parts)


def example() -> bytes:
    """A picture of Tetrominoes as a protocol buffer: 35 × 35 pixels and the masks of four entities."""
    pixels = 35 * 35
    masks = bytes(255 * (place * 4 // pixels == entity) for entity in range(4) for place in range(pixels))
    features = {"image": bytes(range(245)) * 15, "mask": masks}
    entries = b"".join(_field(1, _field(1, name.encode()) + _field(2, _field(1, _field(1, data))))
                       for name, data in features.items())  # fmt: skip
    return _field(1, entries)


def _field(number: int, content: bytes) -> bytes:
    """A field of a protocol buffer with its length."""
    length, left = bytearray(), len(content)
    while left > 127:
        length.append(left & 127 | 128)
        left >>= 7
    return bytes([number << 3 | 2]) + bytes([*length, left]) + content
