"""Sudoku boards as training data: bytes on the device, batches by index, symmetries drawn per board."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from akorn.errors import AkornError
from akorn.sudoku.board_files import Boards, load_csv, load_satnet
from akorn.sudoku.generate import Progress, make
from akorn.sudoku.symmetry import Symmetries


def load(
    path: str | Path | None = None,
    *,
    count: int = 10_000,
    givens: int | tuple[int, int] = (31, 42),
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
) -> tuple[Boards, Boards]:
    """Puzzles and solutions, uint8 [B, 81] each, from a CSV file or a SATNet folder, or generated if there is no path.

    The options describe the boards to generate; they are ignored if there is a path.
    """
    if path is None:
        return make(count, givens, seed, workers, progress)
    path = Path(path)
    if path.is_dir():
        if not any((path / name).exists() for name in ("features.pt", "labels.pt")):
            raise AkornError(f"{path} is a folder without features.pt and labels.pt: expected these or a CSV file")
        return load_satnet(path)
    return load_csv(path)


class SudokuData:
    """Puzzles and solutions, kept on a device as bytes."""

    def __init__(
        self,
        puzzles: ArrayLike,
        solutions: ArrayLike,
        device: torch.device | str = "cpu",
        symmetries: Symmetries | None = None,
    ) -> None:
        left, right = np.asarray(puzzles), np.asarray(solutions)
        if left.ndim != 2 or left.shape[1] != 81 or left.shape != right.shape or len(left) == 0:
            raise ValueError(f"puzzles and solutions must both be [B, 81], got {left.shape} and {right.shape}")
        if left.max() > 9 or left.min() < 0 or right.max() > 9 or right.min() < 1:
            raise ValueError("puzzles must hold digits from 0 (blank) to 9, and solutions from 1 to 9")
        self.puzzles = torch.from_numpy(left.astype(np.uint8)).to(device)
        self.solutions = torch.from_numpy(right.astype(np.uint8)).to(device)
        self.symmetries = symmetries

    def __len__(self) -> int:
        return len(self.puzzles)

    @property
    def device(self) -> torch.device:
        """The device of the boards and of the batches."""
        return self.puzzles.device

    def batch(self, indices: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Puzzle and solution, int64 [B, 81] each, of the boards with these indices; the generator draws symmetries."""
        indices = indices.to(self.device)
        puzzle, solution = self.puzzles[indices], self.solutions[indices]
        if self.symmetries is not None:
            if generator is None:
                raise ValueError("symmetries need a generator, so that runs are reproducible")
            puzzle, solution = self.symmetries(puzzle, solution, generator)
        return puzzle.long(), solution.long()

    def fingerprint(self) -> str:
        """SHA-256 of all boards in order, puzzles then solutions, on any device."""
        digest = hashlib.sha256()
        for boards in (self.puzzles, self.solutions):
            digest.update(boards.cpu().numpy().tobytes())
        return digest.hexdigest()
