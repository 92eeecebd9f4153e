"""Plots of an evaluation: energy over steps, and by correctness; accuracy against T, against K and by search nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from numpy.typing import ArrayLike, NDArray

from akorn.errors import AkornError
from akorn.runtime.files import replacing
from akorn.sudoku.samples import within_auroc

_RIGHT, _WRONG = "#2a78b5", "#d1603d"
_COLOURS = ("#2a78b5", "#d1603d", "#3f9b6c", "#8a63b0", "#b59a2a", "#555555")


def plot_energy_over_steps(
    curves: Mapping[str, ArrayLike], out: str | Path, *, trained_steps: int | None = None
) -> Path:
    """Mean energy of each set of boards over the steps, with the band that holds the middle half of the boards.

    curves: energies [T, B] by label. trained_steps: the T of training, marked by a dotted line.
    """
    figure, axes = _figure(len(curves), "energy")
    for axis, colour, (label, values) in zip(axes, _cycle(len(curves)), curves.items(), strict=True):
        energies = np.asarray(values, dtype=np.float64)
        if energies.ndim != 2 or not energies.size:
            raise ValueError(f"energies must be [T, B], those of {label!r} have shape {list(energies.shape)}")
        steps = np.arange(1, len(energies) + 1)
        low, high = np.quantile(energies, (0.25, 0.75), axis=1)
        axis.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
        axis.plot(steps, energies.mean(1), color=colour, linewidth=1.5)
        if trained_steps is not None and trained_steps <= len(energies):
            axis.axvline(trained_steps, color="0.4", linestyle=":", linewidth=1.2)
            axis.annotate(
                "trained T", (trained_steps, 1), (3, -10), xycoords=("data", "axes fraction"),
                textcoords="offset points", fontsize=8, color="0.4",
            )  # fmt: skip
        axis.set(title=f"{label} ({energies.shape[1]:,} boards)", xlabel="step", xlim=(1, max(2, len(energies))))
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    return _save(figure, out)


def plot_energy_histogram(
    sets: Mapping[str, tuple[ArrayLike, ArrayLike]], out: str | Path, *, bins: int = 60, name: str = "energy"
) -> Path:
    """Histograms of the energies of correct and of wrong answers, with the AUROC of low energy above them.

    Energies of different boards differ with their givens, so each is shown relative to its board's mean, and boards
    whose answers are all correct or all wrong are left out. sets: (energies, correct) by label, [boards, starts] each.
    """
    figure, axes = _figure(len(sets), "answers")
    for axis, (label, (energies, correct)) in zip(axes, sets.items(), strict=True):
        values = np.asarray(energies, dtype=np.float64)
        right = np.asarray(correct, dtype=bool)
        if values.ndim != 2 or values.shape != right.shape:
            raise ValueError(f"energies and correct must be [boards, starts], got {values.shape} and {right.shape}")
        score = within_auroc(-values, right)
        telling = np.isfinite(values).all(1) & right.any(1) & ~right.all(1)
        values, right = values[telling], right[telling]
        values = (values - values.mean(1, keepdims=True)).ravel()
        right = right.ravel()
        edges = np.histogram_bin_edges(values, bins) if values.size else np.linspace(-1, 1, bins)
        for chosen, colour, word in ((right, _RIGHT, "right"), (~right, _WRONG, "wrong")):
            text = f"{word} ({int(chosen.sum()):,})"
            axis.hist(values[chosen], edges.tolist(), color=colour, alpha=0.6, label=text)
        measured = "no board with both kinds" if np.isnan(score) else f"AUROC {score:.3f}, {telling.sum()} boards"
        axis.set_title(f"{label}\n{measured}", fontsize=10)  # two lines: panels side by side are narrow
        axis.set_xlabel(f"{name}, minus its board's mean")
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.legend(frameon=False)
    return _save(figure, out)


def plot_accuracy(
    curves: Mapping[str, Mapping[int, float]], out: str | Path, *, against: str = "steps T", log: bool = True
) -> Path:
    """Board accuracy in percent against a whole number, such as the steps T or the votes K.

    curves: for each label, accuracy by number.
    """
    figure, (axis,) = _figure(1, "board accuracy (%)", width=6.0)
    _accuracy(axis, curves, against, log)
    axis.legend(frameon=False, loc="best")
    return _save(figure, out)


def plot_accuracy_of_each(
    panels: Mapping[str, Mapping[str, Mapping[int, float]]], out: str | Path, *, against: str = "votes K"
) -> Path:
    """`plot_accuracy` of several models, such as the seeds of one, side by side on the same axes.

    panels: for each title, the curves of its panel.
    """
    figure, axes = _figure(len(panels), "board accuracy (%)", width=3.6)
    for axis, (title, curves) in zip(axes, panels.items(), strict=True):
        _accuracy(axis, curves, against, log=True)
        axis.set_title(title, fontsize=10)
    axes[0].legend(frameon=False, loc="best", fontsize=9)
    return _save(figure, out)


def _accuracy(axis: Axes, curves: Mapping[str, Mapping[int, float]], against: str, log: bool) -> None:
    numbers: set[int] = set()
    if not curves or not all(curves.values()):
        raise ValueError("there is no accuracy to plot")
    for colour, (label, points) in zip(_cycle(len(curves)), curves.items(), strict=True):
        places = sorted(points)
        numbers |= set(places)
        axis.plot(places, [points[p] for p in places], color=colour, marker="o", markersize=4, label=label)
    axis.set(xlabel=against, ylim=(-3, 103))
    if log:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(ScalarFormatter())
    if len(numbers) <= 12:
        axis.set_xticks(sorted(numbers))
        axis.set_xticks([], minor=True)


def plot_by_nodes(curves: Mapping[str, Mapping[str, tuple[float, int]]], out: str | Path) -> Path:
    """Board accuracy in percent by the exact solver's search nodes.

    curves: for each label, (accuracy, number of boards) by group, such as "11-30".
    """
    if not curves or not all(curves.values()):
        raise ValueError("there is no accuracy to plot")
    names = sorted(
        {name for groups in curves.values() for name in groups}, key=lambda name: int(re.split(r"[-+]", name)[0])
    )
    figure, (axis,) = _figure(1, "board accuracy (%)", width=6.4)
    width = 0.8 / len(curves)
    for number, (colour, (label, groups)) in enumerate(zip(_cycle(len(curves)), curves.items(), strict=True)):
        places = [
            place + (number - (len(curves) - 1) / 2) * width for place, name in enumerate(names) if name in groups
        ]
        heights = [groups[name][0] for name in names if name in groups]
        bars = axis.bar(places, heights, width, color=colour, label=label)
        if len(curves) == 1:
            axis.bar_label(bars, [f"{groups[name][1]:,}" for name in names if name in groups], fontsize=8, color="0.35")
    axis.set(xlabel="search nodes of the exact solver", ylim=(0, 108), xticks=range(len(names)))
    axis.set_xticklabels([name.replace("-", "–") for name in names])
    axis.grid(visible=False, axis="x")
    axis.set_axisbelow(True)
    if len(curves) == 1:
        axis.set_title("above the bars: the number of boards", fontsize=9, color="0.35")
    else:  # above the bars, which reach the top where all is solved
        axis.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(curves))
    return _save(figure, out)


def _figure(count: int, ylabel: str, width: float = 4.6) -> tuple[Figure, list[Axes]]:
    if count < 1:
        raise ValueError("there is nothing to plot")
    figure = Figure(figsize=(width * count, 3.8), layout="constrained")
    grid: NDArray[np.object_] = figure.subplots(1, count, squeeze=False)
    axes: list[Axes] = list(grid[0])
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(ylabel)
    return figure, axes


def _cycle(count: int) -> list[str]:
    return [_COLOURS[i % len(_COLOURS)] for i in range(count)]


def _save(figure: Figure, out: str | Path) -> Path:
    path = Path(out)
    kind = path.suffix.lstrip(".").lower()
    known = figure.canvas.get_supported_filetypes()
    if kind not in known:
        raise AkornError(f"cannot write {path}: the name of a plot must end in .png, .svg or .pdf")
    with replacing(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150)
    return path
