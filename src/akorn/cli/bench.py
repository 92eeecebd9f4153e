"""`akorn bench`."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

from akorn.cli.common import CommonOptions, check_folder, pick_device, print_json, say
from akorn.errors import AkornError

if TYPE_CHECKING:
    from akorn.bench import Row

LARGEST_SEED = 2**63 - 1  # what torch takes


@dataclass(frozen=True)
class Options(CommonOptions):
    """Time and peak memory of Kuramoto layers, forward and in training, beside a plain loop that keeps all states."""

    couplings: tuple[str, ...] = ("dense", "sparse", "conv2d-5", "attention-gta")
    """Which couplings: dense, scalar, sparse, conv1d-9, conv2d-5, conv2d-9, attention, attention-gta, and with a
    symmetric J dense-symmetric, scalar-symmetric, conv2d-5-symmetric, attention-gta-symmetric."""
    batch: int = 8
    """Samples in a batch."""
    channels: Annotated[
        tuple[int, ...] | None,
        arg(metavar="INT [INT ...]", help_behavior_hint="(default: 64 256, or the next that N and 8 heads divide)"),
    ] = None
    """Channels of the state; each number is a size of its own."""
    grid: tuple[int, int] = (9, 9)
    """Positions: height and width, or as many tokens."""
    n: int = 4
    """Rotating dimensions N."""
    steps: tuple[int, ...] = (1, 16)
    """Numbers of steps T; each is measured."""
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    """Precision of the state and the weights."""
    compiled: bool = False
    """Measure the compiled step too (the first call of each compiles for some seconds)."""
    repeats: int = 5
    """Repeats of each measurement; the median counts."""
    record: Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="(default: none)")] = None
    """A folder that gets a record of the run, such as results."""


def run(options: Options) -> int:
    """Measure, and print a table or JSON."""
    _check(options)
    import torch
    from rich.console import Console
    from rich.progress import Progress

    from akorn.bench import Size, as_records, bench, default_channels

    torch.manual_seed(options.seed)
    device = pick_device(options.device)
    sizes = [
        Size(options.batch, channels, options.grid) for channels in options.channels or default_channels(options.n)
    ]
    started = time.monotonic()
    rows: list[Row] = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("measuring", total=None)
        try:
            for row in bench(
                options.couplings, sizes, options.steps, n=options.n, device=device,
                dtype=getattr(torch, options.dtype), compiled=options.compiled, repeats=options.repeats,
            ):  # fmt: skip
                rows.append(row)
                progress.update(task, description=f"{row.coupling} {row.size} T={row.steps} {row.mode} {row.variant}")
        except (ValueError, MemoryError) as error:
            raise AkornError(str(error) or "there is not enough memory for these sizes") from error
    if options.record is not None:
        say(f"recorded in {_record(options, rows, str(device), time.monotonic() - started)}")
    if options.json:
        print_json({"device": str(device), "dtype": options.dtype, "rows": as_records(rows)})
    else:
        _print_table(rows)
    return 0


def _check(options: Options) -> None:
    """AkornError for numbers that no layer can have, before torch is imported."""
    for name in ("couplings", "channels", "steps"):
        if getattr(options, name) == ():
            raise AkornError(f"--{name} needs at least one value, got none")
    for name, least in (("batch", 1), ("repeats", 1), ("n", 2), ("channels", 1), ("grid", 1), ("steps", 1)):
        given = getattr(options, name)
        for value in given if isinstance(given, tuple) else () if given is None else (given,):
            if value < least:
                raise AkornError(f"--{name} must be at least {least}, got {value}")
    if not 0 <= options.seed <= LARGEST_SEED:
        raise AkornError(f"--seed must be from 0 to {LARGEST_SEED}, got {options.seed}")
    if options.device.startswith("mps") and options.dtype == "float64":
        raise AkornError("the device 'mps' cannot be used: it has no float64")
    if options.record is not None:
        check_folder(options.record / "record.json")


def _record(options: Options, rows: list[Row], device: str, seconds: float) -> Path:
    from akorn.bench import as_records
    from akorn.engine.ledger import write_record

    assert options.record is not None
    config = {key: value for key, value in asdict(options).items() if key not in ("record", "json", "device")}
    metrics = {f"{r.coupling}/{r.size}/T{r.steps}/{r.mode}/{r.variant}/ms": r.milliseconds for r in rows}
    return write_record(
        "bench", "layers", metrics, config=config, seed=options.seed, data_fingerprint="none", wall_time=seconds,
        device=device, folder=options.record, extra={"rows": as_records(rows)},
    )  # fmt: skip


def _print_table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for heading in ("coupling", "size", "T", "mode", "variant"):
        table.add_column(heading)
    for heading in ("ms", "peak MiB", "× plain"):
        table.add_column(heading, justify="right")
    for r in rows:
        table.add_row(r.coupling, r.size, str(r.steps), r.mode, r.variant, f"{r.milliseconds:.2f}",
                      f"{r.peak_mib:.1f}", f"{r.speedup:.2f}")  # fmt: skip
    Console().print(table)
