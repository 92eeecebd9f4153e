"""Pictures: masks agree with projections, types and devices agree, bad input is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.spatial import ConvexHull, Delaunay

from akorn.errors import AkornError
from akorn.scenes import (
    FAMILIES,
    Scene,
    Studio,
    Thing,
    View,
    arrays,
    colours,
    cropped_view,
    family_of,
    geometry,
    labels,
    scene_of,
    to_levels,
)
from akorn.scenes import shapes as solids
from akorn.scenes.render import whole_view
from akorn.scenes.scene import LAMP_PLACES, SHAPES, Arrays

BUSY = Scene(
    (
        Thing("cube", 0.9, -1.3, 0.7, 0.5, "metal", "cyan"),
        Thing("sphere", -1.2, -0.4, 0.7, 0.0, "rubber", "red"),
        Thing("cylinder", 1.8, 1.2, 0.35, 1.0, "metal", "gray"),
        Thing("sphere", 0.1, 1.4, 0.35, 0.0, "metal", "yellow"),
    )
)
SMALL = View(tuple(np.arange(60.5, 180, 6)), tuple(np.arange(70.5, 260, 6)))


def surface(shape: int, r: float) -> np.ndarray:
    """Points of a solid of half size 1, found along rays from around it, times r."""
    generator = torch.Generator().manual_seed(0)
    o = torch.randn(3, 40000, generator=generator, dtype=torch.float64)
    o = 3 * o / o.norm(dim=0)
    aim = 1.6 * (torch.rand(3, 40000, generator=generator, dtype=torch.float64) - 0.5)
    d = aim - o
    t = solids.hit_solid(shape, tuple(o), tuple(d))
    return (o + t * d)[:, t < 1e8].numpy().T * r


@pytest.mark.parametrize("name", ["sphere", "cube", "cylinder", "cone", "octahedron"])
def test_a_silhouette_is_the_projection_of_the_solid_to_a_pixel(name: str) -> None:
    thing = Thing(name, 0.8, -1.1, 0.7, 0.7)
    scenes = arrays([Scene((thing,))], dtype=torch.float64)
    mask = labels(scenes, whole_view())[0].numpy() == 1
    points = surface(SHAPES.index(name), 0.7)
    c, s = np.cos(0.7), np.sin(0.7)
    points = np.stack([c * points[:, 0] - s * points[:, 1], s * points[:, 0] + c * points[:, 1], points[:, 2]], 1)
    points = points + np.array([0.8, -1.1, thing.height()])
    camera = scenes.camera[0].numpy()
    x, y, z = camera[3:].reshape(3, 3) @ (points - camera[:3]).T
    flat = np.stack([160 - 350 * x / z, 120 + 350 * y / z], 1)
    hull = Delaunay(flat[ConvexHull(flat).vertices])
    rows, columns = np.mgrid[0:240, 0:320] + 0.5

    def inside(dx: float, dy: float) -> np.ndarray:
        return hull.find_simplex(np.stack([columns + dx, rows + dy], -1)) >= 0

    near = [inside(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    assert mask.sum() > 1000
    assert not (mask & ~np.logical_or.reduce(near)).any()  # never more than a pixel outside
    below = rows > flat[:, 1].max() - 4  # the foot may sink into the ground, by up to a pixel
    assert not (np.logical_and.reduce(near) & ~mask & ~below).any()


def test_a_balls_mask_is_its_cone() -> None:
    thing = Thing("sphere", -0.5, 0.3, 0.7)
    scenes = arrays([Scene((thing,))], dtype=torch.float64)
    mask = labels(scenes, whole_view())[0] == 1
    eye, axes = scenes.camera[0, :3], scenes.camera[0, 3:].reshape(3, 3)
    y, x = torch.meshgrid(torch.arange(240.0) + 0.5, torch.arange(320.0) + 0.5, indexing="ij")
    d = axes[0][:, None, None] * (x - 160) / 350 + axes[1][:, None, None] * (120 - y) / 350 - axes[2][:, None, None]
    way = torch.tensor([-0.5, 0.3, 0.7], dtype=torch.float64) - eye
    cosine = (d * way[:, None, None]).sum(0) / d.norm(dim=0) / way.norm()
    cone = cosine.acos() < torch.asin(0.7 * solids.BALL / way.norm())
    assert (mask != cone).sum() <= 3  # where it sinks into the ground


def test_labels_are_whole_numbers_and_the_nearest_object_wins() -> None:
    front, back = Thing("cube", 2.0, -1.5, 0.7), Thing("sphere", 0.0, 0.0, 0.7)
    both = labels(arrays([Scene((front, back)), Scene((back, front)), Scene((back,))]), whole_view())
    assert set(both[0].unique().tolist()) == {0, 1, 2}
    assert ((both[0] == 1) == (both[1] == 2)).all()
    hidden = (both[2] == 1) & (both[0] == 1)
    assert hidden.any()
    assert ((both[0] == 2) == ((both[2] == 1) & ~hidden)).all()


def test_depth_and_normals_lie_on_the_surface() -> None:
    scenes = arrays([BUSY], dtype=torch.float64)
    found, depth, normals = geometry(scenes, SMALL)
    ball = found[0] == 2
    y, x = torch.meshgrid(torch.tensor(SMALL.rows), torch.tensor(SMALL.columns), indexing="ij")
    camera = scenes.camera[0]
    axes = camera[3:].reshape(3, 3)
    d = axes[0][:, None, None] * (x - 160) / 350 + axes[1][:, None, None] * (120 - y) / 350 - axes[2][:, None, None]
    p = camera[:3, None, None] + d / d.norm(dim=0) * depth[0]
    out = p - torch.tensor([-1.2, -0.4, 0.7], dtype=torch.float64)[:, None, None]
    assert torch.allclose(out.norm(dim=0)[ball], torch.tensor(0.7 * solids.BALL).double(), atol=1e-5)
    assert torch.allclose((out / out.norm(dim=0))[:, ball], normals[0][:, ball], atol=1e-5)
    assert torch.allclose(normals.norm(dim=1), torch.ones(()).double(), atol=1e-6)


def in_double(scenes: Arrays) -> Arrays:
    return replace(
        scenes,
        **{k: getattr(scenes, k).double() for k in ("objects", "lamps", "camera", "grid")},
    )


@pytest.mark.parametrize("ground", ["white", "red-bricks"])
def test_float32_agrees_with_float64_to_a_grey_level(ground: str) -> None:
    scenes = arrays([replace(BUSY, ground=ground)])
    view = View(tuple(np.arange(50.5, 190, 2)), tuple(np.arange(60.5, 270, 2)))
    single, double = (to_levels(colours(s, view, 4)).int() for s in (scenes, in_double(scenes)))
    assert ((single - double).abs().amax(1) <= 1).double().mean() >= 0.999
    assert single.unique().numel() > 50


@pytest.mark.parametrize("family", FAMILIES)
def test_random_scenes_are_the_same_in_float32_and_float64(family: str) -> None:
    studio = Studio(family_of(family), "agreement")
    scenes = studio.arrays(studio.drafts([0, 1]))
    single, double = (to_levels(colours(s, cropped_view(48), 4)).int() for s in (scenes, in_double(scenes)))
    assert ((single - double).abs().amax(1) <= 1).double().mean() >= 0.999
    assert single.unique().numel() > 50


def test_more_samples_converge() -> None:
    scenes = arrays([BUSY])
    few, more, many = (colours(scenes, SMALL, n) for n in (4, 16, 128))
    assert (more - many).abs().mean() < 0.75 * (few - many).abs().mean()
    assert (few.mean() - many.mean()).abs() < 0.01


def test_a_scene_is_the_same_alone_and_in_a_batch() -> None:
    others = [BUSY, Scene(()), replace(BUSY, camera=(7.0, -6.9, 5.0))]
    together = colours(arrays(others), SMALL, 2)
    alone = colours(arrays([others[2]]), SMALL, 2)
    assert torch.equal(together[2], alone[0])
    turned = colours(arrays([BUSY]), SMALL, 2, turns=torch.tensor([77]))
    assert not torch.equal(turned[0], together[0])  # other noise


def test_the_benchmarks_crop() -> None:
    """At 128 pixels the view consists of pixels of the 320 × 240 picture, the nearest ones."""
    view = cropped_view(128)
    assert view.rows[:4] == (29.5, 31.5, 32.5, 34.5)
    assert view.columns[0] == 64.5
    assert view.columns[-1] == 255.5
    assert len(cropped_view(256).rows) == 256
    assert cropped_view(256).pixel == 0.75


KERNEL = """
import sys, torch, numpy as np
from akorn.scenes import Studio, View, family_of, kernel, render
kernel.BLOCK = 64
studio = Studio(family_of(sys.argv[1], (5, 5)), "kernel")
scenes = studio.arrays(studio.drafts([0]))
view = View(tuple(np.linspace(70, 160, 8)), tuple(np.linspace(90, 230, 8)))
plain = render.colours(scenes, view, 1, 2)
rows, columns = render._places(view, "cpu", torch.float32)
tables = render._tables(1, "cpu", torch.float32)
fused = kernel.colours(scenes, rows, columns, 1.0, tables, torch.zeros(1, dtype=torch.int32), 1, 2)
a, b = render.to_levels(plain).int(), render.to_levels(fused.reshape(plain.shape)).int()
assert a.unique().numel() > 20
assert ((a - b).abs().amax(1) <= 1).double().mean() >= 0.98, (a - b).abs().amax()
found, depth, normals = kernel.labels(scenes, rows, columns, True)
expected = render.geometry(scenes, view)
assert found.unique().numel() > 2
assert (found.reshape(expected[0].shape) == expected[0]).all()
assert torch.allclose(depth.reshape(expected[1].shape), expected[1], atol=1e-3)
assert torch.allclose(normals.reshape(expected[2].shape), expected[2], atol=1e-3)
"""


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_kernel_gives_the_same_picture(family: str) -> None:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KERNEL, family], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_gpu_agrees_with_float64_on_the_cpu(family: str) -> None:
    studio = Studio(family_of(family), "agreement")
    drafts = studio.drafts(range(4))
    on_cpu = in_double(studio.arrays(drafts))
    studio.device = torch.device("cuda")
    on_gpu = studio.arrays(drafts)
    one, other = (to_levels(colours(scenes, cropped_view(128), 16)).cpu().int() for scenes in (on_gpu, on_cpu))
    assert ((one - other).abs().amax(1) <= 1).double().mean() >= 0.999


def test_bad_scenes_are_refused() -> None:
    for scene, said in (
        (Scene((Thing("cub", 0, 0, 0.7),)), "unknown shape 'cub': did you mean cube"),
        (Scene((Thing("cube", 0, 0, 0.0),)), "the size of an object is 0, expected above 0"),
        (Scene((Thing("cube", 0, 0, 0.7, material="velours"),)), "unknown material 'velours'"),
        (Scene((Thing("cube", 0, 0, 0.7, colour="pink"),)), "unknown colour 'pink'"),
        (Scene((Thing("cube", 0, 0, 0.7),) * 11), "11 objects, expected at most 10"),
        (Scene((), ground="grass"), "unknown material 'grass'"),
        (Scene((Thing("cube", float("nan"), 0, 0.7),)), "an object is at .nan, 0., turned by 0: expected finite"),
        (Scene((Thing("cube", 0, 0, 0.7, theta=float("inf")),)), "turned by inf: expected finite numbers"),
        (Scene((Thing("cube", 0, 0, 0.7, colour=(-1.0, 0.5, 0.5)),)), "expected reflectances from 0 to 1"),
        (Scene((Thing("cube", 0, 0, 0.7, colour=(0.5, 0.5, 1.5)),)), "expected reflectances from 0 to 1"),
        (Scene((Thing("cube", 0, 0, 0.7, colour=(0.5, 0.5)),)), "a colour is .0.5, 0.5., expected three finite"),  # type: ignore[arg-type]
        (Scene((), camera=(1.0, 2.0)), "the camera is .1.0, 2.0., expected three finite numbers"),  # type: ignore[arg-type]
        (Scene((), camera=(0.0, 0.0, 0.0)), "the camera is at .0.0, 0.0, 0.0., at or straight above the origin"),
        (Scene((), camera=(0.0, 0.0, 5.0)), "at or straight above the origin: expected a place beside it"),
        (Scene((), lamps=LAMP_PLACES[:2]), "a scene has 2 lamps, expected 3"),
    ):
        with pytest.raises(AkornError, match=said):
            arrays([scene])
    with pytest.raises(AkornError, match="no scene to render"):
        arrays([])
    with pytest.raises(AkornError, match="size of pictures must be from 1 to 4,096, got 0"):
        cropped_view(0)
    with pytest.raises(AkornError, match="samples must be from 1 to 65,536"):
        colours(arrays([Scene(())]), SMALL, 0)
    with pytest.raises(AkornError, match="object 0 of the scene has no 'x'"):
        scene_of({"objects": [{"shape": "cube", "r": 0.7}]})
