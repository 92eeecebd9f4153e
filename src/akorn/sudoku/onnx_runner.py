"""Sudoku models in onnxruntime instead of torch: an exported file, or a model that is exported when it is first run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from akorn import oscillators as osc
from akorn.errors import AkornError
from akorn.export.facts import KIND, VERSION
from akorn.export.packages import missing
from akorn.nn import EnergyFunction
from akorn.sudoku.net import Result, SudokuNet

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

ENDING = ".onnx"
_LONGEST = 16  # steps in one call of a model that is exported here
_TINY = float(np.finfo(np.float32).tiny)


class OnnxRunner:
    """A Sudoku model in onnxruntime, on the CPU in float32: a `Runner` for the solver and the vote.

    Args:
        session: returns the session that runs this many steps in one call.
        channels: C of the states.
        block: the only number of steps for which there is a session; None for any.
        name: for errors.

    """

    random_start = True
    has_energy = True
    narrow_on_cpu = False
    device = torch.device("cpu")

    def __init__(self, session: Callable[[int], InferenceSession], channels: int, block: int | None, name: str) -> None:
        self._make, self._made = session, dict[int, "InferenceSession"]()
        self.channels, self.block, self.name = channels, block, name

    @classmethod
    def from_file(cls, path: Path) -> OnnxRunner:
        """A file that `akorn export --format onnx` wrote."""
        try:
            content = path.read_bytes()
        except OSError as error:
            raise AkornError(f"{path}: cannot be read ({error.strerror or error})") from error
        session = _session(content, path)
        facts = session.get_modelmeta().custom_metadata_map
        try:
            if facts[KIND] != VERSION or facts["task"] != SudokuNet.task:
                raise ValueError
            shapes = {value.name: value.shape for value in session.get_inputs()}
            channels, block = int(shapes["state"][2]), int(facts["steps"])
        except (IndexError, KeyError, TypeError, ValueError):
            told = f"{path}: not a Sudoku model of `akorn export --format onnx`, as this akorn reads them"
            raise AkornError(told) from None
        return cls(lambda _: session, channels, block, str(path))

    @classmethod
    def from_model(cls, model: SudokuNet) -> OnnxRunner:
        """A torch model, exported when it is first run."""
        from akorn.export.onnx_file import to_onnx, trace
        from akorn.sudoku.export import program

        name = f"the {model.architecture} model"
        _runtime()
        whole = program(model)  # refuses what cannot be exported, before any work is done
        traced = cache(lambda: trace(whole))

        def session(steps: int) -> InferenceSession:
            return _session(to_onnx(program(model, steps), {}, traced()), name)

        return cls(session, model.channels, None, name)

    def evolve(
        self,
        puzzle: Tensor,
        steps: int | None = None,
        *,
        x0: Tensor | None = None,
        energy: EnergyFunction | None = osc.energy,
        each_step: bool = False,
    ) -> Result:
        """See `SudokuNet.evolve`; the starts x0 are needed here, and logits are logarithms of probabilities."""
        if x0 is None or steps is None or energy is not osc.energy:
            raise ValueError("onnxruntime needs the steps and the starts, and has only the energy of Eq. 3")
        block = self._block(steps, each_step)
        if block not in self._made:
            self._made[block] = self._make(block)
        wanted = ["next_state", "probabilities", "energies"]
        digits, state = puzzle.numpy().astype(np.int64), x0.numpy()
        chances: list[NDArray[np.float32]] = []
        energies: list[NDArray[np.float32]] = []
        for _ in range(steps // block):
            state, chance, values = self._made[block].run(wanted, {"puzzle": digits, "state": state})
            chances = [*chances, chance] if each_step else [chance]
            energies.append(values)  # [B, block]
        logits = torch.from_numpy(np.stack(chances)).clamp(min=_TINY).log()  # [1 or T, B, 81, 9]
        return Result(logits[-1], torch.from_numpy(np.concatenate(energies, 1)).T, logits if each_step else None)

    def _block(self, steps: int, each_step: bool) -> int:
        """How many steps one call runs."""
        if self.block is None:
            return 1 if each_step else max(size for size in range(1, _LONGEST + 1) if steps % size == 0)
        if each_step and self.block > 1:
            raise AkornError(f"{self.name} runs {self.block} steps per call: to see every step, export with --steps 1")
        if steps % self.block:
            raise AkornError(f"{self.name} runs {self.block} steps per call: {steps} steps are not a multiple of that")
        return self.block


def _runtime() -> ModuleType:
    try:
        import onnxruntime
    except ImportError as error:
        raise missing(error) from error
    return cast(ModuleType, onnxruntime)


def _session(content: bytes, name: object) -> InferenceSession:
    onnxruntime = _runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors, which are raised too
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own classes of errors, which have no common ancestor
        reason = str(error).strip().splitlines()[0]
        raise AkornError(f"{name}: onnxruntime cannot load it ({reason})") from error
