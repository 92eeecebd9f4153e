"""What processes exchange, with pretended others (real ones: tests of the engine)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from akorn.runtime import processes


@pytest.fixture
def several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes: the other one has three times what this one has; the main one has seven everywhere."""
    monkeypatch.setattr(processes, "several", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: tensor.mul_(4))
    monkeypatch.setattr(dist, "broadcast", lambda tensor, src: tensor.fill_(7))


def parameters() -> list[nn.Parameter]:
    made = [nn.Parameter(torch.zeros(2, 3)), nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(2).double())]
    for number, parameter in enumerate(made):
        parameter.grad = torch.full_like(parameter, number + 1.0) if number != 1 else None
    return made


@pytest.mark.usefixtures("several")
def test_gradients_are_averaged_where_they_lie() -> None:
    """A CUDA graph writes its gradients to one place, where the optimiser must find their mean."""
    made = parameters()
    before = [parameter.grad for parameter in made]
    processes.average_gradients(made)
    assert made[0].grad is before[0]
    assert made[2].grad is before[2]
    for parameter, mean in ((made[0], 2.0), (made[2], 6.0)):
        assert torch.equal(_grad(parameter), torch.full_like(parameter, mean))
    assert made[1].grad is None  # in all processes: an optimiser leaves it alone


@pytest.mark.usefixtures("several")
def test_a_gradient_that_another_process_alone_has_is_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "all_reduce", lambda tensor: tensor.add_(1))  # the other one has ones everywhere
    made = parameters()
    processes.average_gradients(made)
    for parameter, mean in zip(made, (1.0, 0.5, 2.0), strict=True):
        assert torch.equal(_grad(parameter), torch.full_like(parameter, mean))


@pytest.mark.usefixtures("several")
def test_means_leave_what_they_are_of() -> None:
    values = torch.tensor([1.0, 2.0])
    assert processes.average(values).tolist() == [2.0, 4.0]
    assert values.tolist() == [1.0, 2.0]


@pytest.mark.usefixtures("several")
def test_the_main_process_gives_its_tensors_to_all() -> None:
    tensors = [torch.zeros(2, 2), torch.zeros(3, dtype=torch.long), nn.Parameter(torch.zeros(1))]
    processes.copy_from_main(tensors)
    assert all(bool((tensor == 7).all()) for tensor in tensors)


def test_alone_nothing_is_exchanged() -> None:
    made = parameters()
    processes.average_gradients(made)
    assert made[1].grad is None  # an optimiser leaves it alone, which zeros would not always do
    assert _grad(made[0]).tolist() == [[1.0] * 3] * 2
    assert processes.gather_objects({"a": 1}) == [{"a": 1}]
    processes.wait()


@pytest.mark.parametrize(("backend", "told"), [("gloo", None), ("nccl", [3])])
def test_waiting_names_the_gpu_that_is_used(monkeypatch: pytest.MonkeyPatch, backend: str, told: object) -> None:
    waited: list[object] = []
    monkeypatch.setattr(processes, "several", lambda: True)
    monkeypatch.setattr(dist, "get_backend", lambda: backend)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(dist, "barrier", lambda device_ids=None: waited.append(device_ids))
    processes.wait()
    assert waited == [told]


@pytest.mark.parametrize(("gpus", "expected"), [(1, {"cpu": False, "backend": "gloo"}), (2, {"cpu": False})])
def test_an_evaluation_on_a_shared_gpu_exchanges_by_gloo(
    monkeypatch: pytest.MonkeyPatch, gpus: int, expected: dict[str, object]
) -> None:
    import accelerate

    asked: list[dict[str, object]] = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(accelerate, "PartialState", lambda **options: asked.append(options))
    monkeypatch.setattr(processes, "leave_at_exit", lambda: None)
    monkeypatch.setattr(processes, "dist", SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: False, get_rank=lambda: 0, get_world_size=lambda: 2
    ))  # fmt: skip
    assert processes.place(torch.device("cuda", 0)) == (0, 2)
    assert asked == [expected]


def _grad(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad
