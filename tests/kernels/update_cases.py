"""What the tests of the fused update share: types, rules, states, and a graph that is replayed."""

import torch

from akorn import nn as akn
from akorn import oscillators as osc

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
ENERGY = {0.5: osc.energy, 1.0: osc.published_energy}
RULES = {True: akn.Kuramoto(), False: akn.WithoutProjection()}
"""By whether they have Proj."""


def plain(x, jx, c, gamma, omega, n, project, pair_weight):
    """(x′, E) from the definitions, with Ω as `update` takes it; E is None without a weight."""
    dim = osc.channel_axis(x)
    grouped, force = osc.group(x, n, dim), osc.group(jx + c, n, dim)
    rotation = None
    if omega is not None:
        rotate = osc.rotate_pairs if omega.shape[-1] < n else osc.rotate
        rotation = rotate(grouped, omega, dim)
    after = RULES[project].step(grouped, force, rotation, gamma, dim)
    return osc.ungroup(after, dim), None if pair_weight is None else ENERGY[pair_weight](x, jx, c)


def states(generator, shape, n, device, dtypes, layouts="ppp"):
    """[x, jx, c] that want gradients, x on the sphere; a layout is "p"lain, channels "l"ast or "g"apped."""
    x, jx, c = (torch.randn(*shape, generator=generator, dtype=F64) for _ in range(3))
    dim = osc.channel_axis(x)
    x = osc.ungroup(osc.normalize(osc.group(x, n, dim), dim), dim)
    arrays = []
    for array, dtype, layout in zip((x, jx, c), dtypes, layouts, strict=True):
        array = array.to(device, dtype)
        if layout == "l":
            array = array.contiguous(memory_format=torch.channels_last)
        if layout == "g":
            array = torch.stack((array, array), -1)[..., 0]
        arrays.append(array.requires_grad_())
    return arrays


def outward(x, jx, c, n):
    """Change Jx and c so that they nowhere point against x.

    Without Proj their sum may nearly cancel x, as it does somewhere in large arrays, and Π then enlarges rounding.
    """
    dim = osc.channel_axis(x)
    towards = osc.group(x.detach().double(), n, dim)
    with torch.no_grad():
        for force in (jx, c):
            grouped = osc.group(force.double(), n, dim)
            along = (grouped * towards).sum(dim, keepdim=True)
            force.copy_(osc.ungroup(grouped - 2 * along.clamp_max(0) * towards, dim))


def with_gradients(found, x, c, layer):
    """The last state of an evolution, its energies if any, and the gradients of x, c and all parameters."""
    weights = torch.linspace(0, 1, x.numel(), dtype=x.dtype, device=x.device).reshape(x.shape)
    loss = (found.x * weights).sum()
    if found.energies is not None:
        loss = loss + found.energies.square().mean() / 10
    loss.backward()
    grads = [x.grad, c.grad, *(p.grad for p in layer.parameters())]
    return [found.x, *([found.energies] if found.energies is not None else []), *grads]


def replayed(work, *values):
    """What `work` gives for these values as a CUDA graph that was recorded with others."""
    static = [torch.zeros_like(value) for value in values]
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(2):
            work(*values)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = work(*static)
    for array, value in zip(static, values, strict=True):
        array.copy_(value)
    graph.replay()
    return recorded
