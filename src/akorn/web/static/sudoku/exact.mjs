// How many solutions a board has, by search: for what the page says about a board, never for the model's answer.

import { UNITS } from "./board.mjs";

const ALL = 0b111111111;
const PEERS = Array.from({ length: 81 }, (_, square) => {
  const near = UNITS.filter(({ squares }) => squares.includes(square)).flatMap(({ squares }) => squares);
  return [...new Set(near)].filter((other) => other !== square);
});
const LIMIT = 20_000; // boards to look at before giving up: a fraction of a second

const single = (bits) => (bits & (bits - 1)) === 0;
const count = (bits) => {
  let number = 0;
  for (; bits; bits &= bits - 1) number++;
  return number;
};

// Take a digit's bit from a square and follow what that forces; false if a square is left without a digit.
function remove(left, square, bit) {
  if (!(left[square] & bit)) return true;
  left[square] &= ~bit;
  if (!left[square]) return false;
  return !single(left[square]) || PEERS[square].every((peer) => remove(left, peer, left[square]));
}

function place(left, square, bit) {
  if (!(left[square] & bit)) return false;
  for (let other = left[square] & ~bit; other; other &= other - 1) {
    if (!remove(left, square, other & -other)) return false;
  }
  return true;
}

// Place digits that have one place left in a row, column or box, until there are none; false if one has no place.
function hidden(left) {
  for (let again = true; again; ) {
    again = false;
    for (const { squares } of UNITS) {
      let [once, more] = [0, 0];
      for (const square of squares) {
        more |= once & left[square];
        once |= left[square];
      }
      if (once !== ALL) return false;
      for (const square of squares) {
        const bit = left[square] & once & ~more;
        if (!bit || single(left[square])) continue;
        if (!single(bit) || !place(left, square, bit)) return false;
        again = true;
      }
    }
  }
  return true;
}

// {solutions: 0, 1, 2 for several, or null if the search gave up; board: one solution, if any was found}
export function countSolutions(puzzle, limit = LIMIT) {
  const first = new Uint16Array(81).fill(ALL);
  for (const [square, digit] of puzzle.entries()) {
    if (digit && !place(first, square, 1 << (digit - 1))) return { solutions: 0, board: null };
  }
  let [solutions, board, looked] = [0, null, 0];
  const waiting = [first];
  while (waiting.length && solutions < 2) {
    if (looked++ === limit) return { solutions: null, board };
    const left = waiting.pop();
    if (!hidden(left)) continue;
    let [chosen, fewest] = [-1, 10];
    for (let square = 0; square < 81 && fewest > 2; square++) {
      const here = count(left[square]);
      if (here > 1 && here < fewest) [chosen, fewest] = [square, here];
    }
    if (chosen < 0) {
      solutions++;
      board ??= Array.from(left, (bits) => 32 - Math.clz32(bits));
      continue;
    }
    for (let bits = left[chosen]; bits; bits &= bits - 1) {
      const next = left.slice();
      if (place(next, chosen, bits & -bits)) waiting.push(next);
    }
  }
  return { solutions, board };
}
