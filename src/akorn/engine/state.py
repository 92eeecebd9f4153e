"""Everything that changes during training, and how it is saved to a checkpoint and restored."""

import json
import logging
from collections.abc import Hashable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from akorn.engine import checkpoint, optimiser
from akorn.engine.average import Average, tensors
from akorn.engine.carried import Carried, Carrying, carry_on, empty
from akorn.engine.config import TrainConfig, differences
from akorn.engine.meters import Meters
from akorn.engine.task import Batch, Task
from akorn.errors import AkornError
from akorn.execution import GraphedStep, graphed
from akorn.runtime import processes, randomness
from akorn.runtime.devices import missing_for_compile
from akorn.runtime.nested import flatten
from akorn.runtime.randomness import derive_seed

LONG = 1000
"""The number of steps from which compiling, half a minute on a CPU, pays off."""


class TrainState:
    """Model, average, optimiser, random states and the step. The step is also the position in the data.

    steps: the total number of steps.
    """

    def __init__(self, task: Task, config: TrainConfig, accelerator: Any, steps: int) -> None:
        self.task, self.config, self.accelerator = task, config, accelerator
        self.device: torch.device = accelerator.device
        self.step = 0
        self.elapsed = 0.0  # seconds of training before this process started

        randomness.seed_everything(config.seed, "model")  # the same in every process
        self.model: nn.Module = task.build_model().to(self.device).train()
        processes.copy_from_main(tensors(self.model))
        self.ema = Average(self.model, config.ema, steps) if config.ema.decay else None
        if self.ema:
            task.taught_by(self.ema.model)
        self.parameters = optimiser.trainable(self.model)
        saved = self.model.state_dict()
        self.buffers = [b for name, b in self.model.named_buffers() if name in saved]
        self.raw_optimiser = optimiser.build(config.optimiser, self.model)
        self.optimiser = accelerator.prepare_optimizer(self.raw_optimiser, device_placement=False)
        if compiles(task, config, self.device.type, steps):
            for model in (self.model, self.ema.model) if self.ema else (self.model,):
                task.compile(model)

        # From here on every process has its own random numbers.
        process: int = accelerator.process_index
        randomness.seed_everything(config.seed, "process", process)
        self.generator = torch.Generator(self.device)
        self.generator.manual_seed(derive_seed(config.seed, "task", process))
        self.meters = Meters()
        self.carried: Carried | None = None
        """The samples that stay for the next step, and their states, if the config carries them."""
        if config.carry.segments is not None and not isinstance(task, Carrying):
            raise AkornError(f"carry.segments is {config.carry.segments}, but {task.name} has no states to carry")
        self.graphed: GraphedStep[tuple[Any, ...]] | None = None
        if config.graph and not (task.exchanges and accelerator.num_processes > 1):
            self.graphed = graphed(self.loss, self.model, generators=[self.generator])

    def loss(self, *inputs: Tensor, choice: Hashable) -> tuple[Any, ...]:
        """Return the task's loss in the run's precision, and other scalars; if states are carried, also the new ones.

        inputs: the batch, followed by what is carried, if anything is.
        """
        with self.accelerator.autocast():
            if self.carried is None:
                return self.task.loss(self.model, inputs, self.generator, choice)
            assert isinstance(self.task, Carrying)
            samples = len(self.carried.batch)
            batch, carried = inputs[:samples], Carried.from_tensors(inputs[samples:], samples)
            loss, scalars, after = carry_on(
                self.task, self.model, batch, carried, self.config.carry, self.generator, choice
            )
            return loss, scalars, after.tensors()

    def backward(self, batch: Batch, choice: Hashable) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute the gradients of the loss into the parameters; return the loss and other scalars."""
        inputs = batch
        if self.config.carry.segments is not None:
            if self.carried is None:
                assert isinstance(self.task, Carrying)
                with self.accelerator.autocast():
                    self.carried = empty(self.task, self.model, batch, self.generator)
            inputs = (*batch, *self.carried.tensors())
        if self.graphed is not None:  # without CUDA graphs it simply runs the function
            found = self.graphed(*inputs, choice=choice)
        else:
            found = self.loss(*inputs, choice=choice)
            self.accelerator.backward(found[0])
        if self.carried is not None:
            self.carried = Carried.from_tensors(found[2], len(batch))
        return found[0], found[1]

    def best_model(self) -> nn.Module:
        """Return the model to evaluate: the average, if the config wants it and it has started, or the last weights."""
        wanted = self.config.weights == "average"
        return self.ema.model if wanted and self.ema and self.ema.started else self.model

    def save(self, folder: Path, fingerprint: str, elapsed: float) -> Path | None:
        """Write a checkpoint. Every process calls it; the main one writes, and returns the path."""
        if not all(bool(t.isfinite().all()) for t in self.model.parameters()):
            raise AkornError(f"the weights are no longer finite after step {self.step}; no checkpoint was written")
        everyone = processes.gather_objects(self._own_tensors())
        path = None
        if self.accelerator.is_main_process:
            groups: dict[str, Mapping[str, Tensor]] = {
                "model": self.model.state_dict(),
                "optimiser": optimiser.state_tensors(self.raw_optimiser, self.model),
                "processes": {f"{rank}/{n}": t for rank, own in enumerate(everyone) for n, t in own.items()},
            }
            if self.ema:
                groups["ema"] = self.ema.model.state_dict()
            facts = {
                **self._identity(fingerprint),
                "config": asdict(self.config),
                "elapsed": elapsed,
                "ema_started": bool(self.ema and self.ema.started),
                "scaler": self.accelerator.scaler.state_dict() if self.accelerator.scaler else None,
            }
            config = self.config
            path = checkpoint.save(folder, self.step, facts, groups, shard_mb=config.shard_mb, keep=config.keep)
        processes.wait()
        return path

    def load(self, path: Path, fingerprint: str) -> None:
        """Restore a checkpoint. One that is damaged or from another run is refused and changes nothing."""
        found = checkpoint.load(path)
        checkpoint.check_run(found)
        self._refuse_foreign(found, fingerprint)
        _refuse_other_shapes(path, found.groups["model"], self.model)
        if self.ema:
            _refuse_other_shapes(path, found.groups["ema"], self.ema.model)
        try:
            optimiser.load_state_tensors(self.raw_optimiser, self.model, found.groups["optimiser"])
        except AkornError as error:
            raise AkornError(f"{path}: {error}") from error
        self.model.load_state_dict(found.groups["model"])
        if self.ema:
            self.ema.model.load_state_dict(found.groups["ema"])
            self.ema.started = found.facts["ema_started"]
        if self.accelerator.scaler:
            self.accelerator.scaler.load_state_dict(found.facts["scaler"])
        prefix = f"{self.accelerator.process_index}/"
        own = {n.removeprefix(prefix): t for n, t in found.groups["processes"].items() if n.startswith(prefix)}
        self._load_own_tensors(own)
        self.step, self.elapsed = found.step, found.facts["elapsed"]

    def _identity(self, fingerprint: str) -> dict[str, Any]:
        """Return what must stay the same when a run is resumed, apart from the config."""
        return {
            "recipe": self.task.name,
            "settings": json.loads(json.dumps(flatten(self.task.settings()))),  # as it will be read back
            "data": fingerprint,
            "processes": self.accelerator.num_processes,
            "device": self.device.type,
        }

    def _refuse_foreign(self, found: checkpoint.Checkpoint, fingerprint: str) -> None:
        for name, now in self._identity(fingerprint).items():
            before = found.facts.get(name)
            if before == now:
                continue
            if isinstance(before, dict) and isinstance(now, dict):
                gone = "absent"  # a setting that only one of the two versions has, perhaps as None
                key = next(k for k in {**before, **now} if before.get(k, gone) != now.get(k, gone))
                name, before, now = f"settings {key}", before.get(key, gone), now.get(key, gone)
            raise AkornError(f"{found.path}: from another run: {name} was {before!r}, now {now!r}")
        changed = differences(found.facts.get("config", {}), self.config)
        if changed:
            raise AkornError(f"{found.path}: from another run: {'; '.join(changed)}")
        expected = {"model", "optimiser", "processes"} | ({"ema"} if self.ema else set())
        if missing := expected - set(found.groups):
            raise AkornError(f"{found.path}: contains no tensors of {', '.join(sorted(missing))}")

    def _own_tensors(self) -> dict[str, Tensor]:
        """Return what is specific to each process: its random states and running sums."""
        states = {f"random/{n}": t for n, t in randomness.capture(self.device).items()}
        meters = {f"meters/{n}": t.cpu() for n, t in self.meters.state().items()}
        carried = {f"carried/{n}": t for n, t in self.carried.named().items()} if self.carried is not None else {}
        return {**states, **meters, **carried, "generator": self.generator.get_state()}

    def _load_own_tensors(self, own: Mapping[str, Tensor]) -> None:
        def part(prefix: str) -> dict[str, Tensor]:
            return {n.removeprefix(prefix): t for n, t in own.items() if n.startswith(prefix)}

        randomness.restore(part("random/"), self.device)
        self.meters.load(part("meters/"), self.device)
        self.carried = Carried.from_named(part("carried/"), self.device)
        self.generator.set_state(own["generator"])


def compiles(task: Task, config: TrainConfig, device: str, steps: int) -> bool:
    """Whether to compile the model; warns if that would be useful but is impossible."""
    by_itself = config.compile == "auto" and device == "cpu" and task.compiles_on_cpu and steps >= LONG
    if config.compile != "yes" and not by_itself:
        return False
    missing = missing_for_compile(device)
    if missing is not None:
        logging.getLogger(__name__).warning("%s: the model runs uncompiled, which is slower", missing)
    return missing is None


def _refuse_other_shapes(path: Path, saved: Mapping[str, Tensor], model: nn.Module) -> None:
    now = model.state_dict()
    for name in {**now, **saved}:
        before = list(saved[name].shape) if name in saved else "absent"
        after = list(now[name].shape) if name in now else "absent"
        if before != after:
            raise AkornError(f"{path}: from another model: tensor {name!r} is {before} there and {after} here")
