"""The passes that turn a batch and its gradients, and what attention keeps for a backward pass that follows at once."""

import pytest
import torch
import torch.nn.functional as F

from akorn import nn as akn
from akorn.kernels.backward_memory import keeping, kept
from akorn.nn.position import apply_pairs

GPU = torch.cuda.is_available()
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2 if GPU else 2e-2}  # the interpreter cuts bfloat16 off


def draw(seed, *shape, dtype=torch.float32, device="cpu"):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(device, dtype)


def near(result, expected, tolerance):
    assert result.shape == expected.shape
    assert not result.isnan().any()
    error = torch.linalg.vector_norm(result.double() - expected) / torch.linalg.vector_norm(expected)
    assert error <= tolerance, f"{error:.1e} away"


def parts_of(x, count, heads):
    return [part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in x.double().chunk(count, -1)]


def joined(parts):
    return torch.cat([part.transpose(1, 2).flatten(2) for part in parts], -1)


def cuts():
    """One slice, several slices with an incomplete iteration, and tiles of a part of the tokens."""
    from akorn.kernels.tune import Config

    return (
        Config(block=1024, depth=4, group=64, warps=4, stages=1),
        Config(block=64, depth=2, group=4, warps=4, stages=1),
        Config(block=128, depth=4, group=4, warps=4, stages=1),
    )


SIZES = [(5, 7, 2, 16, 4), (6, 5, 3, 24, 4), (3, 9, 1, 6, 2), (1, 3, 2, 8, 4)]


