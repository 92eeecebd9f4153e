"""`akorn bench`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import arg

from akorn.cli.common import CommonOptions, pick_device, print_json, say
from akorn.errors import AkornError
from akorn.runtime.files import check_writable

if TYPE_CHECKING:
    import torch

    from akorn.bench import Ceilings, Row
    from akorn.bench.work import Piece

LARGEST_SEED = 2**63 - 1  # as large as torch accepts
CASES = ("layers", "update", "attention", "conv-step", "convolution", "solve", "sudoku", "vote", "shapes", "clevrtex",
         "cifar", "runtime")  # fmt: skip
LAYERS: dict[str, dict[str, Any]] = {
    "full": {"batch": 8, "steps": (1, 16)},
    "tiny": {"batch": 2, "steps": (1, 4)},
}
"""What --size means for the case layers, except the channels, which depend on N."""


@dataclass(frozen=True)
class Options(CommonOptions):
    """Measure time, peak memory and error of Kuramoto steps, compared with plain PyTorch and the machine's limits."""

    case: tuple[str, ...] = ("layers",)
    """What is measured: layers (of the couplings and sizes below); the parts of a step: update, attention, conv-step,
    convolution (five ways to compute it), solve; complete workloads at the paper's sizes: sudoku, vote, shapes,
    clevrtex, cifar; runtime (AKOrN beside ItrSA and ItrConv of the same size: training steps, answers to a batch of
    100); or all."""
    size: Literal["full", "tiny"] = "full"
    """full uses the paper's sizes, meant for a GPU; tiny runs in seconds on any machine. For layers it sets the
    defaults of batch, channels and steps."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """How products are computed; bf16 is autocast."""
    recompute: bool = False
    """Let training steps of whole networks recompute their states."""
    compiled: bool = False
    """Also measure the compiled step (compiling takes some seconds each)."""
    network: bool = False
    """Also measure whole networks compiled by torch.compile(mode="reduce-overhead")."""
    couplings: tuple[str, ...] = ("dense", "sparse", "conv2d-5", "attention-gta")
    """Which couplings: dense, scalar, sparse, conv1d-9, conv2d-5, conv2d-9, attention, attention-gta, and with a
    symmetric J dense-symmetric, scalar-symmetric, conv2d-5-symmetric, attention-gta-symmetric."""
    batch: Annotated[int | None, arg(metavar="INT", help_behavior_hint="(default: 8; tiny: 2)")] = None
    """Samples in a batch."""
    channels: Annotated[
        tuple[int, ...] | None,
        arg(
            metavar="INT [INT ...]",
            help_behavior_hint="(default: 64 256; tiny: 32; or the next that N and 8 heads divide)",
        ),
    ] = None
    """Channels of the state; each number is measured."""
    grid: tuple[int, int] = (9, 9)
    """Positions: height and width, or as many tokens."""
    n: int = 4
    """Rotating dimensions N."""
    steps: Annotated[
        tuple[int, ...] | None, arg(metavar="INT [INT ...]", help_behavior_hint="(default: 1 16; tiny: 1 4)")
    ] = None
    """Numbers of steps T; each is measured."""
    dtype: Literal["float32", "float64", "bfloat16"] = "float32"
    """Precision of the state and the weights of layers."""
    repeats: int = 5
    """Repeats of each measurement; the median counts."""
    record: Annotated[Path | None, arg(metavar="PATH", help_behavior_hint="(default: none)")] = None
    """A folder for a record of the run, such as results."""


def run(options: Options) -> int:
    """Measure, and print a table or JSON."""
    _check(options)
    options = _sized(options)
    import torch

    from akorn.bench import as_records, bench
    from akorn.runtime.progress import progress_bar

    torch.manual_seed(options.seed)
    device = pick_device(options.device)
    started = time.monotonic()
    rows: list[Row] = []
    ceilings = _ceilings(options, device)
    with progress_bar("measuring") as bar:
        try:
            for row in bench(
                _pieces(options, device), device=device, precision=options.precision, ceilings=ceilings,
                repeats=options.repeats,
            ):  # fmt: skip
                rows.append(row)
                bar(len(rows), text=f"{row.case} {row.name} {row.size} T={row.steps} {row.mode}")
        except (ValueError, MemoryError) as error:
            raise AkornError(str(error) or "there is not enough memory for these sizes") from error
    if options.record is not None:
        say(f"recorded in {_record(options, rows, ceilings, str(device), time.monotonic() - started)}")
    if options.json:
        found = {"device": str(device), "dtype": options.dtype, "precision": options.precision}
        print_json({**found, "ceilings": asdict(ceilings), "rows": as_records(rows)})
    else:
        say(f"ceilings: {ceilings}")
        _print_table(rows)
    return 0


def _sized(options: Options) -> Options:
    """The options, with the defaults of --size for all sizes that are not given."""
    return replace(options, **{k: v for k, v in LAYERS[options.size].items() if getattr(options, k) is None})


def _pieces(options: Options, device: torch.device) -> Iterator[Piece]:
    """Everything requested, created one after the other."""
    import torch

    from akorn.bench import CASES as MAKERS
    from akorn.bench import Setup, Size, default_channels, layers

    itemsize = 2 if options.precision == "bf16" else 4
    setup = Setup(
        options.size, device, itemsize, options.compiled, options.recompute, options.precision, options.network
    )
    for case in CASES if "all" in options.case else dict.fromkeys(options.case):
        if case == "layers":
            assert options.batch is not None
            assert options.steps is not None
            widths = options.channels or default_channels(options.n, tiny=options.size == "tiny")
            sizes = [Size(options.batch, width, options.grid) for width in widths]
            dtype = getattr(torch, options.dtype)
            yield from layers(options.couplings, sizes, options.steps, options.n, device, dtype, options.compiled)
        else:
            yield from MAKERS[case](setup)


def _ceilings(options: Options, device: torch.device) -> Ceilings:
    import torch

    from akorn.bench import measure_ceilings
    from akorn.runtime.precision import numerics

    with numerics(options.precision, search=True):
        half = torch.bfloat16 if options.precision == "bf16" else torch.float32
        layers_alone = set(options.case) == {"layers"} and options.precision != "bf16"
        dtype = getattr(torch, options.dtype) if layers_alone else half
        return measure_ceilings(device, dtype, tiny=options.size == "tiny", repeats=options.repeats)


def _check(options: Options) -> None:
    """AkornError for numbers that no layer can have, before torch is imported."""
    for name in ("case", "couplings", "channels", "steps"):
        if getattr(options, name) == ():
            raise AkornError(f"--{name} needs at least one value, got none")
    for case in options.case:
        if case not in (*CASES, "all"):
            raise AkornError(f"unknown case {case!r}: the known ones are all, {', '.join(CASES)}")
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
        check_writable(options.record / "record.json")


def _record(options: Options, rows: list[Row], ceilings: Ceilings, device: str, seconds: float) -> Path:
    from akorn.bench import as_records
    from akorn.ledger.records import write_record

    assert options.record is not None
    config = {key: value for key, value in asdict(options).items() if key not in ("record", "json", "device")}
    metrics = {"ceiling/flops": ceilings.flops, "ceiling/bandwidth": ceilings.bandwidth}
    for row in rows:
        key = f"{row.case}/{row.name}/{row.size}/T{row.steps}/{row.mode}/{row.variant}".replace(" ", "-")
        metrics |= {f"{key}/ms": row.milliseconds, f"{key}/mib": row.peak_mib, f"{key}/first_s": row.first_seconds}
    name = "layers" if set(options.case) == {"layers"} else "kernels"
    return write_record(
        "bench", name, metrics, config=config, seed=options.seed, data_fingerprint="none", wall_time=seconds,
        device=device, folder=options.record, extra={"rows": as_records(rows)},
    )  # fmt: skip


def _print_table(rows: list[Row]) -> None:
    """A line for each workload, followed by one for each of its forms."""
    from itertools import groupby

    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    for (case, name, size, steps, mode), group in groupby(rows, lambda r: (r.case, r.name, r.size, r.steps, r.mode)):
        console.print(f"[bold]{case}[/]: {name}, {size}, T = {steps}, {mode}")
        table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column("", min_width=13)
        headings = {"ms": 8, "peak MiB": 9, "×": 7, "% products": 11, "% memory": 9, "error": 8, "first s": 8}
        for heading, width in headings.items():  # 80 in all
            table.add_column(heading, justify="right", min_width=width, no_wrap=True)
        for r in group:
            shares = ["–" if share is None else f"{100 * share:.0f}" for share in (r.matmul_share, r.bandwidth_share)]
            numbers = (
                f"{r.milliseconds:.2f}",
                f"{r.peak_mib:.1f}",
                f"{r.speedup:.2f}",
                *shares,
                "–" if r.error is None else f"{r.error:.1e}",
            )
            table.add_row(r.variant, *numbers, f"{r.first_seconds:.2f}")
        console.print(table)
