"""The page's Sudoku in a real browser: the shipped model, exported by the server and run on WASM."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch

from akorn.sudoku.board import parse_board
from akorn.sudoku.exact import count_solutions, solve_exact
from akorn.sudoku.examples import EXAMPLES
from akorn.sudoku.hashed_starts import board_keys, start_noise

from .chromium import Chromium

pytestmark = pytest.mark.slow

VERDICT = "document.querySelector('#verdict').textContent"
BOARD = "[...document.querySelectorAll('#grid input')].map((square) => square.value || '0').join('')"


def type_board(page: Chromium, board: str) -> None:
    page.click("#clear")
    page.evaluate("document.querySelector('#grid input').focus()")
    for sign in board:
        page.press(sign)


def is_valid(board: str) -> bool:
    rows = [board[9 * i : 9 * i + 9] for i in range(9)]
    columns = ["".join(row[i] for row in rows) for i in range(9)]
    boxes = ["".join(rows[r + k][c : c + 3] for k in range(3)) for r in (0, 3, 6) for c in (0, 3, 6)]
    return all("".join(sorted(unit)) == "123456789" for unit in (*rows, *columns, *boxes))


@pytest.mark.usefixtures("_onnx")
def test_a_typed_puzzle_is_solved(page: Chromium) -> None:
    puzzle = EXAMPLES["medium"]
    type_board(page, puzzle)
    assert page.evaluate("document.querySelector('#text').value") == puzzle
    page.evaluate("document.querySelector('#starts').value = '1'")
    assert not any("/vendor/" in url or "/models/" in url for url in page.requests())  # not before they are needed
    page.evaluate(
        "window.said = []; new MutationObserver(() => window.said.push(document.querySelector('#verdict').textContent))"
        ".observe(document.querySelector('#verdict'), { childList: true })"
    )
    page.click("#solve")
    page.wait_for(f"!document.querySelector('#solve').disabled && {VERDICT}", 240)
    assert page.evaluate(VERDICT).startswith("Solved: every row")
    said = page.evaluate("window.said")
    for begin in ("Fetching the model: ", "Fetching the runtime: ", "Starting the model", "4 of 64 steps"):
        assert any(words.startswith(begin) for words in said), begin
    answer = page.evaluate(BOARD)
    assert is_valid(answer)
    assert all(given in ("0", found) for given, found in zip(puzzle, answer, strict=True))
    assert page.evaluate("document.querySelectorAll('#votes li').length") == 1
    assert page.evaluate("document.querySelector('#runs-on').textContent") == " on WASM, one thread"
    assert page.complaints() == []
    hosts = {urlsplit(url).netloc for url in page.requests()}
    assert hosts == {urlsplit(page.evaluate("location.href")).netloc}
    assert any(url.endswith(".wasm") for url in page.requests())  # what a Worker asks for is seen too


def test_a_board_without_a_solution_is_refused_in_words(page: Chromium) -> None:
    """No unit has a digit twice, but none is left for the last square of the first row."""
    type_board(page, "123456780" + "0" * 17 + "9")
    assert page.evaluate(VERDICT) == ""
    page.click("#solve")
    assert page.evaluate(VERDICT).startswith("This board cannot be solved: no digit is repeated, but")
    assert page.evaluate("document.querySelector('#watch').hidden")
    assert not any("/models/" in url for url in page.requests())


@pytest.mark.usefixtures("_onnx")
def test_of_several_solutions_one_is_found_and_said_to_be_one(page: Chromium) -> None:
    """Without any 1 and 2 they may stand either way."""
    solved = solve_exact(parse_board(EXAMPLES["easy"]))
    assert solved is not None
    open_board = "".join("0" if digit in (1, 2) else str(digit) for digit in solved)
    type_board(page, open_board)
    page.click("#solve")
    page.wait_for(f"!document.querySelector('#solve').disabled && {VERDICT}", 240)
    told = page.evaluate(VERDICT)
    assert told.startswith(("Solved by start ", "Not solved by start "))
    assert ("Several boards fit these givens" in told) == told.startswith("Solved")
    assert page.evaluate("document.querySelectorAll('#votes li').length") == 4
    assert page.evaluate("document.querySelectorAll('#votes .winner').length") == 1


@pytest.mark.parametrize(
    "puzzle", [*EXAMPLES.values(), "0" * 81, "1" + "0" * 80, "12345678" + "0" * 18 + "9" + "0" * 54]
)
def test_the_pages_search_counts_as_the_packages(page: Chromium, puzzle: str) -> None:
    told = page.evaluate(
        "Promise.all([import('./sudoku/exact.mjs'), import('./sudoku/board.mjs')])"
        f".then(([{{ countSolutions }}, {{ parse }}]) => countSolutions(parse('{puzzle}')))"
    )
    assert told["solutions"] == count_solutions(parse_board(puzzle))
    if told["solutions"] == 1:
        assert told["board"] == solve_exact(parse_board(puzzle)).tolist()  # type: ignore[union-attr]


def test_the_page_starts_where_the_command_does(page: Chromium) -> None:
    puzzle = torch.from_numpy(parse_board(EXAMPLES["hard"]))[None]
    wanted = start_noise(board_keys(puzzle), torch.tensor([2]), 7, (81 * 512,))[0].numpy()
    code = f"startNoise({puzzle[0].tolist()}, 2, 7, {81 * 512})"
    got = page.evaluate(f"import('./sudoku/starts.mjs').then(({{ startNoise }}) => Array.from({code}))")
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_a_contradiction_is_refused_in_words(page: Chromium) -> None:
    type_board(page, "5" + "0" * 7 + "5")
    page.click("#solve")
    assert page.evaluate(VERDICT) == "This board cannot be solved: row 1 has the digit 5 twice."
    assert page.evaluate("document.querySelectorAll('#grid .clash').length") == 2
    assert page.evaluate("document.querySelector('#watch').hidden")
    assert not any("/models/" in url for url in page.requests())


def test_a_text_that_is_no_board_is_refused_in_words(page: Chromium) -> None:
    for text, words in (("123", "this text has 3"), ("x" * 81, "neither a digit nor a blank")):
        page.evaluate(
            f"document.querySelector('#text').value = {json.dumps(text)};"
            "document.querySelector('#text').dispatchEvent(new Event('input'))"
        )
        assert words in page.evaluate(VERDICT)


def test_arrows_move_in_the_grid(page: Chromium) -> None:
    page.evaluate("document.querySelector('#grid input').focus()")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp"):
        page.press(key)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "row 9, column 3"
    assert page.evaluate("document.querySelectorAll('#grid input[tabindex=\"0\"]').length") == 1


def test_the_pages_rules_are_the_packages(page: Chromium) -> None:
    """Its examples, and what it calls solved."""
    known = page.evaluate("import('./sudoku/board.mjs').then(({ EXAMPLES }) => Object.values(EXAMPLES))")
    assert set(EXAMPLES.values()) < set(known)
    solved = "".join(str((3 * (row % 3) + row // 3 + column) % 9 + 1) for row in range(9) for column in range(9))
    swapped = solved[1] + solved[0] + solved[2:]
    code = "import('./sudoku/board.mjs').then(({ faults, parse }) => faults(parse(%r), parse(%r)))"
    assert page.evaluate(code % ("0" * 81, solved))["solved"]
    assert page.evaluate(code % ("0" * 81, swapped)) == {"broken": 2, "changed": 0, "solved": False}
    assert page.evaluate(code % ("2" + "0" * 80, solved)) == {"broken": 0, "changed": 1, "solved": False}
