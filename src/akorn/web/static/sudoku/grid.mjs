// The 9×9 grid of inputs: typing, arrow keys, pasting. Only one square at a time can be reached with the Tab key.

import { clashes, parse } from "./board.mjs";

export class Grid {
  // changed(): called after typing; refused(message): called after a text that is not a board.
  constructor(element, { changed, refused }) {
    this.changed = changed;
    this.refused = refused;
    this.squares = [];
    for (let row = 0; row < 9; row++) {
      const line = document.createElement("div");
      line.setAttribute("role", "row");
      for (let column = 0; column < 9; column++) {
        const cell = document.createElement("div");
        cell.setAttribute("role", "gridcell");
        const input = document.createElement("input");
        input.type = "text";
        input.inputMode = "numeric";
        input.autocomplete = "off";
        input.setAttribute("aria-label", `row ${row + 1}, column ${column + 1}`);
        input.tabIndex = this.squares.length ? -1 : 0;
        cell.append(input);
        line.append(cell);
        this.#listen(input, this.squares.length);
        this.squares.push(input);
      }
      element.append(line);
    }
    element.addEventListener("paste", (event) => this.#paste(event));
    this.puzzle = new Array(81).fill(0);
  }

  // Take a puzzle: its digits are the givens.
  set(digits) {
    this.puzzle = [...digits];
    this.showPuzzle();
  }

  // Show only the givens, as they were typed.
  showPuzzle() {
    const bad = new Set(clashes(this.puzzle).flatMap(({ squares }) => squares));
    for (const [square, input] of this.squares.entries()) {
      const digit = this.puzzle[square];
      input.value = digit || "";
      input.style.opacity = "";
      input.className = digit ? "given" : "";
      input.classList.toggle("clash", bad.has(square));
    }
  }

  // Show an answer, faint where it is not sure.
  showAnswer({ digits, chances }) {
    for (const [square, input] of this.squares.entries()) {
      if (this.puzzle[square]) continue;
      input.value = digits[square];
      input.style.opacity = (0.15 + 0.85 * Math.max(0, (chances[square] - 1 / 9) * 1.125)).toFixed(3);
    }
  }

  // Mark the squares where an answer breaks the rules.
  mark(digits) {
    const bad = new Set(clashes(digits).flatMap(({ squares }) => squares));
    for (const [square, input] of this.squares.entries()) input.classList.toggle("clash", bad.has(square));
  }

  lock(locked) {
    for (const input of this.squares) input.readOnly = locked;
  }

  #go(square) {
    for (const [i, input] of this.squares.entries()) input.tabIndex = i === square ? 0 : -1;
    this.squares[square].focus();
    this.squares[square].select();
  }

  #put(square, digit) {
    if (this.squares[square].readOnly) return;
    this.puzzle[square] = digit;
    this.showPuzzle();
    this.changed();
  }

  #listen(input, square) {
    const [row, column] = [Math.floor(square / 9), square % 9];
    input.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const moves = {
        ArrowUp: 9 * ((row + 8) % 9) + column,
        ArrowDown: 9 * ((row + 1) % 9) + column,
        ArrowLeft: 9 * row + ((column + 8) % 9),
        ArrowRight: 9 * row + ((column + 1) % 9),
        Home: 9 * row,
        End: 9 * row + 8,
      };
      if (event.key in moves) {
        this.#go(moves[event.key]);
      } else if (/^[1-9]$/.test(event.key)) {
        this.#put(square, Number(event.key));
        this.#go(Math.min(square + 1, 80));
      } else if (["Backspace", "Delete", "0", ".", " "].includes(event.key)) {
        this.#put(square, 0);
        if (event.key === "Backspace") this.#go(Math.max(square - 1, 0));
        else if (event.key !== "Delete") this.#go(Math.min(square + 1, 80));
      } else if (event.key.length > 1) {
        return; // Tab, Enter and the like
      }
      event.preventDefault();
    });
    input.addEventListener("input", () => {
      // The keyboards of phones send no keys: what was written counts.
      const digit = input.value.replace(/[^1-9]/g, "").slice(-1);
      this.#put(square, Number(digit) || 0);
      if (digit) this.#go(Math.min(square + 1, 80));
    });
    input.addEventListener("focus", () => {
      for (const [i, other] of this.squares.entries()) other.tabIndex = i === square ? 0 : -1;
    });
  }

  #paste(event) {
    const text = event.clipboardData.getData("text");
    event.preventDefault();
    if (this.squares[0].readOnly) return;
    try {
      this.set(parse(text));
      this.changed();
    } catch (error) {
      this.refused(error.message);
    }
  }
}
