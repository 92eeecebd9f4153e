"""Attention for training against its plain form in float64, forward and backward."""

import contextlib

import pytest
import torch

from akorn.nn.position import apply_pairs

# Of the length of the difference against that of the result. Inside, queries, keys, values, weights and their
# gradients are each rounded to the arrays' type. (Triton's interpreter cuts bfloat16 off instead of rounding it.)
GPU = torch.cuda.is_available()
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 1.5e-2 if GPU else 5e-2}
SPLIT = 1e-4  # products of float32 in 16 bits


def draw(seed, *shape, dtype=torch.float32, device="cpu", scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator)).to(device, dtype)


def near(result, expected, tolerance):
    assert result.shape == expected.shape
    assert not result.isnan().any()
    error = torch.linalg.vector_norm(result.double() - expected) / torch.linalg.vector_norm(expected)
    assert error <= tolerance, f"{error:.1e} away"


def plain(qkv, matrices, heads):
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, -1))
    if matrices:
        q, k = apply_pairs(matrices[0], q), apply_pairs(matrices[1], k)
    if len(matrices) == 4:
        v = apply_pairs(matrices[2], v)
    o = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v
    if len(matrices) == 4:
        o = apply_pairs(matrices[3], o)
    return o.transpose(1, 2).flatten(2)


