"""Starts that see their board under a symmetry: the same Sudoku, but another input of the model.

A model that was trained on random images of its boards is still not indifferent to them. If it fails on an image from
one start, it will probably fail from the next, so later starts see other images. As with random starts, the symmetry is
a hash of the seed, the puzzle and the number of the start.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from akorn.sudoku.hashed_starts import start_numbers
from akorn.sudoku.symmetry import line_order, squares_of


class Turned(NamedTuple):
    """One symmetry per sample: digits are renamed, rows, columns, bands and stacks permuted, the board transposed."""

    squares: Tensor
    """[S, 81]: the square of the board that each square of the image shows."""
    names: Tensor
    """[S, 10]: what each digit is called in the image; a blank stays 0."""

    def image(self, puzzle: Tensor) -> Tensor:
        """What the model sees of puzzles [S, 81]."""
        return self.names.gather(1, puzzle.gather(1, self.squares).long()).to(puzzle.dtype)

    def back(self, logits: Tensor) -> Tensor:
        """Logits [..., S, 81, 9] of the image → those of the board."""
        digits = (self.names[:, 1:] - 1)[:, None].expand(-1, 81, -1)  # [S, 81, 9]
        squares = self.squares.argsort(1)[..., None].expand(-1, -1, 9)
        return logits.gather(-1, digits.expand_as(logits)).gather(-2, squares.expand_as(logits))


def turned(keys: Tensor, starts: Tensor, seed: int) -> Turned:
    """The symmetries of samples with these keys of puzzles [S] and numbers of starts [S]; start 0 sees the board."""
    rows, columns, digits, swap = start_numbers(keys, starts, seed, 34).split((12, 12, 9, 1), 1)
    first = (starts == 0)[:, None]
    squares = squares_of(_lines(rows), _lines(columns), swap[:, 0] < 0)
    squares = torch.where(first, torch.arange(81, device=keys.device), squares)
    names = torch.cat((torch.zeros_like(swap), digits.argsort(1) + 1), 1)
    return Turned(squares, torch.where(first, torch.arange(10, device=keys.device), names))


def _lines(numbers: Tensor) -> Tensor:
    """An order of nine lines from 12 random numbers: [S, 12] → [S, 9]."""
    return line_order(numbers[:, :3], numbers[:, 3:].unflatten(1, (3, 3)))
