"""Scores of object discovery: FG-ARI and MBO of a model's clusters on pictures with masks, in percent."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from akorn.errors import AkornError
from akorn.objects import metrics
from akorn.objects.cluster import Method
from akorn.objects.data.picture_sets import Pictures, PictureSet
from akorn.objects.features import COMPONENTS
from akorn.objects.segmenter import Extractor, Read, Segmenter, SegmentSettings
from akorn.objects.tree import RATIO, Auto
from akorn.runtime import processes
from akorn.runtime.progress import progress_bar

Floats = NDArray[np.float64]
# Left out of records if they follow the published protocol: settings that came later, which older records lack.
_PLAIN: dict[str, Any] = {"input": None, "read": "m", "least": 0.0, "ratio": RATIO, "places": 0.0, "edges": 0.0}
_CELLS = 2**22  # roughly the patches × channels clustered at one time; it determines the batch


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation; scores in percent."""

    fg_ari: float
    mbo: float
    mbo_i: float | None
    """MBO over instances and over classes, if the data has classes."""
    mbo_c: float | None
    per_picture: dict[str, Floats]
    """[N] by score, in percent; NaN if a picture has nothing to score."""
    clusters: int | Auto
    settings: SegmentSettings
    batch: int
    """Pictures per batch; the random starts depend on it."""
    seconds: float

    @property
    def scores(self) -> dict[str, float]:
        """The scores that exist, by name."""
        found = {"fg_ari": self.fg_ari, "mbo": self.mbo, "mbo_i": self.mbo_i, "mbo_c": self.mbo_c}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def errors(self) -> dict[str, float]:
        """Standard errors of the scores, as `fg_ari_error` and so on; none if fewer than two pictures have a score.

        s / √n over the n pictures that have a score: how much other pictures would change it. Other training
        seeds change it more.
        """
        found = {}
        for name in self.scores:
            values = self.per_picture["mbo" if name == "mbo_i" else name]
            values = values[~np.isnan(values)]
            if len(values) > 1:
                found[f"{name}_error"] = float(values.std(ddof=1)) / math.sqrt(len(values))
        return found

    def as_json(self) -> dict[str, Any]:
        """Scores, their errors and settings as JSON values."""
        settings = {key: value for key, value in asdict(self.settings).items() if _PLAIN.get(key, ...) != value}
        facts = {"pictures": len(self.per_picture["mbo"]), "clusters": self.clusters, **settings}
        return {**self.scores, **self.errors, **facts, "batch": self.batch, "seconds": self.seconds}


def evaluate(
    model: Extractor,
    data: PictureSet,
    clusters: int | Auto | None = None,
    *,
    uptile: int = 1,
    bilinear: int = 1,
    method: Method = "average",
    components: int = COMPONENTS,
    steps: int | None = None,
    seed: int = 0,
    input: int | None = None,
    read: Read = "m",
    least: float = 0.0,
    ratio: float = RATIO,
    places: float = 0.0,
    edges: float = 0.0,
    batch: int | None = None,
    progress: bool = False,
) -> Evaluation:
    """Score a model's clusters on pictures with masks.

    clusters: by default the number in the paper's tables for the data. input: the side to which pictures are shrunk for
    the model, while masks keep theirs. batch: pictures at a time; the random starts depend only on it and on the seed.
    The others: see `SegmentSettings`. Several processes (accelerate launch) share the batches, and all return the same
    result.
    """
    count = data.clusters if clusters is None else clusters
    settings = SegmentSettings(
        method=method,
        uptile=uptile,
        bilinear=bilinear,
        components=components,
        steps=steps,
        seed=seed,
        input=input,
        read=read,
        least=least,
        ratio=ratio,
        places=places,
        edges=edges,
    )
    return evaluate_counts(model, data, [count], settings, batch=batch, progress=progress)[count]


