"""Natural rotation inside the fused update: rates of each oscillator and matrices, for even and odd N."""

import random

import pytest
import torch
from nearness import close as close_within
from update_cases import BF16, F16, F32, F64, outward, plain, states

from akorn import nn as akn
from akorn import oscillators as osc

TOLERANCE = {F64: 1e-10, F32: 1e-5, F16: 1e-3, BF16: 8e-3}
KINDS = ("rates", "matrix", "matrices")


def antisymmetric(matrix):
    return (matrix - matrix.mT) / 2


def draw(seed, shape, n, kind, device, dtypes=(F64,) * 3, layouts="ppp"):
    """[x, jx, c, γ, Ω] that want gradients; a layout is "p"lain, channels "l"ast or "g"apped."""
    generator = torch.Generator().manual_seed(seed)
    arrays = states(generator, shape, n, device, dtypes, layouts)
    oscillators = shape[osc.channel_axis(arrays[0])] // n
    size = {"rates": (oscillators, n // 2), "matrix": (n, n), "matrices": (oscillators, n, n)}[kind]
    omega = torch.randn(size, generator=generator, dtype=F64)
    if kind != "rates":
        omega = antisymmetric(omega)
    wide = torch.promote_types(dtypes[0], F32)
    gamma = torch.tensor(0.7, device=device, dtype=wide, requires_grad=True)
    return [*arrays, gamma, omega.to(device, wide).requires_grad_()]


def gradients(outputs, inputs, n, seeds=None):
    """Those of inputs, the last of which is Ω: of a matrix only the antisymmetric part, which the fused form gives."""
    *others, omega = torch.autograd.grad(outputs, inputs, seeds, allow_unused=True, materialize_grads=True)
    return [*others, antisymmetric(omega) if omega.shape[-1] == n else omega]


def both(inputs, n, project, pair_weight, seed=0):
    """(result, expected) of outputs and gradients; expected in float64."""
    from akorn.kernels.update import update

    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(inputs[0].shape, generator=generator, dtype=F64).to(inputs[0])
    each = torch.randn(inputs[0].shape[0], generator=generator, dtype=F64).to(inputs[0])
    found = []
    for function, arrays in ((update, inputs), (plain, [a.detach().double().requires_grad_() for a in inputs])):
        outputs = function(*arrays, n, project, pair_weight)[: 1 if pair_weight is None else 2]
        seeds = [s.to(o.dtype) for s, o in zip((weights, each), outputs, strict=False)]
        found.append([*outputs, *gradients(outputs, arrays, n, seeds)])
    return found


def close(found, expected, dtype, terms=1):
    close_within(found, expected, TOLERANCE[dtype], terms)


def some_cases():
    """Every N and every kind of Ω, with random shapes, types, layouts and energy."""
    pick = random.Random(7)
    cases = []
    for n in range(2, 17):
        for kind in KINDS[n % 2 :]:
            channels = n * pick.randint(2, 5)
            shape = pick.choice(
                [
                    (pick.randint(1, 30), channels),
                    (pick.randint(1, 3), pick.randint(1, 12), channels),
                    (pick.randint(1, 3), channels, pick.randint(1, 7), pick.randint(1, 7)),
                ]
            )
            dtypes = pick.choice([(F64,) * 3, (F32,) * 3, (F16,) * 3, (F32, BF16, F32), (F32, F16, F16)])
            layouts = "".join(pick.choices("plg" if len(shape) == 4 else "pg", k=3)) if pick.random() < 0.6 else "ppp"
            cases.append((shape, n, kind, dtypes, layouts, pick.choice([None, 0.5, 1.0])))
    return cases


@pytest.mark.parametrize(("shape", "n", "kind", "dtypes", "layouts", "pair_weight"), some_cases())
def test_same_as_float64(device, project, shape, n, kind, dtypes, layouts, pair_weight):
    inputs = draw(1, shape, n, kind, device, dtypes, layouts)
    found, expected = both(inputs, n, project, pair_weight)
    close(found, expected, max(dtypes, key=lambda dtype: torch.finfo(dtype).eps))
    assert [g.dtype for g in found[-5:]] == [a.dtype for a in inputs]
    assert found[0].dtype == inputs[0].dtype


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shape", "n", "layout"), [
    ((3, 301, 12), 4, "p"), ((3, 101, 18), 6, "p"), ((2, 15, 19, 17), 3, "p"), ((2, 20, 9, 31), 4, "p"),
    ((2, 15, 19, 17), 5, "l"),
])  # fmt: skip
def test_many_programs(device, project, shape, n, kind, layout):
    """Tiles that start at any oscillator of a sample, and end beyond it."""
    if kind == "rates" and n % 2:
        pytest.skip("pairs need an even N")
    found, expected = both(draw(2, shape, n, kind, device, layouts=layout * 3), n, project, 0.5)
    close(found, expected, F64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", [[4], [3], [3, 4], [1, 4], [2, 4], [0]])
@pytest.mark.parametrize("pair_weight", [None, 0.5])
def test_only_some_gradients(device, project, kind, wanted, pair_weight):
    from akorn.kernels.update import update

    inputs = draw(3, (2, 5, 8), 4, kind, device)
    grads = []
    for function in (update, plain):
        arrays = [a.detach().requires_grad_(i in wanted) for i, a in enumerate(inputs)]
        after, energy = function(*arrays, 4, project, pair_weight)
        loss = after.square().cumsum(1).cos().sum() + (0 if pair_weight is None else energy.sin().sum())
        chosen = [arrays[i] for i in wanted]
        grads.append(gradients(loss, chosen, 4) if 4 in wanted else torch.autograd.grad(loss, chosen))
    close(*grads, F64)


@pytest.mark.parametrize("kind", ["matrix", "matrices"])
def test_its_gradient_is_antisymmetric(device, project, kind):
    from akorn.kernels.update import update

    inputs = draw(4, (3, 4, 21), 7, kind, device)
    after, energy = update(*inputs, 7, project, 0.5)
    (grad,) = torch.autograd.grad(after.pow(3).sum() + energy.sum(), inputs[-1:])
    assert grad.abs().max() > 0.01
    assert torch.equal(grad, -grad.mT)


@pytest.mark.parametrize("only", [0, 1])
def test_only_one_output_in_the_loss(device, project, only):
    from akorn.kernels.update import update

    grads = []
    for function in (update, plain):
        arrays = draw(4, (3, 4, 6), 3, "matrices", device)
        grads.append(gradients(function(*arrays, 3, project, 0.5)[only].pow(3).sum(), arrays, 3))
    close(*grads, F64)


@pytest.mark.parametrize(("shape", "n", "layout", "oscillators"), [
    ((2, 3, 4), 4, "p", None), ((2, 6, 2, 2), 3, "p", 2), ((1, 10, 2, 3), 5, "l", 2),
])  # fmt: skip
def test_gradcheck_of_the_entries(device, project, shape, n, layout, oscillators):
    from akorn.kernels.update import update

    *inputs, _ = draw(5, shape, n, "matrix", device, layouts=layout * 3)
    omega = akn.NaturalFrequency(n, oscillators).to(device, F64)

    def function(*arrays):
        matrix = torch.func.functional_call(_Matrix(omega), {"omega.entries": arrays[-1]})
        return update(*arrays[:-1], matrix, n, project, 0.5)

    entries = omega.entries.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(function, (*inputs, entries), fast_mode=True)


class _Matrix(torch.nn.Module):
    def __init__(self, omega):
        super().__init__()
        self.omega = omega

    def forward(self):
        return self.omega.matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [F64, F32, BF16])
