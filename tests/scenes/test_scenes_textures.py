"""Patterns of textured surfaces: random numbers of the lattice, and planes in which flat patterns lie."""

from __future__ import annotations

import torch

from akorn.scenes.textures import in_plane, scatter


def test_the_lattices_numbers_do_not_depend_on_the_precision() -> None:
    axis = torch.arange(-2000.0, 2000, 7)
    x, y = torch.meshgrid(axis, axis, indexing="ij")
    for z in (0.0, 17.0, -1234.0):
        single, double = scatter(x, y, 0 * x + z), scatter(x.double(), y.double(), 0 * x.double() + z)
        assert torch.allclose(single.double(), double, atol=1e-7, rtol=0)
        assert single.min() >= 0
        assert single.max() < 1


def test_the_lattices_numbers_look_random() -> None:
    axis = torch.arange(-100.0, 100)
    x, y = torch.meshgrid(axis, axis, indexing="ij")
    u = scatter(x, y, 0 * x + 3)
    assert abs(u.mean() - 0.5) < 0.01
    assert abs(u.std() - 12**-0.5) < 0.01
    for i, j in ((0, 1), (1, 0), (1, 1), (1, -1)):  # neighbours have nothing to do with each other
        pair = torch.stack([u[10:-10, 10:-10].flatten(), u.roll((i, j), (0, 1))[10:-10, 10:-10].flatten()])
        assert abs(torch.corrcoef(pair)[0, 1]) < 0.03
    other = scatter(x, y, 0 * x + 4)
    assert abs(torch.corrcoef(torch.stack([u.flatten(), other.flatten()]))[0, 1]) < 0.03


def test_rounding_does_not_choose_the_plane_of_a_pattern() -> None:
    """An octahedron's normals have three components of the same size."""
    third = torch.full((1000,), 3**-0.5)
    generator = torch.Generator().manual_seed(0)
    n = tuple(third * (1 + 1e-6 * torch.randn(1000, generator=generator)) for _ in range(3))
    p = (torch.zeros(1000), torch.ones(1000), torch.full((1000,), 2.0))
    u, v = in_plane(p, n)  # type: ignore[arg-type]
    assert len(u.unique()) == len(v.unique()) == 1
