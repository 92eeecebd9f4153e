"""T Kuramoto steps with attention, without gradients, on a CPU: few long passes between the matrix products.

The plain loop spends as much time around its products as in them: short inner loops over the N components of an
oscillator and over the pairs of GTA, and a new array for every operation. Here the weights are permuted once per call,
so that each component of all oscillators, and each half of all pairs, is a separate array; every operation is then
a long vectorised pass into an array that already exists, and a block of samples is small enough for the cache.
Needs only torch: no compiler, no Triton. `akorn.execution.solve` uses it if `why_not` has no objection.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

from akorn import oscillators as osc
from akorn.kernels.packed import Product
from akorn.kernels.solve_step import AttentiveStep, Mlp, not_plain

ENERGIES = {"eq3": 0.5, "published": 1.0}
"""The weight of x·Jx in each energy."""

CACHE = 20 << 20
"""Bytes for the arrays of a block of samples: about what a large cache has left besides the weights."""

DTYPES = (torch.float32, torch.bfloat16)
"""Types that factors of products may have."""

_LONG = 192  # tokens from which torch's flash attention beats the three passes over a table of all pairs

_ROUNDING = 4e-6  # of the squared length of a normalised oscillator

_SMALL = 1e-20  # γ is part of the weights, and divided out of the energy


def why_not(step: AttentiveStep, x: Tensor, c: object, weights: Iterable[Tensor]) -> str | None:
    """Why these steps cannot run this step and state, or None if they can.

    weights: all arrays that c and a step depend on.
    """
    if (reason := not_plain(x, c, weights, (torch.float32,))) is not None:
        return reason
    if x.ndim != 3 or x.device.type != "cpu":
        return f"the state has shape {list(x.shape)} on {x.device}, not tokens on a CPU"
    if torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") not in DTYPES:
        return f"autocast is on, to {torch.get_autocast_dtype('cpu')}"
    if abs(float(step.gamma.detach())) < _SMALL:
        return f"the step size {float(step.gamma.detach())} is too small to divide by"
    return None


def fast_steps(
    step: AttentiveStep,
    x: Tensor,
    c: Tensor,
    steps: int,
    energy: str | None,
    dtype: torch.dtype = torch.float32,
    block: int | None = None,
    *,
    owner: object,
) -> tuple[Tensor, Tensor | None]:
    """The state after `steps` updates, like x, and the energies before each, [steps, B].

    Args:
        step: one that `why_not` accepts.
        x: [B, tokens, C]; it need not be normalised.
        c: like x, as it acts on the oscillators.
        steps: T.
        energy: "eq3", "published" or None.
        dtype: of the factors of products with weights, float32 or bfloat16; all else is float32.
        block: samples that run together; None to choose for the cache.
        owner: permuted weights are kept for the next call with this object, as long as it exists.

    """
    with torch.inference_mode(False), torch.no_grad(), torch.autocast("cpu", enabled=False):
        start = _on_sphere(x, step.n)
        block = block if block is not None else block_size(step, x.shape[1])
        weights = _prepared(step, owner, x.shape[1], dtype)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        energies = x.new_empty(steps, x.shape[0]) if energy is not None else None
        run: _Block | None = None
        for first in range(0, x.shape[0], block):
            part = slice(first, min(first + block, x.shape[0]))
            if run is None or run.batch != part.stop - first:
                pair_weight = None if energy is None else ENERGIES[energy]
                run = _Block(weights, part.stop - first, step.projects, pair_weight)
            run(start[part], c[part], steps, out[part], None if energies is None else energies[:, part])
        return out, energies


def _on_sphere(x: Tensor, n: int) -> Tensor:
    """Π[x], where oscillators of length 1 stay as they are: steps in several calls are then exactly those of one call.

    Rounding them once more would change products in bfloat16, and soon the state.
    """
    x = osc.group(x, n)
    there = (x.square().sum(-1, keepdim=True) - 1).abs() < _ROUNDING
    return osc.ungroup(torch.where(there, x, osc.normalize(x, -1)))


def block_size(step: AttentiveStep, tokens: int) -> int:
    """Samples that run together: as many as the cache holds."""
    pairs = 2 * step.heads * tokens if tokens < _LONG else 0
    return max(1, CACHE // (4 * tokens * (12 * step.channels + pairs)))


def _prepared(step: AttentiveStep, owner: object, tokens: int, dtype: torch.dtype) -> _Weights:
    """The permuted weights, recomputed unless the step's weights are unchanged.

    Comparing values is several times faster than permuting them, and notices every change, unlike version counters.
    """
    more = () if step.mlp is None else step.mlp.tensors
    parts = [step.qkv, step.bias, step.output, *step.matrices, step.gamma, step.omega, *more]
    kept, weights = _KEPT.get(owner, ([], None))
    kind = (tokens, step.n, step.heads, dtype)
    same = weights is not None and (weights.tokens, weights.n, weights.heads, weights.dtype) == kind
    same = same and len(kept) == len(parts) and all(map(_equal, kept, parts))
    if weights is None or not same:
        weights = _Weights(step, tokens, dtype)
        _KEPT[owner] = [None if part is None else part.detach().clone() for part in parts], weights
    return weights


def _equal(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b if a is None or b is None else torch.equal(a, b)


class _Turn(NamedTuple):
    """2×2 matrices on the halves (a, b) of a head: a′ = own₀ a + first b, b′ = own₁ b + second a."""

    own: Tensor  # [heads, tokens, 2, D/2]
    first: Tensor  # [heads, tokens, D/2]
    second: Tensor


class _Mlp:
    """The MLP behind the attention, in the order of the state's arrays, with γ folded into W₂."""

    def __init__(self, mlp: Mlp, n: int, gamma: float, dtype: torch.dtype) -> None:
        hidden, channels = mlp.expand.shape
        self.channels, self.eps = channels, mlp.eps
        self.scale, self.shift = (part.view(-1, n).mT.reshape(-1) for part in (mlp.scale, mlp.shift))
        self.expand = Product(mlp.expand.view(hidden, -1, n).mT.reshape(hidden, channels), mlp.bias, dtype)
        weight = (mlp.contract * gamma).view(-1, n, hidden).transpose(0, 1)
        self.contract = Product(weight.reshape(-1, hidden), None, dtype)

    def __call__(self, x: Tensor, y: Tensor, plus: Tensor) -> Tensor:
        """γ W₂ gelu(W₁ LayerNorm(x + y) + b) + plus, all [rows, C]."""
        normed = F.layer_norm(x + y, (self.channels,), self.scale, self.shift, self.eps)
        return self.contract(self.expand.gelu(normed), plus)


