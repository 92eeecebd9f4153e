"""The fused update with its gradients against the plain form in float64, and as an operator."""

import random

import pytest
import torch
from nearness import close as close_within
from update_cases import BF16, F16, F32, F64, outward, plain, states

# float64 shows that the formula is right; of the others each result is rounded once.
TOLERANCE = {F64: 1e-10, F32: 1e-5, F16: 1e-3, BF16: 8e-3}


def draw(seed, shape, n, device, dtypes, layouts="ppp", rotate=True):
    """(x, jx, c, γ, ω) that want gradients; a layout is "p"lain, channels "l"ast or "g"apped."""
    generator = torch.Generator().manual_seed(seed)
    arrays = states(generator, shape, n, device, dtypes, layouts)
    wide = torch.promote_types(dtypes[0], F32)
    gamma = torch.tensor(0.7, device=device, dtype=wide, requires_grad=True)
    rate = torch.tensor([1.3], device=device, dtype=wide, requires_grad=True) if rotate and n % 2 == 0 else None
    return [*arrays, gamma, rate]


def both(inputs, n, project, pair_weight, seed=0):
    """(result, expected) of outputs and gradients; expected in float64."""
    from akorn.kernels.update import update

    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(inputs[0].shape, generator=generator, dtype=F64).to(inputs[0])
    each = torch.randn(inputs[0].shape[0], generator=generator, dtype=F64).to(inputs[0])
    found = []
    for function, arrays in (
        (update, inputs),
        (plain, [None if a is None else a.detach().double().requires_grad_() for a in inputs]),
    ):
        after, energy = function(*arrays, n, project, pair_weight)
        outputs = [after] if pair_weight is None else [after, energy]
        seeds = [weights.to(after.dtype), each.to(energy.dtype)] if pair_weight is not None else [weights.to(after)]
        grads = torch.autograd.grad(outputs, [a for a in arrays if a is not None], seeds)
        found.append([*outputs, *grads])
    return found


def close(found, expected, dtype, terms=1):
    close_within(found, expected, TOLERANCE[dtype], terms)


def some_cases(count):
    """Random shapes, N, types, layouts, rotation and energy; the first ones make sure of every N."""
    pick = random.Random(5)
    cases = []
    for i in range(count):
        n = i + 2 if i < 15 else pick.randint(2, 16)
        channels = n * pick.randint(1, 5)
        shape = pick.choice(
            [
                (pick.randint(1, 40), channels),
                (pick.randint(1, 3), pick.randint(1, 30), channels),
                (pick.randint(1, 3), channels, pick.randint(1, 12), pick.randint(1, 12)),
            ]
        )
        dtypes = pick.choice([(F64,) * 3, (F32,) * 3, (BF16,) * 3, (F16,) * 3, (F32, BF16, F32), (F32, BF16, BF16)])
        layouts = "".join(pick.choices("plg" if len(shape) == 4 else "pg", k=3)) if i % 3 else "ppp"
        cases.append((shape, n, dtypes, layouts, pick.random() < 0.6, pick.choice([None, 0.5, 1.0])))
    return cases


@pytest.mark.parametrize(("shape", "n", "dtypes", "layouts", "rotate", "pair_weight"), some_cases(40))
def test_same_as_float64(device, project, shape, n, dtypes, layouts, rotate, pair_weight):
    inputs = draw(1, shape, n, device, dtypes, layouts, rotate)
    found, expected = both(inputs, n, project, pair_weight)
    close(found, expected, max(dtypes, key=lambda dtype: torch.finfo(dtype).eps))
    wanted = [a for a in inputs if a is not None]
    assert [g.dtype for g in found[-len(wanted) :]] == [a.dtype for a in wanted]
    assert found[0].dtype == inputs[0].dtype


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize(("batch", "pictures"), [(3, False), (2, True)])
def test_many_programs(device, project, n, batch, pictures):
    """Arrays that end within a block, and samples that do."""
    shape = (batch, 3 * n, 19, 17) if pictures else (batch, 301, 3 * n)
    found, expected = both(draw(2, shape, n, device, (F64,) * 3), n, project, 0.5)
    close(found, expected, F64)


