// The random starts of `akorn solve` (src/akorn/sudoku/hashed_starts.py): hashes of the seed, the puzzle and the start's number.

const GOLDEN = 0x9e3779b97f4a7c15n;
const wrap = (x) => BigInt.asUintN(64, x);

// The finaliser of splitmix64.
function mix(x) {
  x = wrap((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n);
  x = wrap((x ^ (x >> 27n)) * 0x94d049bb133111ebn);
  return x ^ (x >> 31n);
}

// Normal numbers for start number `start`, counted from 0.
export function startNoise(puzzle, start, seed, count) {
  const key = puzzle.reduce((hash, digit) => mix(wrap(hash + GOLDEN + BigInt(digit))), 0n);
  const stream = mix(wrap(mix(wrap(key + BigInt(seed) * GOLDEN)) + GOLDEN * BigInt(start + 1)));
  const half = Math.ceil(count / 2);
  const numbers = new Float32Array(count);
  let counter = stream;
  for (let i = 0; i < half; i++) {
    counter = wrap(counter + GOLDEN);
    const bits = mix(counter);
    const uniform = (Number(bits >> 40n) + 1) / 2 ** 24;
    const angle = (2 * Math.PI * Number((bits >> 16n) & 0xffffffn)) / 2 ** 24;
    const length = Math.sqrt(-2 * Math.log(uniform));
    numbers[i] = length * Math.cos(angle);
    if (half + i < count) numbers[half + i] = length * Math.sin(angle);
  }
  return numbers;
}
