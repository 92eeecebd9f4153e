"""The sphere, its tangent space, and what lives on them: over N, seeds, layouts and dtypes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from akorn import oscillators as osc

NS = [2, 3, 4, 5, 8]
LAYOUTS = [((2, 7, 120), -1), ((2, 120, 3, 5), -3), ((2, 120), -1)]


def draw(shape: tuple[int, ...], seed: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def antisymmetric(n: int, seed: int, count: int | None = None) -> torch.Tensor:
    a = draw((n, n) if count is None else (count, n, n), seed)
    return a - a.mT


@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_grouping_is_a_view_and_its_own_inverse(shape: tuple[int, ...], dim: int) -> None:
    x = draw(shape, 0)
    grouped = osc.group(x, 4, dim)
    assert grouped.shape[dim] == 4
    assert grouped.shape[dim - 1] == 30
    assert grouped.data_ptr() == x.data_ptr()
    assert osc.ungroup(grouped, dim).data_ptr() == x.data_ptr()
    torch.testing.assert_close(osc.ungroup(grouped, dim), x, rtol=0, atol=0)
    # Consecutive channels are one oscillator.
    torch.testing.assert_close(grouped.select(dim - 1, 2).select(dim, 1) if dim == -1 else grouped[:, 2, 1],
                               x[..., 9] if dim == -1 else x[:, 9])  # fmt: skip


@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_channels_last_memory_is_grouped_without_a_copy(shape: tuple[int, ...], dim: int) -> None:
    x = draw(shape, 0)
    if x.ndim == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    assert osc.group(x, 4, dim).data_ptr() == x.data_ptr()


@settings(deadline=None, max_examples=40)
@given(n=st.sampled_from(NS), seed=st.integers(0, 2**31), layout=st.sampled_from(LAYOUTS))
def test_sphere_and_tangent_space(n: int, seed: int, layout: tuple[tuple[int, ...], int]) -> None:
    shape, dim = layout
    x = osc.normalize(osc.group(draw(shape, seed), n, dim), dim)
    y = osc.group(draw(shape, seed + 1), n, dim)
    torch.testing.assert_close(x.norm(dim=dim), torch.ones_like(x.norm(dim=dim)))
    tangent = osc.project(y, x, dim)
    assert (tangent * x).sum(dim).abs().max() < 1e-12  # in the tangent space
    torch.testing.assert_close(osc.project(tangent, x, dim), tangent)  # a projection
    rotated = osc.rotate(x, antisymmetric(n, seed), dim)
    assert (rotated * x).sum(dim).abs().max() < 1e-12  # a rotation moves along the sphere


@pytest.mark.parametrize("n", NS)
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_rotation_is_the_matrix_of_each_oscillator(n: int, shape: tuple[int, ...], dim: int) -> None:
    x = osc.group(draw(shape, 0), n, dim)
    each = antisymmetric(n, 1, 120 // n)
    components = x.movedim(dim, -1)
    wanted = torch.stack([components[:, i] if dim == -3 else components[..., i, :] for i in range(120 // n)])
    wanted = torch.einsum("cij,c...j->c...i", each, wanted)
    got = osc.rotate(x, each, dim).movedim(dim, -1)
    torch.testing.assert_close(got, wanted.movedim(0, 1 if dim == -3 else -2))
    shared = osc.rotate(x, each[0], dim)
    torch.testing.assert_close(shared, osc.rotate(x, each[:1].expand(120 // n, n, n), dim))


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_pairs_are_a_block_diagonal_rotation(n: int, shape: tuple[int, ...], dim: int) -> None:
    x = osc.group(draw(shape, 0), n, dim)
    rates = draw((120 // n, n // 2), 1)
    plane = torch.tensor([[0.0, 1.0], [-1.0, 0.0]], dtype=torch.float64)
    blocks = torch.stack([torch.block_diag(*(rate * plane for rate in row)) for row in rates])
    torch.testing.assert_close(osc.rotate_pairs(x, rates, dim), osc.rotate(x, blocks, dim))
    one = torch.tensor([0.7], dtype=torch.float64)
    torch.testing.assert_close(osc.rotate_pairs(x, one, dim), osc.rotate_pairs(x, one.expand_as(rates), dim))


def test_energies_are_the_sums_of_the_paper() -> None:
    c, j, x = draw((1, 6), 0), draw((6, 6), 1), draw((1, 6), 2)
    wanted = -0.5 * sum(x[0, a] * j[a, b] * x[0, b] for a in range(6) for b in range(6)) - (c * x).sum()
    torch.testing.assert_close(osc.energy(x, x @ j.T, c), wanted[None])
    torch.testing.assert_close(osc.published_energy(x, x @ j.T, c), -(x @ j.T * x + c * x).sum(1))


def test_energy_of_low_precision_is_summed_in_float32() -> None:
    x = torch.full((1, 4096), 1 / 64, dtype=torch.bfloat16)
    assert osc.energy(x, x, x).dtype == torch.float32
    torch.testing.assert_close(osc.energy(x, x, x), torch.tensor([-1.5]))


@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_order_parameter(shape: tuple[int, ...], dim: int) -> None:
    one = osc.group(torch.ones(shape), 4, dim)
    torch.testing.assert_close(osc.order_parameter(osc.normalize(one, dim), dim), torch.ones(2))
    many = osc.group(osc.random_oscillators((2, 40000), 4), 4)
    assert osc.order_parameter(many).max() < 0.05
    half = torch.cat((torch.ones(2, 8), -torch.ones(2, 8)), 1) / math.sqrt(4)
    torch.testing.assert_close(osc.order_parameter(osc.group(half, 4)), torch.zeros(2))
    mask = torch.tensor([True, True, False, False])
    torch.testing.assert_close(osc.order_parameter(osc.group(half, 4), mask=mask), torch.ones(2))


@pytest.mark.parametrize("n", NS)
def test_random_oscillators_are_uniform(n: int) -> None:
    x = osc.group(osc.random_oscillators((1, 20000 * n), n, generator=torch.Generator().manual_seed(n)), n)[0]
    torch.testing.assert_close(x.norm(dim=-1), torch.ones(20000))
    assert x.mean(0).norm() < 4 / math.sqrt(20000)  # no direction is preferred
    torch.testing.assert_close(x.T @ x / 20000, torch.eye(n) / n, atol=0.02, rtol=0)
    for dim in (-3, 1):
        pictures = osc.random_oscillators((2, 4 * n, 3, 3), n, dim)
        torch.testing.assert_close(osc.group(pictures, n, -3).norm(dim=-3), torch.ones(2, 4, 3, 3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_dtypes_are_kept(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    x = osc.normalize(osc.group(draw(shape, 0, dtype), 3, dim), dim)
    y = osc.project(osc.rotate(x, antisymmetric(3, 0).to(dtype), dim), x, dim)
    assert x.dtype == y.dtype == dtype
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(x.norm(dim=dim).double(), torch.ones(()).double().expand_as(x.norm(dim=dim)),
                               atol=tolerance, rtol=0)  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("length", [0.0, 3e-13])
def test_a_vector_without_direction_becomes_zero_and_has_no_gradient(length: float, dtype: torch.dtype) -> None:
    x = osc.normalize(draw((3, 4), 0)).to(dtype)
    x[1] *= length
    x.requires_grad_()
    y = osc.normalize(x)
    assert y[1].eq(0).all()
    (grad,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert grad[1].eq(0).all()
    alone = x.detach()[[0, 2]].requires_grad_()  # the others are as if it were not there
    torch.testing.assert_close(grad[[0, 2]], torch.autograd.grad(osc.normalize(alone).sum(), alone)[0], rtol=0, atol=0)
    ahead = torch.func.jvp(osc.normalize, (x.detach(),), (torch.ones_like(y),))[1]
    assert ahead[1].eq(0).all()
    assert ahead[[0, 2]].ne(0).all()
    each = torch.func.vmap(torch.func.grad(lambda x: osc.normalize(x).sum()))(x.detach())
    torch.testing.assert_close(each, grad)
    if length:
        (second,) = torch.autograd.grad(
            torch.autograd.grad(osc.normalize(x).pow(3).sum(), x, create_graph=True)[0].sum(), x
        )
        assert second[1].eq(0).all()
        assert second[[0, 2]].isfinite().all()


def test_the_gradient_of_the_sphere_needs_no_other_whole_array() -> None:
    x = draw((5, 8), 0).requires_grad_()
    kept: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda a: kept.append(a) or a, lambda a: a):  # type: ignore[func-returns-value]
        osc.normalize(x)
    assert {a.data_ptr() for a in kept if a.shape == x.shape} == {x.data_ptr()}


def test_the_sphere_is_compiled_whole() -> None:
    x = draw((3, 4), 0)
    x[1] = 0
    x.requires_grad_()
    compiled = torch.compile(osc.normalize, fullgraph=True, backend="aot_eager")
    found, expected = (torch.autograd.grad(f(x).pow(3).sum(), x)[0] for f in (compiled, osc.normalize))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("n", NS)
def test_gradients(n: int) -> None:
    x, y = (draw((1, 2, 2 * n), seed).requires_grad_() for seed in (0, 1))
    omega = antisymmetric(n, 2).requires_grad_()

    def everything(x: torch.Tensor, y: torch.Tensor, omega: torch.Tensor) -> tuple[torch.Tensor, ...]:
        u = osc.normalize(osc.group(x, n))
        z = osc.project(osc.group(y, n), u) + osc.rotate(u, omega)
        return osc.ungroup(z), osc.energy(osc.ungroup(u), y, y), osc.order_parameter(u)

    assert torch.autograd.gradcheck(everything, (x, y, omega))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: osc.group(torch.zeros(2, 10), 4), "10 channels cannot be grouped into oscillators of n=4"),
        (lambda: osc.group(torch.zeros(2, 10), 1), "at least 2 rotating dimensions, got n=1"),
        (lambda: osc.channel_axis(torch.zeros(3)), r"shape \[3\]"),
        (lambda: osc.channel_axis(torch.zeros(1, 2, 3, 4, 5)), r"shape \[1, 2, 3, 4, 5\]"),
    ],
)
def test_bad_input(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