def made(size, device):
    """batch, tokens, heads, D, sets → qkv, matrices, packed, heads."""
    from akorn.kernels.pairs import pack

    batch, tokens, heads, head_dim, sets = size
    qkv = draw(0, batch, tokens, 3 * heads * head_dim, device=device)
    matrices = [draw(1 + i, tokens, head_dim // 2, 2, 2, device=device) for i in range(sets)]
    return qkv, matrices, pack(matrices, qkv), heads


@pytest.fixture(params=SIZES, ids=str)
def arrays(request, device):
    return made(request.param, device)


def test_turned(arrays):
    from akorn.kernels.pairs_passes import turned

    qkv, matrices, packed, heads = arrays
    parts = parts_of(qkv, 3, heads)
    expected = [apply_pairs(m.double(), part) for m, part in zip(matrices[:3], parts, strict=False)]
    channels = qkv.shape[2] // 3
    for cut in cuts():
        for first in (0, 1):
            result = turned(qkv, packed, heads, first, cut)[..., first * channels : len(expected) * channels]
            near(result, joined(expected[first:]), TOLERANCE[torch.float32])


def test_gradients_turned_back(arrays):
    """The transposed matrices on the gradients, in place, and the matrices' own gradients: as from autograd."""
    from akorn.kernels.pairs_passes import TurnBack

    qkv, matrices, packed, heads = arrays
    channels, sets = qkv.shape[2] // 3, len(matrices)
    slope = draw(8, *qkv.shape, device=qkv.device)
    out_grad, unturned = (draw(seed, *qkv.shape[:2], channels, device=qkv.device) for seed in (9, 10))
    sources = [part.requires_grad_() for part in parts_of(qkv, 3, heads)[: min(sets, 3)]]
    exact = [m.double().requires_grad_() for m in matrices]
    inputs, slopes = list(sources), parts_of(slope, 3, heads)[: len(sources)]
    if sets == 4:
        inputs, slopes = [*inputs, *parts_of(unturned, 1, heads)], [*slopes, *parts_of(out_grad, 1, heads)]
    results = [apply_pairs(m, part) for m, part in zip(exact, inputs, strict=True)]
    expected = torch.autograd.grad(results, [*sources, *exact], slopes)
    back = torch.cat([joined(expected[: len(sources)]), slope[..., len(sources) * channels :].double()], -1)
    for cut in cuts():
        for learn, bias in ((True, True), (True, False), (False, True)):
            grad = slope.clone()
            sums, columns = TurnBack(grad, qkv, out_grad, unturned, packed, heads, learn, bias, cut)()
            near(grad, back, TOLERANCE[torch.float32])
            if learn:
                near(sums, torch.stack(expected[len(sources) :]), TOLERANCE[torch.float32])
            if bias:
                near(columns, back.sum((0, 1)), TOLERANCE[torch.float32])
            assert (sums.numel() > 0, columns.numel() > 0) == (learn, bias)


def results(attend, qkv, matrices, heads, keep):
    """Output and gradients, with or without keeping."""
    qkv = qkv.detach().requires_grad_()
    matrices = [m.detach().requires_grad_() for m in matrices]
    if keep:
        with keeping():
            out = attend(qkv, matrices, heads)
    else:
        out = attend(qkv, matrices, heads)
    saved = sum(array.nbytes for array in out.grad_fn.saved_tensors)
    return saved, [out.detach(), *torch.autograd.grad(out.square().sum(), [qkv, *matrices])]


@pytest.mark.parametrize(
    ("tokens", "head_dim", "sets", "dtype"),
    [
        (20, 8, 4, torch.float32),  # turned within the kernel: the output before its matrices alone is kept
        (130, 16, 4, torch.float32),
        (144, 16, 2, torch.bfloat16),
        (9, 40, 4, torch.float32),  # heads too wide for one program: blocks
    ],
)
def test_the_same_with_more_kept(device, tokens, head_dim, sets, dtype):
    from akorn.kernels.attention import attend

    qkv = draw(0, 1, tokens, 3 * head_dim, dtype=dtype, device=device)
    matrices = [draw(1 + i, tokens, head_dim // 2, 2, 2, device=device) for i in range(sets)]
    saved, expected = results(attend, qkv, matrices, 1, keep=False)
    more, found = results(attend, qkv, matrices, 1, keep=True)
    assert more > saved
    for a, b in zip(found, expected, strict=True):
        near(a, b.double(), TOLERANCE[dtype])


def test_only_recomputed_steps_keep_more(device, monkeypatch):
    """The steps of a forward pass keep as little as before; the one that is being reversed keeps more."""
    from akorn import kernels
    from akorn.kernels import attention

    seen, run = [], attention.attend
    monkeypatch.setattr(kernels, "_interpreted", device.type == "cpu")
    monkeypatch.setattr(attention, "attend", lambda *arguments: seen.append(kept()) or run(*arguments))
    layer = akn.KuramotoLayer(16, 4, akn.AttentionCoupling(16, 1, grid=(2, 3)), gradients=akn.Recompute()).to(device)
    x, c = (draw(seed, 1, 6, 16, device=device) for seed in (0, 1))
    out = layer(x, c, 2)
    assert seen == [False, False]
    out.sum().backward()
    assert seen.count(True) == 2
    assert not kept()


@pytest.mark.parametrize("sets", [0, 2, 4])
def test_the_gradient_of_a_bias(device, sets):
    """A bias that was added without a gradient gets it here."""
    from akorn.kernels.attention import attend

    x, weight, bias = (draw(seed, *shape, device=device) for seed, shape in enumerate([(2, 6, 8), (24, 8), (24,)]))
    bias.requires_grad_()
    matrices = [draw(4 + i, 6, 4, 2, 2, device=device) for i in range(sets)]
    found = attend(F.linear(x, weight, bias.detach()), matrices, 1, bias)
    expected = attend(F.linear(x, weight, bias), matrices, 1)
    assert torch.equal(found, expected)
    grads = [torch.autograd.grad(out.square().sum(), bias)[0] for out in (found, expected)]
    near(grads[0], grads[1].double(), TOLERANCE[torch.float32])
    with pytest.raises(ValueError, match=r"the bias must be \[24\], got \[8\]"):
        attend(F.linear(x, weight), matrices, 1, bias[:8])


def test_hooks_on_the_product_still_run(device, monkeypatch):
    from akorn import kernels

    monkeypatch.setattr(kernels, "_interpreted", device.type == "cpu")
    coupling = akn.AttentionCoupling(16, 1, grid=(2, 3)).to(device)
    x = draw(0, 1, 6, 16, device=device)
    before = coupling(x)
    (gradient,) = torch.autograd.grad(before.square().sum(), coupling.maps.qkv.bias)
    calls = []
    coupling.maps.qkv.register_forward_hook(lambda *_: calls.append(1))
    after = coupling(x)
    assert calls
    near(torch.autograd.grad(after.square().sum(), coupling.maps.qkv.bias)[0], gradient.double(), 1e-5)


def test_hooks_on_the_gradient_of_the_product_still_run(device, monkeypatch):
    from akorn import kernels

    monkeypatch.setattr(kernels, "_interpreted", device.type == "cpu")
    coupling = akn.AttentionCoupling(16, 1, grid=(2, 3)).to(device)
    calls = []
    coupling.maps.qkv.register_full_backward_pre_hook(lambda *_: calls.append(1))
    coupling(draw(0, 1, 6, 16, device=device).requires_grad_()).sum().backward()
    assert calls
