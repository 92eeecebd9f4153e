"""Attention for training against its plain form in float64, forward and backward, alone and in the coupling."""

import contextlib
import copy

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from akorn import kernels
from akorn import nn as akn
from akorn.nn.position import apply_pairs

# Of the length of the difference against that of the result. Inside, queries, keys, values, weights and their
# gradients are each rounded to the arrays' type. (Triton's interpreter cuts bfloat16 off instead of rounding it.)
GPU = torch.cuda.is_available()
TOLERANCE = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 1.5e-2 if GPU else 5e-2}
TF32 = 4e-3


@pytest.fixture
def taken(device, monkeypatch):
    """Let couplings take the kernel by themselves; a list that grows with every time one does."""
    from akorn.kernels import attend

    calls, run = [], attend.attend
    monkeypatch.setattr(kernels, "_interpreted", device.type == "cpu")
    monkeypatch.setattr(attend, "attend", lambda *arguments: calls.append(1) or run(*arguments))
    return calls


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
    """Arrays, with free 2×2 matrices (no rotations: every entry has a place of its own), and the truth in float64."""
    qkv = draw(0, batch, tokens, 3 * heads * head_dim, dtype=dtype, device=device)
    matrices = [draw(1 + i, tokens, head_dim // 2, 2, 2, device=device, scale=0.7) for i in range(sets)]
    out_grad = draw(9, batch, tokens, heads * head_dim, dtype=dtype, device=device)
    exact = [a.to(dtype).double().requires_grad_() for a in (qkv, *matrices)]
    out = plain(exact[0], exact[1:], heads)
    truth = [out.detach(), *torch.autograd.grad(out, exact, out_grad.double())]
    return qkv.requires_grad_(), [m.requires_grad_() for m in matrices], out_grad, truth


def check(made, heads, tolerance):
    from akorn.kernels.attend import attend

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
    """All keys in one program or not, and more than one block and turn in each direction."""
    from triton.runtime.errors import OutOfResources

    from akorn.kernels import attend, attend_backward
    from akorn.kernels.tune import Config
    from akorn.kernels.turn import pack

    qkv, matrices, out_grad, truth = problem(2, 37, 2, 12, sets, torch.float32, device)
    cuts = [Config(block=16, columns=32, warps=4, stages=1, depth=d) for d in (0, 1)]
    forward, backward = list(cuts), [*cuts, Config(block=32, columns=16, warps=4, stages=1)]
    if device.type == "cuda" and sets == 4:
        forward += [*attend._WHOLE, *attend._BLOCKS, *attend._NARROW, *attend._WIDE_BLOCKS, attend._LARGE]
        whole, large = attend_backward._WHOLE, attend_backward._LARGE
        blocks = *attend_backward._BLOCKS, *attend_backward._NARROW
        backward += [*whole, *blocks, *attend_backward._WIDE_BLOCKS, large]
    with torch.no_grad():
        packed = pack(matrices, qkv) if sets else None
        for config in forward:
            with contextlib.suppress(OutOfResources):
                out, lse, *_ = attend.forward(qkv, packed, 2, given=config)
                near(out, truth[0], TOLERANCE[torch.float32])
                assert lse.isfinite().all()
        for config in backward:
            with contextlib.suppress(OutOfResources):
                grad, sums, _ = attend_backward.gradients(out_grad, qkv, out, lse, packed, 2, True, given=config)
                for result, expected in zip([grad, *sums], truth[1:], strict=True):
                    near(result, expected, TOLERANCE[torch.float32])


def test_same_bits_again(device):
    from akorn.kernels.attend import attend

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
    from akorn.kernels import attend, attend_backward
    from akorn.kernels.tune import Config

    qkv, _, out_grad, _ = problem(1, 21, 1, 16, 0, torch.float32, device)
    with torch.no_grad():
        qkv[..., :16] += 14.0
        qkv[..., 16:32] += shift
        exact = qkv.double()
        for config in (Config(block=16, columns=16, warps=4, stages=1, depth=d) for d in (0, 1)):
            out, lse, *_ = attend.forward(qkv, None, 1, given=config)
            grad, *_ = attend_backward.gradients(out_grad, qkv, out, lse, None, 1, False, given=config)
            with torch.enable_grad():
                expected = plain(exact.requires_grad_(), (), 1)
                (expected_grad,) = torch.autograd.grad(expected, exact, out_grad.double())
            near(out, expected.detach(), 1e-3)
            near(grad, expected_grad, 1e-3)


def test_matrices_without_gradients(device):
    """Rotations that are not learned: only qkv gets a gradient, and the matrices' sums are not made."""
    from akorn.kernels.attend import attend

    qkv, matrices, out_grad, truth = problem(2, 19, 1, 16, 4, torch.float32, device)
    (grad,) = torch.autograd.grad(attend(qkv, [m.detach() for m in matrices], 1), qkv, out_grad)
    near(grad, truth[1], TOLERANCE[torch.float32])


def test_other_layouts_and_no_samples(device):
    from akorn.kernels.attend import attend

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


def test_operators_are_registered_properly(device):
    from akorn.kernels.attend import _attend
    from akorn.kernels.attend_backward import attend_backward

    qkv, matrices, out_grad, _ = problem(1, 6, 1, 8, 4, torch.float32, device)
    bias = draw(8, 24, device=device).requires_grad_()
    torch.library.opcheck(_attend, (qkv, *matrices, None, 1, False))
    torch.library.opcheck(_attend, (qkv, None, None, None, None, None, 1, False))
    torch.library.opcheck(_attend, (qkv, *matrices, bias, 1, True))
    out, lse, packed, _, unturned = (a.detach() for a in _attend(qkv, *matrices, bias, 1, True))
    torch.library.opcheck(attend_backward, (out_grad, qkv.detach(), out, lse, packed, 1, True))
    torch.library.opcheck(attend_backward, (out_grad, qkv.detach(), out, lse, packed, 1, True, True, None, unturned))


def test_no_second_derivatives_of_attention(device):
    from akorn.kernels.attend import attend

    qkv = torch.randn(1, 6, 24, device=device, requires_grad=True)
    (grad,) = torch.autograd.grad(attend(qkv, [], 1).square().sum(), qkv, create_graph=True)
    with pytest.raises(RuntimeError, match="attention has no second derivatives"):
        grad.sum().backward()


def test_bad_arguments(device):
    from akorn.kernels.attend import attend

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


POSITIONS = {
    "none": lambda: None,
    "plain": lambda: akn.Position((3, 4)),
    "absolute": lambda: akn.AbsolutePosition((3, 4), 32),
    "rotary": lambda: akn.RotaryPosition((3, 4), 16),
    "GTA": lambda: akn.GTA((3, 4), 16),
    "symmetric GTA": lambda: akn.GTA((3, 4), 16, symmetric=True),
}


def a_coupling(position="GTA", **options):
    torch.manual_seed(0)
    coupling = akn.AttentionCoupling(32, 2, position=POSITIONS[position](), **options)
    with torch.no_grad():  # away from the start, where GTA's matrices are rotations
        for parameter in coupling.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return coupling


def results(module, *inputs):
    """What a module makes of its inputs, and the gradients of a fixed sum for inputs and parameters."""
    inputs = [a.detach().requires_grad_() for a in inputs]
    out = module(*inputs)
    sources = [*inputs, *module.parameters()]
    return [out.detach(), *torch.autograd.grad((out.double() * draw(5, *out.shape, device=out.device)).sum(), sources)]


def agree(module, taken, *inputs, tolerance=TOLERANCE[torch.float32]):
    """The fused form of a module against its plain form in float64."""
    fused = results(module, *inputs)
    assert taken
    count = len(taken)
    expected = results(copy.deepcopy(module).double(), *(a.double() for a in inputs))
    assert len(taken) == count, "float64 has no fused form"
    for a, b in zip(fused, expected, strict=True):
        near(a, b, tolerance)


@pytest.mark.parametrize("position", POSITIONS)
def test_the_coupling_takes_it(device, taken, position):
    agree(a_coupling(position).to(device), taken, draw(3, 2, 12, 32, device=device))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_pictures(device, taken, memory_format):
    x = draw(3, 2, 32, 3, 4, device=device).contiguous(memory_format=memory_format)
    coupling = a_coupling().to(device)
    agree(coupling, taken, x)
    assert coupling(x).is_contiguous(memory_format=torch.channels_last)  # and so no copy in the next step


def test_under_autocast(device, taken):
    coupling = a_coupling().to(device)

    class Cast(torch.nn.Module):
        inner = coupling

        def forward(self, x):
            with torch.autocast(device.type, torch.bfloat16):
                return self.inner(x)

    x = draw(3, 2, 12, 32, device=device)
    out = Cast()(x)
    assert out.dtype == torch.bfloat16
    assert taken
    near(out.detach(), copy.deepcopy(coupling).double()(x.double()).detach(), TOLERANCE[torch.bfloat16])


def test_in_a_layer(device, taken):
    """With recomputation as without, and each as in float64."""
    for recompute in (False, True):
        layer = akn.KuramotoLayer(32, 4, a_coupling(), gamma=0.5, recompute=recompute).to(device)
        agree(_Steps(layer), taken, *(draw(seed, 2, 12, 32, device=device) for seed in (3, 4)), tolerance=1e-4)


class _Steps(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, c):
        return self.layer(x, c, 2)


def test_checkpointed(device, taken):
    coupling = a_coupling().to(device)

    class Checkpointed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = coupling

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    agree(Checkpointed(), taken, draw(3, 2, 12, 32, device=device))


@pytest.mark.parametrize("position", ["absolute", "GTA"])
def test_compiled(device, monkeypatch, position):
    """In one graph, with the operator in it."""
    monkeypatch.setattr(kernels, "_interpreted", device.type == "cpu")
    coupling, x = a_coupling(position).to(device), draw(3, 2, 12, 32, device=device)
    graphs = []

    def backend(graph, inputs):
        graphs.append(str(graph.graph))
        return graph

    for a, b in zip(
        results(torch.compile(coupling, fullgraph=True, backend="aot_eager"), x), results(coupling, x), strict=True
    ):
        near(a, b.double(), 1e-6)
    torch.compile(coupling, fullgraph=True, backend=backend)(x)
    assert "akorn.attend" in graphs[0]


class _Other(akn.Position):
    """A kind that the kernels do not know."""

    def on_query(self, q):
        return 2 * q


def test_where_it_does_not_apply(device, taken):
    x = draw(3, 2, 12, 32, device=device)
    couplings = [
        akn.AttentionCoupling(32, 2, mask=torch.ones(12, 12, dtype=torch.bool)),
        akn.AttentionCoupling(32, 2, grid=(3, 4), symmetric=True),
        akn.AttentionCoupling(32, 2, position=_Other((3, 4))),
        akn.AttentionCoupling(32, 32),  # heads of one component
    ]
    for coupling in couplings:
        coupling.to(device)(x)
    a_coupling().double().to(device)(x.double())
    was = kernels.enabled()
    kernels.enable(False)
    try:
        a_coupling().to(device)(x)
    finally:
        kernels.enable(was)
    assert not taken
    a_coupling().to(device)(x)
    assert len(taken) == kernels.enabled()


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
            check(made, heads, TF32)


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "dtype"), [("highest", torch.float32), ("high", torch.float32),
                                                  ("high", torch.bfloat16)])  # fmt: skip