def test_omega_of_another_type_and_with_gaps(device, project, kind, dtype):
    *inputs, omega = draw(6, (2, 8, 3, 5), 4, kind, device, (F32,) * 3)
    gapped = torch.stack((omega, omega), -1).to(dtype)[..., 0].detach().requires_grad_()
    found, expected = both([*inputs, gapped], 4, project, 0.5)
    close(found[:-1], expected[:-1], F32)
    close(found[-1:], expected[-1:], BF16 if dtype == BF16 else F32)
    assert found[-1].dtype == dtype


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 5, 8), (2, 8, 3, 5)])
def test_the_state_in_another_type_too(device, project, shape, kind):
    from akorn.kernels.update import update, update_twice

    inputs = draw(7, shape, 4, kind, device, (F32,) * 3)
    after, energy, copy = update_twice(*inputs, 4, project, 0.5, F16)
    assert all(torch.equal(a, b) for a, b in zip((after, energy), update(*inputs, 4, project, 0.5), strict=True))
    assert torch.equal(copy, after.to(F16))
    found = gradients(after.pow(3).sum() + copy.float().pow(2).sum(), inputs, 4)
    expected = draw(7, shape, 4, kind, device)
    state, _ = plain(*expected, 4, project, 0.5)
    close(found, gradients(state.pow(3).sum() + state.pow(2).sum(), expected, 4), F16)


