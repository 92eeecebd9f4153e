"""Plots of an evaluation: reliability, accuracy against ε or steps, adversarial pictures beside the originals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter
from numpy.typing import NDArray
from torch import Tensor

from akorn.errors import AkornError
from akorn.robustness.calibration import Reliability
from akorn.runtime.files import replacing

_RIGHT, _WRONG = "#2a78b5", "#d1603d"
_FEW = 0.005  # share of the predictions below which a bin says little
_COLOURS = ("#2a78b5", "#d1603d", "#3f9b6c", "#8a63b0", "#b59a2a", "#555555")


def plot_reliability(sets: Mapping[str, Reliability], out: str | Path) -> Path:
    """Accuracy against confidence, one panel per set (Figure 9); on the diagonal, confidence is accuracy.

    The lower panel shows the share of the predictions in each bar; bars with hardly any are pale.
    """
    if not sets:
        raise ValueError("there is nothing to plot")
    figure = Figure(figsize=(3.9 * len(sets), 4.6), layout="constrained")
    grid: NDArray[np.object_] = figure.subplots(
        2, len(sets), squeeze=False, sharex=True, height_ratios=(4, 1), gridspec_kw={"hspace": 0.02}
    )
    for column, (label, found) in enumerate(sets.items()):
        _reliability(grid[0, column], grid[1, column], label, found)
    grid[0, 0].set_ylabel("accuracy")
    grid[1, 0].set_ylabel("share")
    return _save(figure, out)


def _reliability(upper: Axes, lower: Axes, label: str, found: Reliability) -> None:
    bins = len(found.edges) - 1
    share = found.count.double() / found.count.sum()
    share[bins - 1] += share[bins]  # those with a confidence of exactly 1 are shown in the last bin
    weight = found.count.double()
    right = (found.accuracy * weight, found.confidence * weight)
    total = weight.clone()
    for values in (*right, total):
        values[bins - 1] += values[bins]
    total = total[:bins].clamp_min(1)
    accuracy, confidence = (values[:bins] / total for values in right)
    left, width = found.edges[:bins].numpy(), 1 / bins
    some = (share[:bins] > 0).numpy()
    strength = np.where(share[:bins].numpy()[some] < _FEW, 0.25, 0.85)
    upper.plot((0, 1), (0, 1), color="0.5", linewidth=1, linestyle="--")
    for place, height, alpha in zip(left[some], accuracy.numpy()[some], strength, strict=True):
        upper.bar(place, height, width, align="edge", color=_RIGHT, edgecolor="white", alpha=float(alpha))
    upper.plot(confidence.numpy()[some], accuracy.numpy()[some], "o", color=_WRONG, markersize=4, clip_on=False)
    upper.set(xlim=(0, 1), ylim=(0, 1))
    upper.set_title(f"{label}\n{int(found.count.sum()):,} answers, ECE {found.ece:.1f} %", fontsize=10)
    lower.bar(left, share[:bins].numpy(), width, align="edge", color="0.6", edgecolor="white")
    lower.set(xlabel="confidence")
    for axis in (upper, lower):
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)


def plot_accuracy(
    curves: Mapping[str, Mapping[float, float]],
    out: str | Path,
    *,
    against: str = "ε (of 255)",
    log: bool = False,
    pictures: int | None = None,
) -> Path:
    """Accuracy in percent against a number, such as ε or the attack's steps; for each label, accuracy by number.

    pictures: the number behind each point; if given, a band of two standard errors is drawn too.
    """
    if not curves or not all(curves.values()):
        raise ValueError("there is no accuracy to plot")
    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axis: Axes = figure.subplots()
    places: set[float] = set()
    for index, (label, points) in enumerate(curves.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        x = np.array(sorted(points))
        y = np.array([points[place] for place in sorted(points)])
        places |= set(points)
        axis.plot(x, y, color=colour, marker="o", markersize=4, label=label)
        if pictures:
            band = 200 * np.sqrt(y / 100 * (1 - y / 100) / pictures)
            axis.fill_between(x, (y - band).clip(0), (y + band).clip(max=100), color=colour, alpha=0.15, linewidth=0)
    axis.set(xlabel=against, ylabel="accuracy (%)", ylim=(-3, 103))
    if log:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(ScalarFormatter())
        axis.set_xticks(sorted(places))
        axis.set_xticks([], minor=True)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="best")
    return _save(figure, out)


def plot_adversarial(
    originals: Tensor,
    adversarial: Tensor,
    before: Sequence[str],
    after: Sequence[str],
    truth: Sequence[str],
    out: str | Path,
    *,
    pairs: int = 4,
    title: str = "",
) -> Path:
    """Pairs of a picture and its adversarial version, with what the model says above each (Figure 29).

    originals, adversarial: [B, 3, H, W] from 0 to 1; before, after: the model's answers, coloured where they are wrong;
    pairs: how many in one row.
    """
    count = len(originals)
    if not count or adversarial.shape != originals.shape or {len(before), len(after), len(truth)} != {count}:
        raise ValueError(
            f"expected as many pictures and answers of one shape, got {list(originals.shape)},"
            f" {list(adversarial.shape)}, {len(before)}, {len(after)} and {len(truth)}"
        )
    pairs = min(pairs, count)
    rows = -(-count // pairs)
    widths = [1.0, 1.0, 0.18] * pairs
    figure = Figure(figsize=(1.25 * sum(widths), 1.5 * rows + 0.25 * len(title.splitlines())), layout="constrained")
    grid: NDArray[np.object_] = figure.subplots(rows, len(widths), squeeze=False, width_ratios=widths)
    axes: list[Axes] = list(grid.flat)  # type: ignore[arg-type]
    for axis in axes:
        axis.set_axis_off()
    for place in range(count):
        row, column = divmod(place, pairs)
        for offset, (picture, text) in enumerate(
            ((originals[place], before[place]), (adversarial[place], after[place]))
        ):
            axis = grid[row, 3 * column + offset]
            axis.imshow(picture.permute(1, 2, 0).clamp(0, 1).cpu().numpy(), interpolation="nearest")
            axis.set_title(text, fontsize=9, color="black" if text == truth[place] else _WRONG)
    if title:
        figure.suptitle(title, fontsize=10)
    return _save(figure, out)


def _save(figure: Figure, out: str | Path) -> Path:
    path = Path(out)
    kind = path.suffix.lstrip(".").lower()
    if kind not in figure.canvas.get_supported_filetypes():
        raise AkornError(f"cannot write {path}: a plot ends in .png, .svg or .pdf")
    with replacing(path) as temporary:
        figure.savefig(temporary, format=kind, dpi=150)
    return path
