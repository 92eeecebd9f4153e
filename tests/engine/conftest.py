"""One thread: sums then have one order, here and in the processes that the tests start. And what several tests need."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from engine_launch import launch


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of the toy in two processes, with which others are compared; it runs only once, since it is slow."""
    out = tmp_path_factory.mktemp("two") / "whole"
    assert launch(2, out) == [0, 0]
    return out
