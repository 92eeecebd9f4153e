"""From pictures to masks, by clustering a model's features; used by evaluation, `akorn segment` and plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, Self, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from akorn.augment.image_batch import as_float
from akorn.errors import AkornError
from akorn.objects.cluster import Method, check_memory, kmeans_memory, partitions
from akorn.objects.edges import at_edges, check_edges
from akorn.objects.features import COMPONENTS, as_masks, as_points, check_factor, enlarge, uptile, with_places
from akorn.objects.tree import RATIO, Auto, Counts
from akorn.runtime.devices import device_memory, pick_device

# Rec. 601, as in Pillow's conversion to grey.
_GREY = (0.299, 0.587, 0.114)


Read = Literal["m", "x", "both"]
"""What is clustered: the readout m (C^(L), as in the paper), the states x of the last block, or both, concatenated."""


class Extractor(Protocol):
    """A model whose features can be clustered: the room's own, or a frozen one (`frozen.FrozenFeatures`)."""

    @property
    def config(self) -> Any:
        """With `patch` and `image_size` in pixels, and `image_channels`."""

    def features(self, images: Tensor, steps: int | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Pictures [B, C, H, W], floats in 0–1 → features [B, K, h, w]."""

    def parameters(self) -> Any:
        """Tensors on the model's device."""


@dataclass(frozen=True)
class SegmentSettings:
    """How features become masks; the defaults are the published protocol without up-tiling."""

    method: Method = "average"
    uptile: int = 1
    """Up-tiling by this factor, which must divide the patch size."""
    bilinear: int = 1
    """Bilinear enlargement of the features by this factor, for comparison with up-tiling."""
    components: int = COMPONENTS
    """Number of principal components that are clustered."""
    steps: int | None = None
    """Steps T of each block; None for those of training."""
    seed: int = 0
    """Seed of the oscillators' start and of k-means."""
    input: int | None = None
    """The side to which pictures are shrunk for the model; masks keep the pictures' size. None: as they are."""
    read: Read = "m"
    """Cluster the readout m, the states x, or both."""
    least: float = 0.0
    """The smallest share of the points that a cluster may have; 0 for the published protocol."""
    ratio: float = RATIO
    """If the number of clusters is "auto": merges higher than this share of the highest are undone."""
    places: float = 0.0
    """How much the place of a point counts beside its features, which have length 1: the picture's sides are this
    long. 0 for the published protocol, which does not look at places."""
    edges: float = 0.0
    """How much neighbours of similar colours count in every pixel's cluster (`edges.at_edges`), after the clustering.
    0 for the published protocol, which does not look at colours."""

    def __post_init__(self) -> None:
        for name, value, known in (("method", self.method, get_args(Method)), ("read", self.read, get_args(Read))):
            if value not in known:
                raise AkornError(f"{name} is {value!r}, expected one of {', '.join(known)}")
        if not 0 <= self.least < 0.5 or not 0 < self.ratio < 1:
            raise AkornError(
                f"the least share of a cluster is {self.least:g}, expected from 0 to below 0.5, and the ratio"
                f" {self.ratio:g}, expected between 0 and 1"
            )
        if self.least and self.method != "average":
            raise AkornError(
                f"the least share of a cluster, {self.least:g}, is for average linkage, not for {self.method}"
            )
        if not 0 <= self.places < float("inf"):
            raise AkornError(f"the weight of places is {self.places:g}, expected 0 or more")
        check_edges(self.edges)
        if self.bilinear < 1 or self.components < 1:
            raise AkornError(
                f"the enlargement and the number of components must be at least 1, got {self.bilinear}"
                f" and {self.components}"
            )


class Segmenter:
    """A model and how its features become masks.

    Pictures are [B, C, H, W], bytes or floats in 0–1, of any size that is a multiple of the patch size.
    """

    def __init__(self, model: Extractor, settings: SegmentSettings | None = None) -> None:
        settings = settings if settings is not None else SegmentSettings()
        if settings.steps is None:
            settings = replace(settings, steps=getattr(model.config, "steps", None))  # for the records
        self.model, self.settings = model, settings
        self.device: torch.device = next(iter(model.parameters())).device
        check_factor(model.config.patch, self.settings.uptile)
        if settings.input is not None and (settings.input < 1 or settings.input % model.config.patch):
            raise AkornError(
                f"the model's input of {settings.input} pixels cannot be cut into patches of {model.config.patch}"
            )
        if settings.read != "m" and not hasattr(model, "states"):
            raise AkornError(f"{type(model).__name__} has no states x to cluster, only its features")

    @classmethod
    def from_pretrained(
        cls, name_or_folder: str | Path = "shapes", settings: SegmentSettings | None = None, device: str = "auto"
    ) -> Self:
        """With shipped weights by name, or a model from a folder or the hub."""
        from akorn.objects.net import ObjectsNet

        return cls(ObjectsNet.from_pretrained(name_or_folder, device=pick_device(device)), settings)

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """The grid of points, rows and columns, that a picture of that size gives; AkornError if patches do not fit."""
        patch = self.model.config.patch
        if self.settings.input is not None:
            height = width = self.settings.input
        if height < patch or width < patch or height % patch or width % patch:
            raise AkornError(f"pictures of {height} × {width} pixels cannot be cut into patches of {patch} × {patch}")
        times = self.settings.uptile * self.settings.bilinear
        return height // patch * times, width // patch * times

    def check(self, clusters: int | Auto, height: int, width: int) -> None:
        """AkornError unless pictures of that size can have this many clusters and fit into memory."""
        method = self.settings.method
        if clusters == "auto" and method != "average":
            raise AkornError(f"the number of clusters cannot be chosen by {method}: give a number, or average linkage")
        rows, columns = self.grid(height, width)
        clusters = 1 if isinstance(clusters, str) else clusters
        if not 1 <= clusters <= rows * columns:
            raise AkornError(
                f"{clusters} clusters cannot be made: a picture of {height} × {width} pixels has {rows * columns}"
                f" patches, expected at least 1 and at most that many"
            )
        self._check_memory(rows * columns, clusters, height, width)

    def _check_memory(self, patches: int, clusters: int, height: int, width: int) -> None:
        """AkornError if one picture does not fit into memory: its pixels and features, or its clustering.

        Both are lower bounds, so nothing is refused that would have run.
        """
        config, components = self.model.config, self.settings.components
        channels = getattr(config, "channels", None) or components
        features = 4 * patches * channels
        # Pixels as floats, as they are and scaled to −1 to 1, then two masks with 8 bytes per pixel.
        looking = max(8 * config.image_channels, 16) * height * width + features
        have = device_memory(self.device)
        if looking > have:
            raise _too_much(f"pictures of {height:,} × {width:,} pixels are too large: they need", looking, have)
        grouping = features + kmeans_memory(patches, channels, components, clusters, self.device)
        if self.settings.method == "kmeans":
            if grouping > have:
                raise _too_much(
                    f"{patches:,} patches per picture are too many for k-means, which needs", grouping, have
                )
            return
        try:
            check_memory(patches, self.device)
        except AkornError as error:
            if grouping <= have:
                raise  # its message suggests k-means
            what = f"{patches:,} patches per picture are too many for average linkage, and for k-means, which needs"
            raise _too_much(what, grouping, have) from error

    @torch.inference_mode()
    def features(self, images: Tensor, number: int = 0) -> Tensor:
        """[B, K, h, w], up-tiled or enlarged; batches with different `number` get different starts."""
        _check_pictures(images)
        settings = self.settings
        pictures = as_channels(as_float(images.to(self.device)), self.model.config.image_channels)
        self.grid(*pictures.shape[2:])
        if settings.input is not None and tuple(pictures.shape[2:]) != (settings.input, settings.input):
            size = (settings.input, settings.input)
            pictures = F.interpolate(pictures, size, mode="bilinear", align_corners=False, antialias=True)
        generator = self._generator(number)

        def extract(windows: Tensor) -> Tensor:
            if settings.read == "m":
                return self.model.features(windows, settings.steps, generator)
            readout, states = self.model.states(windows, settings.steps, generator)  # type: ignore[attr-defined]
            if settings.read == "x":
                return states
            return torch.cat((F.normalize(readout, dim=1), F.normalize(states, dim=1)), 1)

        return enlarge(uptile(extract, pictures, self.model.config.patch, settings.uptile), settings.bilinear)

    @torch.inference_mode()
    def trajectory(self, images: Tensor, number: int = 0) -> list[Tensor]:
        """The states of the first picture's oscillators over time: [T + 1, C, h, w] for each block."""
        _check_pictures(images)
        states = getattr(self.model, "trajectory", None)
        if states is None:
            raise AkornError(f"{type(self.model).__name__} has no oscillators to show")
        pictures = as_channels(as_float(images[:1].to(self.device)), self.model.config.image_channels)
        return [block[:, 0] for block in states(pictures, self.settings.steps, self._generator(number))]

    def masks(
        self, features: Tensor, size: tuple[int, int], images: Tensor | None = None
    ) -> Callable[[Counts | Auto], Tensor]:
        """A function from numbers of clusters to masks [B, H, W] of that size; of features [B, K, h, w].

        images: the pictures [B, C, …], at any resolution, for `edges`, which needs them.
        """
        grid = (features.shape[2], features.shape[3])
        settings = self.settings
        points = as_points(features, settings.components)
        if settings.places:
            points = with_places(points, grid, settings.places)
        cut = partitions(points, settings.method, seed=settings.seed, least=settings.least, ratio=settings.ratio)
        if not settings.edges:
            return lambda clusters: as_masks(cut(clusters), grid, size)
        if images is None:
            raise ValueError("masks that follow edges need the pictures")
        colours = as_float(images.to(self.device))
        return lambda clusters: at_edges(cut(clusters), features, colours, settings.edges, size)

    def _generator(self, number: int) -> torch.Generator:
        return torch.Generator(self.device).manual_seed((self.settings.seed * 1_000_003 + number) % 2**63)

    def segment(
        self, images: Tensor, clusters: Counts | Auto, number: int = 0, *, original: Tensor | None = None
    ) -> Tensor:
        """Masks [B, H, W], int64 from 0, of pictures [B, C, H, W].

        original: the same pictures at a higher resolution, which masks then have, as far as their edges are looked for.
        """
        _check_pictures(images)
        seen = images if original is None or not self.settings.edges else original
        height, width = seen.shape[2:]
        return self.masks(self.features(images, number), (height, width), seen)(clusters)


def _check_pictures(images: object) -> None:
    """AkornError unless these are pictures in a tensor."""
    if not isinstance(images, Tensor):
        raise AkornError(f"pictures must be a tensor [B, C, H, W], got {type(images).__name__}")
    if images.ndim != 4:
        raise AkornError(f"pictures must be [B, C, H, W], got an array of shape {list(images.shape)}")


def _too_much(what: str, need: int, have: float) -> AkornError:
    return AkornError(
        f"{what} {need / 2**30:,.1f} GiB of memory, the machine has {have / 2**30:,.1f}; choose a smaller --uptile or"
        f" --size"
    )


def as_channels(images: Tensor, channels: int) -> Tensor:
    """Floats [B, 1 or 3, H, W] with 1 or 3 channels: grey is repeated, colours become their luminance."""
    if images.shape[1] == channels:
        return images
    if images.shape[1] == 1:
        return images.expand(-1, channels, -1, -1)
    weights = torch.tensor(_GREY, device=images.device, dtype=images.dtype).view(1, 3, 1, 1)
    return (images * weights).sum(1, keepdim=True)


def data_set_of(model: str | Path) -> str | None:
    """The data set of a model, from its name or the recipe in its folder; None if unknown."""
    from akorn.models import training_of
    from akorn.objects.data.sets import SETS

    origin = training_of(str(model))
    for text in (str(origin["recipe"]) if origin is not None else "", Path(model).name):
        name = text.replace("_", "-")
        for known in sorted(SETS, key=len, reverse=True):  # clevrtex-ood before clevrtex before clevr
            if name == known or name.startswith(f"{known}-"):
                return known
    return None
