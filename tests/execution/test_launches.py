"""Which work is worth one of our kernel launches."""

from __future__ import annotations

import pytest
import torch

from akorn import kernels
from akorn import nn as akn
from akorn.execution import launches


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where launches cost: not in Triton's interpreter."""
    monkeypatch.setattr(kernels, "_interpreted", False)


@pytest.mark.usefixtures("eager")
def test_small_work_pays_only_where_launches_are_free() -> None:
    assert launches.pays(100, 10)
    assert not launches.pays(10, 100)
    with launches.free():
        assert launches.pays(10, 100)
        with launches.free():
            pass
        assert launches.pays(10, 100)
    assert not launches.pays(10, 100)


@pytest.mark.usefixtures("eager")
def test_launches_cost_again_after_an_error() -> None:
    with pytest.raises(RuntimeError, match="oops"), launches.free():
        raise RuntimeError("oops")
    assert not launches.pays(10, 100)


@pytest.mark.usefixtures("eager")
def test_a_convolution_pays_by_its_operations() -> None:
    weight = torch.empty(64, 64, 9, 9)
    large, small = (torch.empty(batch, 64, 32, 32) for batch in (128, 64))
    assert launches.convolution_pays(large, weight, 1)  # 87 · 10⁹ operations
    assert not launches.convolution_pays(small, weight, 1)
    assert not launches.convolution_pays(large, weight, 2)
    assert not launches.convolution_pays(large.bfloat16(), weight.bfloat16(), 1)


def test_eager_and_recorded_norms_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever kernel is used, the numbers are the same except for rounding."""
    pytest.importorskip("triton")
    torch.manual_seed(0)
    norm, x = akn.GroupNorm(4, 16), torch.randn(2, 9, 16)
    plain = norm(x)
    monkeypatch.setattr(kernels, "_interpreted", True)
    torch.testing.assert_close(norm(x), plain, rtol=1e-5, atol=1e-5)
