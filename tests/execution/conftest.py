"""What several tests of execution need."""

import pytest
import torch


@pytest.fixture
def forget_compiled() -> None:
    """Start without anything that an earlier test compiled."""
    torch.compiler.reset()
