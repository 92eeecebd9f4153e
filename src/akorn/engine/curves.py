"""Loss curves of several runs in one plot."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from akorn.engine import scalars
from akorn.errors import AkornError
from akorn.ledger.records import read_record
from akorn.runtime.files import make_folder, replacing


def read_curve(run: str | Path, metric: str = "loss") -> tuple[list[int], list[float]]:
    """Return steps and values of a metric of a run: its folder, its `scalars.jsonl` or the record of its training."""
    if Path(run).suffix == ".json":
        return _recorded(Path(run), metric)
    rows = scalars.read(Path(run))
    points = [(row["step"], float(row[metric])) for row in rows if metric in row]
    if not points:
        known = sorted({name for row in rows for name in row} - {"step", "seconds"})
        raise AkornError(f"{run}: it has no curve {metric!r}; its curves are: {', '.join(known) or 'none'}")
    return [step for step, _ in points], [value for _, value in points]


def _recorded(path: Path, metric: str) -> tuple[list[int], list[float]]:
    """The same from a record, which keeps at most `scalars.POINTS` points of each curve."""
    known = (read_record(path).get("extra") or {}).get("curve") or {}
    if metric not in known:
        raise AkornError(f"{path}: it has no curve {metric!r}; its curves are: {', '.join(sorted(known)) or 'none'}")
    try:
        return [int(step) for step in known[metric]["steps"]], [float(value) for value in known[metric]["values"]]
    except (KeyError, TypeError, ValueError) as error:
        raise AkornError(f"{path}: damaged, its curve {metric!r} has no steps and values ({error!r})") from error


Runs = Mapping[str, str | Path | Sequence[str | Path]] | Sequence[str | Path]
"""A list of runs, or one or several runs for each label: the seeds of a model, for example."""


def plot_curves(
    runs: Runs, out: str | Path, *, metric: str = "loss", log: bool = False, epoch_steps: int | None = None
) -> Path:
    """Draw a metric of several runs over the steps; `out` ends in .png, .svg or .pdf.

    epoch_steps: the steps of an epoch, to draw it over the epochs instead.

    Runs may have labels; all runs of one label have the same colour.
    """
    out = Path(out)
    labelled = _labelled(runs)
    if not labelled:
        raise AkornError("no runs to plot")
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    if out.suffix[1:].lower() not in figure.canvas.get_supported_filetypes():
        raise AkornError(f"{out}: cannot be written, the name of a plot must end in .png, .svg or .pdf")
    axes = figure.add_subplot()
    for number, (label, each) in enumerate(labelled.items()):
        for place, run in enumerate(each):
            steps, values = read_curve(run, metric)
            marker = "." if len(steps) == 1 else ""
            shown = label if place == 0 else None
            places = steps if epoch_steps is None else [step / epoch_steps for step in steps]
            axes.plot(places, values, label=shown, linewidth=1.4, marker=marker, color=f"C{number % 10}", alpha=0.85)
    axes.set(
        xlabel="step" if epoch_steps is None else "epoch",
        ylabel=f"{metric.removeprefix('eval/')}, validation" if metric.startswith("eval/") else metric,
        yscale="log" if log else "linear",
    )
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    make_folder(out.parent)
    with replacing(out) as temporary:
        figure.savefig(temporary, dpi=150)
    return out


def _labelled(runs: Runs) -> dict[str, list[Path]]:
    if not isinstance(runs, Mapping):
        return {label: [Path(run)] for label, run in _labels([Path(run) for run in runs]).items()}
    each = {label: [run] if isinstance(run, str | Path) else list(run) for label, run in runs.items()}
    return {label: [Path(path) for path in paths] for label, paths in each.items()}


def _labels(runs: Sequence[Path]) -> dict[str, str | Path]:
    """Name each run by its folder, or a record by its file, or by its whole path if names repeat."""
    places = [run if run.is_dir() or run.suffix == ".json" else run.parent for run in runs]
    names = [place.stem if place.suffix == ".json" else place.resolve().name for place in places]
    return {n if names.count(n) == 1 else str(r): r for n, r in zip(names, runs, strict=True)}
