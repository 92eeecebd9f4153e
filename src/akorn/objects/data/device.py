"""Pictures for the training device: stored there as bytes if they fit, otherwise streamed from files by threads."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from akorn.objects.data.picture_sets import Indices, Pictures, PictureSet

Progress = Callable[[int, int], None]

_SHARE = 0.5  # share of the device's free memory for pictures
_TOGETHER = 256  # pictures read at once when all are read


class DeviceData:
    """Pictures as bytes on a device; `data[indices]` is the batch uint8 [B, C, H, W], which stays bytes."""

    def __init__(self, images: NDArray[np.uint8] | Tensor, device: torch.device | str = "cpu") -> None:
        tensor = torch.from_numpy(images) if isinstance(images, np.ndarray) else images
        if tensor.dtype != torch.uint8 or tensor.ndim != 4 or tensor.shape[1] not in (1, 3) or not len(tensor):
            raise ValueError(f"expected bytes [N, 1 or 3, H, W], got {tensor.dtype} {list(tensor.shape)}")
        self.images = tensor.to(device)

    @classmethod
    def of(
        cls, pictures: PictureSet, device: torch.device | str = "cpu", progress: Progress | None = None
    ) -> DeviceData:
        """All pictures of a set; `progress(done, all)` is called while files are read."""
        if isinstance(pictures, Pictures):
            return cls(pictures.images, device)
        whole: Tensor | None = None
        done = 0
        with StreamedData(pictures, device) as stream:
            orders = torch.arange(len(pictures)).split(_TOGETHER)
            for batch in stream.batches(orders):
                if whole is None:
                    whole = torch.empty(len(pictures), *batch.shape[1:], dtype=torch.uint8, device=device)
                whole[done : done + len(batch)] = batch
                done += len(batch)
                if progress is not None:
                    progress(done, len(pictures))
        assert whole is not None  # no set is empty
        return cls(whole, device)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def device(self) -> torch.device:
        """The device of the pictures and of the batches."""
        return self.images.device

    def __getitem__(self, indices: Tensor) -> Tensor:
        """Pictures at `indices` [B] as bytes [B, C, H, W]."""
        return self.images[indices.to(self.device)]

    def fingerprint(self) -> str:
        """SHA-256 of the pictures, on any device."""
        digest = hashlib.sha256(repr(tuple(self.images.shape)).encode())
        for part in self.images.split(4096):
            digest.update(part.cpu().numpy().data)
        return digest.hexdigest()


class StreamedData:
    """Pictures that threads read while the device computes; batches are uint8 [B, C, H, W] on the device.

    Decoding and resizing release Python's lock, so threads share the work; a batch is gathered in pinned memory and
    copied asynchronously. `batches` reads ahead by itself. With `data[indices]`, announce the next batch by `expect`:
    an expected batch is ready, any other is read on access. Use it in a `with` block, or `close` it.
    """

    def __init__(
        self, pictures: PictureSet, device: torch.device | str = "cpu", workers: int | None = None, ahead: int = 4
    ) -> None:
        workers = min(os.cpu_count() or 1, 16) if workers is None else workers
        if workers < 1 or ahead < 1:
            raise ValueError(f"workers and ahead must be at least 1, got {workers} and {ahead}")
        self.pictures, self.device, self.ahead = pictures, torch.device(device), ahead
        self._shape = pictures.image(0).shape
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="akorn-pictures")
        self._waiting: dict[tuple[int, ...], _Batch] = {}

    def __enter__(self) -> StreamedData:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the threads and drop pending work."""
        self._waiting.clear()
        self._pool.shutdown(cancel_futures=True)

    def __len__(self) -> int:
        return len(self.pictures)

    def fingerprint(self) -> str:
        """The fingerprint of the set."""
        return self.pictures.fingerprint()

    def batches(self, orders: Iterable[Tensor | Indices]) -> Iterator[Tensor]:
        """One batch for each element of `orders`, in its order; some are read ahead."""
        queue: deque[_Batch] = deque()
        for order in orders:
            queue.append(self._begin(_key(order)))
            if len(queue) > self.ahead:
                yield queue.popleft().to(self.device)
        while queue:
            yield queue.popleft().to(self.device)

    def expect(self, indices: Tensor | Indices) -> None:
        """Start reading a batch that will be requested. If batches are never requested, the oldest are dropped."""
        key = _key(indices)
        if key not in self._waiting:
            while len(self._waiting) >= self.ahead:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[key] = self._begin(key)

    def __getitem__(self, indices: Tensor | Indices) -> Tensor:
        """Pictures at `indices` [B] as bytes [B, C, H, W]; indices on the CPU avoid waiting for the device."""
        key = _key(indices)
        return (self._waiting.pop(key, None) or self._begin(key)).to(self.device)

    def _begin(self, key: tuple[int, ...]) -> _Batch:
        pinned = self.device.type == "cuda"
        target = torch.empty(len(key), *self._shape, dtype=torch.uint8, pin_memory=pinned)
        return _Batch(target, [self._pool.submit(self._read, index, target[at]) for at, index in enumerate(key)])

    def _read(self, index: int, target: Tensor) -> None:
        image = self.pictures.image(index)
        if image.shape != self._shape:
            raise ValueError(f"picture {index} is {list(image.shape)}, but the first one is {list(self._shape)}")
        target.copy_(torch.from_numpy(image))


class _Batch:
    """A batch that is being read."""

    def __init__(self, target: Tensor, parts: list[Future[None]]) -> None:
        self.target, self.parts = target, parts

    def to(self, device: torch.device) -> Tensor:
        for part in self.parts:
            part.result()
        return self.target.to(device, non_blocking=True)


def to_device(
    pictures: PictureSet, device: torch.device | str = "cpu", progress: Progress | None = None
) -> DeviceData | StreamedData:
    """On the device if the set takes at most half of its free memory, otherwise streamed."""
    device = torch.device(device)
    needed = len(pictures) * pictures.image(0).size
    if isinstance(pictures, Pictures) and device.type != "cuda":
        return DeviceData.of(pictures, device)
    return (
        DeviceData.of(pictures, device, progress)
        if needed <= _SHARE * _free(device)
        else StreamedData(pictures, device)
    )


def _free(device: torch.device) -> float:
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):  # not every system reports it
        return 2.0**32


def _key(indices: Tensor | Indices) -> tuple[int, ...]:
    return tuple(indices.tolist() if isinstance(indices, Tensor | np.ndarray) else map(int, indices))
