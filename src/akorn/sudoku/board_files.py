"""Data sets of boards: lines of `puzzle,solution` (the RRN format), tables with a header, and the SATNet tensors.

`load_csv` and `load_satnet` return arrays of all boards, or raise an error that locates the first mistake.
`board_reader.py` is for users' files: it returns every board that can be read and reports the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from akorn.errors import AkornError
from akorn.runtime.files import replacing
from akorn.sudoku.board import format_board, square_name, valid_solutions
from akorn.sudoku.board_reader import BoardLine, Table, check_solution, file_lines, parse_line, read_boards

if TYPE_CHECKING:
    import torch

__all__ = ["BoardLine", "Boards", "load_csv", "load_satnet", "parse_line", "read_boards", "write_csv"]

Boards = NDArray[np.uint8]

_WIDTH = 81 + 1 + 81  # of a puzzle,solution line


def _content(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The lines with boards and their numbers, as `puzzle,solution`, without empty lines, comments and the header."""
    table = Table()
    for number, line in enumerate(lines, 1):
        line = line.strip().lstrip("\ufeff")  # a byte order mark
        if line and not line.startswith("#") and not table.is_header(line):
            yield number, table.two_fields(line)


def load_csv(path: str | Path) -> tuple[Boards, Boards]:
    """All puzzles and solutions of a `puzzle,solution` file, uint8 [B, 81] each; the first bad line raises an error."""
    numbered = list(_content(file_lines(Path(path))))
    if not numbered:
        raise AkornError(f"{path} contains no boards: expected lines of puzzle,solution")
    puzzles = np.empty((len(numbered), 81), dtype=np.uint8)
    solutions = np.empty((len(numbered), 81), dtype=np.uint8)

    # Lines of the plain form are read at once: one table of bytes, '.' and '_' as 0.
    plain = np.array([len(line) == _WIDTH and line.isascii() for _, line in numbered])
    text = "".join(line for (_, line), good in zip(numbered, plain, strict=True) if good)
    table = np.frombuffer(text.encode("ascii"), dtype=np.uint8).reshape(-1, _WIDTH)
    value = np.full(256, 10, dtype=np.uint8)
    value[ord("0") : ord("9") + 1] = np.arange(10)
    value[[ord("."), ord("_")]] = 0
    puzzles[plain], solutions[plain] = value[table[:, :81]], value[table[:, 82:]]
    good = (puzzles <= 9).all(1) & plain
    good[plain] &= table[:, 81] == ord(",")
    good[good] = valid_solutions(solutions[good])
    good &= ((puzzles == 0) | (puzzles == solutions)).all(1)

    # The others are read one by one: they have spaces or quotes, or are wrong.
    for index in np.flatnonzero(~good).tolist():
        item = parse_line(*numbered[index])
        if item.error is not None:
            raise AkornError(f"{path}, line {item.number}: {item.error}")
        if item.puzzle is None or item.solution is None:
            raise AkornError(f"{path}, line {item.number}: the solution is missing, expected puzzle,solution")
        puzzles[index], solutions[index] = item.puzzle, item.solution
    return puzzles, solutions


def load_satnet(folder: str | Path) -> tuple[Boards, Boards]:
    """Puzzles and solutions, uint8 [B, 81] each, from SATNet's `features.pt` and `labels.pt`.

    Both are one-hot, [B, 9, 9, 9] (row, column, digit); a blank in the features is all zeros.
    """
    features, puzzles = _load_one_hot(Path(folder) / "features.pt")
    labels, solutions = _load_one_hot(Path(folder) / "labels.pt")
    if len(puzzles) != len(solutions):
        raise AkornError(f"{features} has {len(puzzles)} boards, {labels} has {len(solutions)}")
    good = valid_solutions(solutions) & ((puzzles == 0) | (puzzles == solutions)).all(1)
    if not good.all():
        index = int(np.argmin(good))
        try:
            check_solution(solutions[index], puzzles[index])
        except AkornError as error:
            raise AkornError(f"{labels}, board {index + 1}: {error}") from None
    return puzzles, solutions


def _load_one_hot(path: Path) -> tuple[Path, Boards]:
    import torch

    from akorn.runtime.torch_files import check_dense, foreign_objects

    if not path.is_file():
        raise AkornError(f"{path} does not exist: a SATNet folder holds features.pt and labels.pt")
    try:
        tensor: torch.Tensor = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # damaged files fail in many ways; weights_only refuses other objects
        foreign = foreign_objects(path)
        reason = "it contains other objects, which are never loaded" if foreign else "it is damaged or not a torch file"
        raise AkornError(f"{path} cannot be read as a tensor: {reason}") from None
    if not isinstance(tensor, torch.Tensor):
        raise AkornError(f"{path} holds a {type(tensor).__name__}, expected a tensor [boards, 9, 9, 9]")
    check_dense(tensor, path)
    if tensor.ndim != 4 or tuple(tensor.shape[1:]) != (9, 9, 9) or len(tensor) == 0:
        raise AkornError(f"{path} has shape {list(tensor.shape)}, expected [boards, 9, 9, 9]")
    hot = tensor != 0
    bad = ((hot & (tensor != 1)).any(-1) | (hot.sum(-1) > 1)).flatten(1)  # [B, 81]
    if bad.any():
        board, square = divmod(int(bad.flatten().int().argmax()), 81)
        raise AkornError(f"{path}, board {board + 1}: {square_name(square)} is neither one-hot nor blank")
    digits = torch.where(hot.any(-1), hot.int().argmax(-1) + 1, 0)  # [B, 9, 9]
    return path, digits.flatten(1).to(torch.uint8).numpy()


def write_csv(path: str | Path, puzzles: ArrayLike, solutions: ArrayLike) -> None:
    """Write boards [B, 81] as `puzzle,solution` lines; the file appears whole or not at all."""
    left, right = np.asarray(puzzles), np.asarray(solutions)
    if left.ndim != 2 or left.shape != right.shape:
        raise ValueError(f"puzzles and solutions must both be [B, 81], got {left.shape} and {right.shape}")
    with replacing(path) as temporary, temporary.open("w", encoding="ascii", newline="\n") as file:
        for puzzle, solution in zip(left, right, strict=True):
            file.write(f"{format_board(puzzle)},{format_board(solution)}\n")
