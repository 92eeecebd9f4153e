// Boards as arrays of 81 digits, row by row, 0 for a blank: reading, writing and the rules.

// The boards from easy to hard come from akorn's generator (src/akorn/sudoku/examples.py). Arto Inkala's board of 2012 is the one
// that newspapers called the hardest.
export const EXAMPLES = {
  "easy: 38 givens": "006084100080170060001596070800067509049800006003429007064000291007005603000600004",
  "medium: 30 givens": "084903207000700069097000000042000900000010002030080001470100620010006000003078004",
  "hard: 21 givens": "000100000310060000400008500000000700078020600000005090000000000009200014000590003",
  "hardest: Arto Inkala, 2012": "800000000003600000070090200050007000000045700000100030001000068008500010090000400",
};

const place = (row, column) => 9 * row + column;
const nine = [...Array(9).keys()];
export const UNITS = [
  ...nine.map((row) => ({ name: `row ${row + 1}`, squares: nine.map((column) => place(row, column)) })),
  ...nine.map((column) => ({ name: `column ${column + 1}`, squares: nine.map((row) => place(row, column)) })),
  ...nine.map((box) => ({
    name: `box ${box + 1}`,
    squares: nine.map((i) => place(3 * Math.floor(box / 3) + Math.floor(i / 3), 3 * (box % 3) + (i % 3))),
  })),
];

// The digits of a text, with 0 . _ * for blanks; spaces, borders and line ends are ignored. Throws a readable error.
export function parse(text) {
  const digits = [];
  for (const sign of text) {
    if (/[1-9]/.test(sign)) digits.push(Number(sign));
    else if (/[0._*]/.test(sign)) digits.push(0);
    else if (!/[\s|+\-,;]/.test(sign)) throw new Error(`“${sign}” is neither a digit nor a blank.`);
  }
  if (digits.length !== 81) throw new Error(`A board has 81 squares; this text has ${digits.length}.`);
  return digits;
}

export function write(digits) {
  return digits.join("");
}

// Digits that a row, column or box has twice: [{digit, unit, squares}].
export function clashes(digits) {
  const found = [];
  for (const { name, squares } of UNITS) {
    for (let digit = 1; digit <= 9; digit++) {
      const same = squares.filter((square) => digits[square] === digit);
      if (same.length > 1) found.push({ digit, unit: name, squares: same });
    }
  }
  return found;
}

// What is wrong with an answer to a puzzle: how many rows, columns and boxes lack a digit, and how many givens changed.
export function faults(puzzle, answer) {
  const broken = UNITS.filter(({ squares }) => new Set(squares.map((square) => answer[square])).size < 9).length;
  const changed = puzzle.filter((digit, square) => digit !== 0 && digit !== answer[square]).length;
  return { broken, changed, solved: broken === 0 && changed === 0 && !answer.includes(0) };
}

// [81 × 9] probabilities → the likeliest digits and how likely each is.
export function likeliest(probabilities) {
  const digits = new Array(81);
  const chances = new Array(81);
  for (let square = 0; square < 81; square++) {
    const here = probabilities.subarray(9 * square, 9 * square + 9);
    const best = here.indexOf(Math.max(...here));
    digits[square] = best + 1;
    chances[square] = here[best];
  }
  return { digits, chances };
}