def problem(batch, tokens, heads, head_dim, sets, dtype, device):
    """Arrays, with free 2×2 matrices (not rotations, so that every entry is independent), and the truth in float64."""
    qkv = draw(0, batch, tokens, 3 * heads * head_dim, dtype=dtype, device=device)
    matrices = [draw(1 + i, tokens, head_dim // 2, 2, 2, device=device, scale=0.7) for i in range(sets)]
    out_grad = draw(9, batch, tokens, heads * head_dim, dtype=dtype, device=device)
    exact = [a.to(dtype).double().requires_grad_() for a in (qkv, *matrices)]
    out = plain(exact[0], exact[1:], heads)
    truth = [out.detach(), *torch.autograd.grad(out, exact, out_grad.double())]
    return qkv.requires_grad_(), [m.requires_grad_() for m in matrices], out_grad, truth


def check(made, heads, tolerance):
    from akorn.kernels.attention import attend

    qkv, matrices, out_grad, truth = made
    out = attend(qkv, matrices, heads)
    assert out.dtype == qkv.dtype
    grads = torch.autograd.grad(out, [qkv, *matrices], out_grad)
    for result, expected in zip([out, *grads], truth, strict=True):
        near(result, expected, tolerance)
    for result, array in zip(grads, [qkv, *matrices], strict=True):
        assert result.dtype == array.dtype


@pytest.mark.parametrize(
    ("batch", "tokens", "heads", "head_dim", "sets", "dtype"),
    [
        (2, 81, 1, 64, 4, torch.float32),
        (2, 5, 2, 16, 4, torch.float32),
        (3, 33, 2, 20, 2, torch.float32),
        (1, 130, 1, 16, 4, torch.float32),
        (1, 1, 2, 32, 0, torch.float32),
        (1, 129, 1, 128, 0, torch.float32),
        (2, 17, 1, 6, 4, torch.float32),
        (2, 40, 2, 32, 4, torch.bfloat16),
        (2, 130, 1, 20, 2, torch.bfloat16),
        (2, 24, 2, 16, 4, torch.float16),
    ],
)
def test_forward_and_backward(device, batch, tokens, heads, head_dim, sets, dtype):
    check(problem(batch, tokens, heads, head_dim, sets, dtype, device), heads, TOLERANCE[dtype])


@pytest.mark.parametrize("sets", [0, 2, 4])
def test_every_cut(device, sets):
    """All keys in one program or not, and more than one block and iteration in each direction."""
    from triton.runtime.errors import OutOfResources

    from akorn.kernels import attention, attention_backward
    from akorn.kernels.pairs import pack
    from akorn.kernels.tune import Config

    qkv, matrices, out_grad, truth = problem(2, 37, 2, 12, sets, torch.float32, device)
    cuts = [Config(block=16, columns=32, warps=4, stages=1, depth=d) for d in (0, 1)]
    forward, backward = list(cuts), [*cuts, Config(block=32, columns=16, warps=4, stages=1)]
    if device.type == "cuda" and sets == 4:
        forward += [
            *attention._WHOLE,
            *attention._BLOCKS,
            *attention._NARROW,
            *attention._WIDE_BLOCKS,
            attention._LARGE,
        ]
        whole, large = attention_backward._WHOLE, attention_backward._LARGE
        blocks = *attention_backward._BLOCKS, *attention_backward._NARROW
        backward += [*whole, *blocks, *attention_backward._WIDE_BLOCKS, large]
    with torch.no_grad():
        packed = pack(matrices, qkv) if sets else None
        for config in forward:
            with contextlib.suppress(OutOfResources):
                out, lse, *_ = attention.forward(qkv, packed, 2, given=config)
                near(out, truth[0], TOLERANCE[torch.float32])
                assert lse.isfinite().all()
        for config in backward:
            with contextlib.suppress(OutOfResources):
                grad, sums, _ = attention_backward.gradients(out_grad, qkv, out, lse, packed, 2, True, given=config)
                for result, expected in zip([grad, *sums], truth[1:], strict=True):
                    near(result, expected, TOLERANCE[torch.float32])


def test_same_bits_again(device):
    from akorn.kernels.attention import attend

    qkv, matrices, out_grad, _ = problem(4, 20, 2, 16, 4, torch.float32, device)
    runs = []
    for _ in range(2):
        out = attend(qkv, matrices, 2)
        runs.append([out, *torch.autograd.grad(out, [qkv, *matrices], out_grad)])
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")  # the interpreter's, at keys outside
@pytest.mark.parametrize("shift", [-14.0, 14.0])
def test_large_scores(device, shift):
    """All scores far from zero, where exponentials alone would overflow, at keys outside the tokens too."""
    from akorn.kernels import attention, attention_backward
    from akorn.kernels.tune import Config

    qkv, _, out_grad, _ = problem(1, 21, 1, 16, 0, torch.float32, device)
    with torch.no_grad():
        qkv[..., :16] += 14.0
        qkv[..., 16:32] += shift
        exact = qkv.double()
        for config in (Config(block=16, columns=16, warps=4, stages=1, depth=d) for d in (0, 1)):
            out, lse, *_ = attention.forward(qkv, None, 1, given=config)
            grad, *_ = attention_backward.gradients(out_grad, qkv, out, lse, None, 1, False, given=config)
            with torch.enable_grad():
                expected = plain(exact.requires_grad_(), (), 1)
                (expected_grad,) = torch.autograd.grad(expected, exact, out_grad.double())
            near(out, expected.detach(), 1e-3)
            near(grad, expected_grad, 1e-3)


def test_matrices_without_gradients(device):
    """Rotations that are not learned: only qkv gets a gradient, and the matrices' sums are not made."""
    from akorn.kernels.attention import attend

    qkv, matrices, out_grad, truth = problem(2, 19, 1, 16, 4, torch.float32, device)
    (grad,) = torch.autograd.grad(attend(qkv, [m.detach() for m in matrices], 1), qkv, out_grad)
    near(grad, truth[1], TOLERANCE[torch.float32])


def test_other_layouts_and_no_samples(device):
    from akorn.kernels.attention import attend

    qkv, matrices, out_grad, truth = problem(2, 9, 1, 16, 4, torch.float32, device)
    scattered = qkv.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    out = attend(scattered, matrices, 1)
    (grad,) = torch.autograd.grad(out, scattered, out_grad.transpose(0, 1).contiguous().transpose(0, 1))
    near(grad, truth[1], TOLERANCE[torch.float32])
    nobody = qkv.detach()[:0].requires_grad_()
    out = attend(nobody, matrices, 1)
    assert out.shape == (0, 9, 16)
    grads = torch.autograd.grad(out.sum(), [nobody, *matrices])
    assert grads[0].shape == nobody.shape
    assert all(g.eq(0).all() for g in grads[1:])


@pytest.mark.slow
def test_operators_are_registered_properly(device):
    from akorn.kernels.attention import _attend
    from akorn.kernels.attention_backward import attend_backward

    qkv, matrices, out_grad, _ = problem(1, 6, 1, 8, 4, torch.float32, device)
    bias = draw(8, 24, device=device).requires_grad_()
    torch.library.opcheck(_attend.custom, (qkv, *matrices, None, 1, False))
    torch.library.opcheck(_attend.custom, (qkv, None, None, None, None, None, 1, False))
    torch.library.opcheck(_attend.custom, (qkv, *matrices, bias, 1, True))
    out, lse, packed, _, unturned = (a.detach() for a in _attend(qkv, *matrices, bias, 1, True))
    torch.library.opcheck(attend_backward.custom, (out_grad, qkv.detach(), out, lse, packed, 1, True))
    torch.library.opcheck(
        attend_backward.custom, (out_grad, qkv.detach(), out, lse, packed, 1, True, True, None, unturned)
    )


def test_no_second_derivatives_of_attention(device):
    from akorn.kernels.attention import attend

    qkv = torch.randn(1, 6, 24, device=device, requires_grad=True)
    (grad,) = torch.autograd.grad(attend(qkv, [], 1).square().sum(), qkv, create_graph=True)
    with pytest.raises(RuntimeError, match="attention has no second derivatives"):
        grad.sum().backward()


def test_bad_arguments(device):
    from akorn.kernels.attention import attend

    qkv = torch.zeros(1, 4, 48, device=device)
    matrices = torch.zeros(4, 8, 2, 2, device=device)
    for message, arguments in {
        "multiple of 5 heads": (qkv, (), 5),
        "got 4 tokens and heads of 16 in torch.float64": (qkv.double(), (), 1),
        "got 5000 tokens": (torch.zeros(1, 5000, 48, device=device), (), 1),
        "0, 2 or 4": (qkv, [matrices], 1),
        r"of \[4, 4, 2, 2\]": (qkv, [matrices] * 2, 2),
    }.items():
        with pytest.raises(ValueError, match=message):
            attend(*arguments)


@contextlib.contextmanager
def products_in(precision):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("batch", "tokens", "heads", "head_dim", "sets", "dtype"),
    [
        (20, 81, 8, 64, 4, torch.float32),
        (20, 81, 8, 64, 4, torch.bfloat16),
        (20, 81, 8, 64, 4, torch.float16),
        (4, 256, 8, 32, 4, torch.bfloat16),
        (4, 400, 8, 32, 4, torch.float32),
        (4, 400, 8, 32, 4, torch.bfloat16),
        (2, 1024, 2, 16, 4, torch.float32),
        (2, 1024, 2, 128, 4, torch.float32),
        (2, 1024, 2, 128, 4, torch.bfloat16),
        (3, 300, 3, 20, 0, torch.float32),
    ],
)
def test_real_sizes(device, batch, tokens, heads, head_dim, sets, dtype):
    made = problem(batch, tokens, heads, head_dim, sets, dtype, device)
    with products_in("highest"):
        check(made, heads, TOLERANCE[dtype])
    if dtype == torch.float32:
        with products_in("high"):
            check(made, heads, SPLIT)


def test_sixteen_bits_where_products_have_ten(device):
    """With PyTorch's float32 products in TF32, which is 5e-4 away, attention's are nearly exact."""
    from akorn.kernels.attention_tiles import products

    made = problem(2, 24, 2, 16, 4, torch.float32, device)
    with products_in("high"):
        assert products(torch.float32).startswith("split")  # the interpreter's TF32 would be exact
        check(made, 2, SPLIT)


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "dtype"), [("highest", torch.float32), ("high", torch.float32),
                                                  ("high", torch.bfloat16)])  # fmt: skip
