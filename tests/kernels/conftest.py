"""Where the kernels run: compiled on a GPU where there is one, else in Triton's interpreter on the CPU."""

from importlib.util import find_spec

import pytest
import torch

GPU = torch.cuda.is_available()  # without one, tests/conftest.py has turned the interpreter on


@pytest.fixture
def device(request):
    """The device for kernels; skips where neither way of running them exists."""
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    if not GPU and request.node.get_closest_marker("gpu"):
        pytest.skip("no CUDA device")
    return torch.device("cuda" if GPU else "cpu")


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch):
    """Fill every new output with NaN, so that an element the kernel leaves out cannot pass for a result."""

    def poison(make):
        def made(*args, **kwargs):
            array = make(*args, **kwargs)
            return array.fill_(float("nan")) if array.is_floating_point() else array

        return made

    monkeypatch.setattr(torch, "empty_like", poison(torch.empty_like))
    monkeypatch.setattr(torch.Tensor, "new_empty", poison(torch.Tensor.new_empty))