def evaluate_counts(
    model: Extractor,
    data: PictureSet,
    counts: Sequence[int | Auto],
    settings: SegmentSettings | None = None,
    *,
    batch: int | None = None,
    progress: bool = False,
) -> dict[int | Auto, Evaluation]:
    """`evaluate` for several numbers of clusters; features are computed and trees built once."""
    segmenter = Segmenter(model, settings)
    counts = list(dict.fromkeys(counts))
    if not counts or not len(data):
        raise AkornError("there is nothing to score: no pictures, or no number of clusters")
    first = data.load([0])
    if first.labels is None:
        raise AkornError(f"{data.name}: the pictures have no masks, so there is nothing to score against")
    for count in counts:
        segmenter.check(count, *first.images.shape[2:])
    names = ["fg_ari", "mbo"] if first.classes is None else ["fg_ari", "mbo", "mbo_c"]
    if batch is None:
        rows, columns = segmenter.grid(*first.images.shape[2:])
        batch = max(1, min(64, _CELLS // (rows * columns * 128)))
    elif batch < 1:
        raise AkornError(f"the batch must be at least 1, got {batch}")
    began = time.monotonic()
    was_training = bool(getattr(model, "training", False))
    _train(model, False)
    try:
        table = _score_all(segmenter, data, counts, names, batch, progress)
    finally:
        _train(model, was_training)
    seconds = time.monotonic() - began
    found = {}
    for count, rows_of in zip(counts, table, strict=True):
        each = {name: 100 * values.numpy() for name, values in zip(names, rows_of, strict=True)}
        means = {name: 100 * metrics.mean(values) for name, values in zip(names, rows_of, strict=True)}
        if means["mbo"] != means["mbo"]:
            raise AkornError(f"{data.name}: no picture has an object in its mask, so there is nothing to score")
        instances = means["mbo"] if first.classes is not None else None
        found[count] = Evaluation(
            means["fg_ari"],
            means["mbo"],
            instances,
            means.get("mbo_c"),
            each,
            count,
            segmenter.settings,
            batch,
            seconds,
        )
    return found


def _score_all(
    segmenter: Segmenter, data: PictureSet, counts: list[int | Auto], names: list[str], batch: int, progress: bool
) -> Tensor:
    """[counts, scores, N], in 0..1: each process scores its share of the batches, then all are combined."""
    rank, world = processes.place(segmenter.device)
    total = len(data)
    table = torch.zeros(len(counts), len(names), total, dtype=torch.float64)
    starts = range(0, total, batch)
    with progress_bar(f"{total} pictures", wanted=progress and rank == 0) as report:
        for done, start in enumerate(starts[rank::world], 1):
            chosen = list(range(start, min(start + batch, total)))
            scores = _score_batch(segmenter, data.load(chosen), counts, names, start // batch)
            table[:, :, chosen] = scores
            report(done, len(starts[rank::world]))
    return processes.add_up(table, segmenter.device) if world > 1 else table


def _score_batch(
    segmenter: Segmenter, pictures: Pictures, counts: list[int | Auto], names: list[str], number: int
) -> Tensor:
    """[counts, scores, B] of one batch."""
    truths = {"fg_ari": pictures.labels, "mbo": pictures.labels, "mbo_c": pictures.classes}
    images = torch.from_numpy(pictures.images)
    height, width = images.shape[2:]
    cut = segmenter.masks(segmenter.features(images, number), (height, width), images)
    rows = []
    for count in counts:
        masks = cut(count)
        row = []
        for name in names:
            truth = truths[name]
            if truth is None:
                raise AkornError(f"{pictures.name}: some pictures have a kind of mask that others do not have")
            score = metrics.fg_ari if name == "fg_ari" else metrics.mbo
            row.append(score(masks, torch.from_numpy(truth)).cpu())
        rows.append(torch.stack(row))
    return torch.stack(rows)


def _train(model: Extractor, mode: bool) -> None:
    if isinstance(model, torch.nn.Module):
        model.train(mode)
