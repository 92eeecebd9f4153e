"""Masks in COCO's format: one annotation per cluster, as run lengths. The background has no annotation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CATEGORY = {"id": 1, "name": "object", "supercategory": "object"}


def annotate(labels: NDArray[np.integer], image_id: int, first_id: int) -> list[dict[str, Any]]:
    """The clusters 1 and up of a mask [H, W], numbered from `first_id`; a cluster without a pixel has none."""
    height, width = labels.shape
    flat = labels.T.reshape(-1)  # down the columns, one after the other
    starts = np.concatenate(([0], np.flatnonzero(flat[1:] != flat[:-1]) + 1))
    ends, values = np.append(starts[1:], flat.size), flat[starts]
    found: list[dict[str, Any]] = []
    for number in range(1, int(labels.max(initial=0)) + 1):
        inside = values == number
        if not inside.any():
            continue
        region = labels == number
        rows, columns = region.any(1).nonzero()[0], region.any(0).nonzero()[0]
        top, left = int(rows[0]), int(columns[0])
        counts = run_lengths(starts[inside], ends[inside], flat.size)
        found.append(
            {
                "id": first_id + len(found),
                "image_id": image_id,
                "category_id": CATEGORY["id"],
                "segmentation": {"size": [height, width], "counts": encode_counts(counts)},
                "area": sum(counts[1::2]),
                "bbox": [left, top, int(columns[-1]) - left + 1, int(rows[-1]) - top + 1],
                "iscrowd": 0,
            }
        )
    return found


def run_lengths(starts: NDArray[np.integer], ends: NDArray[np.integer], total: int) -> list[int]:
    """Numbers of pixels outside and inside in turn, beginning outside, for pieces from `starts` to before `ends`."""
    edges = np.concatenate(([0], np.stack((starts, ends), 1).reshape(-1), [total]))
    counts: list[int] = np.diff(edges).tolist()
    return counts if counts[-1] else counts[:-1]


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
