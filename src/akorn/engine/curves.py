"""Loss curves of several runs in one plot."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from akorn.engine import scalars
from akorn.errors import AkornError
from akorn.runtime.files import make_folder, replacing


def read_curve(run: str | Path, metric: str = "loss") -> tuple[list[int], list[float]]:
    """Return steps and values of a metric of a run (its folder or its `scalars.jsonl`)."""
    rows = scalars.read(Path(run))
    points = [(row["step"], float(row[metric])) for row in rows if metric in row]
    if not points:
        known = sorted({name for row in rows for name in row} - {"step", "seconds"})
        raise AkornError(f"{run}: it has no curve {metric!r}; its curves are: {', '.join(known) or 'none'}")
    return [step for step, _ in points], [value for _, value in points]


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
    """Name each run by its folder, or by its whole path if names repeat."""
    folders = [run if run.is_dir() else run.parent for run in runs]
    names = [folder.resolve().name for folder in folders]
    return {n if names.count(n) == 1 else str(r): r for n, r in zip(names, runs, strict=True)}
