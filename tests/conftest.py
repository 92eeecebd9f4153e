"""What must be settled before any test module is imported, where the tests run, and what several folders use."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    # Kernels then run in Triton's interpreter. Read when Triton is first imported, which torch may do at any time.
    os.environ["TRITON_INTERPRET"] = "1"

SWEEPS = ("kernels", "execution", "augment/test_augment_fused.py")
"""Where one check is repeated over many shapes and types, through Triton's interpreter or a compiler."""
EXPORTS = (
    "cli/test_export_files.py",
    *(f"{room}/test_{room}_export.py" for room in ("sudoku", "objects", "robustness")),
)
"""Where whole models are exported; `export/` does it with small ones."""


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of every sweep the first variant is quick; the others are marked as slow, and so are exports of whole models."""
    here, seen = Path(__file__).parent, set()
    for item in items:
        if item.path in [here / export for export in EXPORTS]:
            item.add_marker(pytest.mark.slow)
        if any(item.path.is_relative_to(here / sweep) for sweep in SWEEPS):
            test = item.nodeid.partition("[")[0]
            if test in seen:
                item.add_marker(pytest.mark.slow)
            seen.add(test)


@pytest.fixture(scope="session", autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Run in an empty folder: what a command writes by default, such as records, is not left in the repository."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("elsewhere"))
        yield


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill every new output with NaN, so that an element that a kernel leaves out cannot pass for a result."""

    def poison(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def made(*args: object, **kwargs: object) -> torch.Tensor:
            array = make(*args, **kwargs)
            return array.fill_(float("nan")) if array.is_floating_point() else array

        return made

    monkeypatch.setattr(torch, "empty_like", poison(torch.empty_like))
    monkeypatch.setattr(torch.Tensor, "new_empty", poison(torch.Tensor.new_empty))
