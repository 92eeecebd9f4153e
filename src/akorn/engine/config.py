"""Settings of a training run: small typed dataclasses, without torch, so that `--help` is fast."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from akorn.errors import AkornError
from akorn.runtime.nested import flatten as flatten  # its old place
from akorn.runtime.precision import Precision

Device = Literal["auto", "cpu", "cuda", "mps"]
Weights = Literal["average", "last"]
Compile = Literal["auto", "yes", "no"]


@dataclass(frozen=True)
class OptimiserConfig:
    """The optimiser and its step size."""

    name: Literal["adam", "adamw", "muon", "sgd"] = "adam"
    """muon: Muon for the matrices of linear maps, Adam for the rest (`akorn.engine.muon`)."""
    learning_rate: float = 1e-3
    """The peak learning rate; the schedule multiplies it."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of Adam's two running means (adam and adamw; with muon, of what it leaves to Adam)."""
    momentum: float = 0.9
    """Momentum (sgd)."""
    weight_decay: float = 0.0
    clip: float = 0.0
    """Largest norm of the whole gradient; 0 for no clipping."""


@dataclass(frozen=True)
class ScheduleConfig:
    """How the learning rate changes: a linear warm-up, then constant, linear or cosine down to `final`."""

    name: Literal["constant", "linear", "cosine"] = "constant"
    warmup: int = 0
    """Steps of linear warm-up."""
    final: float = 0.0
    """The factor reached at the end (linear and cosine)."""


@dataclass(frozen=True)
class EmaConfig:
    """The exponential moving average of the weights, with which models are evaluated."""

    decay: float = 0.0
    """Share of the old average that each update keeps; 0 means no average."""
    every: int = 10
    """Steps between updates."""
    after: int = 100
    """The step after which the first copy is taken; until then the average is the model itself. 0: the initial weights
    are the first copy."""
    warmup: bool = True
    """Let the decay grow: at step s after the first copy it is min(decay, 1 − (1 + s)^(−2/3))."""
    final: float | None = None
    """The decay at the end of the run, which is reached along half a cosine; None: `decay` throughout. For an average
    that is the teacher of the weights: 1."""


@dataclass(frozen=True)
class CarryConfig:
    """Training that carries states on from one training step to the next (`akorn.engine.carried`)."""

    segments: tuple[int, int] | None = None
    """A sample stays for this many training steps, drawn from this range; None: each step begins anew."""
    halt: bool = True
    """Let a sample leave earlier, as soon as it is done (for Sudoku: solved)."""


@dataclass(frozen=True)
class TrainConfig:
    """A whole training run, apart from the task."""

    seed: int = 0
    epochs: int = 100
    steps: int | None = None
    """Stop after this many steps instead of after `epochs`."""
    batch_size: int = 100
    """Samples per step, over all processes together."""
    drop_last: bool = True
    """Skip the last, smaller batch of an epoch."""
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    ema: EmaConfig = field(default_factory=EmaConfig)
    carry: CarryConfig = field(default_factory=CarryConfig)
    weights: Weights = "average"
    """Which weights are scored and become the finished model: the moving average if there is one, or the last ones."""
    precision: Precision = "float32"
    """float32; tf32: float32 with TF32 matrix products; bf16, fp16: mixed precision (autocast)."""
    device: Device = "auto"
    compile: Compile = "auto"
    """Compile the model (the task decides what exactly). auto: on a CPU, in runs of 1,000 steps or more, if the task
    benefits and there is a C++ compiler."""
    graph: bool = False
    """Record the loss and its gradients as CUDA graphs, so that small batches are not limited by kernel launches. It
    has no effect on other devices, nor for a loss that communicates with other processes, such as a contrastive one."""
    deterministic: bool = False
    """Use only deterministic algorithms, also on the GPU: slower, and an operation without one is an error. Without
    this, a model with convolutions on a GPU may differ in the last bits between runs, and so from a resumed run, since
    cuDNN times its algorithms at the start and uses the fastest."""
    checkpoint_every: int = 1000
    """Steps between checkpoints; 0: only at the end."""
    checkpoint_minutes: float = 10.0
    """Also write a checkpoint when the last one is this many minutes old; 0: never."""
    keep: int = 2
    """How many of the newest checkpoints are kept."""
    shard_mb: float = 1024.0
    """Largest size of a checkpoint's file, in MB (10⁶ bytes)."""
    log_every: int = 50
    """Steps between logged losses."""
    eval_every: int = 0
    """Steps between evaluations; 0: only at the end."""
    tensorboard: bool = True
    """Also write the curves for TensorBoard."""


