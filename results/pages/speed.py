"""How fast things are: whole tasks compared with the published code, the loader, clustering. Torch-free."""

from __future__ import annotations

from akorn.ledger.records import Record, is_number
from akorn.ledger.tables import Cell, Row, Table

_GPU = "NVIDIA H200"


def _row(
    label: str, key: str, precision: str, time: str, memory: str, *, variant: str = "graph", recompute: bool = False
) -> Row:
    """Plain loop, fused kernels and their memory, without graphs, first call: newest record, published code beside."""
    config = {"config.precision": precision, "config.recompute": recompute}
    match = {"kind": "bench", "name": "kernels", "hardware.gpu": _GPU, **config}
    return Row(
        label,
        (
            Cell(f"{key}/plain/ms", match, time),
            Cell(f"{key}/{variant}/ms", match, time),
            Cell(f"{key}/{variant}/mib", match, memory),
            Cell(f"{key}/fused/ms", match),
            Cell(f"{key}/fused/first_s", match),
        ),
    )


SPEED = Table(
    f"On one {_GPU}, at the paper's sizes",
    ("plain loop, ms", "fused, ms", "fused, peak MiB", "fused, no graph, ms", "first call, s"),
    (
        _row(
            "Sudoku training step, batch 100, T = 16, TF32",
            "sudoku/training-step/batch-100/T16/training", "tf32", "61", "5,900",
        ),
        _row(
            "the same in float32", "sudoku/training-step/batch-100/T16/training", "float32", "61", "5,900",
        ),
        _row(
            "energy vote of 100, T = 128, per board in a full batch, bf16",
            "vote/K=100,-a-board/40-boards/T128/forward", "bf16", "160", "–", variant="fused",
        ),
        _row(
            "Shapes training step, 2×256 pictures, L = 3, bf16, recomputing",
            "shapes/training-step/2×256,-L=3/T4/training", "bf16", "484", "38,800", recompute=True,
        ),
        _row(
            "the same, keeping all states",
            "shapes/training-step/2×256,-L=3/T4/training", "bf16", "484", "38,800",
        ),
        _row(
            "CLEVRTex training step, 2×256 pictures, L = 2, bf16, recomputing",
            "clevrtex/training-step/2×256,-L=2/T8/training", "bf16", "322", "28,100", recompute=True,
        ),
        _row(
            "CIFAR-10 AKOrN-conv training step, batch 128, bf16",
            "cifar/training-step/batch-128/T3/training", "bf16", "32", "2,500",
        ),
    ),
    note="Times are medians. A training step is forward, backward and Adam, as a CUDA graph; memory is the peak beyond"
    " weights and optimiser, by torch's allocator, while the graph is recorded and run. The figures beside ours are"
    " the published implementation's as it ships, measured on the same kind of GPU. The first call, with empty"
    " caches, compiles kernels and tries out how to divide the work; both are kept on disk for the next run.",
    beside="published",
)  # fmt: skip


_WORKS = {
    "Sudoku, batch 100, T = 16": ("sudoku", "sudoku/training-step/batch-100/T16/training"),
    "AKOrN-conv on CIFAR-10, batch 128, T = 3": ("cifar", "cifar/training-step/batch-128/T3/training"),
    "Shapes, 2×256 pictures, L = 3, T = 4": ("shapes", "shapes/training-step/2×256,-L=3/T4/training"),
    "CLEVRTex, 2×256 pictures, L = 2, T = 8": ("clevrtex", "clevrtex/training-step/2×256,-L=2/T8/training"),
}
_OWN = {"kind": "bench", "name": "kernels", "hardware.gpu": _GPU, "config.precision": "tf32", "config.network": True}


def _loop(label: str, key: str) -> Row:
    """Plain and fused as they are, the whole network compiled, a recorded step; and the time of first calls."""
    times = tuple(Cell(f"{key}/{form}/ms", _OWN) for form in ("plain", "fused", "network", "graph"))
    return Row(label, (*times, *(Cell(f"{key}/{form}/first_s", _OWN) for form in ("fused", "network", "graph"))))


OWN_LOOP = Table(
    "In a loop of your own",
    ("plain, ms", "fused, ms", "torch.compile, ms", "graphed, ms",
     "fused, first s", "torch.compile, first s", "graphed, first s"),
    (
        *(_loop(label, key) for label, (_, key) in _WORKS.items()),
        _loop("energy vote of 100, T = 128, per board (no training)", "vote/K=100,-a-board/40-boards/T128/forward"),
    ),
    note="Training steps (forward, backward, Adam) in TF32 on one H200, in one run: eager in plain PyTorch, eager with"
    " our kernels, the whole network under `torch.compile(mode=\"reduce-overhead\")`, and recorded by"
    " `akorn.execution.graphed`, as `akorn train` does; the vote records its own graphs. Eager steps wait for"
    " Python's launches, and vary from run to run by a third or so.",
)  # fmt: skip


