"""The page's own mathematics compared with the package's: random numbers, sizes of pictures, clusters."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.cluster.hierarchy import cut_tree, linkage
from sklearn.metrics import adjusted_rand_score

from akorn.models import load_model
from akorn.objects.colouring import background_first
from akorn.objects.config import AkornConfig
from akorn.objects.data.sets import SETS
from akorn.objects.features import as_points
from akorn.objects.segmenter import data_set_of
from akorn.runtime.randomness import derive_seed

from .chromium import Chromium

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, 5, 999_999])
def test_it_draws_what_torch_draws(page: Chromium, seed: int) -> None:
    count = 1600  # more than the generator's state
    code = f"new TorchGenerator(deriveSeed({seed}, 'classify')).normal({count})"
    got = page.evaluate(f"import('./torch_random.mjs').then(({{ TorchGenerator, deriveSeed }}) => Array.from({code}))")
    wanted = torch.randn(count, generator=torch.Generator().manual_seed(derive_seed(seed, "classify")))
    np.testing.assert_allclose(got, wanted.numpy(), atol=1e-5)


@pytest.mark.parametrize(("width", "height", "side"), [(75, 50, 32), (20, 31, 32), (300, 64, 64)])
@pytest.mark.parametrize(
    ("name", "kind"), [("bicubic", Image.Resampling.BICUBIC), ("bilinear", Image.Resampling.BILINEAR)]
)
def test_it_resizes_as_pillow_does(
    page: Chromium, width: int, height: int, side: int, name: str, kind: Image.Resampling
) -> None:
    plane = np.random.default_rng(0).integers(0, 256, (height, width), dtype=np.uint8)
    cut = min(width, height)
    left, top = (width - cut) // 2, (height - cut) // 2
    box = (left, top, left + cut, top + cut)
    wanted = np.asarray(Image.fromarray(plane).resize((side, side), Image.Resampling[name.upper()], box=box))
    sides = dict(zip(("left", "top", "right", "bottom"), box, strict=True))
    code = f"resizePlane({plane.ravel().tolist()}, {width}, {height}, {json.dumps(sides)}, {side}, '{name}')"
    got = page.evaluate(f"import('./pictures/resize.mjs').then(({{ resizePlane }}) => Array.from({code}))")
    assert np.array_equal(np.reshape(got, (side, side)), wanted)


@pytest.mark.parametrize("clusters", [1, 2, 5, 40])
def test_its_clusters_are_scipys(page: Chromium, clusters: int) -> None:
    points = np.random.default_rng(clusters).normal(size=(40, 3))
    code = f"Array.from(cut(averageLinkage(Float64Array.from({points.ravel().tolist()}), 3), {clusters}))"
    got = page.evaluate(f"import('./pictures/clusters.mjs').then(({{ averageLinkage, cut }}) => {code})")
    wanted = cut_tree(linkage(points, "average"), clusters)[:, 0]
    assert len(set(got)) == clusters
    assert adjusted_rand_score(wanted, got) == 1
    firsts = [got.index(label) for label in range(clusters)]
    assert firsts == sorted(firsts)  # named by their lowest point


def test_its_principal_components_keep_the_packages_distances(page: Chromium) -> None:
    channels, count = 140, 150  # more than the 128 components that are kept
    features = np.random.default_rng(0).normal(size=(channels, count)).astype(np.float32)
    code = f"Array.from(asPoints(Float32Array.from({features.ravel().tolist()}), {channels}, {count}).points)"
    got = np.reshape(page.evaluate(f"import('./pictures/clusters.mjs').then(({{ asPoints }}) => {code})"), (count, -1))
    wanted = as_points(torch.from_numpy(features)[None, :, None])[0].numpy()
    assert got.shape == wanted.shape == (count, 128)
    np.testing.assert_allclose(*(np.linalg.norm(p[:, None] - p[None], axis=-1) for p in (got, wanted)), atol=1e-9)


def test_its_background_is_the_packages(page: Chromium) -> None:
    labels = np.random.default_rng(0).integers(0, 4, (6, 6))
    code = f"Array.from(backgroundFirst(Int32Array.from({labels.ravel().tolist()}), 6))"
    got = page.evaluate(f"import('./pictures/clusters.mjs').then(({{ backgroundFirst }}) => {code})")
    assert np.array_equal(np.reshape(got, (6, 6)), background_first(labels))


def test_it_knows_the_models_of_objects(page: Chromium) -> None:
    told = page.evaluate("import('./pictures/objects.mjs').then(({ MODELS }) => MODELS)")
    for name, known in told.items():
        config = load_model(name).config
        assert isinstance(config, AkornConfig)
        data = data_set_of(name)
        assert data is not None
        assert known == {
            "side": config.image_size,
            "channels": config.image_channels,
            "patch": config.patch,
            "features": config.channels,
            "clusters": SETS[data].clusters,
        }
