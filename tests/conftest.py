"""What must be settled before any test module is imported, and where the tests run."""

import os
from collections.abc import Iterator

import pytest
import torch

if not torch.cuda.is_available():
    # Kernels then run in Triton's interpreter. Read when Triton is first imported, which torch may do at any time.
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session", autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run in an empty folder: what a command writes by default, such as records, is not left in the repository."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        yield
