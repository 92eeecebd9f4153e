"""What several tests of execution need."""

import pytest
import torch


@pytest.fixture
def forget_compiled() -> None:
    """Nothing that an earlier test compiled is there."""
    torch.compiler.reset()
