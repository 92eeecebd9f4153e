"""Rays against solids and the ground: hits are roots of the solids' functions, normals are their gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from akorn.scenes import ground, layout, shapes
from akorn.scenes.scene import SHAPES, Scene, Thing, arrays
from akorn.scenes.vectors import along, dot

RAYS = 400
Points = tuple[Tensor, Tensor, Tensor]


def outside(shape: int, p: Points) -> Tensor:
    """A function that is positive outside the solid, independent of how rays are traced."""
    x, y, z = p
    rho = (x * x + y * y).sqrt()
    name = SHAPES[shape]
    if name == "sphere":
        return (rho**2 + z**2).sqrt() - shapes.BALL
    if name == "cube":
        return sum(((a.abs() - 0.75).clamp(min=0) / 0.25) ** 3 for a in p) - 1
    if name == "cylinder":
        return ((rho - 0.91).clamp(min=0) / 0.09) ** 4 + ((z.abs() - 0.9).clamp(min=0) / 0.1) ** 4 - 1
    return shapes.distance_to(shape, p)


def first_root(shape: int, o: Points, d: Points) -> Tensor:
    """The first sign change on a fine grid, then bisection."""
    t = torch.linspace(0, 8, 6001, dtype=torch.float64)
    inside = outside(shape, along(tuple(a[:, None] for a in o), tuple(a[:, None] for a in d), t)) <= 0
    found = inside.any(1)
    first = inside.int().argmax(1)
    low, high = t[(first - 1).clamp(min=0)], t[first]
    for _ in range(60):
        middle = (low + high) / 2
        within = outside(shape, along(o, d, middle)) <= 0
        low, high = torch.where(within, low, middle), torch.where(within, middle, high)
    return torch.where(found, high, torch.inf)


def random_rays(seed: int) -> tuple[Points, Points]:
    """Rays from a ball of radius 4 towards the solid's neighbourhood."""
    generator = torch.Generator().manual_seed(seed)
    o = torch.randn(3, RAYS, generator=generator, dtype=torch.float64)
    o = 4 * o / o.norm(dim=0)
    aim = 1.1 * (2 * torch.rand(3, RAYS, generator=generator, dtype=torch.float64) - 1)
    d = aim - o
    d = d / d.norm(dim=0)
    return tuple(o), tuple(d)  # type: ignore[return-value]


@pytest.mark.parametrize("shape", range(len(SHAPES)), ids=SHAPES)
def test_a_ray_hits_where_the_function_first_vanishes(shape: int) -> None:
    o, d = random_rays(shape)
    found = shapes.hit_solid(shape, o, d)
    expected = first_root(shape, o, d)
    hits = expected < torch.inf
    assert 50 < hits.sum() < RAYS
    wrong = (found < shapes.FAR) != hits
    assert wrong.double().mean() <= 0.01  # grazing rays
    both = hits & ~wrong
    off = (found - expected)[both].abs()
    assert off.quantile(0.98) < 5e-3
    assert off.median() < (1e-6 if shape <= shapes.CYLINDER else 3e-3)


@pytest.mark.parametrize("shape", range(len(SHAPES)), ids=SHAPES)
def test_normals_are_gradients(shape: int) -> None:
    o, d = random_rays(10 + shape)
    t = shapes.hit_solid(shape, o, d)
    hit = t < shapes.FAR
    p = tuple(a[hit] for a in along(o, d, t))
    n = shapes.normal_of(shape, p)  # type: ignore[arg-type]
    assert torch.allclose(dot(n, n), torch.ones(()).double(), atol=1e-6)
    e = 1e-5
    steps = [tuple(a + (e if k == j else 0) for j, a in enumerate(p)) for k in range(3)]
    back = [tuple(a - (e if k == j else 0) for j, a in enumerate(p)) for k in range(3)]
    slope = [outside(shape, s) - outside(shape, b) for s, b in zip(steps, back, strict=True)]  # type: ignore[arg-type]
    length = sum(s * s for s in slope).sqrt()
    cosine = sum(a * s for a, s in zip(n, slope, strict=True)) / length
    assert cosine.quantile(0.05) > 0.995
    assert (dot(n, tuple(a[hit] for a in d)) < 0.05).double().mean() > 0.99  # and face the ray


