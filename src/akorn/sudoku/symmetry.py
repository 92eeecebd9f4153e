"""Random symmetries of Sudoku boards, which turn a valid board into another valid board.

Digits may be renamed; rows may be permuted within their band of three, and so may the bands; columns and
stacks likewise; and the board may be transposed. Every board of a batch gets its own symmetry.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Symmetries:
    """Which symmetries to draw from; together they form a group of 9! · 6⁸ · 2 elements."""

    digits: bool = True  # rename the digits
    rows: bool = True  # permute rows within bands, and bands
    columns: bool = True  # permute columns within stacks, and stacks
    transpose: bool = True  # swap rows and columns, for half of the boards

    def __call__(
        self, puzzle: Tensor, solution: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Apply one random symmetry per board to puzzle and solution, [B, 81] each, 0 for a blank."""
        if puzzle.ndim != 2 or puzzle.shape[1] != 81 or puzzle.shape != solution.shape:
            raise ValueError(
                f"puzzle and solution must both be [B, 81], got {list(puzzle.shape)} and {list(solution.shape)}"
            )
        if puzzle.device != solution.device:
            raise ValueError(f"puzzle is on {puzzle.device}, solution on {solution.device}: expected the same device")
        count, device = len(puzzle), puzzle.device
        if self.rows or self.columns or self.transpose:
            squares = self._squares(count, device, generator)
            puzzle, solution = puzzle.gather(1, squares), solution.gather(1, squares)
        if self.digits:
            names = _permutations((count, 9), device, generator) + 1
            names = torch.cat([names.new_zeros(count, 1), names], 1).to(puzzle.dtype)  # [B, 10]; a blank stays
            puzzle, solution = names.gather(1, puzzle.long()), names.gather(1, solution.long())
        return puzzle, solution

    def _squares(self, count: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
        """[B, 81]: the square that each square of the new board is taken from."""
        straight = torch.arange(9, device=device).expand(count, 9)
        rows = _lines(count, device, generator) if self.rows else straight
        columns = _lines(count, device, generator) if self.columns else straight
        swapped = None
        if self.transpose:
            swapped = _random((count,), device, generator) < 0.5
        return squares_of(rows, columns, swapped)


def squares_of(rows: Tensor, columns: Tensor, swapped: Tensor | None = None) -> Tensor:
    """[B, 81]: the square that each square is taken from, with lines in these orders [B, 9].

    swapped: [B] bool, the boards that are transposed then.
    """
    squares = 9 * rows[:, :, None] + columns[:, None, :]  # [B, 9, 9]
    if swapped is not None:
        squares = torch.where(swapped[:, None, None], squares.transpose(1, 2), squares)
    return squares.flatten(1)


def line_order(bands: Tensor, within: Tensor) -> Tensor:
    """[B, 9]: an order of the nine lines that keeps the bands of three together, from random numbers.

    bands: [B, 3]. within: [B, 3, 3].
    """
    return (3 * bands.argsort(-1)[:, :, None] + within.argsort(-1)).flatten(1)


def _random(shape: tuple[int, ...], device: torch.device, generator: torch.Generator | None) -> Tensor:
    # Drawn on the generator's device, so that a CPU generator gives the same symmetries for a GPU.
    source = device if generator is None else generator.device
    return torch.rand(shape, device=source, generator=generator).to(device)


def _permutations(shape: tuple[int, ...], device: torch.device, generator: torch.Generator | None) -> Tensor:
    """Random permutations of the last axis."""
    return _random(shape, device, generator).argsort(-1)


def _lines(count: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
    """[B, 9]: a random order of the nine lines that keeps the bands of three together."""
    bands = _random((count, 3), device, generator)
    return line_order(bands, _random((count, 3, 3), device, generator))