@pytest.mark.parametrize("wanted", [[0], [1], [2], [3], [4], [0, 3], [1, 4], [2, 3]])
@pytest.mark.parametrize("pair_weight", [None, 0.5])
def test_only_some_gradients(device, project, wanted, pair_weight):
    from akorn.kernels.update import update

    inputs = draw(3, (2, 5, 8), 4, device, (F64,) * 3)
    grads = []
    for function in (update, plain):
        arrays = [a.detach().requires_grad_(i in wanted) for i, a in enumerate(inputs)]
        after, energy = function(*arrays, 4, project, pair_weight)
        loss = after.square().cumsum(1).cos().sum() + (0 if pair_weight is None else energy.sin().sum())
        grads.append(torch.autograd.grad(loss, [arrays[i] for i in wanted]))
    close(*grads, F64)


@pytest.mark.parametrize("only", [0, 1])
def test_only_one_output_in_the_loss(device, project, only):
    from akorn.kernels.update import update

    grads = []
    for function in (update, plain):
        arrays = draw(4, (3, 4, 6), 2, device, (F64,) * 3)
        loss = function(*arrays, 2, project, 0.5)[only].pow(3).sum()
        grads.append(torch.autograd.grad(loss, arrays, allow_unused=True, materialize_grads=True))
    close(*grads, F64)


@pytest.mark.parametrize(
    ("shape", "n", "layout"), [((2, 3, 4), 4, "p"), ((2, 6, 2, 2), 3, "p"), ((1, 4, 2, 3), 2, "l")]
)
def test_gradcheck(device, project, shape, n, layout):
    from akorn.kernels.update import update

    inputs = draw(5, shape, n, device, (F64,) * 3, layout * 3)
    assert torch.autograd.gradcheck(lambda *a: update(*a, n, project, 0.5), inputs, fast_mode=True)


