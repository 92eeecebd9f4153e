"""Gradients as objects, and the flags that they have replaced."""

import copy
import pickle

import pytest
import torch

from akorn import nn as ann

from .conftest import make


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        ({"recompute": True}, ann.Recompute()),
        ({"recompute": False}, ann.Store()),
        ({"gradient_steps": 3}, ann.LastSteps(3)),
        ({"gradient_steps": 2, "recompute": True}, ann.LastSteps(2, ann.Recompute())),
    ],
)
def test_the_old_flags_say_the_same_with_a_warning(flags: dict[str, int], wanted: ann.Gradients) -> None:
    with pytest.warns(DeprecationWarning, match="use gradients=") as caught:
        layer = make("dense", **flags)
    assert layer.gradients == wanted
    assert caught[0].filename.endswith("conftest.py")  # where the layer is made
    with pytest.warns(DeprecationWarning, match=r"KuramotoLayer\.recompute"):
        assert layer.recompute is flags.get("recompute", False)
    with pytest.warns(DeprecationWarning, match=r"KuramotoLayer\.gradient_steps"):
        assert layer.gradient_steps == flags.get("gradient_steps")


def test_the_old_attributes_can_be_set() -> None:
    layer = make("dense")
    with pytest.warns(DeprecationWarning, match="recompute"):
        layer.recompute = True
    assert layer.gradients == ann.Recompute()
    with pytest.warns(DeprecationWarning, match="gradient_steps"):
        layer.gradient_steps = 2
    assert layer.gradients == ann.LastSteps(2, ann.Recompute())
    with pytest.warns(DeprecationWarning, match="gradient_steps"):
        layer.gradient_steps = None
    assert layer.gradients == ann.Recompute()


def test_a_pickle_of_before_has_its_flags() -> None:
    layer = make("dense", gradients=ann.LastSteps(2, ann.Recompute()))
    state = layer.__getstate__()
    del state["gradients"]
    old = ann.KuramotoLayer.__new__(ann.KuramotoLayer)
    old.__setstate__({**state, "recompute": True, "gradient_steps": 2})
    assert old.gradients == layer.gradients
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert again.gradients == layer.gradients


BAD = {
    "both": (lambda: make("dense", gradients=ann.Store(), recompute=True), "cannot be combined with it"),
    "no object": (lambda: make("dense", gradients=True), r"gradients must be Store\(\), Recompute\(\) or LastSteps"),
    "a class": (lambda: make("dense", gradients=ann.Recompute), "instantiate it"),
    "no snapshots": (lambda: ann.Recompute(0), "snapshots must be at least 1"),
    "no steps": (lambda: ann.LastSteps(0), "steps must be at least 1"),
    "half a step": (lambda: ann.LastSteps(1.5), "steps must be a whole number"),
    "last of last": (lambda: ann.LastSteps(1, ann.LastSteps(1)), r"then must be Store\(\) or Recompute\(\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_gradients_are_refused(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_more_snapshots_compute_less_again() -> None:
    class Counting(torch.nn.Module):
        calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x

    def again(snapshots: int) -> int:
        layer = ann.KuramotoLayer(4, 4, Counting(), learn_gamma=True, gradients=ann.Recompute(snapshots))
        layer(torch.randn(1, 4), torch.randn(1, 4), 20).sum().backward()
        return layer.coupling.calls - 20

    assert again(20) == 20
    assert again(2) > again(8) > again(20)
