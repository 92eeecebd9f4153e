"""`akorn bench`."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from akorn.cli.common import CommonOptions, check_folder, pick_device, print_json, say
from akorn.errors import AkornError

if TYPE_CHECKING:
    from akorn.bench import Row


@dataclass(frozen=True)
class Options(CommonOptions):
    """Time and peak memory of Kuramoto layers, forward and in training, beside a plain loop that keeps all states."""

    couplings: tuple[str, ...] = ("dense", "sparse", "conv2d-5", "attention-gta")
    """Which couplings: dense, sparse, conv1d-9, conv2d-5, conv2d-9, attention, attention-gta."""
    batch: int = 8
    """Samples in a batch."""
    channels: tuple[int, ...] = (64, 256)
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
    record: Path | None = None
    """A folder that gets a record of the run, such as results."""


def run(options: Options) -> int:
    """Measure, and print a table or JSON."""
    for name in ("batch", "repeats", "n"):
        if getattr(options, name) < 1:
            raise AkornError(f"--{name} must be at least 1, got {getattr(options, name)}")
    if options.record is not None:
        check_folder(options.record / "record.json")
    import torch
    from rich.console import Console
    from rich.progress import Progress

    from akorn.bench import Size, as_records, bench

    torch.manual_seed(options.seed)
    device = pick_device(options.device)
    sizes = [Size(options.batch, channels, options.grid) for channels in options.channels]
    started = time.monotonic()
    rows: list[Row] = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        try:
            for row in bench(
                options.couplings, sizes, options.steps, n=options.n, device=device,
                dtype=getattr(torch, options.dtype), compiled=options.compiled, repeats=options.repeats,
            ):  # fmt: skip
                rows.append(row)
                progress.update(task, description=f"{row.coupling} {row.size} T={row.steps} {row.mode} {row.variant}")
        except ValueError as error:
            raise AkornError(str(error)) from error
    if options.record is not None:
        say(f"recorded in {_record(options, rows, str(device), time.monotonic() - started)}")
    if options.json:
        print_json({"device": str(device), "dtype": options.dtype, "rows": as_records(rows)})
    else:
        _print_table(rows)
    return 0


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
