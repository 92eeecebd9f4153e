"""Plots of an evaluation: scores against the number of clusters, and pages of examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from akorn.errors import AkornError
from akorn.objects.colouring import (
    Pixels,
    as_rgb,
    colour_features,
    colour_labels,
    like_truth,
    overlay,
    write_page,
)
from akorn.objects.data.picture_sets import Pictures
from akorn.objects.evaluate import Evaluation
from akorn.objects.segmenter import Segmenter
from akorn.objects.tree import Auto
from akorn.runtime.files import replacing

_COLOURS = ("#2a78b5", "#d1603d", "#3f9b6c", "#8a63b0", "#b59a2a", "#555555")
_WORDS = {"fg_ari": "FG-ARI", "mbo": "MBO", "mbo_i": "MBO$_i$", "mbo_c": "MBO$_c$"}


def plot_against_clusters(
    curves: Mapping[str, Mapping[int, Evaluation]], out: Path, *, marked: int | None = None
) -> Path:
    """Scores in percent against the number of clusters, one panel per score, one line per label.

    marked: the paper's number of clusters, shown by a dotted line.
    """
    if not curves or not all(curves.values()):
        raise ValueError("there is no score to plot")
    kind = out.suffix.lstrip(".").lower()
    known = [name for name in _WORDS if all(name in e.scores for curve in curves.values() for e in curve.values())]
    names = [name for name in known if not (name == "mbo" and "mbo_i" in known)]  # the same numbers
    figure = Figure(figsize=(4.4 * len(names), 3.6), layout="constrained")
    if kind not in figure.canvas.get_supported_filetypes():
        raise AkornError(f"cannot write {out}: the name of a plot must end in .png, .svg or .pdf")
    axes = list(np.ravel(figure.subplots(1, len(names), squeeze=False)))
    for axis, name in zip(axes, names, strict=True):
        for number, (label, curve) in enumerate(curves.items()):
            places = sorted(curve)
            values = [curve[place].scores[name] for place in places]
            colour = _COLOURS[number % len(_COLOURS)]
            axis.plot(places, values, color=colour, marker="o", markersize=4, label=label)
        if marked is not None:
            axis.axvline(marked, color="0.5", linestyle=":", linewidth=1.2)
        axis.set(xlabel="clusters", ylabel=f"{_WORDS[name]} (%)")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    with replacing(out) as temporary:
        figure.savefig(temporary, format=kind, dpi=150)
    return out


def plot_examples(segmenter: Segmenter, pictures: Pictures, clusters: int | Auto, out: Path) -> Path:
    """A page of pictures, each with its features in PCA colours, its clusters, and the truth if it is known."""
    height, width = pictures.images.shape[2:]
    features = segmenter.features(torch.from_numpy(pictures.images))
    masks = segmenter.masks(features, (height, width), torch.from_numpy(pictures.images))(clusters).cpu().numpy()
    headings = ["picture", "features", "clusters", *(["truth"] if pictures.labels is not None else ["overlay"])]
    rows: list[list[Pixels]] = []
    for index, (image, mask) in enumerate(zip(pictures.images, masks, strict=True)):
        row = [as_rgb(image), colour_features(features[index])]
        if pictures.labels is None:
            row += [colour_labels(mask), overlay(image, mask)]
        else:
            truth = pictures.labels[index]
            row += [colour_labels(like_truth(mask, truth)), colour_labels(truth)]
        rows.append(row)
    return write_page(out, headings, rows)


def plot_components(segmenter: Segmenter, pictures: Pictures, out: Path, *, groups: int = 4) -> Path:
    """A page of pictures with their features' principal components 1–3, 4–6 and so on in colours."""
    features = segmenter.features(torch.from_numpy(pictures.images))
    headings = ["picture", *(f"PCA {3 * group + 1}-{3 * group + 3}" for group in range(groups))]
    rows = [
        [as_rgb(image), *(colour_features(one, 3 * group) for group in range(groups))]
        for image, one in zip(pictures.images, features, strict=True)
    ]
    return write_page(out, headings, rows)
