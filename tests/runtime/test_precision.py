"""What `numerics` sets in torch while its block runs, and that everything comes back."""

from __future__ import annotations

import pytest
import torch

from akorn.runtime.precision import Precision, numerics

CPU = torch.device("cpu")


def settings() -> tuple[object, ...]:
    cudnn = torch.backends.cudnn
    return (
        torch.get_float32_matmul_precision(), cudnn.allow_tf32, cudnn.deterministic, cudnn.benchmark,
        torch.are_deterministic_algorithms_enabled(), torch.is_autocast_enabled("cpu"),
    )  # fmt: skip


@pytest.mark.parametrize(("precision", "narrow"), [("float32", None), ("tf32", None), ("bf16", torch.bfloat16)])
def test_products_are_as_asked_and_nothing_leaks(precision: Precision, narrow: torch.dtype | None) -> None:
    before = settings()
    x = torch.ones(2, 2)
    with numerics(precision, autocast=CPU, search=True):
        assert (x @ x).dtype == (narrow or torch.float32)
        assert torch.get_float32_matmul_precision() == ("highest" if precision == "float32" else "high")
        assert torch.backends.cudnn.allow_tf32 == (precision != "float32")
        assert torch.backends.cudnn.benchmark
    assert settings() == before
    with numerics(precision):
        assert (x @ x).dtype == torch.float32  # mixed precision only where a device is named
    assert settings() == before


def test_a_precision_without_autocast_turns_it_off_inside_another() -> None:
    x = torch.ones(2, 2)
    with numerics("bf16", autocast=CPU), numerics("float32", autocast=CPU):
        assert (x @ x).dtype == torch.float32


def test_deterministic_algorithms_are_not_searched_for() -> None:
    before = settings()
    with numerics("float32", deterministic=True, search=True):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.backends.cudnn.deterministic
        assert not torch.backends.cudnn.benchmark
    assert settings() == before


def test_without_a_search_it_is_off_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluation sees many shapes once: a search for each would cost more than it gains."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    with numerics("float32"):
        assert not torch.backends.cudnn.benchmark
    assert torch.backends.cudnn.benchmark


def test_everything_comes_back_after_an_error() -> None:
    before = settings()
    with pytest.raises(ValueError, match="inside"), numerics("bf16", autocast=CPU, deterministic=True):
        raise ValueError("inside")
    assert settings() == before
