"""Light: energy is conserved; lamps, shadows and reflections agree with closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from akorn.scenes import layout as at
from akorn.scenes.materials import Material
from akorn.scenes.paths import eye_rays, radiance
from akorn.scenes.radiosity import cells, form_factors, ground_grid
from akorn.scenes.reflection import beckmann, fresnel, ggx, ggx_direction, velvet
from akorn.scenes.render import CELL_COUNT, View, cell_numbers, colours, lattice, to_levels, whole_view, world
from akorn.scenes.scene import LAMP_PLACES, Arrays, Scene, Thing, arrays, looking
from akorn.scenes.transport import bounce, direct, lobes
from akorn.scenes.walk import Dice, World, blocked

WHITE = (1.0, 1.0, 1.0)


def dice_of(rays: int, samples: int) -> Dice:
    """Random numbers for `samples` samples of `rays` rays, samples slowest."""
    _, points = lattice(samples)
    table = torch.tensor(cell_numbers(CELL_COUNT), dtype=torch.float64)
    return Dice(
        table, torch.tensor(points), torch.arange(rays).repeat(samples), torch.arange(samples).repeat_interleave(rays)
    )


def without_lamps(scenes: Arrays) -> Arrays:
    """The same scenes in the dark."""
    lamps = scenes.lamps.clone()
    lamps[..., 12:15] = 0
    return replace(scenes, lamps=lamps, grid=torch.zeros_like(scenes.grid))


TEXTURES = {
    "matt": Material("marble", WHITE, WHITE, 1.0, rough=0.9),
    "enamel": Material("marble", WHITE, WHITE, 1.0, rough=0.2),
    "mirror": Material("marble", WHITE, WHITE, 1.0, rough=0.2, metallic=1.0),
    "alloy": Material("marble", WHITE, WHITE, 1.0, rough=0.35, metallic=0.8),
}
"""White surfaces of the textured kind."""


def furnace(material: str, monkeypatch: pytest.MonkeyPatch, bounces: int = 60) -> Tensor:
    """Pictures of touching white objects in a world that shines white from everywhere, lamps and ground left out."""
    monkeypatch.setattr("akorn.scenes.lamps.SUN_RADIANCE", 0.0)
    monkeypatch.setattr("akorn.scenes.transport.SUN", 0.0)
    monkeypatch.setattr("akorn.scenes.scene.TEXTURES", TEXTURES)
    things = (
        Thing("cube", 0.3, 0.0, 0.7, 0.4, material, WHITE),
        Thing("sphere", -1.4, 0.5, 0.7, 0.0, material, WHITE),
        Thing("cylinder", 0.2, -1.5, 0.7, 0.0, material, WHITE),
    )
    scenes = without_lamps(arrays([Scene(things)], dtype=torch.float64))
    one: World = world(scenes, 0)
    one.environment, one.with_ground = 1.0, False
    y, x = torch.meshgrid(torch.arange(60.0, 200, 7), torch.arange(90.0, 260, 7), indexing="ij")
    o, d = eye_rays(scenes.camera[0], x.flatten().double(), y.flatten().double())
    samples = 16
    o, d = tuple(a.repeat(samples) for a in o), tuple(a.repeat(samples) for a in d)  # type: ignore[assignment]
    light = radiance(one, dice_of(x.numel(), samples), o, d, bounces)
    return light.reshape(3, samples, -1)


def test_a_white_furnace_gives_white(monkeypatch: pytest.MonkeyPatch) -> None:
    light = furnace("lambert", monkeypatch)
    assert (light - 1).abs().max() < 1e-4  # each path alone


@pytest.mark.parametrize("material", ["rubber", "metal", "matt", "enamel", "mirror", "alloy"])
def test_a_furnace_never_gives_more_than_white(material: str, monkeypatch: pytest.MonkeyPatch) -> None:
    light = furnace(material, monkeypatch, bounces=20)
    assert 0.8 < light.mean() <= 1.005
    assert light.mean(1).quantile(0.9) < 1.05  # pixels, with their noise


@pytest.mark.parametrize("metallic", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("rough", [0.15, 0.3, 0.5, 0.7, 0.9])
def test_textured_surfaces_reflect_no_more_than_they_get(rough: float, metallic: float) -> None:
    theta = (torch.arange(300, dtype=torch.float64) + 0.5) * (math.pi / 2 / 300)
    phi = (torch.arange(600, dtype=torch.float64) + 0.5) * (math.pi / 300)
    t, f = torch.meshgrid(theta, phi, indexing="ij")
    to = (t.sin() * f.cos(), t.sin() * f.sin(), t.cos())
    area = t.sin() * (math.pi / 2 / 300) * (math.pi / 300)
    up, white = (0 * t, 0 * t, 0 * t + 1), (0 * t + 1, 0 * t + 1, 0 * t + 1)
    alpha = 0 * t + rough**2
    u = torch.rand(2, 20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pick = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    for angle in (0.01, 0.4, 0.8, 1.0, 1.2, 1.4, 1.5):
        v = (0 * t + math.sin(angle), 0 * t, 0 * t + math.cos(angle))
        whole = (lobes(at.TEXTURED, up, v, to, white, alpha, 0 * t + metallic)[0] * area).sum()
        assert whole <= 1.002
        assert whole > 0.9 or metallic or angle > 1.3
        # a path continues with what the lobes reflect, on average
        one = 0 * pick + 1
        flat = (0 * pick, 0 * pick, one)
        eye = (math.sin(angle) * one, 0 * pick, math.cos(angle) * one)
        _, weight, _ = bounce(at.TEXTURED, flat, eye, (one, one, one), one * rough**2, one * metallic, pick, u[0], u[1])
        assert weight[0].mean() <= 1.005
        if rough > 0.2 or angle < 1.3:  # the grid is too coarse for sharp lobes at grazing angles
            assert abs(weight[0].mean() - whole) < 0.02


def test_lobes_reflect_no_more_than_they_get() -> None:
    """∫ f cos(l) dl over the hemisphere, by an even grid."""
    theta = (torch.arange(400, dtype=torch.float64) + 0.5) * (math.pi / 2 / 400)
    phi = (torch.arange(400, dtype=torch.float64) + 0.5) * (2 * math.pi / 400)
    t, f = torch.meshgrid(theta, phi, indexing="ij")
    to = (t.sin() * f.cos(), t.sin() * f.sin(), t.cos())
    area = t.sin() * (math.pi / 2 / 400) * (2 * math.pi / 400)
    up = (0 * t, 0 * t, 0 * t + 1)
    for angle in (0.2, 0.8, 1.2):
        v = (0 * t + math.sin(angle), 0 * t, 0 * t + math.cos(angle))
        for lobe in (ggx(up, v, to, 0.15, 0.2667), beckmann(up, v, to, 0.35), velvet(up, v, to)):
            assert 0 <= (lobe * area).sum() <= 1.01
        assert (ggx(up, v, to, 0.15, 0.2667) * area).sum() > 0.8


def test_drawn_directions_follow_the_lobe() -> None:
    """The mean weight of GGX's directions is the lobe's integral; directions mirror v on average at low roughness."""
    generator = torch.Generator().manual_seed(0)
    u = torch.rand(2, 20000, generator=generator, dtype=torch.float64)
    n = (0 * u[0], 0 * u[0], 1 + 0 * u[0])
    v = (0.6 + 0 * u[0], 0 * u[0], 0.8 + 0 * u[0])
    to, weight = ggx_direction(n, v, 0.01, 0.01, u[0], u[1])
    assert torch.allclose(torch.stack(to).mean(1), torch.tensor([-0.6, 0.0, 0.8], dtype=torch.float64), atol=2e-3)
    assert 0.99 < weight.mean() <= 1.0 + 1e-9
    assert weight.max() <= 1 + 1e-9


def test_fresnel_at_known_angles() -> None:
    at_normal = fresnel(torch.tensor([1.0]).double(), 1.2)
    assert at_normal.item() == pytest.approx((0.2 / 2.2) ** 2)
    assert fresnel(torch.tensor([1.0]).double(), 1.4).item() == pytest.approx((0.4 / 2.4) ** 2)
    assert fresnel(torch.tensor([0.0]).double(), 1.4).item() == pytest.approx(1.0)


def square_irradiance(p: np.ndarray, n: np.ndarray, corners: np.ndarray) -> float:
    """Lambert's formula: E / L = ½ Σ angle_i · (unit normal of the edge's plane · n)."""
    total = 0.0
    for a, b in zip(corners, np.roll(corners, -1, 0), strict=True):
        a, b = (a - p) / np.linalg.norm(a - p), (b - p) / np.linalg.norm(b - p)
        side = np.cross(a, b)
        total += math.acos(np.clip(a @ b, -1, 1)) * (side / np.linalg.norm(side)) @ n
    return abs(total) / 2


def test_a_square_lamp_lights_the_ground_as_lambert_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("akorn.scenes.transport.SUN", 0.0)
    scenes = arrays([Scene(())], dtype=torch.float64)
    lamps = scenes.lamps.clone()
    lamps[0, 1:, 12:15] = 0
    one = world(replace(scenes, lamps=lamps), 0)
    samples, place = 256, (3.0, -1.0, 0.0)
    p = tuple(torch.full((samples,), v, dtype=torch.float64) for v in place)
    n = tuple(torch.full((samples,), v, dtype=torch.float64) for v in (0.0, 0.0, 1.0))
    one_colour = tuple(torch.full((samples,), math.pi, dtype=torch.float64) for _ in range(3))
    zero = torch.zeros(samples, dtype=torch.float64)
    light = direct(one, dice_of(1, samples), at.LAMBERT, p, n, n, one_colour, zero, zero)  # type: ignore[arg-type]
    middle = np.array(LAMP_PLACES[0])
    right, up, _ = looking(middle)
    corners = np.array([middle + 0.25 * (a * right + b * up) for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))])
    expected = 100 * square_irradiance(np.array(place), np.array([0.0, 0.0, 1.0]), corners)
    assert light[0].mean().item() == pytest.approx(expected, rel=2e-3)
    assert light[1].mean().item() == pytest.approx(0.93231 * expected, rel=2e-3)


def test_a_balls_shadow_is_the_rays_that_pass_it_too_close() -> None:
    ball = Thing("sphere", 0.5, -0.5, 0.7)
    one = world(arrays([Scene((ball,))], dtype=torch.float64), 0)
    generator = torch.Generator().manual_seed(3)
    p = torch.rand(3, 4000, generator=generator, dtype=torch.float64) * 6 - 3
    p[2] = 0
    lamp = torch.tensor(LAMP_PLACES[0], dtype=torch.float64)[:, None]
    way = lamp - p
    far = way.norm(dim=0)
    d = way / far
    middle = torch.tensor([0.5, -0.5, 0.7], dtype=torch.float64)[:, None]
    beside = ((middle - p) - d * ((middle - p) * d).sum(0)).norm(dim=0)
    dark = blocked(one, tuple(p), tuple(d), far)  # type: ignore[arg-type]
    inside = (p - middle).norm(dim=0) < 0.7
    expected = (beside < 0.7 * 0.9992) & ~inside
    assert (dark == expected)[~inside].double().mean() > 0.998
    assert expected.sum() > 50


def test_the_key_lamps_highlight_is_where_the_mirror_law_puts_it() -> None:
    ball = Thing("sphere", 0.0, 0.0, 0.7, 0.0, "metal", WHITE)
    scenes = arrays([Scene((ball,))])
    eye, lamp, middle = (
        scenes.camera[0, :3].double(),
        torch.tensor(LAMP_PLACES[0]).double(),
        torch.tensor([0, 0, 0.7]).double(),
    )
    n = torch.nn.functional.normalize(eye - middle, dim=0)
    for _ in range(100):  # the normal halves the angle between eye and lamp
        p = middle + 0.7 * n
        n = torch.nn.functional.normalize(
            torch.nn.functional.normalize(eye - p, dim=0) + torch.nn.functional.normalize(lamp - p, dim=0), dim=0
        )
    axes = scenes.camera[0, 3:].double().reshape(3, 3)
    x, y, z = axes @ (middle + 0.7 * n - eye)
    column, row = 160 - 350 * x / z, 120 + 350 * y / z
    y0, x0 = row.item() - 4, column.item() - 4
    view = View(tuple(y0 + np.arange(33) / 4), tuple(x0 + np.arange(33) / 4), pixel=0.1)
    light = colours(scenes, view, 16)[0].mean(0)
    lit = (light > 30).nonzero().double()  # only the key lamp is so bright
    assert 4 < len(lit) < 200
    assert (lit.mean(0) / 4 - 4).abs().max() < 0.5


def test_the_ground_gives_itself_no_more_than_it_gets() -> None:
    f = form_factors()
    assert f.min() >= 0
    assert f.sum(1).max() <= 1 + 1e-9
    _, _, areas = cells()
    exchanged = areas[:, None] * f
    large = exchanged > 0.05 * exchanged.max()
    ratio = exchanged[large] / exchanged.T[large]
    assert 0.5 < np.median(ratio) < 2  # reciprocity, as far as cells of this size have it
    scenes = arrays([Scene(())])
    grid = ground_grid(scenes.lamps)
    assert grid.min() >= 0
    assert (grid[:, :3].mean() < grid[:, 3:].mean()).item()


def test_an_empty_scene_has_the_originals_levels() -> None:
    """Grey levels at the picture's corners, as in the description of the original."""
    view = whole_view()
    few = replace(
        view, rows=(view.rows[0], view.rows[-1]), columns=(view.columns[0], view.columns[160], view.columns[-1])
    )
    levels = to_levels(colours(arrays([Scene(())]), few, 64))[0].double().mean(0)
    assert abs(levels[0, 0].item() - 105) < 4
    assert abs(levels[0, 2].item() - 102) < 4
    assert abs(levels[1, 0].item() - 122) < 6
    assert 135 < levels[1, 1].item() < 160
    assert 130 < levels[1, 2].item() < 152