def test_no_second_derivatives(device):
    from akorn.kernels.update import update

    inputs = draw(6, (1, 2, 4), 2, device, (F64,) * 3)
    (grad,) = torch.autograd.grad(update(*inputs, 2, True, None)[0].pow(2).sum(), inputs[0], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        grad.sum().backward()


def test_one_array_for_the_gradients_of_jx_and_c(device, project):
    from akorn.kernels.update import update

    inputs = draw(7, (2, 3, 8), 4, device, (F32,) * 3)
    for pair_weight, same in ((None, True), (1.0, True), (0.5, False)):
        after, energy = update(*inputs, 4, project, pair_weight)
        jx, c = torch.autograd.grad(after.sum() + energy.sum(), inputs[1:3])
        assert (jx.data_ptr() == c.data_ptr()) == same


@pytest.mark.parametrize("layouts", ["ppp", "lll", "lpp", "pll", "gpl"])
def test_memory_order_is_kept(device, layouts):
    from akorn.kernels.update import update

    inputs = draw(8, (2, 8, 3, 5), 4, device, (F32,) * 3, layouts)
    after, _ = update(*inputs, 4, True, None)
    order = torch.channels_last if layouts[0] == "l" else torch.contiguous_format
    assert after.is_contiguous(memory_format=order)
    grads = torch.autograd.grad(after.sum(), inputs)
    assert all(g.is_contiguous(memory_format=order) for g in grads[:3])


@pytest.mark.parametrize("length", [0.0, 3e-13])
def test_vectors_without_direction(device, project, length):
    """Too short for Π: they become zero, and there is no gradient."""
    from akorn.kernels.update import update

    inputs = draw(9, (1, 2, 4), 4, device, (F64,) * 3, rotate=False)
    x, zero = (length * inputs[0]).detach().requires_grad_(), torch.zeros_like(inputs[0])
    after = [function(x, zero, zero, inputs[3], None, 4, project, None)[0] for function in (update, plain)]
    for a in after:
        assert a.eq(0).all()
        assert all(grad.eq(0).all() for grad in torch.autograd.grad(a.sum(), [x, inputs[3]]))


def test_a_force_that_cancels_the_state(device):
    """Without Proj it can; then x′ is zero, and there is no gradient."""
    from akorn.kernels.update import update

    x, _, zero, *_ = draw(9, (1, 2, 4), 4, device, (F64,) * 3)
    force, gamma = (-2 * x).detach().requires_grad_(), torch.tensor(0.5, device=device, dtype=F64)
    for function in (update, plain):
        after, energy = function(x, force, 0 * zero, gamma, None, 4, False, 1.0)
        assert after.eq(0).all()
        torch.testing.assert_close(energy, torch.full_like(energy, 4.0))  # −⟨x, −2x⟩ of two oscillators
        assert all(grad.eq(0).all() for grad in torch.autograd.grad(after.sum(), [x, force]))


def test_nothing_to_do(device):
    inputs = draw(9, (0, 3, 4), 2, device, (F32,) * 3)
    close(*both(inputs, 2, True, 0.5), F32)


@pytest.mark.parametrize(("shape", "layout"), [((2, 3, 8), "p"), ((2, 8, 2, 3), "p"), ((2, 8, 2, 3), "l")])
@pytest.mark.parametrize(("project", "pair_weight"), [(True, None), (False, 0.5)])
def test_operators_are_registered_properly(device, shape, layout, project, pair_weight):
    from akorn.kernels.update import update, update_twice
    from akorn.kernels.update_backward import update_backward

    inputs = draw(10, shape, 4, device, (F32,) * 3, layout * 3)
    # test_autograd_registration and test_aot_dispatch_dynamic run forward and backward under torch.compile's tracing
    torch.library.opcheck(update.custom, (*inputs, 4, project, pair_weight))
    torch.library.opcheck(update_twice.custom, (*inputs, 4, project, pair_weight, F16))
    arrays = [a.detach() for a in inputs]
    energy = torch.ones(2, device=device) if pair_weight else None
    grad = torch.ones_like(arrays[0])
    checks = ("test_schema", "test_faketensor")
    for wanted in ([True, True, True], [False, True, False]):
        for coupled in (None, grad.half()):
            arguments = (grad, coupled, energy, *arrays, 4, project, pair_weight, wanted)
            torch.library.opcheck(update_backward.custom, arguments, test_utils=checks)


@pytest.mark.parametrize(("shape", "n", "layouts"), [
    ((2, 5, 8), 4, "ppp"), ((2, 6, 3, 5), 3, "ppp"), ((2, 8, 3, 5), 2, "lll"), ((2, 8, 3, 5), 4, "gpl"),
])  # fmt: skip
@pytest.mark.parametrize("narrow", [F16, BF16])
def test_the_state_in_another_type_too(device, project, shape, n, layouts, narrow):
    from akorn.kernels.update import update_twice

    inputs = draw(12, shape, n, device, (F32,) * 3, layouts)
    after, _, copy = update_twice(*inputs, n, project, 0.5, narrow)
    assert copy.dtype == narrow
    assert copy.stride() == after.stride()
    if narrow == F16 or device.type == "cuda":
        assert torch.equal(copy, after.to(narrow))
    else:  # Triton's interpreter cuts off where it should round
        torch.testing.assert_close(copy.float(), after, rtol=2**-7, atol=0)


def plain_twice(*arguments):
    after, energy = plain(*arguments[:-1])
    return after, energy, after.to(arguments[-1])


@pytest.mark.parametrize("outputs", [[0, 2], [2], [0, 1, 2], [1, 2]])
def test_gradients_through_both_states(device, project, outputs):
    from akorn.kernels.update import update_twice

    grads = []
    for function in (update_twice, plain_twice):
        arrays = draw(13, (2, 5, 8), 4, device, (F64,) * 3)
        found = function(*arrays, 4, project, 0.5, F32)
        loss = sum((found[i].double().pow(3) * (i + 1)).sum() for i in outputs)
        grads.append(torch.autograd.grad(loss, arrays))
    close(*grads, F32 if 2 in outputs else F64)  # the cube is of a number rounded to float32


@pytest.mark.parametrize("layouts", ["ppp", "lll", "plp"])
@pytest.mark.parametrize("pair_weight", [None, 0.5])
def test_gradients_into_given_arrays(device, project, layouts, pair_weight):
    """The gradient of c is added to a sum, and that of x takes the place of the one of x′."""
    from akorn.kernels.update_backward import launch_backward

    arrays = [a.detach() for a in draw(14, (2, 8, 3, 5), 4, device, (F32, F16, F32), layouts)]
    grad, total = (torch.randn_like(arrays[0]) for _ in range(2))
    energy = torch.randn(2, device=device) if pair_weight else None
    further = (energy, *arrays, 4, project, pair_weight, [True] * 3)
    coupled = torch.randn_like(arrays[1])
    wanted = launch_backward(grad + coupled, *further)
    expected = total + wanted[2]
    given = grad.clone(), total.clone()
    found = launch_backward(given[0], *further, grad_narrow=coupled, into=given[1], add=True, overwrite=True)
    close(found, [*wanted[:2], expected, wanted[3]], F32)
    assert found[0].data_ptr() == given[0].data_ptr()
    assert found[2].data_ptr() == given[1].data_ptr()
    fresh = launch_backward(grad, *further, grad_narrow=coupled, into=torch.full_like(total, torch.nan))
    close(fresh, wanted, F32)
    assert fresh[0].data_ptr() != grad.data_ptr()


@pytest.mark.gpu
@pytest.mark.parametrize("dtypes", [(F32,) * 3, (BF16,) * 3, (F16,) * 3, (F32, BF16, F32)])
@pytest.mark.parametrize(
    ("shape", "n", "layout"),
    [((20, 81, 512), 4, "p"), ((16, 400, 256), 4, "p"), ((8, 64, 32, 32), 2, "l"), ((8, 256, 8, 8), 2, "p")],
)
@pytest.mark.parametrize("pair_weight", [None, 0.5])
def test_the_sizes_of_the_paper(device, project, shape, n, layout, dtypes, pair_weight):
    inputs = draw(11, shape, n, device, dtypes, layout * 3)
    if not project:
        outward(*inputs[:3], n)
    found, expected = both(inputs, n, project, pair_weight)
    close(found, expected, max(dtypes, key=lambda dtype: torch.finfo(dtype).eps), inputs[0].numel() // n)
    again, _ = both(inputs, n, project, pair_weight)
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))


@pytest.mark.gpu
def test_more_elements_than_32_bits_count(device):
    from akorn.kernels.update import update

    if torch.cuda.mem_get_info()[0] < 60 * 2**30:
        pytest.skip("needs 60 GiB of GPU memory")
    shape = (5, 2**20 + 3, 512)  # 2.5 · 2³⁰
    x, jx, c = (torch.randn(1, 1, 512, device=device, dtype=BF16).expand(shape).contiguous() for _ in range(3))
    x.requires_grad_()
    gamma = torch.ones((), device=device)
    after, energy = update(x, jx, c, gamma, None, 4, True, 0.5)
    assert torch.equal(after[0, 0], after[-1, -1])
    torch.testing.assert_close(energy, energy[:1].expand(5))
    (grad,) = torch.autograd.grad(after, x, torch.ones_like(after))
    assert torch.equal(grad[0, 0], grad[-1, -1])
    assert grad[0, 0].isfinite().all()
