"""Programs of another size give the same update and the same gradients."""

import pytest
import torch

from akorn import oscillators as osc


@pytest.mark.parametrize(("shape", "n", "memory"), [
    ((3, 50, 24), 4, torch.contiguous_format),
    ((2, 6, 9, 11), 2, torch.contiguous_format),
    ((2, 9, 7, 5), 3, torch.channels_last),
])  # fmt: skip
@pytest.mark.parametrize(("elements", "warps"), [(512, 2), (4096, 8)])
def test_any_block_gives_the_same(device, project, shape, n, memory, elements, warps):
    from akorn.kernels.update import BLOCK, update_into
    from akorn.kernels.update_backward import Block, launch_backward

    torch.manual_seed(0)
    x, jx, c, grad = (
        torch.randn(shape, dtype=torch.float64, device=device).contiguous(memory_format=memory) for _ in range(4)
    )
    dim = osc.channel_axis(x)
    x = osc.ungroup(osc.normalize(osc.group(x, n, dim), dim), dim)
    gamma = torch.tensor(0.4, dtype=torch.float64, device=device)
    rate = gamma.reshape(1) if n % 2 == 0 else None
    found = []
    for block in (BLOCK, Block(elements, warps)):
        out = torch.empty_like(x)
        update_into(out, None, x, jx, c, gamma, rate, n, project, 0.0, block)
        further = (x, jx, c, gamma, rate, n, project, None, [True] * 3, block)
        found.append((out, *launch_backward(grad, None, *further)))
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-12)
    assert not found[1][0].isnan().any()