@pytest.mark.parametrize("shape", SHAPES)
def test_a_solid_lies_in_the_ball_around_it(shape: str) -> None:
    generator = torch.Generator().manual_seed(2)
    aim = torch.randn(3, 30_000, generator=generator, dtype=torch.float64)
    o = 3 * aim / aim.norm(dim=0)
    aim = 2.4 * torch.rand(3, 30_000, generator=generator, dtype=torch.float64) - 1.2
    way = (aim - o) / (aim - o).norm(dim=0)
    t = shapes.hit_solid(SHAPES.index(shape), tuple(o), tuple(way))  # type: ignore[arg-type]
    farthest = (o + t * way).norm(dim=0)[t < shapes.FAR].max()
    bound = arrays([Scene((Thing(shape, 0, 0, 0.5),))], dtype=torch.float64).objects[0, 0, layout.BOUND] / 0.5
    assert 0.97 * bound < farthest <= bound


def test_a_ray_from_inside_the_floor_meets_the_ground_once() -> None:
    generator = torch.Generator().manual_seed(0)
    o = torch.rand(3, 2000, generator=generator, dtype=torch.float64) * 8 - 4
    o[2] = o[2].abs() + 0.1
    d = torch.randn(3, 2000, generator=generator, dtype=torch.float64)
    d = d / d.norm(dim=0)
    gone, _ = ground.hit_ground(tuple(o), tuple(d))  # type: ignore[arg-type]
    # the numerical answer: the first point of a fine walk below the curve
    curve = np.linspace(0, 1, 20001)
    s_of, z_of = ground.depth_at(curve), ground.Z4 * curve**4
    walk = np.linspace(0, 45, 4501)
    p = o.numpy()[:, :, None] + d.numpy()[:, :, None] * walk
    s = ground.DEPTH_X * p[0] + ground.DEPTH_Y * p[1]
    w = -ground.DEPTH_Y * p[0] + ground.DEPTH_X * p[1]
    below = (p[2] < np.interp(s, s_of, z_of)) & (p[2] < 23.2) & (s > s_of[0]) | (s > s_of[-1]) & (p[2] < 23.2)
    hits, first = below.any(1), below.argmax(1)
    w_there = np.take_along_axis(w, first[:, None], 1)[:, 0]
    s_there = np.take_along_axis(s, first[:, None], 1)[:, 0]
    clear = (w_there > -28) & (w_there < 25) & (s_there > -9.3)
    expected = hits & clear
    met = (gone < shapes.FAR).numpy()
    assert expected.sum() > 500
    assert (met[expected]).mean() > 0.995
    both = expected & met
    assert np.quantile(np.abs(gone.numpy()[both] - walk[first[both]]), 0.99) < 0.03
    never = ~hits & (p[2].min(1) > 0.2) & (p[2][:, -1] > 25)
    assert not met[never].any()


def test_the_ground_is_where_the_description_has_it() -> None:
    """Heights at depths, as read out of the original scene."""
    down = torch.tensor(-1.0, dtype=torch.float64)
    for s, height in ((-4.0, 0.0), (0.0, 0.0055), (4.0, 0.031), (8.0, 0.14), (12.8, 0.9), (15.1, 2.9)):
        o = (
            torch.tensor([s * ground.DEPTH_X]).double(),
            torch.tensor([s * ground.DEPTH_Y]).double(),
            torch.tensor([20.0]).double(),
        )
        gone, _ = ground.hit_ground(o, (0 * down[None], 0 * down[None], down[None]))
        assert abs(20 - gone.item() - height) < 0.05
