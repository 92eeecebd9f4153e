// Features → clusters, as in src/akorn/objects: unit vectors, principal components, average linkage, a cut.

const COMPONENTS = 128;

// Features [K, P] (channels first) → points [P, F]: y/‖y‖, then at most 128 principal components.
export function asPoints(features, channels, count) {
  const points = new Float64Array(count * channels);
  for (let p = 0; p < count; p++) {
    let sum = 0;
    for (let k = 0; k < channels; k++) sum += features[k * count + p] ** 2;
    const length = Math.max(Math.sqrt(sum), 1e-12);
    for (let k = 0; k < channels; k++) points[p * channels + k] = features[k * count + p] / length;
  }
  if (Math.min(count, channels) <= COMPONENTS) return { points, size: channels };
  return { points: principal(centred(points, channels), channels, COMPONENTS), size: COMPONENTS };
}

function centred(points, size) {
  const count = points.length / size;
  const mean = new Float64Array(size);
  points.forEach((value, i) => (mean[i % size] += value / count));
  return points.map((value, i) => value - mean[i % size]);
}

// The coordinates of centred points [P, K] along the directions of largest variance: [P, F].
function principal(points, size, components) {
  const count = points.length / size;
  const matrix = new Float64Array(size * size);
  for (let p = 0; p < count; p++) {
    const row = points.subarray(p * size, (p + 1) * size);
    for (let i = 0; i < size; i++) {
      for (let j = i; j < size; j++) matrix[i * size + j] += row[i] * row[j];
    }
  }
  for (let i = 0; i < size; i++) for (let j = 0; j < i; j++) matrix[i * size + j] = matrix[j * size + i];
  const { values, rows } = eigen(matrix, size);
  const order = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, components);
  const result = new Float64Array(count * components);
  for (let p = 0; p < count; p++) {
    for (const [f, which] of order.entries()) {
      let sum = 0;
      for (let k = 0; k < size; k++) sum += rows[which * size + k] * points[p * size + k];
      result[p * components + f] = sum;
    }
  }
  return result;
}

// Eigenvalues and eigenvectors (as rows) of a symmetric matrix, by Jacobi's rotations; the matrix is overwritten.
export function eigen(a, size, sweeps = 30) {
  const rows = new Float64Array(size * size);
  for (let i = 0; i < size; i++) rows[i * size + i] = 1;
  let scale = 0;
  for (const value of a) scale = Math.max(scale, Math.abs(value));
  for (let sweep = 0; sweep < sweeps; sweep++) {
    let turned = false;
    for (let p = 0; p < size - 1; p++) {
      for (let q = p + 1; q < size; q++) {
        const off = a[p * size + q];
        if (Math.abs(off) < 1e-15 * scale) continue;
        turned = true;
        const theta = (a[q * size + q] - a[p * size + p]) / (2 * off);
        const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1));
        const c = 1 / Math.hypot(t, 1);
        rotate(a, rows, size, p, q, c, t * c);
      }
    }
    if (!turned) break;
  }
  return { values: Float64Array.from({ length: size }, (_, i) => a[i * size + i]), rows };
}

function rotate(a, rows, size, p, q, c, s) {
  for (let k = 0; k < size; k++) {
    const [x, y] = [a[k * size + p], a[k * size + q]];
    a[k * size + p] = c * x - s * y;
    a[k * size + q] = s * x + c * y;
  }
  const [first, second] = [p * size, q * size];
  for (const array of [a, rows]) {
    for (let k = 0; k < size; k++) {
      const [x, y] = [array[first + k], array[second + k]];
      array[first + k] = c * x - s * y;
      array[second + k] = s * x + c * y;
    }
  }
}

// All distances between points [P, F], each pair once: (i, j) with i < j is at start[i] + j.
function distances(points, size) {
  const count = points.length / size;
  const start = Float64Array.from({ length: count }, (_, i) => i * count - (i * (i + 1)) / 2 - i - 1);
  const found = new Float64Array((count * (count - 1)) / 2);
  for (let i = 0; i < count; i++) {
    for (let j = i + 1; j < count; j++) {
      let sum = 0;
      for (let k = 0; k < size; k++) {
        const by = points[i * size + k] - points[j * size + k];
        sum += by * by;
      }
      found[start[i] + j] = Math.sqrt(sum);
    }
  }
  return { found, start };
}

// The tree of average linkage, by chains of nearest neighbours: into[p], height[p] of the merge in which p disappears.
// A cluster is named by its lowest point.
export function averageLinkage(points, size) {
  const count = points.length / size;
  const { found, start } = distances(points, size);
  const at = (i, j) => (i < j ? start[i] + j : start[j] + i);
  const sizes = new Float64Array(count).fill(1);
  const alive = new Set(Array(count).keys());
  const [into, height] = [new Int32Array(count), new Float64Array(count).fill(Infinity)];
  const chain = [];
  while (alive.size > 1) {
    if (!chain.length) chain.push(alive.values().next().value);
    const [tip, before] = [chain.at(-1), chain.at(-2) ?? -1];
    let [nearest, least] = [before, before < 0 ? Infinity : found[at(tip, before)]];
    for (const other of alive) {
      if (other === tip) continue;
      const distance = found[at(tip, other)];
      if (distance < least) [nearest, least] = [other, distance];
    }
    if (nearest !== before) {
      chain.push(nearest);
      continue;
    }
    chain.length -= 2;
    const [low, high] = tip < nearest ? [tip, nearest] : [nearest, tip];
    into[high] = low;
    height[high] = least;
    alive.delete(high);
    const both = sizes[low] + sizes[high];
    for (const other of alive) {
      if (other === low) continue;
      found[at(low, other)] = (sizes[low] * found[at(low, other)] + sizes[high] * found[at(high, other)]) / both;
    }
    sizes[low] = both;
  }
  return { into, height };
}

// Labels [P] of the partition into `clusters` clusters, numbered from 0 in the order of their lowest points.
export function cut({ into, height }, clusters) {
  const count = into.length;
  const limit = clusters >= count ? -Infinity : Float64Array.from(height).sort()[count - clusters - 1];
  const labels = new Int32Array(count);
  let next = 0;
  for (let p = 0; p < count; p++) labels[p] = height[p] <= limit ? labels[into[p]] : next++;
  return labels;
}

// The clusters of a grid, with 0 for the background, which is the largest of those that touch the border.
export function backgroundFirst(labels, side) {
  const sizes = new Array(Math.max(...labels) + 1).fill(0);
  for (const label of labels) sizes[label]++;
  const border = new Set();
  for (let i = 0; i < side; i++) {
    for (const p of [i, (side - 1) * side + i, i * side, i * side + side - 1]) border.add(labels[p]);
  }
  const ground = [...border].sort((a, b) => sizes[b] - sizes[a] || a - b)[0];
  return labels.map((label) => (label === ground ? 0 : label + (label < ground ? 1 : 0)));
}
