"""A coupling with an MLP behind it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from akorn.nn.checks import check_module, whole_number
from akorn.nn.norm import LayerNorm


class FeedForwardCoupling(nn.Module):
    """A coupling of tokens followed by an MLP at every token, as in a Transformer:

        y = J x,    x ↦ y + W₂ gelu(W₁ LayerNorm(x + y))

    W₂ starts at zero, so that the coupling starts as J alone: an MLP can be added to a trained model.

    Args:
        coupling: J, an `AttentionCoupling` for example.
        channels: number of channels C.
        expansion: the hidden layer has expansion · C units.

    """

    def __init__(self, coupling: nn.Module, channels: int, *, expansion: int = 2) -> None:
        super().__init__()
        check_module("coupling", coupling, "a module that maps a state to an array of the same shape")
        channels, expansion = whole_number("channels", channels), whole_number("expansion", expansion)
        self.coupling = coupling
        self.channels = channels
        self.norm = LayerNorm(channels, narrow=True)
        self.expand = nn.Linear(channels, expansion * channels)
        self.contract = nn.Linear(expansion * channels, channels, bias=False)
        nn.init.zeros_(self.contract.weight)

    def forward(self, x: Tensor) -> Tensor:
        """[B, tokens, C] → the same shape."""
        if x.ndim != 3 or x.shape[-1] != self.channels:
            raise ValueError(f"expected tokens [B, tokens, {self.channels}], got shape {list(x.shape)}")
        y = self.coupling(x)
        hidden = torch.nn.functional.gelu(self.expand(self.norm(x + y)), approximate="tanh")
        return y + self.contract(hidden)
