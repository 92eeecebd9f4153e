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
def _poisoned(poisoned):
    """Every new output is NaN at first, in all tests here."""
