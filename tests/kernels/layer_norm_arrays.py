"""Arrays for the tests of LayerNorm, and how close the results must be to float64."""

import torch
from nearness import close as close_within

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
TOLERANCE = {F64: 1e-10, F32: 2e-6, F16: 2e-3, BF16: 1.6e-2}


def draw(shape, device, dtype, order="plain", seed=0):
    """x in one of the orders, far from zero, and a weight and a bias."""
    generator = torch.Generator().manual_seed(seed)
    x = (torch.randn(*shape, generator=generator, dtype=F64) + 3).to(device, dtype)
    if order == "transposed":
        x = x.transpose(-1, -2).contiguous().transpose(-1, -2)
    elif order == "gaps":
        x = torch.stack([x, x], -1).flatten(-2)[..., ::2]
    elif order == "one":  # row for all
        x = x[:1].expand(shape)
    affine = (torch.randn(2, shape[-1], generator=generator, dtype=F64) + 1).to(device, dtype)
    return [x.detach().requires_grad_(), *(a.clone().requires_grad_() for a in affine)]


def close(found, expected, dtype):
    close_within(found, expected, TOLERANCE[dtype])
