"""Running means of the loss and other scalars, kept on the device; the host reads them only at log steps."""

from collections.abc import Mapping

import torch
from torch import Tensor

from akorn.runtime import processes

_COUNT = "count"


class Meters:
    """Sums of named scalars since the last log."""

    def __init__(self) -> None:
        self.count = 0
        self.sums: dict[str, Tensor] = {}

    def add(self, scalars: Mapping[str, Tensor]) -> None:
        """Add one step's scalars, without waiting for the device."""
        self.count += 1
        for name, value in scalars.items():
            value = value.detach().float()
            self.sums[name] = self.sums[name] + value if name in self.sums else value.clone()

    def mean(self, name: str) -> float:
        """Return one mean since the last log, for this process only; the host waits for the device."""
        return float(self.sums[name]) / self.count

    def flush(self) -> dict[str, float]:
        """Return the means over the steps since the last call and over all processes, and reset them."""
        stacked = torch.stack(list(self.sums.values())) / self.count
        means = processes.average(stacked).tolist()  # here the host waits
        named = dict(zip(self.sums, means, strict=True))
        self.count, self.sums = 0, {}
        return named

    def state(self) -> dict[str, Tensor]:
        """Return the sums as tensors to save, so that a resumed run draws the same curve."""
        return {**{f"sum/{n}": t for n, t in self.sums.items()}, _COUNT: torch.tensor(self.count)}

    def load(self, state: Mapping[str, Tensor], device: torch.device) -> None:
        """Restore what `state` returned."""
        self.count = int(state[_COUNT])
        self.sums = {n.removeprefix("sum/"): t.to(device) for n, t in state.items() if n != _COUNT}
