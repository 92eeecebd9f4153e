"""Products with a weight that is packed once and used many times, on a CPU."""

from __future__ import annotations

from functools import cache
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor


class Product:
    """x ↦ x Wᵀ + b, or + an array, in float32. Uses oneDNN with a packed weight, or torch's own product without it.

    Args:
        weight: W, [out, in].
        bias: b, [out].
        dtype: that of x, W and b in the product, whose sums are float32.

    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype = torch.float32) -> None:
        self.dtype = dtype
        self.bias = None if bias is None else bias.to(dtype).contiguous()
        weight = weight.to(dtype).contiguous()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight) if packs(dtype) else None
        self.weight = weight.T.contiguous() if self.packed is None else weight.T

    def __call__(self, x: Tensor, plus: Tensor | None = None) -> Tensor:
        """[rows, in] → [rows, out]; with `plus` there must be no bias."""
        if plus is None:
            return self._with_bias(x).float()
        if self.dtype != torch.float32:
            return plus + self._with_bias(x)
        if self.packed is not None:
            return cast(Tensor, torch.ops.mkldnn._linear_pointwise.binary(x, plus, self.packed, None, "add"))
        return torch.addmm(plus, x, self.weight)

    def gelu(self, x: Tensor) -> Tensor:
        """The same with a bias, then GELU by its approximation with tanh: [rows, in] → [rows, out] of `dtype`."""
        if self.packed is not None:
            return _packed(x.to(self.dtype), self.packed, self.bias, "gelu", "tanh")
        return F.gelu(self._with_bias(x), approximate="tanh")

    def _with_bias(self, x: Tensor) -> Tensor:
        """x Wᵀ + b, rounded to `dtype`."""
        x = x.to(self.dtype)
        if self.packed is not None:
            return _packed(x, self.packed, self.bias)
        return torch.mm(x, self.weight) if self.bias is None else torch.addmm(self.bias, x, self.weight)


def _packed(x: Tensor, weight: Tensor, bias: Tensor | None, after: str = "none", how: str = "") -> Tensor:
    """oneDNN's product with a packed weight, and what follows it."""
    return cast(Tensor, torch.ops.mkldnn._linear_pointwise(x, weight, bias, after, [], how))


@cache
def packs(dtype: torch.dtype = torch.float32) -> bool:
    """Whether torch has oneDNN's product with a packed weight, as used by its own compiler, and it is correct."""
    if not torch.backends.mkldnn.is_available():
        return False
    x, weight, bias = torch.ones(3, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([5.0, 6.0])
    x, weight, bias = x.to(dtype), weight.to(dtype), bias.to(dtype)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        one, two = _packed(x, packed, bias), _packed(x, packed, bias, "gelu", "tanh")
        three = torch.ops.mkldnn._linear_pointwise.binary(x, x, packed, None, "add")
    except (AttributeError, RuntimeError, TypeError):  # private to torch: it may differ in other versions
        return False
    same = (one == torch.tensor([8.0, 13.0])).all() and (three == torch.tensor([4.0, 8.0])).all()
    return bool(same) and torch.allclose(two, F.gelu(one, approximate="tanh"))