# Settings that may change when a run is resumed, since they do not change the numbers (the device is compared
# separately).
_FREE = {
    "weights",
    "checkpoint_every",
    "checkpoint_minutes",
    "keep",
    "shard_mb",
    "log_every",
    "eval_every",
    "tensorboard",
    "device",
}


_LATER = flatten({"carry": asdict(CarryConfig()), "ema": {"final": EmaConfig.final}})
"""The values for runs whose checkpoints do not name these settings."""


def check(config: TrainConfig) -> None:
    """Refuse impossible values, with the value and what was expected."""
    o, s, e = config.optimiser, config.schedule, config.ema
    rules: list[tuple[str, object, bool, str]] = [
        ("seed", config.seed, config.seed >= 0, "0 or more"),
        ("epochs", config.epochs, config.epochs >= 1, "1 or more"),
        ("steps", config.steps, config.steps is None or config.steps >= 1, "1 or more"),
        ("batch_size", config.batch_size, config.batch_size >= 1, "1 or more"),
        ("checkpoint_every", config.checkpoint_every, config.checkpoint_every >= 0, "0 or more"),
        ("checkpoint_minutes", config.checkpoint_minutes, 0 <= config.checkpoint_minutes < math.inf, "0 or more"),
        ("keep", config.keep, config.keep >= 1, "1 or more"),
        ("shard_mb", config.shard_mb, 0.01 <= config.shard_mb <= 1e9, "0.01 or more, and at most 10⁹"),
        ("log_every", config.log_every, config.log_every >= 1, "1 or more"),
        ("eval_every", config.eval_every, config.eval_every >= 0, "0 or more"),
        ("optimiser.name", o.name, o.name in ("adam", "adamw", "muon", "sgd"), "adam, adamw, muon or sgd"),
        ("optimiser.learning_rate", o.learning_rate, 0 < o.learning_rate < math.inf, "above 0"),
        ("optimiser.betas", o.betas, all(0 <= b < 1 for b in o.betas), "each in [0, 1)"),
        ("optimiser.momentum", o.momentum, 0 <= o.momentum < 1, "in [0, 1)"),
        ("optimiser.weight_decay", o.weight_decay, 0 <= o.weight_decay < math.inf, "0 or more"),
        ("optimiser.clip", o.clip, 0 <= o.clip < math.inf, "0 (none) or more"),
        ("schedule.name", s.name, s.name in ("constant", "linear", "cosine"), "constant, linear or cosine"),
        ("schedule.warmup", s.warmup, s.warmup >= 0, "0 or more"),
        ("schedule.final", s.final, 0 <= s.final <= 1, "in [0, 1]"),
        ("ema.decay", e.decay, 0 <= e.decay < 1, "in [0, 1)"),
        ("ema.every", e.every, e.every >= 1, "1 or more"),
        ("ema.after", e.after, e.after >= 0, "0 or more"),
        ("ema.final", e.final, e.final is None or 0 < e.decay <= e.final <= 1, "None, or from ema.decay (not 0) to 1"),
        (
            "precision",
            config.precision,
            config.precision in ("float32", "tf32", "bf16", "fp16"),
            "float32, tf32, bf16 or fp16",
        ),
        ("weights", config.weights, config.weights in ("average", "last"), "average or last"),
        ("compile", config.compile, config.compile in ("auto", "yes", "no"), "auto, yes or no"),
        ("device", config.device, config.device in ("auto", "cpu", "cuda", "mps"), "auto, cpu, cuda or mps"),
    ]
    segments = config.carry.segments
    fine = segments is None or 1 <= segments[0] <= segments[1]
    rules.append(("carry.segments", segments, fine, "two numbers of at least 1, the smaller one first"))
    if segments is not None and not config.drop_last:
        raise AkornError("carry.segments needs drop_last: carried samples keep their slots, so no batch can be smaller")
    if config.graph and config.precision == "fp16":
        raise AkornError("graph cannot be combined with precision 'fp16'; use bf16, tf32 or float32")
    for name, value, fine, expected in rules:
        if not fine:
            raise AkornError(f"{name} is {value!r}, expected {expected}")


def differences(saved: Mapping[str, Any], now: TrainConfig) -> list[str]:
    """What a resumed run may not change, as "name was A, now B" for each setting that differs.

    A setting that the checkpoint does not know, because it is older, had its default value.
    """
    free = set(_FREE)
    if now.schedule.name == "constant" and now.ema.final is None:  # with constant schedules a run may become longer
        free |= {"epochs", "steps"}
    before, after = {**_LATER, **flatten(saved)}, flatten(asdict(now))
    names = [name for name in {**before, **after} if name not in free]
    missing = object()
    return [
        f"{name} was {before.get(name, '(unset)')!r}, now {after.get(name, '(unset)')!r}"
        for name in names
        if before.get(name, missing) != after.get(name, missing)
    ]
