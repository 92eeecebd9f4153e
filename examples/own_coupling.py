"""A coupling J of your own, here an associative memory: `python examples/own_coupling.py`.

Any `nn.Module` can be the coupling of a `KuramotoLayer`. What is required:

- `forward(x)` maps a state to an array of the same shape, type and device: [B, C], [B, tokens, C] or [B, C, H, W], with
  N consecutive channels (C) for one oscillator. Samples of a batch should not mix.
- What it learns is an `nn.Parameter`, as in any module.
- With `gradients=Recompute()` and under `torch.compile` it must depend on x and its parameters alone: no random
  numbers, no buffers that change. (`Store()`, the default, asks for nothing.)
- If it has an attribute `channels`, `n` or `oscillators`, the layer checks that it fits.

The energy is sure to fall only if J is linear and symmetric; `akorn.theory.lyapunov_conditions` checks this.

The coupling below stores patterns ξ as J = Σ ξξᵀ / M, after Hopfield, M oscillators each. Half of a pattern is then
enough to find the rest.
"""

import torch
from torch import Tensor, nn

import akorn


class Memory(nn.Module):
    """J = k Σ_μ ξ_μ ξ_μᵀ / M for stored patterns ξ: symmetric, and never written out as a matrix."""

    patterns: Tensor

    def __init__(self, patterns: Tensor, n: int) -> None:
        super().__init__()
        self.n = n  # checked by the layer, as are the channels
        self.channels = patterns.shape[1]
        self.register_buffer("patterns", patterns)  # [patterns, C]
        self.strength = nn.Parameter(torch.tensor(1.0))  # k

    def overlap(self, x: Tensor) -> Tensor:
        """How much of each pattern is in a state: [B, C] → [B, patterns], 1 for the pattern itself."""
        return x @ self.patterns.mT * self.n / self.channels

    def forward(self, x: Tensor) -> Tensor:
        """[B, C] → Jx, [B, C]."""
        return self.strength * self.overlap(x) @ self.patterns


def main(oscillators: int = 256, n: int = 4, stored: int = 5, steps: int = 64) -> tuple[Tensor, Tensor]:
    """Recall each pattern from its first half; returns the overlaps before and after, [patterns] each."""
    torch.manual_seed(0)
    patterns = akorn.oscillators.random_oscillators((stored, oscillators * n), n)
    coupling = Memory(patterns, n)
    layer = akorn.nn.KuramotoLayer(oscillators * n, n, coupling, gamma=0.5)
    print(akorn.theory.lyapunov_conditions(coupling, n=n, shape=(1, oscillators * n)))

    x = akorn.oscillators.random_oscillators((stored, oscillators * n), n)
    x[:, : x.shape[1] // 2] = patterns[:, : x.shape[1] // 2]  # the first half is known, the second at random
    c = torch.zeros_like(x)  # no stimulus: the coupling alone acts
    run = layer.evolve(x, c, steps, energy=akorn.oscillators.energy)
    before, after = (coupling.overlap(state).diagonal() for state in (x, run.x))
    first, last = run.energies[0].mean(), run.energies[-1].mean()
    print(f"overlap with the pattern: {before.mean():.2f} before, {after.mean():.2f} after {steps} steps")
    print(
        f"mean energy: {first:.1f} before, {last:.1f} after; it rose in {(run.energies.diff(dim=0) > 1e-3).sum()} steps"
    )

    (1 - after.mean()).backward()  # gradients reach your parameters through all steps
    print(f"gradient of the strength: {coupling.strength.grad:.2e}")
    return before.detach(), after.detach()


if __name__ == "__main__":
    main()
