"""Products with a weight that is packed once and used many times, on a CPU."""

from __future__ import annotations

from functools import cache
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor


class Product:
    """x ↦ x Wᵀ + b, or + an array. Uses oneDNN with a packed weight, or torch's own product without it."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.bias = bias if bias is None else bias.contiguous()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous()) if packs() else None
        self.weight = weight.T.contiguous() if self.packed is None else weight.T

    def __call__(self, x: Tensor, plus: Tensor | None = None) -> Tensor:
        """[rows, in] → [rows, out]."""
        if self.packed is not None and plus is not None:
            return cast(Tensor, torch.ops.mkldnn._linear_pointwise.binary(x, plus, self.packed, self.bias, "add"))
        if self.packed is not None:
            return cast(Tensor, torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], ""))
        more = plus if plus is not None else self.bias
        return torch.mm(x, self.weight) if more is None else torch.addmm(more, x, self.weight)

    def gelu(self, x: Tensor) -> Tensor:
        """The same with a bias, then GELU by its approximation with tanh: [rows, in] → [rows, out]."""
        if self.packed is not None:
            pointwise = torch.ops.mkldnn._linear_pointwise
            return cast(Tensor, pointwise(x, self.packed, self.bias, "gelu", [], "tanh"))
        return F.gelu(self(x), approximate="tanh")


@cache
def packs() -> bool:
    """Whether torch has oneDNN's product with a packed weight, as used by its own compiler, and it is correct."""
    if not torch.backends.mkldnn.is_available():
        return False
    x, weight, bias = torch.ones(3, 2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([5.0, 6.0])
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        one = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
        two = torch.ops.mkldnn._linear_pointwise.binary(x, x, packed, None, "add")
        three = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "gelu", [], "tanh")
    except (AttributeError, RuntimeError, TypeError):  # private to torch: it may differ in other versions
        return False
    same = (one == torch.tensor([8.0, 13.0])).all() and (two == torch.tensor([4.0, 8.0])).all()
    return bool(same) and torch.allclose(three, F.gelu(one, approximate="tanh"))