def test_rates_of_pairs_are_a_matrix(device, project):
    """The two ways to write the same Ω agree, and so does one rate where all are equal."""
    from akorn.kernels.update import update

    *inputs, _ = (a.detach() for a in draw(8, (2, 7, 12), 6, "matrix", device))
    rates = akn.PairwiseFrequency(6, 2, init=0.8).to(device, F64)
    results = [update(*inputs, omega, 6, project, None)[0] for omega in (rates.rate, rates.matrix, rates.rate[:1, 0])]
    close(results[1:], [results[0]] * 2, F64)


@pytest.mark.parametrize(("kind", "n"), [("rates", 4), ("matrix", 4), ("matrices", 4), ("matrix", 3), ("matrices", 3)])
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("elements", "warps"), [(512, 2), (4096, 8)])
def test_any_block_gives_the_same(device, project, kind, n, memory, elements, warps):
    from akorn.kernels.update import BLOCK, update_into
    from akorn.kernels.update_backward import Block, launch_backward

    layout = "l" if memory is torch.channels_last else "p"
    inputs = [a.detach() for a in draw(9, (2, 12, 9, 7), n, kind, device, layouts=layout * 3)]
    grad = torch.randn_like(inputs[0])
    found = []
    for block in (BLOCK, Block(elements, warps)):
        out = inputs[0].clone()
        update_into(out, None, out, *inputs[1:], n, project, 0.0, block)  # in place
        found.append((out, *launch_backward(grad, None, *inputs, n, project, None, [True] * 3, block)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-12)
    close(found[1][:1], plain(*inputs, n, project, None)[:1], F64)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "kind", "n", "project"), [
    ((2, 3, 12), "rates", 4, True), ((2, 12, 2, 3), "matrix", 4, False), ((2, 3, 12), "matrices", 3, True),
])  # fmt: skip
def test_operators_are_registered_properly(device, shape, kind, n, project):
    from akorn.kernels.update import update, update_twice
    from akorn.kernels.update_backward import update_backward

    inputs = draw(10, shape, n, kind, device, (F32,) * 3)
    torch.library.opcheck(update.custom, (*inputs, n, project, 0.5))
    torch.library.opcheck(update_twice.custom, (*inputs, n, project, None, F16))
    arrays = [a.detach() for a in inputs]
    for wanted in ([True, True, True], [False, True, False]):
        arguments = (torch.ones_like(arrays[0]), None, None, *arrays, n, project, None, wanted)
        torch.library.opcheck(update_backward.custom, arguments, test_utils=("test_schema", "test_faketensor"))


def test_refuses_what_is_no_omega(device):
    from akorn.kernels.update import update

    x, one = torch.zeros(2, 4, 12, device=device), torch.ones(1, device=device)
    for n, shape in ((4, (4, 2)), (4, (3, 4)), (4, (2, 4, 4)), (4, (4,)), (3, (4, 1)), (3, (1,)), (4, (0,))):
        with pytest.raises(ValueError, match=rf"got shape .* for n={n} and {12 // n} oscillators"):
            update(x, x, x, one, x.new_zeros(shape), n, True, None)


def test_nothing_to_do(device):
    for kind in KINDS:
        close(*both(draw(11, (0, 3, 8), 4, kind, device), 4, True, 0.5), F64)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtypes", [(F32,) * 3, (BF16,) * 3, (F32, BF16, F32)])
@pytest.mark.parametrize(("shape", "n", "layout"), [
    ((20, 81, 512), 4, "p"), ((4, 400, 240), 3, "p"), ((8, 64, 32, 32), 16, "l"), ((8, 60, 32, 32), 15, "l"),
    ((8, 256, 8, 8), 2, "p"), ((8, 64, 32, 32), 16, "p"), ((8, 60, 31, 9), 15, "p"), ((8, 240, 16, 16), 6, "p"),
])  # fmt: skip
@pytest.mark.parametrize("pair_weight", [None, 0.5])
def test_sizes_of_use(device, project, shape, n, layout, kind, dtypes, pair_weight):
    if kind == "rates" and n % 2:
        pytest.skip("pairs need an even N")
    inputs = draw(12, shape, n, kind, device, dtypes, layout * 3)
    if not project:
        outward(*inputs[:3], n)
    found, expected = both(inputs, n, project, pair_weight)
    close(found, expected, max(dtypes, key=lambda dtype: torch.finfo(dtype).eps), inputs[0].numel() // n)
    again, _ = both(inputs, n, project, pair_weight)
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
