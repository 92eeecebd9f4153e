"""Positions: what a rotary score depends on, how GTA starts, and how it is resized."""

import pytest
import torch

from akorn import nn as ann
from akorn.nn.position import apply_pairs, rotary_matrices, sine_cosine


def test_a_rotary_score_depends_on_the_offset_alone() -> None:
    position = ann.RotaryPosition((4, 5), 8).double()
    q, k = torch.randn(8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    scores = (position.on_query(q.expand(1, 1, 20, 8)) @ position.on_key(k.expand(1, 1, 20, 8)).mT)[0, 0]
    scores = scores.reshape(4, 5, 4, 5)  # [row, column, row′, column′]
    torch.testing.assert_close(scores[0, 1, 2, 3], scores[1, 2, 3, 4], atol=1e-6, rtol=0)
    torch.testing.assert_close(scores[3, 0, 1, 2], scores[2, 2, 0, 4], atol=1e-6, rtol=0)
    assert (scores[0, 0, 0, 1] - scores[0, 0, 1, 0]).abs() > 1e-3  # rows and columns are told apart


def test_rotary_frequencies_and_turns() -> None:
    """F = head_dim/4 frequencies 10000^(−i/F), row and column in turn."""
    m = rotary_matrices((3, 4), 8).double()  # [12, 4, 2, 2]
    place = torch.tensor([[2.0, 3.0]], dtype=torch.float64)  # the last token: row 2, column 3
    angle = torch.stack((place[0, 0], place[0, 1], 0.01 * place[0, 0], 0.01 * place[0, 1]))
    torch.testing.assert_close(m[11, :, 0, 0], angle.cos(), atol=1e-6, rtol=0)
    torch.testing.assert_close(m[11, :, 1, 0], angle.sin(), atol=1e-6, rtol=0)
    torch.testing.assert_close(m @ m.mT, torch.eye(2, dtype=torch.float64).expand_as(m), atol=1e-6, rtol=0)


def test_gta_starts_as_rotary_with_its_inverse_on_the_output() -> None:
    gta, rotary = ann.GTA((3, 4), 8), ann.RotaryPosition((3, 4), 8)
    x = torch.randn(2, 3, 12, 8)
    torch.testing.assert_close(gta.on_query(x), rotary.on_query(x))
    torch.testing.assert_close(gta.on_key(x), rotary.on_key(x))
    torch.testing.assert_close(gta.on_output(gta.on_value(x)), x)
    assert len(list(gta.parameters())) == 4
    assert len(list(ann.GTA((3, 4), 8, symmetric=True).parameters())) == 2


@pytest.mark.parametrize("symmetric", [False, True])
def test_learned_rotary_starts_as_rotary_and_is_saved(symmetric: bool) -> None:
    position = ann.RotaryPosition((3, 4), 8, learn=True, symmetric=symmetric)
    fixed, x = ann.RotaryPosition((3, 4), 8), torch.randn(2, 3, 12, 8)
    torch.testing.assert_close(position.on_query(x), fixed.on_query(x))
    torch.testing.assert_close(position.on_key(x), fixed.on_key(x))
    assert torch.equal(position.on_output(position.on_value(x)), x)
    assert sorted(position.state_dict()) == (["query"] if symmetric else ["key", "query"])
    assert not fixed.state_dict()
    (position.on_query(x) * position.on_key(x)).sum().backward()
    for parameter in position.parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0
    with torch.no_grad():
        position.query[:] = position.query[:1]
    larger = position.resize((6, 5))
    torch.testing.assert_close(larger.query, position.query[:1].expand_as(larger.query))
    assert larger.symmetric == symmetric
    torch.testing.assert_close(fixed.resize((6, 5)).matrices, rotary_matrices((6, 5), 8))


def test_what_is_not_saved_is_there_after_loading() -> None:
    """Rotary matrices follow from the grid; built on the meta device they have no values until weights are loaded."""

    def attention() -> ann.AttentionCoupling:
        return ann.AttentionCoupling(16, 2, position=ann.RotaryPosition((2, 3), 8))

    source, x = attention(), torch.randn(1, 6, 16)
    with torch.device("meta"):
        assigned, filled = attention(), attention()
    assigned.load_state_dict(source.state_dict(), assign=True)
    filled.to_empty(device="cpu")
    filled.position.matrices.fill_(torch.nan)  # it may have been left as anything
    filled.load_state_dict(source.state_dict())
    for coupling in (assigned, filled):
        assert torch.equal(coupling(x), source(x))


def test_pairs_get_their_matrices() -> None:
    m, x = torch.randn(6, 2, 2, 2), torch.randn(1, 2, 6, 4)
    wanted = torch.einsum("tfij,bhtfj->bhtfi", m, x.unflatten(-1, (2, 2))).flatten(-2)
    torch.testing.assert_close(apply_pairs(m, x), wanted)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("grid", [(4, 6), (9,)])
def test_resizing(grid: tuple[int, ...], symmetric: bool) -> None:
    gta = ann.GTA(grid, 8, symmetric=symmetric)
    for parameter in gta.parameters():
        parameter.data.normal_()
    same = gta.resize(grid)
    for name, parameter in gta.named_parameters():
        torch.testing.assert_close(same.get_parameter(name), parameter)
    larger = gta.resize(tuple(2 * size for size in grid))
    assert larger.query.shape[0] == gta.query.shape[0] * 2 ** len(grid)
    constant = ann.GTA(grid, 8)
    constant.query.data[:] = constant.query.data[:1]
    resized = constant.resize(tuple(size + 3 for size in grid))
    torch.testing.assert_close(resized.query, constant.query[:1].expand_as(resized.query))


def test_a_resized_attention_takes_the_other_grid() -> None:
    coupling = ann.AttentionCoupling(16, 2, grid=(4, 4))
    coupling.position = coupling.position.resize((6, 5))
    assert coupling(torch.randn(1, 16, 6, 5)).shape == (1, 16, 6, 5)


def test_absolute_positions_steer_queries_and_keys() -> None:
    position = ann.AbsolutePosition((2, 3), 16)
    torch.testing.assert_close(position.embedding.data, sine_cosine((2, 3), 16))
    coupling = ann.AttentionCoupling(16, 2, position=position)
    x = torch.randn(1, 1, 16).expand(1, 6, 16)
    # All values are the same, so whoever listens to whom, the answer is the same; with others it is not.
    torch.testing.assert_close(coupling(x), coupling(x)[:, :1].expand(1, 6, 16))
    other = x + torch.randn(1, 6, 16)
    order = torch.tensor([1, 0, 2, 3, 4, 5])
    assert not torch.allclose(coupling(other[:, order]), coupling(other)[:, order], atol=1e-5)
    torch.testing.assert_close(position(x) - x, position.embedding.expand(1, 6, 16))
    assert len({tuple(row.tolist()) for row in position.embedding.detach()}) == 6  # every place is its own


def test_given_matrices() -> None:
    matrices = [torch.randn(6, 3, 2, 2) for _ in range(4)]
    gta = ann.GTA.from_matrices((2, 3), *matrices)  # a head of 6 has no rotary start on a grid, but may have matrices
    x = torch.randn(1, 2, 6, 6)
    torch.testing.assert_close(gta.on_key(x), apply_pairs(matrices[2], x))
    assert gta.resize((4, 6)).query.shape == (24, 3, 2, 2)
    assert ann.GTA.from_matrices((2, 3), *matrices[:2]).symmetric
    assert ann.GTA([2, 3], 8).grid == (2, 3)


BAD = {
    "matrices": (
        lambda: ann.GTA.from_matrices((2,), torch.zeros(2, 3, 2, 2), torch.zeros(2, 3, 2)),
        r"got \[2, 3, 2\]",
    ),
    "only a key": (
        lambda: ann.GTA.from_matrices((2,), torch.zeros(2, 3, 2, 2), torch.zeros(2, 3, 2, 2), torch.zeros(2, 3, 2, 2)),
        "given together",
    ),
    "learned apart": (
        lambda: ann.AttentionCoupling(16, 2, position=ann.RotaryPosition((2, 3), 8, learn=True), symmetric=True),
        r"RotaryPosition\(…, symmetric=True\)",
    ),
    "head too small": (lambda: ann.GTA((3, 3), 6), "head_dim is 6, but positions on a 2-D grid need a multiple of 4"),
    "too many heads": (
        lambda: ann.AttentionCoupling(32, heads=16, grid=(4, 4)),
        "^channels / heads is 2, but positions on a 2-D grid need a multiple of 4: take fewer heads or more channels,",
    ),
    "an odd head on a line": (
        lambda: ann.AttentionCoupling(12, heads=4, grid=(4,)),
        "^channels / heads is 3, but positions on a 1-D grid need a multiple of 2:",
    ),
    "channels": (
        lambda: ann.AbsolutePosition((3, 3), 6),
        "6 channels, but sines and cosines of positions on a 2-D grid need a multiple of 4",
    ),
    "grid": (lambda: ann.GTA((3, 3, 3), 8), r"\(length,\) or \(height, width\)"),
    "axes": (lambda: ann.GTA((3, 3), 8).resize((3,)), "another number of axes"),
    "tokens": (lambda: ann.AbsolutePosition((3, 3), 8)(torch.zeros(1, 8, 8)), "has 9 tokens, but the state has 8"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()
