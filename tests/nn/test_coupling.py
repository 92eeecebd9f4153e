"""Couplings: what each computes, by hand, and that the symmetric forms are symmetric."""

import pytest
import torch
import torch.nn.functional as F

from akorn import nn as ann

from .conftest import RING, make, state

LINEAR = ["dense", "scalar", "scalar-pictures", "sparse", "sparse-blocks", "conv1d", "conv2d", "conv2d-periodic"]


def matrix(kind: str, symmetric: bool) -> torch.Tensor:
    """J of a linear coupling as a matrix over all entries of a state."""
    coupling, like = make(kind, 3, symmetric=symmetric).coupling, state(kind, 3)[:1]
    basis = torch.eye(like.numel(), dtype=torch.float64).reshape(-1, *like.shape[1:])
    return coupling(basis).flatten(1).T


@pytest.mark.parametrize("kind", LINEAR)
def test_the_symmetric_form_is_symmetric(kind: str) -> None:
    j = matrix(kind, symmetric=True)
    torch.testing.assert_close(j, j.T)
    free = matrix(kind, symmetric=False)
    assert (free - free.T).abs().max() > 0.1


def test_dense_has_a_full_block_for_each_pair() -> None:
    coupling = ann.DenseCoupling(6).double()
    x = torch.randn(2, 6, dtype=torch.float64)
    blocks = coupling.weight.reshape(2, 3, 2, 3)  # [i, a, j, b]
    wanted = torch.einsum("iajb,zjb->zia", blocks, x.reshape(2, 2, 3)).reshape(2, 6)
    torch.testing.assert_close(coupling(x), wanted)


def test_scalar_is_a_multiple_of_the_identity_for_each_pair() -> None:
    k = torch.randn(4, 4, dtype=torch.float64)
    coupling = ann.ScalarCoupling(4, 3, k)
    x = torch.randn(2, 12, dtype=torch.float64)
    torch.testing.assert_close(coupling(x), x @ torch.kron(k, torch.eye(3, dtype=torch.float64)).T)


@pytest.mark.parametrize("blocks", [False, True])
def test_sparse_is_dense_with_zeros(blocks: bool) -> None:
    n, weight = 3, torch.randn(6, 3, 3, dtype=torch.float64) if blocks else torch.randn(6, dtype=torch.float64)
    j = torch.zeros(6, n, 6, n, dtype=torch.float64)
    for e, (source, target) in enumerate(RING.T.tolist()):
        j[target, :, source, :] += weight[e] if blocks else weight[e] * torch.eye(n, dtype=torch.float64)
    x = torch.randn(2, 6, n, dtype=torch.float64)
    wanted = torch.einsum("iajb,zjb->zia", j, x)
    torch.testing.assert_close(ann.SparseCoupling(RING, 6, n, weight)(x), wanted)
    two = torch.cat((x, -x), -1)  # two oscillators a node share the edge
    torch.testing.assert_close(ann.SparseCoupling(RING, 6, n, weight)(two), torch.cat((wanted, -wanted), -1))


def test_convolution_sees_its_neighbours() -> None:
    coupling = ann.ConvCoupling(4, 3).double()
    x = torch.randn(1, 4, 5, 6, dtype=torch.float64)
    wanted = sum(
        torch.einsum("cd,bdhw->bchw", coupling.weight[:, :, i, j], F.pad(x, (1, 1, 1, 1))[:, :, i : i + 5, j : j + 6])
        for i in range(3)
        for j in range(3)
    )
    torch.testing.assert_close(coupling(x), wanted)


def test_one_dimensional_convolution_takes_tokens() -> None:
    coupling = ann.ConvCoupling(4, 5, dims=1).double()
    x = torch.randn(2, 7, 4, dtype=torch.float64)
    padded = F.pad(x, (0, 0, 2, 2))
    wanted = sum(padded[:, i : i + 7] @ coupling.weight[:, :, i].T for i in range(5))
    torch.testing.assert_close(coupling(x), wanted)


def test_a_periodic_convolution_moves_with_the_picture() -> None:
    coupling = ann.ConvCoupling(4, 3, periodic=True).double()
    x = torch.randn(1, 4, 5, 6, dtype=torch.float64)
    torch.testing.assert_close(coupling(x.roll((1, 2), (2, 3))), coupling(x).roll((1, 2), (2, 3)))


