"""What must be settled before any test module is imported, where the tests run, and what several folders use."""

import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:
    # One of several processes that share the cores. Read when torch is first imported, in processes started here too.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

MOST_PROCESSES = 4
"""Each needs up to 2 GiB, and a container may see more cores than it has."""

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


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at -n
def pytest_cmdline_main(config: pytest.Config) -> None:
    """The whole suite runs on all cores of a machine without a GPU, as if `-n CORES --dist worksteal` had been given.

    A run that names files stays in one process, where output and debugger are at hand, and so does `-n 0`. Each process
    begins with a run of neighbouring tests, which share what they set up.
    """
    whole = config.args_source is not pytest.Config.ArgsSource.ARGS
    worker = hasattr(config, "workerinput")
    if not whole or worker or torch.cuda.is_available() or not config.pluginmanager.hasplugin("xdist"):
        return
    if config.option.numprocesses is None and not (config.option.usepdb or config.option.collectonly):
        os.environ.setdefault("PYTHONHASHSEED", "0")  # all processes then collect the same tests in the same order
        config.option.numprocesses = min(os.cpu_count() or 1, MOST_PROCESSES)
        if config.option.dist == "no":
            config.option.dist = "worksteal"


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first variant of every sweep is quick; the others are marked as slow, and so are exports of whole models."""
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


@pytest.fixture(scope="session", autouse=True)
def _operators_are_read_once() -> Iterator[None]:
    """torch's exporter reads the sources of its 500 operators again for each part of a model: it takes a second."""
    function = getattr(sys.modules.get("onnxscript"), "TracedOnnxFunction", None)  # loaded by tests that export
    with pytest.MonkeyPatch.context() as patch:
        if function is not None and isinstance(getattr(function, "function_ir", None), property):
            patch.setattr(function, "function_ir", property(cache(function.function_ir.fget)))
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