@pytest.mark.parametrize("head_dim", [16, 64, 128])
@pytest.mark.parametrize("tokens", [100, 256, 512])
def test_the_first_cut_fits(device, tokens, head_dim, precision, dtype):
    """The division used without timing, while a CUDA graph is recorded, fits on the GPU at every size."""
    from akorn.kernels import attention, attention_backward
    from akorn.kernels.pairs import pack

    qkv, matrices, out_grad, truth = problem(1, tokens, 1, head_dim, 4, dtype, device)
    with torch.no_grad(), products_in(precision):
        packed = pack(matrices, qkv)
        out, lse, *_ = attention.forward(qkv, packed, 1, given=attention.candidates(tokens, head_dim, dtype)[0])
        first = attention_backward.candidates(tokens, head_dim, dtype)[0]
        grad, *_ = attention_backward.gradients(out_grad, qkv, out, lse, packed, 1, True, given=first)
    for result, expected in zip((out, grad), truth, strict=False):
        near(result, expected, max(TOLERANCE[dtype], SPLIT if precision == "high" else 0.0))


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [81, 300])
def test_recorded_as_a_graph(device, tokens):
    """Both passes wait for nothing, so that a graph of them can be recorded and replayed."""
    from akorn.kernels.attention import attend

    qkv, matrices, out_grad, truth = problem(3, tokens, 2, 32, 4, torch.float32, device)

    def run():
        out = attend(qkv, matrices, 2)
        return [out, *torch.autograd.grad(out, [qkv, *matrices], out_grad)]

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = run()
    for result in recorded:
        result.detach().fill_(float("nan"))
    graph.replay()
    for result, expected in zip(recorded, truth, strict=True):
        near(result, expected, TOLERANCE[torch.float32])