def attention_by_hand(coupling: ann.AttentionCoupling, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The paper's sums, head by head, with no position."""
    q, k, v = F.linear(x, coupling.maps.qkv.weight, coupling.maps.qkv.bias).chunk(3, -1)
    size, out = x.shape[-1] // coupling.heads, torch.zeros_like(x)
    for h in range(coupling.heads):
        part = slice(h * size, (h + 1) * size)
        scores = q[..., part] @ k[..., part].mT / size**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        out += (scores.softmax(-1) @ v[..., part]) @ coupling.maps.output.weight[:, part].T
    return out


@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_the_papers_sum(masked: bool) -> None:
    mask = torch.eye(5, dtype=torch.bool) | (torch.rand(5, 5) < 0.5) if masked else None
    coupling = ann.AttentionCoupling(12, 3, mask=mask).double()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(coupling(x), attention_by_hand(coupling, x, mask))
    if masked:
        assert not torch.allclose(coupling(x), attention_by_hand(coupling, x, None))


def test_attention_without_position_does_not_see_the_order() -> None:
    coupling = ann.AttentionCoupling(12, 3).double()
    x, order = torch.randn(2, 5, 12, dtype=torch.float64), torch.randperm(5)
    torch.testing.assert_close(coupling(x[:, order]), coupling(x)[:, order])


@pytest.mark.parametrize("kind", ["attention-gta"])
def test_pictures_and_tokens_agree(kind: str) -> None:
    coupling = make(kind).coupling
    x = state(kind)  # [2, 6, 16]
    as_picture = x.transpose(1, 2).unflatten(2, (2, 3))
    torch.testing.assert_close(coupling(as_picture).flatten(2).transpose(1, 2), coupling(x))


@pytest.mark.parametrize("position", [False, True])
def test_symmetric_attention(position: bool) -> None:
    """Scores are symmetric; and so is J = Σ_h A_h ⊗ W^O_h W^V_h for a fixed symmetric A."""
    coupling = ann.AttentionCoupling(8, 2, grid=(2, 3) if position else None, symmetric=True).double()
    coupling.maps.sign.data.normal_()
    for parameter in coupling.position.parameters() if position else []:
        parameter.data.normal_()
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    q, k, _ = (p.unflatten(-1, (2, 4)).transpose(1, 2) for p in coupling.maps.project(x, x))
    if position:
        q, k = coupling.position.on_query(q), coupling.position.on_key(k)
    scores = q @ k.mT
    torch.testing.assert_close(scores, scores.mT)
    weights = torch.rand(2, 6, 6, dtype=torch.float64)
    weights = weights + weights.mT  # a symmetric A, as if softmax had kept it so

    def with_fixed_weights(u: torch.Tensor) -> torch.Tensor:
        v = coupling.maps.project(u, u)[2].unflatten(-1, (2, 4)).transpose(1, 2)
        v = coupling.position.on_value(v) if position else v
        o = coupling.maps.weigh(weights @ v)
        o = coupling.position.on_output(o) if position else o
        return coupling.maps.gather(o.transpose(1, 2).flatten(2))

    j = with_fixed_weights(torch.eye(48, dtype=torch.float64).reshape(48, 6, 8)).flatten(1)
    torch.testing.assert_close(j, j.T)


@pytest.mark.parametrize("shape", [(5, 5), (1, 5), (5, 1), (5,), (3, 5, 5)])
def test_masks_that_broadcast_fit(shape: tuple[int, ...]) -> None:
    x, mask = torch.randn(2, 5, 12), torch.rand(shape) < 0.8
    mask[..., 0] = True  # so that each token listens to one at least
    coupling = ann.AttentionCoupling(12, 3, grid=(5,), mask=mask)
    whole = ann.AttentionCoupling(12, 3, grid=(5,), mask=mask.expand(3, 5, 5))
    whole.load_state_dict(coupling.state_dict() | {"mask": whole.mask})
    torch.testing.assert_close(coupling(x), whole(x))


@pytest.mark.parametrize("dims", [1, 2])
def test_convolutions_start_as_torch_starts_them(dims: int) -> None:
    torch.manual_seed(0)
    weight = ann.ConvCoupling(48, 5, dims=dims).free_weight.detach()
    bound = (48 * 5**dims) ** -0.5
    assert weight.abs().max() <= bound
    assert float(weight.std()) == pytest.approx(bound / 3**0.5, rel=0.02)
    theirs = (torch.nn.Conv1d, torch.nn.Conv2d)[dims - 1](48, 48, 5).weight
    assert float(theirs.std().detach()) == pytest.approx(float(weight.std()), rel=0.02)


BAD = {
    "even kernel": (lambda: ann.ConvCoupling(4, 4), "odd size, got 4"),
    "three-dimensional": (lambda: ann.ConvCoupling(4, 3, dims=3), "1 or 2 dimensions"),
    "tokens in 2-D": (lambda: ann.ConvCoupling(4, 3)(torch.zeros(1, 5, 4)), "takes pictures"),
    "pictures in 1-D": (lambda: ann.ConvCoupling(4, 3, dims=1)(torch.zeros(1, 4, 5, 5)), "takes tokens"),
    "heads": (lambda: ann.AttentionCoupling(10, 4), "10 channels cannot be split into 4 heads"),
    "grid": (lambda: ann.AttentionCoupling(16, 2, grid=(3, 3))(torch.zeros(1, 8, 16)), r"\(3, 3\) has 9 tokens.* 8"),
    "two grids": (lambda: ann.AttentionCoupling(16, 2, grid=(3, 3), position=ann.GTA((2, 3), 8)), r"not \(3, 3\)"),
    "transposed grid": (lambda: ann.AttentionCoupling(16, 2, grid=(2, 8))(torch.zeros(1, 16, 8, 2)), r"has \(8, 2\)"),
    "heads of another size": (
        lambda: ann.AttentionCoupling(16, 2, position=ann.GTA((9,), 2)),
        "heads of 2 components, not 8",
    ),
    "positions of another width": (
        lambda: ann.AttentionCoupling(16, 2, position=ann.AbsolutePosition((9,), 8)),
        "8 channels, not 16",
    ),
    "asymmetric positions": (
        lambda: ann.AttentionCoupling(16, 2, position=ann.GTA((9,), 8), symmetric=True),
        "needs symmetric positions",
    ),
    "a number for a grid": (lambda: ann.AttentionCoupling(16, 2, grid=8), r"\(height, width\).*got 8"),
    "a grid of fractions": (lambda: ann.AttentionCoupling(16, 2, grid=(2.0, 3)), r"whole numbers.*got \(2.0, 3\)"),
    "a position's class": (lambda: ann.AttentionCoupling(16, 2, position=ann.GTA), "the class GTA: instantiate it"),
    "no grid at all": (lambda: ann.AttentionCoupling(16, 2, grid=(0, 3)), "whole numbers of at least 1"),
    "vectors": (lambda: ann.AttentionCoupling(16, 2)(torch.zeros(2, 16)), "attention takes"),
    "mask of numbers": (lambda: ann.AttentionCoupling(16, 2, mask=torch.ones(3, 3)), "must be a boolean"),
    "mask as a list": (lambda: ann.AttentionCoupling(16, 2, mask=[[True]]), "boolean tensor.*got list"),
    "mask of another grid": (
        lambda: ann.AttentionCoupling(16, 2, grid=(2, 3), mask=torch.ones(5, 5, dtype=torch.bool)),
        r"\[6, 6\] or broadcast to it, got \[5, 5\]",
    ),
    "mask that is not square": (
        lambda: ann.AttentionCoupling(16, 2, mask=torch.ones(5, 6, dtype=torch.bool)),
        r"\[tokens, tokens\] or broadcast to it, got \[5, 6\]",
    ),
    "mask of other tokens": (
        lambda: ann.AttentionCoupling(16, 2, mask=torch.ones(5, 5, dtype=torch.bool))(torch.zeros(1, 6, 16)),
        r"\[6, 6\] or broadcast to it, got \[5, 5\]",
    ),
    "dense with no channels": (lambda: ann.DenseCoupling(0), "channels must be at least 1, got 0"),
    "convolution with no channels": (lambda: ann.ConvCoupling(0, 3), "channels must be at least 1, got 0"),
    "attention with no channels": (lambda: ann.AttentionCoupling(0, 1), "channels must be at least 1, got 0"),
    "no heads": (lambda: ann.AttentionCoupling(16, 0), "heads must be at least 1, got 0"),
    "half a channel": (lambda: ann.ConvCoupling(8.5, 3), "channels must be a whole number, got 8.5"),
    "no nodes": (lambda: ann.SparseCoupling(RING, 0, 2, torch.ones(6)), "nodes must be at least 1, got 0"),
    "scalar with no oscillators": (lambda: ann.ScalarCoupling(0, 2), "oscillators must be at least 1, got 0"),
    "edges": (lambda: ann.SparseCoupling(RING, 5, 2, torch.ones(6)), "nodes 0 to 5, but there are 5"),
    "edges of floats": (lambda: ann.SparseCoupling(RING.float(), 6, 2, torch.ones(6)), "whole numbers"),
    "weights": (lambda: ann.SparseCoupling(RING, 6, 2, torch.ones(5)), r"\[6\] or \[6, 2, 2\], got \[5\]"),
    "nodes": (lambda: ann.SparseCoupling(RING, 6, 2, torch.ones(6))(torch.zeros(1, 5, 2)), r"\[B, 6, C\]"),
    "scalar weights": (lambda: ann.ScalarCoupling(3, 2, torch.ones(2, 2)), r"\[3, 3\], got \[2, 2\]"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()
