"""Masks in COCO's format: one annotation per cluster, as run lengths. The background is no annotation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CATEGORY = {"id": 1, "name": "object", "supercategory": "object"}


def annotate(labels: NDArray[np.integer], image_id: int, first_id: int) -> list[dict[str, Any]]:
    """The clusters 1 and up of a mask [H, W], numbered from `first_id`; a cluster without a pixel has none."""
    height, width = labels.shape
    found: list[dict[str, Any]] = []
    for number in range(1, int(labels.max(initial=0)) + 1):
        region = labels == number
        rows, columns = region.any(1).nonzero()[0], region.any(0).nonzero()[0]
        if not len(rows):
            continue
        top, left = int(rows[0]), int(columns[0])
        found.append(
            {
                "id": first_id + len(found),
                "image_id": image_id,
                "category_id": CATEGORY["id"],
                "segmentation": {"size": [height, width], "counts": encode_counts(run_lengths(region))},
                "area": int(np.count_nonzero(region)),
                "bbox": [left, top, int(columns[-1]) - left + 1, int(rows[-1]) - top + 1],
                "iscrowd": 0,
            }
        )
    return found


def run_lengths(region: NDArray[np.bool_]) -> list[int]:
    """Numbers of pixels outside and inside in turn, beginning outside, down the columns one after the other."""
    flat = region.T.reshape(-1)
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    ends = np.concatenate(([0] if not flat[:1].any() else [0, 0], changes, [flat.size]))
    return np.diff(ends).tolist() if flat.size else []


def encode_counts(counts: list[int]) -> str:
    """Run lengths in COCO's text form, which `decode_counts` reads: five bits per character, the lowest first.

    From the fourth on, numbers are differences from the one two before.
    """
    letters: list[str] = []
    for place, count in enumerate(counts):
        value = count - counts[place - 2] if place > 2 else count
        while True:
            bits = value & 31
            value >>= 5
            more = value != (-1 if bits & 16 else 0)
            letters.append(chr(ord("0") + (bits | 32 if more else bits)))
            if not more:
                break
    return "".join(letters)