def _compiles(label: str, steps: int) -> Row:
    match = {"kind": "bench", "name": "compile-time", "config.channels": 64}
    return Row(label, tuple(Cell(f"{form}/T{steps}/s", match) for form in ("one operator", "unrolled")))


COMPILING = Table(
    "What torch.compile takes",
    ("T steps as one operator, s", "unrolled, s"),
    tuple(_compiles(f"T = {steps}", steps) for steps in (4, 16, 64, 256)),
    note="Seconds for the first call of a compiled training step of a Sudoku model with 64 channels, on two CPU cores"
    " with empty caches (`benchmarks/compile_time.py`): as layers are compiled by default, and with"
    " `layer.one_operator = False`.",
)


def _cold(label: str, name: str) -> Row:
    match = {"kind": "bench", "name": "solve-cold", "hardware.cores": 2}

    def solved(record: Record) -> str | None:
        boards, right = (record["metrics"].get(f"{name}/{figure}") for figure in ("boards", "solved"))
        return None if boards is None else f"{right:.0f} of {boards:.0f}"

    figures = ("median/s", "longest/s", "most/MB")
    return Row(label, (Cell(solved, match), *(Cell(f"{name}/{figure}", match) for figure in figures)))


COLD = Table(
    "One board on two CPU cores, from the command to the answer",
    ("solved", "median, s", "longest, s", "most memory, MB"),
    (
        _cold("the board that `akorn solve` shows", "bundled"),
        _cold("forum-valid, spread evenly", "forum-valid"),
        _cold("hardest-1106, spread evenly", "hardest-1106"),
        _cold("magictour, spread evenly", "magictour"),
    ),
    note="`akorn solve` in a new process for each board (`benchmarks/solve_cold.py`), with the effort that it takes by"
    " itself: at most 64 starts and 256 steps on a CPU. A board that it does not solve is said to be so. These few"
    " boards show how long it takes; how many it solves is in [sudoku.md](sudoku.md#hard-boards).",
)


def _processes(label: str, work: str) -> Row:
    match = {"kind": "bench", "name": "two-processes", "hardware.gpu": _GPU, "config.precision": "tf32"}
    forms = [f"{form}/{count}" for count in ("one process", "two processes") for form in ("eager", "graph")]
    return Row(label, tuple(Cell(f"{work}/{form}/ms", match) for form in forms))


PROCESSES = Table(
    "Two processes on one GPU",
    ("one process, eager, ms", "one process, graphed, ms", "two processes, eager, ms", "two processes, graphed, ms"),
    (
        *(_processes(label, work) for label, (work, _) in _WORKS.items()),
        _processes("energy vote of 100, T = 128, per board (it divides the boards)", "vote"),
    ),
    note="Wall time of a whole step of both processes, each with half of the batch, in TF32"
    " (`benchmarks/two_processes.py`). The two share one H200 and exchange gradients by gloo, through the host's"
    " memory, so this shows what graphs are"
    " worth with several processes, not how two GPUs scale.",
)


def _loads(recipe: str) -> Row:
    match = {"kind": "bench", "name": f"loader-{recipe}"}
    return Row(f"`{recipe}`", tuple(Cell(f"{part}_per_second", match) for part in ("data", "model", "both")))


LOADER = Table(
    "Does the loader limit training?",
    ("views alone", "model alone", "both"),
    tuple(_loads(f"{data}_akorn{rest}") for data, rest in (("tetrominoes", ""), ("dsprites", ""), ("shapes", "_l3"))),
    note="Pictures per second in batches of 256, two views each, on one H200 in bf16, step by step without CUDA graphs"
    " (`benchmarks/loader.py`). Pictures stay on the GPU as bytes, and views are made there.",
    digits=0,
)


def _clusters(kind: str, label: str) -> Row:
    match = {"kind": "bench", "name": "clustering", "hardware.device": "cpu", f"metrics.{kind}/same partitions": 1.0}
    match |= {"config.patches": 1600, "config.features": 128, "config.threads": 2, "config.best": False}
    parts = ("akorn/ms", "loop/ms", "threads/ms", "speedup over loop", "speedup over threads")
    return Row(label, tuple(Cell(f"{kind}/{part}", match) for part in parts))


CLUSTERING = Table(
    "Clustering beside SciPy",
    ("ours, ms", "SciPy in a loop, ms", "SciPy in threads, ms", "× the loop", "× the threads"),
    (_clusters("objects", "patches of eight objects, with noise"), _clusters("noise", "no structure at all")),
    note="Milliseconds to build the tree of average linkage, per picture of 1,600 patches with 128 features, for many"
    " pictures in a row on two cores of a CPU; beside ours SciPy's `linkage` in a loop and in two threads"
    " (`benchmarks/cluster.py`). The partitions are the same.",
)

