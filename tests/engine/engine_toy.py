"""A tiny task for the engine's tests, and a command line that trains it: `python engine_toy.py OUT [key=value …]`.

Noise comes from the loop's generator, dropout from torch's global one, BatchNorm has buffers: if any random state or
buffer were lost in a checkpoint, a resumed run would end elsewhere.
"""

import atexit
import hashlib
import os
import resource
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from akorn.engine import EmaConfig, Interrupted, OptimiserConfig, ScheduleConfig, Task, TrainConfig, train
from akorn.errors import AkornError

SAMPLES, FEATURES = 96, 5


class ToyData:
    def __init__(self, device: torch.device, noise: float) -> None:
        generator = torch.Generator().manual_seed(7)
        self.x = torch.randn(SAMPLES, FEATURES, generator=generator).to(device)
        self.y = self.x.sum(1, keepdim=True).sin()
        self.noise = noise
        self.seen: list[int] = []

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, ...]:
        self.seen += indices.tolist()
        x = self.x[indices]
        noise = torch.randn(x.shape, generator=generator, device=x.device)
        return x + self.noise * noise, self.y[indices]


class ToyTask(Task):
    name = "toy"

    def __init__(
        self,
        *,
        random: bool = True,
        width: int = 16,
        kill_at: int = 0,
        kill_by: int = signal.SIGKILL,
        hold_at: int = 0,
        nan_at: int = 0,
        pause: float = 0.0,
        spare: bool = False,
    ) -> None:
        self.random, self.width, self.nan_at, self.pause, self.spare = random, width, nan_at, pause, spare
        self.kill_at, self.kill_by, self.hold_at = kill_at, kill_by, hold_at
        self.calls = 0
        self.data_digest = hashlib.sha256(b"toy").hexdigest()
        self.evaluated: list[nn.Module] = []

    def settings(self) -> dict[str, object]:
        return {"random": self.random}

    def fingerprint(self) -> str:
        return self.data_digest

    def build_model(self) -> nn.Module:
        layers: list[nn.Module] = [nn.Linear(FEATURES, self.width)]
        if self.random:
            layers += [nn.BatchNorm1d(self.width), nn.Dropout(0.2)]
        model = nn.Sequential(*layers, nn.Tanh(), nn.Linear(self.width, 1))
        if self.spare:
            model.register_parameter("spare", nn.Parameter(torch.ones(3)))  # which gets no gradient
        return model

    def build_data(self, device: torch.device) -> ToyData:
        self.data = ToyData(device, noise=0.1 if self.random else 0.0)
        return self.data

    def loss(
        self, model: nn.Module, batch: tuple[Tensor, ...], generator: torch.Generator, choice: object
    ) -> tuple[Tensor, dict[str, Tensor]]:
        self.calls += 1
        if self.calls == self.kill_at:
            os.kill(os.getpid(), self.kill_by)
        if self.calls == self.hold_at:
            time.sleep(600)  # somebody else kills it
        time.sleep(self.pause)
        x, y = batch
        loss = (model(x) - y).square().mean()
        if self.nan_at and self.calls >= self.nan_at:
            loss = loss * float("nan")
        return loss, {"size": x.new_full((), len(x))}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        assert not model.training
        self.evaluated.append(model)
        torch.rand(3)  # must not disturb training
        return {"error": (model(self.data.x) - self.data.y).square().mean().item()}


CONFIG = TrainConfig(
    epochs=5,
    batch_size=8,
    optimiser=OptimiserConfig(learning_rate=1e-2, clip=1.0),
    schedule=ScheduleConfig(name="cosine", warmup=5),
    ema=EmaConfig(decay=0.9, every=2, after=7),
    device="cpu",
    checkpoint_every=10,
    log_every=7,
    eval_every=15,
    tensorboard=False,
)  # 12 steps an epoch, 60 in all


def gloo_threads() -> list[str]:
    """Return the names of gloo's threads in this process, if the system reports them (Linux)."""
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    return sorted(name for name in names if "gloo" in name)


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's children in the background would ignore it
    out, options = Path(sys.argv[1]), dict(word.split("=") for word in sys.argv[2:])
    kill_at = int(options.get("kill_at", 0)) if os.environ.get("RANK", "0") == options.get("kill_rank", "0") else 0
    kill_by = int(options.get("kill_by", signal.SIGKILL))
    task = ToyTask(random=options.get("random", "1") == "1", kill_at=kill_at, kill_by=kill_by, spare="spare" in options)
    config = replace(
        CONFIG,
        log_every=int(options.get("log_every", 7)),
        graph="graph" in options,
        tensorboard="tensorboard" in options,
        device=options.get("device", "cpu"),
    )
    if "decay" in options:
        config = replace(
            config, optimiser=replace(config.optimiser, name="adamw", weight_decay=float(options["decay"]))
        )
    if "largest_file" in options:  # a disk that is full for all larger files
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(options["largest_file"]), resource.RLIM_INFINITY))
    atexit.register(lambda: print("gloo threads at exit:", gloo_threads()))  # runs after what train registers
    try:
        result = train(task, config, out, resume="resume" in options)
    except Interrupted as stopped:
        sys.exit(stopped.status)
    except AkornError as error:
        print("refused:", error, file=sys.stderr)
        sys.exit(2)
    if torch.distributed.is_initialized():
        print("backend", torch.distributed.get_backend())
    content = b"".join(t.cpu().numpy().tobytes() for t in result.model.state_dict().values())
    print("model", hashlib.sha256(content).hexdigest())


if __name__ == "__main__":
    main()
