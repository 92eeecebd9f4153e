// Pictures in other sizes, exactly as Pillow resizes them for the command line: two passes in bytes, first the width,
// then the height.

const FILTERS = {
  bilinear: { support: 1, weight: (x) => Math.max(0, 1 - Math.abs(x)) },
  bicubic: {
    support: 2,
    weight: (x) => {
      const t = Math.abs(x);
      if (t < 1) return (1.5 * t - 2.5) * t * t + 1;
      return t < 2 ? -0.5 * (((t - 5) * t + 8) * t - 4) : 0;
    },
  },
};
const ONE = 2 ** 22; // weights are whole multiples of 1 / ONE

// For each place in the result: where its source begins, and the weights from there on.
function weights(size, from, to, count, { support, weight }) {
  const scale = (to - from) / count;
  const wide = Math.max(scale, 1);
  return Array.from({ length: count }, (_, place) => {
    const centre = from + (place + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support * wide + 0.5));
    const last = Math.min(size, Math.trunc(centre + support * wide + 0.5));
    const each = Array.from({ length: last - first }, (_, i) => weight((first + i - centre + 0.5) / wide));
    const sum = each.reduce((a, b) => a + b, 0);
    return { first, each: each.map((value) => Math.round((value / sum) * ONE)) };
  });
}

const byte = (sum) => Math.min(255, Math.max(0, Math.floor(sum / ONE + 0.5)));

// A plane of bytes [height, width] → [side, side]: the box {left, top, right, bottom} of it.
export function resizePlane(plane, width, height, { left, top, right, bottom }, side, filter) {
  const across = weights(width, left, right, side, FILTERS[filter]);
  const down = weights(height, top, bottom, side, FILTERS[filter]);
  const [begin, end] = [down[0].first, Math.max(...down.map(({ first, each }) => first + each.length))];
  const narrow = new Uint8Array(side * (end - begin));
  for (let row = begin; row < end; row++) {
    for (const [column, { first, each }] of across.entries()) {
      let sum = 0;
      for (let i = 0; i < each.length; i++) sum += each[i] * plane[row * width + first + i];
      narrow[(row - begin) * side + column] = byte(sum);
    }
  }
  const result = new Uint8Array(side * side);
  for (const [row, { first, each }] of down.entries()) {
    for (let column = 0; column < side; column++) {
      let sum = 0;
      for (let i = 0; i < each.length; i++) sum += each[i] * narrow[(first + i - begin) * side + column];
      result[row * side + column] = byte(sum);
    }
  }
  return result;
}

// {width, height, planes} → planes of side² bytes. As on the command line, a picture of exactly that size stays as it is.
export function resizePicture({ width, height, planes }, box, side, filter) {
  if (width === side && height === side) return planes;
  return planes.map((plane) => resizePlane(plane, width, height, box, side, filter));
}
