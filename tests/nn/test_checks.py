"""What layers require of their settings and of their arrays."""

import pytest
import torch

from akorn import nn as ann
from akorn.nn.checks import check_finite

FULL = torch.full((3, 4), 1.0)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_single_value_is_found(value: float, dtype: torch.dtype) -> None:
    bad = FULL.to(dtype).index_fill(1, torch.tensor([2]), value)
    with pytest.raises(ValueError, match=r"c of shape \[3, 4\] has 3 NaN or infinite values"):
        check_finite(x=FULL, c=bad)
    both = torch.tensor([torch.inf, -torch.inf], dtype=dtype)  # whose sum is NaN
    with pytest.raises(ValueError, match=r"x of shape \[2\] has 2 NaN"):
        check_finite(x=both, c=bad)


def test_large_values_and_what_is_no_array_pass() -> None:
    check_finite(x=torch.full((4,), 3e38), c=torch.full((4,), 6e4, dtype=torch.float16))  # their sums overflow
    check_finite(x=FULL.to("meta"), c=lambda step: FULL)
    check_finite()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 0}, "channels must be at least 1, got 0"),
        ({"out_channels": 0}, "out_channels must be at least 1, got 0"),
        ({"n_out": 0}, "n_out must be at least 1, got 0"),
        ({"kernel_size": -1}, "kernel_size must be at least 1, got -1"),
        ({"channels": True}, "channels must be a whole number, got True"),
    ],
)
def test_readouts_have_whole_sizes(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ann.Readout(**{"channels": 8} | settings)


def test_readouts_name_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"the readout has 8 channels, but x of shape \[2, 4, 3, 3\] has 4"):
        ann.Readout(8)(torch.zeros(2, 4, 3, 3))
    with pytest.raises(ValueError, match="x must be a tensor, got list"):
        ann.Readout(8)([1.0])
    with pytest.raises(ValueError, match=r"expected \[B, C\], tokens"):
        ann.LinearReadout(8)(torch.zeros(8))
