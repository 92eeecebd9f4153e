"""Readouts, starts, blocks and stacks."""

import pytest
import torch

from akorn import nn as ann
from akorn import oscillators as osc


def rotation(n: int, seed: int) -> torch.Tensor:
    q, _ = torch.linalg.qr(torch.randn(n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    return q


@pytest.mark.parametrize("shape", [(2, 12), (2, 5, 12), (2, 12, 3, 4)])
@pytest.mark.parametrize("n_out", [1, 3, 4])
def test_readout_is_the_norm(shape: tuple[int, ...], n_out: int) -> None:
    readout = ann.Readout(12, 7, n_out=n_out).double()
    readout.bias.data.normal_()
    x = torch.randn(shape, dtype=torch.float64)
    tokens = x.movedim(osc.channel_axis(x), -1)
    u = readout.weight[:, :, 0, 0].reshape(7, n_out, 12)
    z = torch.einsum("kai,...i->...ka", u, tokens) + readout.inner_bias.reshape(7, n_out)
    wanted = (z.square().sum(-1).sqrt() + readout.bias).movedim(-1, osc.channel_axis(x))
    torch.testing.assert_close(readout(x), wanted)


def test_readout_can_see_relative_directions_alone() -> None:
    """With U_ki = u_ki·I and no bias, m does not change when all oscillators turn together."""
    readout = ann.Readout(12, 5, n_out=3).double()
    scalars = torch.randn(5, 4, dtype=torch.float64)
    readout.weight.data = torch.kron(scalars, torch.eye(3, dtype=torch.float64))[:, :, None, None]
    readout.inner_bias.data.zero_()
    x = torch.randn(2, 12, dtype=torch.float64)
    turned = osc.ungroup(osc.group(x, 3) @ rotation(3, 0))
    torch.testing.assert_close(readout(turned), readout(x))


def test_readout_without_the_norm_and_with_g() -> None:
    x = torch.randn(2, 12, 4, 4)
    plain = ann.LinearReadout(12, 5, kernel_size=3)
    torch.testing.assert_close(plain(-x) - plain(torch.zeros_like(x)), -(plain(x) - plain(torch.zeros_like(x))),
                               atol=1e-5, rtol=0)  # fmt: skip
    g = torch.nn.Conv2d(5, 8, 1)
    readout = ann.Readout(12, 5, n_out=2, kernel_size=3, g=g)
    bare = ann.Readout(12, 5, n_out=2, kernel_size=3)
    bare.load_state_dict({k: v for k, v in readout.state_dict().items() if not k.startswith("g.")})
    torch.testing.assert_close(readout(x), g(bare(x)))


@pytest.mark.parametrize("shape", [(2, 6, 12), (2, 12, 3, 2)])
def test_starts(shape: tuple[int, ...]) -> None:
    c = torch.randn(shape)
    dim = osc.channel_axis(c)
    mask = torch.tensor([True, False, True, True, False, False]).expand(2, 6)
    mask = mask if dim == -1 else mask.reshape(2, 3, 2)
    from_c = ann.FromStimulus(3)(c)
    torch.testing.assert_close(from_c, osc.ungroup(osc.normalize(osc.group(c, 3, dim), dim), dim))
    one, two = (ann.RandomStart(3)(c, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    torch.testing.assert_close(one, ann.RandomStart(3)(c, torch.Generator().manual_seed(0)))
    assert not torch.allclose(one, two)
    learned = ann.LearnedStart(3, 12)
    assert learned(c).requires_grad
    torch.testing.assert_close(learned(c)[0], learned(c)[1])
    mixed = ann.MixedStart(ann.FromStimulus(3), ann.RandomStart(3))
    x = mixed(c, torch.Generator().manual_seed(0), mask=mask)
    chosen = mask.unsqueeze(dim).expand_as(c)
    torch.testing.assert_close(x[chosen], from_c[chosen])
    torch.testing.assert_close(x[~chosen], one[~chosen])
    for start in (from_c, one, learned(c), x):
        length = osc.group(start, 3, dim).norm(dim=dim)
        torch.testing.assert_close(length, torch.ones_like(length))


def block(channels: int, n: int) -> ann.KuramotoBlock:
    layer = ann.KuramotoLayer(channels, n, ann.ConvCoupling(channels, 3), gamma=0.3)
    return ann.KuramotoBlock(layer, ann.Readout(channels, n_out=n))


def test_a_stack_is_its_blocks_one_after_the_other() -> None:
    first, second, norm = block(8, 4), block(8, 4), ann.GroupNorm(2, 8)
    stack = ann.KuramotoStack([first, second], norms=[norm])
    x, c = torch.randn(2, 8, 5, 5), torch.randn(2, 8, 5, 5)
    middle = first.layer(x, c, 3)
    last = second.layer(middle, norm(first.readout(middle)), 2)
    got_x, got_c = stack(x, c, [3, 2])
    torch.testing.assert_close(got_x, last)
    torch.testing.assert_close(got_c, second.readout(last))
    evolution, read = first.evolve(x, c, 3, energy=osc.energy, trajectory=True)
    torch.testing.assert_close(evolution.trajectory[-1], middle)
    torch.testing.assert_close(read, first.readout(middle))


def stack_of(layout: str, ns: tuple[int, ...], transition: bool) -> tuple[ann.KuramotoStack, torch.Tensor]:
    """Three blocks for pictures or tokens in float64, and a state for them."""
    blocks = []
    for n in ns:
        coupling = ann.ConvCoupling(8, 3) if layout == "pictures" else ann.AttentionCoupling(8, 2)
        layer = ann.KuramotoLayer(8, n, coupling, omega=ann.PairwiseFrequency(n), gamma=0.3)
        blocks.append(ann.KuramotoBlock(layer, ann.Readout(8, n_out=n)))
    between = [ann.Transition(8, 8, stride=stride) for stride in (2, 1)] if transition else None
    stack = ann.KuramotoStack.with_group_norm(blocks, transitions=between).double()
    return stack, torch.randn((2, 8, 6, 4) if layout == "pictures" else (2, 5, 8), dtype=torch.float64)


@pytest.mark.parametrize(
    ("layout", "ns", "transition"),
    [("pictures", (4, 4, 2), False), ("pictures", (4, 4, 4), True), ("tokens", (4, 4, 2), False)],
)
def test_what_a_stack_went_through(layout: str, ns: tuple[int, ...], transition: bool) -> None:
    stack, x = stack_of(layout, ns, transition)
    c, steps = torch.randn_like(x), [3, 1, 2]
    found, last = stack.evolve(x, c, steps, energy=osc.energy, trajectory=True)
    assert len(found) == 3
    torch.testing.assert_close((found[-1].x, last), stack(x, c, steps), rtol=0, atol=0)
    for index, (part, count, run) in enumerate(zip(stack.blocks, steps, found, strict=True)):
        if index:
            c = stack.norms[index - 1](c)
            x, c = stack.transitions[index - 1](x, c) if transition else (x, c)
        wanted = part.layer.evolve(x, c, count, energy=osc.energy, trajectory=True)
        x, c = wanted.x, part.readout(wanted.x)
        torch.testing.assert_close(tuple(run), tuple(wanted))
        assert run.energies.shape == (count, 2)
    torch.testing.assert_close(last, c)
    assert all(run.energies is None and run.trajectory is None for run in stack.evolve(x, c, 1)[0])
    with pytest.raises(ValueError, match="as many numbers of steps, got 2"):
        stack.evolve(x, c, [1, 2])


def test_a_black_background_has_a_gradient_that_one_can_follow() -> None:
    """Its oscillators have no length at the start, in the layer, and wherever nothing reaches them in time."""
    torch.manual_seed(0)
    pictures = torch.zeros(4, 1, 9, 9)
    pictures[:, :, 1:4, 1:4] = torch.rand(4, 1, 3, 3)
    embed = torch.nn.Conv2d(1, 8, 3, padding=1)
    torch.nn.init.zeros_(embed.bias)
    stack = ann.KuramotoStack([block(8, 4), block(8, 4)])
    c = embed(pictures)
    assert osc.group(c, 4, -3).norm(dim=-3).eq(0).any()
    stack(ann.FromStimulus(4)(c), c, 2)[1].square().sum().backward()
    for parameter in (*embed.parameters(), *stack.parameters()):
        assert parameter.grad.abs().max() < 1e4


class CountingStarts(ann.Kuramoto):
    """Counts how often a state is put on the sphere."""

    starts = 0

    def start(self, x: torch.Tensor, dim: int) -> torch.Tensor:
        type(self).starts += 1
        return super().start(x, dim)


class AlwaysStarts(CountingStarts):
    """A rule that does not say where its states are."""

    on_sphere = False


@pytest.mark.parametrize(
    ("rules", "ns", "transition", "starts"),
    [
        ((CountingStarts, CountingStarts), (4, 4), False, 1),
        ((CountingStarts, CountingStarts), (4, 2), False, 2),  # four components of length 1 are not two pairs
        ((CountingStarts, CountingStarts), (4, 4), True, 2),
        ((AlwaysStarts, CountingStarts), (4, 4), False, 2),
        ((CountingStarts, AlwaysStarts), (4, 4), False, 2),
    ],
)
def test_a_state_is_put_on_the_sphere_once(
    monkeypatch: pytest.MonkeyPatch,
    rules: tuple[type[CountingStarts], ...],
    ns: tuple[int, ...],
    transition: bool,
    starts: int,
) -> None:
    for rule in (CountingStarts, AlwaysStarts):
        monkeypatch.setattr(rule, "starts", 0)
    blocks = []
    for rule, n in zip(rules, ns, strict=True):
        layer = ann.KuramotoLayer(8, n, ann.ConvCoupling(8, 3), gamma=0.3, rule=rule()).double()
        blocks.append(ann.KuramotoBlock(layer, ann.Readout(8, n_out=n).double()))
    between = ann.Transition(8, 8, stride=1).double()
    stack = ann.KuramotoStack(blocks, transitions=[between] if transition else None)
    x, c = torch.randn(2, 8, 5, 5, dtype=torch.float64), torch.randn(2, 8, 5, 5, dtype=torch.float64)
    got = stack(x, c, 2)
    assert sum({rule: rule.starts for rule in rules}.values()) == starts
    evolutions, last = stack.evolve(x, c, 2)
    assert sum({rule: rule.starts for rule in rules}.values()) == 2 * starts
    torch.testing.assert_close((evolutions[-1].x, last), got, rtol=0, atol=0)
    for index, each in enumerate(blocks):
        x, c = between(x, c) if index and transition else (x, c)
        x = each.layer(x, c, 2)
        c = each.readout(x)
    torch.testing.assert_close(got, (x, c))


def test_a_strided_stack() -> None:
    stack = ann.KuramotoStack.with_group_norm([block(8, 2), block(12, 4)], transitions=[ann.Transition(8, 12)])
    assert stack.norms[0].num_groups == 4
    x, c = torch.randn(2, 8, 6, 8), torch.randn(2, 8, 6, 8)
    x, c = stack(x, c, 2)
    assert x.shape == c.shape == (2, 12, 3, 4)
    length = osc.group(x, 4, -3).norm(dim=-3)
    torch.testing.assert_close(length, torch.ones_like(length))
    one = ann.Transition(8, 12)
    same = torch.randn(2, 8, 6, 8)
    torch.testing.assert_close(*one(same, same))


def test_group_norm_takes_both_layouts() -> None:
    norm = ann.GroupNorm(3, 12)
    norm.weight.data.normal_()
    pictures = torch.randn(2, 12, 2, 3)
    tokens = pictures.flatten(2).transpose(1, 2)
    torch.testing.assert_close(norm(tokens), norm(pictures).flatten(2).transpose(1, 2))


BAD = {
    "no dimension": (lambda: ann.Readout(8, n_out=0), "n_out must be at least 1, got 0"),
    "even kernel": (lambda: ann.Readout(8, kernel_size=2), "odd size, got 2"),
    "even transition": (lambda: ann.Transition(8, 8, kernel_size=2), "odd size, got 2"),
    "tokens with a kernel": (lambda: ann.Readout(8, kernel_size=3)(torch.zeros(1, 5, 8)), "takes pictures"),
    "no blocks": (lambda: ann.KuramotoStack([]), "at least one block"),
    "norms": (lambda: ann.KuramotoStack([block(8, 4)], norms=[ann.GroupNorm(2, 8)]), "0 gaps, got 1 norms"),
    "steps": (lambda: ann.KuramotoStack([block(8, 4)])(torch.zeros(1, 8, 3, 3), torch.zeros(1, 8, 3, 3), [1, 2]),
              "as many numbers of steps, got 2"),
    "half a step": (lambda: ann.KuramotoStack([block(8, 4)])(torch.zeros(1, 8, 3, 3), torch.zeros(1, 8, 3, 3), 2.5),
                    "whole number, got 2.5"),
    "odd readout": (
        lambda: ann.KuramotoStack.with_group_norm(
            [ann.KuramotoBlock(block(8, 4).layer, ann.Readout(8, 7)), block(8, 4)]
        ),
        "7 channels cannot be grouped",
    ),
    "no mask": (lambda: ann.MixedStart(ann.FromStimulus(2), ann.RandomStart(2))(torch.zeros(1, 3, 4)),
                r"boolean mask of shape \[1, 3\], got none"),
    "two n": (lambda: ann.MixedStart(ann.FromStimulus(2), ann.RandomStart(4)), "n=2 and n=4"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


class OwnBlock(ann.KuramotoBlock):
    """A block that knows nothing about promises on X, and passes on states that are on no sphere."""

    def forward(self, x: torch.Tensor, c: torch.Tensor, steps: int) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        x, c = super().forward(x, c, steps)
        return 3 * x, c


class OwnLayer(ann.KuramotoLayer):
    """A layer of the same kind."""

    def forward(self, x: torch.Tensor, c: torch.Tensor, steps: int) -> torch.Tensor:  # type: ignore[override]
        return 3 * super().forward(x, c, steps)


@pytest.mark.parametrize("change", ["block", "layer", "hook on a block", "hook on a layer", "hook before a layer"])
def test_what_others_make_of_a_state_is_put_on_the_sphere(change: str) -> None:
    first, second = block(8, 4), block(8, 4)
    if change == "block":
        first = OwnBlock(first.layer, first.readout)
    elif change == "layer":
        own = OwnLayer(8, 4, first.layer.coupling, gamma=0.3)
        first = ann.KuramotoBlock(own, first.readout)
    elif change == "hook on a block":
        first.register_forward_hook(lambda module, inputs, outputs: (3 * outputs[0], outputs[1]))
    elif change == "hook on a layer":
        first.layer.register_forward_hook(lambda module, inputs, output: 3 * output)
    else:
        second.layer.register_forward_pre_hook(lambda module, inputs: (3 * inputs[0], *inputs[1:]))
    x, c = torch.randn(2, 8, 5, 5), torch.randn(2, 8, 5, 5)
    middle, read = first(x, c, 2)
    torch.testing.assert_close(ann.KuramotoStack([first, second])(x, c, 2), second(middle, read, 2))


def test_group_norm_learns_from_what_needs_no_gradient() -> None:
    """Pictures with channels last, whose own gradient is not needed: torch alone would crash."""
    c = torch.randn(2, 6, 4, 5)
    grads = []
    for memory in (torch.contiguous_format, torch.channels_last):
        norm = ann.GroupNorm(3, 6)
        norm(c.contiguous(memory_format=memory)).pow(3).sum().backward()
        grads.append([p.grad for p in norm.parameters()])
    torch.testing.assert_close(*grads)