class _Weights:
    """Everything that a step reads, in the order of its arrays, with γ folded in where that costs nothing.

    Channels of the state lie as [N, C/N], those of queries, keys, values and outputs as [heads, 2, D/2] if a position
    turns pairs, else as [heads, 1, D]. γ is part of W^O (or of W₂, if an MLP follows), of c and of
    Ω, 1/√D is part of W^Q.
    """

    def __init__(self, step: AttentiveStep, tokens: int, dtype: torch.dtype) -> None:
        if any(matrices.shape[0] != tokens for matrices in step.matrices):
            raise ValueError(f"the positions are for {step.matrices[0].shape[0]} tokens, but the state has {tokens}")
        channels = step.channels
        self.n, self.tokens, self.heads, self.dtype = step.n, tokens, step.heads, dtype
        self.gamma = float(step.gamma.detach())
        self.halves = 2 if step.matrices else 1
        self.size = channels // self.heads // self.halves  # components of a half
        self.oscillators = channels // self.n
        outer, inner = (self.heads, self.size, self.halves), (self.oscillators, self.n)
        scale = torch.ones(3, 1)
        scale[0] = (channels // self.heads) ** -0.5

        weight = (step.qkv.unflatten(0, (3, -1)) * scale[..., None]).view(3, *outer, *inner)
        bias = None
        if step.bias is not None:
            bias = (step.bias.unflatten(0, (3, -1)) * scale).view(3, *outer).transpose(2, 3).reshape(-1)
        self.qkv = Product(weight.permute(0, 1, 3, 2, 5, 4).reshape(3 * channels, channels), bias, dtype)
        weight = (step.output if step.mlp is not None else step.output * self.gamma).view(*inner, *outer)
        self.output = Product(weight.permute(1, 0, 2, 4, 3).reshape(channels, channels), None, dtype)
        self.mlp = None if step.mlp is None else _Mlp(step.mlp, self.n, self.gamma, dtype)

        # Of queries, keys, values and outputs.
        self.turns = [self._spread(matrices) for matrices in step.matrices] + [None] * (4 - len(step.matrices))

        self.rotation: list[tuple[int, int, float]] = []  # γΩ without its zeros
        if step.omega is not None:
            matrix = osc.pairs_matrix(step.omega, self.n) if step.omega.numel() == 1 else step.omega
            omega = (matrix * self.gamma).tolist()
            self.rotation = [(i, j, rate) for i, row in enumerate(omega) for j, rate in enumerate(row) if rate]

    def _spread(self, matrices: Tensor) -> _Turn:
        """Matrices [tokens, D/2, 2, 2] for all heads: repeated, so that passes are long."""
        entries = matrices.permute(2, 3, 0, 1)[:, :, None].expand(-1, -1, self.heads, -1, -1)
        own = torch.stack((entries[0, 0], entries[1, 1]), 2)
        return _Turn(own, entries[0, 1].contiguous(), entries[1, 0].contiguous())


class _Block:
    """The arrays of a block of samples, and its steps."""

    def __init__(self, weights: _Weights, batch: int, project: bool, pair_weight: float | None) -> None:
        w = weights
        self.weights, self.batch, self.project, self.pair_weight = weights, batch, project, pair_weight
        rows = batch * w.tokens
        self.x, self.c = (torch.empty(rows, w.n, w.oscillators) for _ in range(2))
        self.along, self.length = (torch.empty(rows, w.oscillators) for _ in range(2))
        each = (batch, w.heads, w.tokens, w.halves, w.size)
        self.q, self.k, self.v, self.heard = (torch.empty(each) for _ in range(4))
        self.o = torch.empty(rows, w.heads * w.halves * w.size)
        self.pairs: tuple[Tensor, Tensor] | None = None
        if w.tokens < _LONG:
            scores = torch.empty(batch * w.heads, w.tokens, w.tokens)
            self.pairs = scores, torch.empty_like(scores)
        # Views that every step uses; making them again would cost as much as some of the passes.
        self.flat_x, self.flat_c = self.x.flatten(1), self.c.flatten(1)
        self.planes = list(self.x.unbind(1))
        self.as_heads = [part.flatten(3).flatten(0, 1) for part in (self.q, self.k, self.v, self.heard)]
        self.by_head = self.o.view(batch, w.tokens, w.heads, w.halves, w.size).transpose(1, 2)

    def __call__(self, x: Tensor, c: Tensor, steps: int, out: Tensor, energies: Tensor | None) -> None:
        """Run normalised samples x under c, [B, tokens, C], into `out` like x and `energies` [steps, B]."""
        w = self.weights
        self.x.copy_(x.reshape(-1, w.oscillators, w.n).mT)
        torch.mul(c.reshape(-1, w.oscillators, w.n).mT, w.gamma, out=self.c)
        for t in range(steps):
            self._attend()
            self._update(None if energies is None else energies[t])
        out.copy_(self.x.mT.reshape(out.shape))

    def _attend(self) -> None:
        """Write the heads' outputs, before W^O, to `self.o`."""
        w = self.weights
        made = w.qkv(self.flat_x).view(self.batch, w.tokens, 3, w.heads, w.halves, w.size)
        for part, target, turn in zip(made.transpose(1, 3).unbind(2), (self.q, self.k, self.v), w.turns, strict=False):
            _turn(part, target, turn)
        q, k, v, heard = self.as_heads  # [B · heads, tokens, D]
        if self.pairs is not None:
            scores, attention = self.pairs
            torch.bmm(q, k.mT, out=scores)
            torch.softmax(scores, -1, out=attention)
            torch.bmm(attention, v, out=heard)
        else:
            heard.copy_(F.scaled_dot_product_attention(q[None], k[None], v[None], scale=1.0)[0])
        _turn(self.heard, self.by_head, w.turns[3])

    def _update(self, energies: Tensor | None) -> None:
        """The update, in place, and the energy before it: with the force f = γ(Jx + c),

        x′ = Π[f + γΩx + (1 − ⟨f, x⟩) x],  or without Proj  Π[f + γΩx + x].
        """
        w, x, along, length = self.weights, self.x, self.along, self.length
        if w.mlp is None:
            f = w.output(self.o, self.flat_c).view_as(x)
        else:
            y = w.output(self.o)
            f = w.mlp(self.flat_x, y, self.flat_c).add_(y, alpha=w.gamma).view_as(x)
        parts = list(f.unbind(1))  # [rows, C/N] each
        if self.project or energies is not None:
            _dot(parts, self.planes, along)
        if energies is not None:
            self._energy(energies)
        for i, j, rate in w.rotation:
            parts[i].add_(self.planes[j], alpha=rate)
        if self.project:
            torch.sub(1.0, along, out=along)
            f.addcmul_(x, along[:, None])
        else:
            f.add_(x)
        _dot(parts, parts, length)
        length.clamp_min_(osc.TINY**2).rsqrt_()
        torch.mul(f, length[:, None], out=x)

    def _energy(self, energies: Tensor) -> None:
        """−w x·Jx − x·c = −w x·(Jx + c) − (1 − w) x·c of each sample, from `self.along` = γ⟨Jx + c, x⟩."""
        assert self.pair_weight is not None
        torch.sum(self.along.view(self.batch, -1), 1, out=energies)
        energies.mul_(-self.pair_weight / self.weights.gamma)
        if self.pair_weight != 1.0:
            torch.mul(self.flat_x, self.flat_c, out=self.o)  # whose values are no longer needed
            energies.sub_(self.o.view(self.batch, -1).sum(1), alpha=(1 - self.pair_weight) / self.weights.gamma)


def _dot(a: list[Tensor], b: list[Tensor], out: Tensor) -> None:
    """⟨a, b⟩ of each oscillator, given by its N components: [rows, C/N] each."""
    torch.mul(a[0], b[0], out=out)
    for first, second in zip(a[1:], b[1:], strict=True):
        out.addcmul_(first, second)


def _turn(source: Tensor, target: Tensor, turn: _Turn | None) -> None:
    """Apply 2×2 matrices to the halves of [B, heads, tokens, 2, D/2]; None copies."""
    if turn is None:
        target.copy_(source)
        return
    torch.mul(source, turn.own, out=target)
    a, b = source.unbind(3)
    first, second = target.unbind(3)
    first.addcmul_(b, turn.first)
    second.addcmul_(a, turn.second)


_KEPT: WeakKeyDictionary[object, tuple[list[Tensor | None], _Weights]] = WeakKeyDictionary()
