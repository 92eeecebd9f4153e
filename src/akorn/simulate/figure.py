"""Simulations as figures: energy and order parameter over time, and synchrony over the coupling strength."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from akorn.simulate.classic import theoretical_synchrony
from akorn.simulate.frames import LINES, colours
from akorn.simulate.result import Simulation, Sweep


def figure_of(result: Simulation | Sweep) -> Figure:
    """The figure that accompanies the animation."""
    return _lattice(result) if isinstance(result, Simulation) else _sweep(result)


def _lattice(result: Simulation) -> Figure:
    """States at some times, then energy, order parameter and movement over time."""
    figure = Figure(figsize=(10, 4.6), layout="constrained", dpi=120)
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1, 1.4))[:, 0]
    # Most happens in the first steps, so the pictures are not evenly spaced.
    chosen = np.unique((np.linspace(0, 1, 6) ** 2 * (len(result.frames) - 1)).round().astype(int))
    axes = above.subplots(1, len(chosen) + 1, squeeze=False)[0]
    axes[0].imshow(result.stimulus[..., 0] > 0, cmap="gray", vmin=0, vmax=1)
    axes[0].set_title("C", fontsize=9)
    for place, index in zip(axes[1:], chosen, strict=True):
        place.imshow(colours(result.frames[index]), interpolation="nearest")
        place.set_title(f"step {result.frame_steps[index]}", fontsize=9)
    for place in axes:
        place.set(xticks=[], yticks=[])
    energy, order, movement = below.subplots(1, 3)
    energy.plot(result.energies, color="C3")
    energy.set(ylabel="energy E", title="conditions hold" if result.report.holds else _failed(result))
    order.plot(result.order, color="C0")
    order.set(ylabel="order parameter R", ylim=(0, 1.02))
    movement.semilogy(result.movement_white, color="C7", label="white (c = 1)")
    movement.semilogy(result.movement_black, color="k", label="black (c = 0)")
    movement.set(ylabel="angle moved in a step")
    movement.legend(frameon=False, fontsize=8)
    for place in (energy, order, movement):
        _dress(place, "step")
    return figure


def _sweep(result: Sweep) -> Figure:
    """Synchrony over K, measured and in theory, and the order parameter over time for some K."""
    figure = Figure(figsize=(10, 4.6), layout="constrained", dpi=120)
    curve, time = figure.subplots(1, 2)
    s = result.settings
    fine = np.linspace(min(s.k_min, 0.0), s.k_max, 200)
    curve.plot(
        fine,
        theoretical_synchrony(fine, s.frequencies, s.spread),
        color="0.6",
        label="theory, infinitely many, all to all",
    )
    curve.axvline(result.critical_coupling, color="C3", ls="--", label=f"2/(π g(0)) = {result.critical_coupling:.3g}")
    where = "all to all" if s.network == "all" else f"{s.network} network, mean degree {s.degree}"
    curve.plot(result.couplings, result.synchrony, "ko", ms=4, label=f"{s.oscillators} oscillators, {where}")
    curve.set(ylabel="r, mean over the second half", ylim=(0, 1.02), title=f"{s.frequencies} frequencies")
    _legend_below(curve, columns=1)
    for index, ink in zip(result.shown, LINES, strict=False):
        label = f"K = {result.couplings[index]:.2f}"
        time.plot(result.order[:, index], color=np.array(ink) / 255, lw=1, label=label)
    time.set(ylabel="order parameter r", ylim=(0, 1.02))
    _legend_below(time, columns=3)
    _dress(curve, "coupling strength K")
    _dress(time, "step")
    return figure


def _legend_below(axes: Axes, columns: int) -> None:
    """The legend below the axes, since free space inside them depends on the settings."""
    axes.legend(frameon=False, fontsize=8, ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.14))


def _failed(result: Simulation) -> str:
    return "conditions violated: " + ", ".join(result.report.failures)


def _dress(axes: Axes, xlabel: str) -> None:
    axes.set_xlabel(xlabel)
    axes.grid(alpha=0.3)
    axes.title.set_fontsize(9)
