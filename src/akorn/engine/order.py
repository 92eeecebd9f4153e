"""The order of the samples: one permutation per epoch, determined by the seed."""

import torch
from torch import Tensor

from akorn.errors import AkornError
from akorn.runtime.randomness import derive_seed


class Order:
    """Which samples each process sees in each step.

    Epoch e has the permutation of (seed, e). Batch b of the epoch is its range [b · batch_size, (b + 1) ·
    batch_size), split into equal shares, one per process, so several processes together see what one would see alone.
    The indices do not depend on `device`, which is the CPU for data that the host reads: otherwise it would wait for
    them in every step.
    """

    def __init__(
        self,
        samples: int,
        batch_size: int,
        seed: int,
        device: torch.device,
        *,
        drop_last: bool = True,
        process: int = 0,
        processes: int = 1,
    ) -> None:
        if batch_size % processes:
            raise AkornError(f"batch_size {batch_size} cannot be shared equally among {processes} processes")
        self.samples, self.batch_size, self.seed, self.device = samples, batch_size, seed, device
        self.process, self.processes = process, processes
        # A smaller last batch is also split into equal shares, since the processes' gradients are averaged with equal
        # weight.
        self.used = samples - samples % (batch_size if drop_last else processes)
        self.steps_per_epoch = -(-self.used // batch_size)
        if not self.steps_per_epoch:
            raise AkornError(
                f"{samples} samples do not fill one batch of {batch_size}: choose a smaller --train.batch-size"
            )
        self._epoch = -1
        self._permutation = torch.empty(0, dtype=torch.long)

    def indices(self, step: int) -> Tensor:
        """Return this process's samples for the step that follows `step` finished ones: [share], on `device`."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(derive_seed(self.seed, "epoch", epoch))
            permutation = torch.randperm(self.samples, generator=generator)  # on the CPU: the same everywhere
            self._epoch, self._permutation = epoch, permutation.to(self.device)
        start = batch * self.batch_size
        share = (min(start + self.batch_size, self.used) - start) // self.processes
        start += self.process * share
        return self._permutation[start : start + share]