@pytest.mark.parametrize("head_dim", [16, 64, 128])
@pytest.mark.parametrize("tokens", [100, 256, 512])
def test_the_first_cut_fits(device, tokens, head_dim, precision, dtype):
    """What is taken without timing, while a CUDA graph is recorded, has room on the GPU at every size."""
    from akorn.kernels import attend, attend_backward
    from akorn.kernels.turn import pack

    qkv, matrices, out_grad, truth = problem(1, tokens, 1, head_dim, 4, dtype, device)
    with torch.no_grad(), products_in(precision):
        packed = pack(matrices, qkv)
        out, lse, *_ = attend.forward(qkv, packed, 1, given=attend.candidates(tokens, head_dim, dtype)[0])
        first = attend_backward.candidates(tokens, head_dim, dtype)[0]
        grad, *_ = attend_backward.gradients(out_grad, qkv, out, lse, packed, 1, True, given=first)
    for result, expected in zip((out, grad), truth, strict=False):
        near(result, expected, max(TOLERANCE[dtype], TF32 if precision == "high" else 0.0))


@pytest.mark.gpu
@pytest.mark.parametrize("tokens", [81, 300])
def test_recorded_as_a_graph(device, tokens):
    """Both passes wait for nothing, so that a graph of them can be recorded and played."""
    from akorn.kernels.attend import attend

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
