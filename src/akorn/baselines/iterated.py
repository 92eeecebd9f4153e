"""What the iterative baselines share: T residual steps with the same weights, then one MLP."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from torch import Tensor, nn

from akorn.execution.compiled import compiled_alone


def check_steps(steps: int) -> None:
    """ValueError unless `steps` is a whole number, at least 1."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number of at least 1, got {steps!r}")


class IteratedBlock(nn.Module):
    """T times x ← step(x), then once x ← x + MLP(norm(x))."""

    mlp_norm: nn.Module
    mlp: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self._compiled: Callable[[nn.Module, Tensor], Tensor] | None = None

    @abstractmethod
    def _iterate(self, x: Tensor) -> Tensor:
        """One step, in the shape of x."""

    def iterate(self, x: Tensor) -> Tensor:
        """One step, compiled if requested: x → the same shape."""
        return self._iterate(x) if self._compiled is None else self._compiled(self, x)

    def compile_step(self, **options: object) -> None:
        """Compile a single step rather than the loop: the same speed for a fraction of the compile time."""
        self._compiled = compiled_alone(type(self)._iterate, **options)

    def finish(self, x: Tensor) -> Tensor:
        """The MLP after the last step."""
        return x + self.mlp(self.mlp_norm(x))

    def forward(self, x: Tensor, steps: int) -> Tensor:
        """`steps` steps and the MLP."""
        check_steps(steps)
        for _ in range(steps):
            x = self.iterate(x)
        return self.finish(x)
