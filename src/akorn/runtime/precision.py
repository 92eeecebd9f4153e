"""The precision of products, in training and scoring. Torch is imported only when it is set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "tf32", "bf16", "fp16"]


@contextmanager
def numerics(
    precision: Precision, *, autocast: torch.device | None = None, deterministic: bool = False, search: bool = False
) -> Iterator[None]:
    """Set how torch computes while the block runs, and restore the previous settings.

    Args:
        precision: float32: products in full float32; tf32, bf16, fp16: in TF32, on GPUs that have it.
        autocast: a device on which bf16 and fp16 enable mixed precision, and the others disable it. The training
            loop leaves this to accelerate.
        deterministic: use only deterministic algorithms; an operation without one is an error.
        search: let cuDNN time its algorithms for each shape of convolution and take the fastest, which pays off if
            shapes repeat, as in training; not if algorithms must be deterministic, since its choice may
            vary.

    """
    import torch

    before = (
        torch.get_float32_matmul_precision(),
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    full = precision == "float32"
    try:
        torch.set_float32_matmul_precision("highest" if full else "high")
        torch.backends.cudnn.allow_tf32 = not full
        torch.backends.cudnn.benchmark = search and not deterministic
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as cuBLAS requires
            torch.backends.cudnn.deterministic = True
            torch.use_deterministic_algorithms(True)
        if autocast is None:
            yield
            return
        narrow = torch.float16 if precision == "fp16" else torch.bfloat16
        with torch.autocast(autocast.type, narrow, enabled=precision in ("bf16", "fp16")):
            yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
        torch.backends.cudnn.deterministic = before[2]
        torch.backends.cudnn.benchmark = before[3]
        if deterministic:  # else it is as it was; the call imports half of torch, which an interrupt may have cut short
            torch.use_deterministic_algorithms(before[4], warn_only=before[5])
