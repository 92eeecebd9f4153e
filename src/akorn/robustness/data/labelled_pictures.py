"""A set of labelled pictures, kept as bytes on any device."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Pictures:
    """Pictures of one size, each with a label."""

    images: Tensor  # uint8 [B, 3, H, W]
    labels: Tensor  # int64 [B]
    classes: tuple[str, ...]  # what the labels mean

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.images.ndim != 4 or self.images.shape[1] != 3:
            got = f"{self.images.dtype} {list(self.images.shape)}"
            raise ValueError(f"images must be uint8 [B, 3, H, W], from 0 to 255, got {got}")
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(
                f"labels must be int64 [{len(self.images)}], got {self.labels.dtype} {list(self.labels.shape)}"
            )

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device | str) -> Pictures:
        """The same pictures on that device, still as bytes."""
        return replace(self, images=self.images.to(device), labels=self.labels.to(device))

    def take(self, indices: Tensor | slice) -> Pictures:
        """Some of the pictures, in the order of `indices`."""
        return replace(self, images=self.images[indices], labels=self.labels[indices])

    def fingerprint(self) -> str:
        """SHA-256 of the shape, all pictures and all labels in their order, wherever they are."""
        digest = hashlib.sha256(str(list(self.images.shape)).encode())
        for part in (self.images, self.labels):
            digest.update(part.cpu().contiguous().numpy().data)
        return digest.hexdigest()
