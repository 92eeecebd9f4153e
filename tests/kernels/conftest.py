"""Where the kernels run: compiled on a GPU if there is one, else in Triton's interpreter on the CPU.

And what the tests of convolutions share.
"""

from importlib.util import find_spec

import pytest
import torch

from akorn.execution import launches

pytest.register_assert_rewrite("nearness")

GPU = torch.cuda.is_available()  # without one, tests/conftest.py has turned the interpreter on


@pytest.fixture
def device(request):
    """The device for kernels; skips if neither way of running them exists."""
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    if not GPU and request.node.get_closest_marker("gpu"):
        pytest.skip("no CUDA device")
    return torch.device("cuda" if GPU else "cpu")


@pytest.fixture(params=[True, False], ids=["Proj", "no Proj"])
def project(request):
    """Both rules that the fused update knows: with Proj, Eq. 4, and without."""
    return request.param


@pytest.fixture(autouse=True)
def _poisoned(poisoned):
    """Every new output is NaN at first, in all tests here."""


@pytest.fixture(autouse=True)
def _launches_are_free():
    """Kernels are used for small arrays too, as in a recorded step."""
    with launches.free():
        yield


@pytest.fixture
def whole_float32(monkeypatch):
    """Convolutions keep the digits of float32, which a GPU would otherwise round to TF32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def choose(monkeypatch):
    """Sets the way to the input gradient of a convolution, and returns the list of ways taken."""
    from akorn.kernels import convolution

    def force(way):
        taken = []
        monkeypatch.setattr(convolution, "best", lambda key, ways, launch, ahead: taken.append(way) or way)
        return taken

    return force
