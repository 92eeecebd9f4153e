"""Muon: momentum whose matrices are orthogonalised before they are added to the weights.

For a weight matrix W with gradient G,

    M ← β M + (1 − β) G,    U = orthogonal part of (1 − β) G + β M,    W ← (1 − η λ) W − η s U

where the orthogonal part of A = P Σ Qᵀ is P Qᵀ, found by Newton–Schulz iterations in bfloat16, and
s = 0.2 √max(rows, columns) makes updates about as large as Adam's (arXiv 2502.16982). Everything that is not a matrix,
and the embeddings, are trained by Adam.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic that drives all singular values towards 1
_ITERATIONS = 5


class Muon(Optimizer):
    """Muon for the weight matrices among the parameters, Adam for the rest.

    Args:
        parameters: all trainable parameters.
        matrices: those that Muon trains; each has two axes.
        lr: the learning rate η of both.
        momentum: Muon's β.
        betas: Adam's β₁ and β₂.
        weight_decay: λ, decoupled as in AdamW.

    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        matrices: Iterable[nn.Parameter],
        *,
        lr: float,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        chosen = {id(p) for p in matrices}
        # "fused" tells `load_state_dict` to keep Adam's step counts beside the parameters, where its kernel needs them.
        settings = {"lr": lr, "momentum": momentum, "betas": betas, "weight_decay": weight_decay, "fused": True}
        super().__init__(list(parameters), settings)
        self._is_matrix = [id(p) in chosen for p in self._all()]
        if wrong := [p for p, matrix in zip(self._all(), self._is_matrix, strict=True) if matrix and p.ndim != 2]:
            raise ValueError(f"Muon trains matrices, got a parameter of shape {list(wrong[0].shape)}")

    def _all(self) -> list[nn.Parameter]:
        return list(self.param_groups[0]["params"])

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step of all parameters that have a gradient."""
        loss = None if closure is None else closure()
        group = self.param_groups[0]
        matrices: list[nn.Parameter] = []
        others: list[nn.Parameter] = []
        for parameter, matrix in zip(self._all(), self._is_matrix, strict=True):
            if parameter.grad is not None:
                (matrices if matrix else others).append(parameter)
        if group["weight_decay"]:
            torch._foreach_mul_([*matrices, *others], 1 - group["lr"] * group["weight_decay"])
        self._step_matrices(matrices, group)
        self._step_others(others, group)
        return loss

    def _step_matrices(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        beta = group["momentum"]
        by_shape: dict[torch.Size, list[nn.Parameter]] = {}
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["exp_avg"] = torch.zeros_like(parameter)
            by_shape.setdefault(parameter.shape, []).append(parameter)
        for shape, alike in by_shape.items():  # matrices of one shape in one product
            grads = [p.grad for p in alike if p.grad is not None]
            means = [self.state[p]["exp_avg"] for p in alike]
            torch._foreach_lerp_(means, grads, 1 - beta)
            ahead = torch.stack(torch._foreach_lerp(grads, means, beta))  # Nesterov's momentum
            size = 0.2 * math.sqrt(max(shape))
            torch._foreach_add_(list(alike), list(orthogonal(ahead).to(alike[0].dtype)), alpha=-group["lr"] * size)

    def _step_others(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        if not parameters:
            return
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
        states = [self.state[p] for p in parameters]
        torch._fused_adam_(
            list(parameters),
            [p.grad for p in parameters if p.grad is not None],
            [s["exp_avg"] for s in states],
            [s["exp_avg_sq"] for s in states],
            [],
            _counted([s["step"] for s in states]),
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


def _counted(steps: list[Tensor]) -> list[Tensor]:
    """The numbers of steps, each increased by one."""
    torch._foreach_add_(steps, 1)
    return steps


def orthogonal(a: Tensor) -> Tensor:
    """Roughly P Qᵀ of matrices P Σ Qᵀ, [..., rows, columns]: all singular values become nearly 1."""
    tall = a.shape[-2] > a.shape[-1]
    x = (a.mT if tall else a).bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    first, second, third = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = first * x + (second * gram + third * gram @ gram) @ x
    return x.mT if tall else x