_PAIRS = {  # recipes of one task and size: with oscillators, and without
    "Sudoku": ("sudoku_akorn", "sudoku_itrsa"),
    "Tetrominoes": ("tetrominoes_akorn", "tetrominoes_itrsa"),
    "dSprites": ("dsprites_akorn", "dsprites_itrsa"),
    "dSprites, convolutions": ("dsprites_akorn_conv", "dsprites_itrconv"),
    "Shapes, L = 3": ("shapes_akorn_l3", "shapes_itrsa_l3"),
    "CLEVRTex, L = 2": ("clevrtex_akorn_l2", "clevrtex_itrsa_l2"),
    "CIFAR-10": ("cifar10_akorn_conv", "cifar10_itrconv"),
}


def _runtime(recipe: str, mode: str, unit: str) -> Cell:
    """A recipe's figure as a CUDA graph, whatever its batch and steps are called."""

    def look(record: Record) -> float | None:
        metrics = record["metrics"]
        found = [
            value
            for key, value in metrics.items()
            if key.startswith(f"runtime/{recipe}/") and key.endswith(f"/{mode}/graph/{unit}")
        ]
        return found[0] if len(found) == 1 and is_number(found[0]) else None

    return Cell(look, {"kind": "bench", "name": "kernels", "hardware.gpu": _GPU, "config.precision": "bf16"})


RUNTIME = Table(
    "Run time and memory beside ItrSA and ItrConv",
    tuple(
        f"{what}, {unit}, {whose}"
        for what in ("training step", "answers to 100")
        for unit in ("ms", "MiB")
        for whose in ("AKOrN", "without")
    ),
    tuple(
        Row(
            task,
            tuple(
                _runtime(recipe, mode, unit)
                for mode in ("training", "forward")
                for unit in ("ms", "mib")
                for recipe in pair
            ),
        )
        for task, pair in _PAIRS.items()
    ),
    note="AKOrN, and the same network without oscillators: ItrSA, or ItrConv for convolutions. Models and batches are"
    f" the recipes', in bf16 on one {_GPU}, as CUDA graphs, without loading data (`akorn bench --case runtime"
    " --precision bf16 --record results`). The paper shows bars without numbers.",
)

LIKENESS = Table(
    "Rendered scenes beside the original",
    ("ground", "objects", "worst scene, ground", "worst scene, objects", "masks, median IoU"),
    (
        Row(
            "CLEVR",
            tuple(
                Cell(metric, {"kind": "bench", "name": "scenes-compare"})
                for metric in ("ground", "objects", "worst_ground", "worst_objects", "median_iou")
            ),
        ),
    ),
    note="Scenes that were also rendered from the original's files, at 320×240: mean absolute differences in grey"
    " levels (of 255), and how much the masks overlap (`benchmarks/scenes.py compare`). Ours have 64 rays per pixel.",
    digits=3,
)


def _rendered(kind: str, device: str, label: str) -> Row:
    match = {"kind": "bench", "name": "scenes-speed", "config.kind": kind, "config.samples": 16, **_DEVICES[device]}
    return Row(label, (Cell("scenes_per_second", match),))


_DEVICES: dict[str, dict[str, object]] = {
    "gpu": {"hardware.gpu": _GPU},
    "cpu": {"hardware.device": "cpu", "config.threads": 2},
}
RENDERING = Table(
    "Rendering scenes",
    ("scenes per second",),
    tuple(
        _rendered(kind, device, f"`{kind}`, {where}")
        for kind in ("clevr", "clevrtex")
        for device, where in (("gpu", f"one {_GPU}"), ("cpu", "two cores of a CPU"))
    ),
    note="128×128 pixels after the benchmark's crop, 16 rays per pixel, from random numbers to colours and masks"
    " (`benchmarks/scenes.py speed`).",
)

_STEP = {"kind": "bench", "name": "scenes-step", "hardware.gpu": _GPU, "config.batch": 256, "config.samples": 16}
RENDERED_STEPS = Table(
    "What rendering costs a training step",
    ("stored pictures, ms", "rendered on the fly, ms", "rendering alone, ms"),
    tuple(
        Row(f"`{recipe}`", tuple(Cell(f"{recipe}_{kind}_ms", _STEP) for kind in ("stored", "rendered", "rendering")))
        for recipe in ("clevr_akorn", "clevrtex_akorn_l2")
    ),
    note=f"A step of `akorn train` with 256 pictures of 128×128, two views each, on one {_GPU}: with the training set"
    " in memory, and with `--data.endless`, which renders a new scene for each picture (`benchmarks/scenes.py step`)."
    " So it pays to render a training set once and keep it.",
)

TABLES = (
    SPEED, COLD, OWN_LOOP, RUNTIME, COMPILING, PROCESSES, LOADER, CLUSTERING, RENDERING, RENDERED_STEPS, LIKENESS,
)  # fmt: skip

TITLE = "Speed: all tables"
INTRO = """\
Times are medians of the newest record of each kind. **T** is the number of Kuramoto steps, **L** the number of blocks.
A **plain loop** is the equation in plain PyTorch, **fused** the kernels that ship; **no graph** means launched step by
step, as in a training loop of your own, instead of recorded as a CUDA graph."""
