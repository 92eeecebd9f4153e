// Couplings J of a field on a torus, as in src/akorn/simulate/lattice.py. Each adds Jx to a force [N planes of size²].

import { fillNormal, uniform } from "../random.mjs";

function gaussianLine(size, width) {
  const half = Math.floor(size / 2);
  const line = Float64Array.from({ length: size }, (_, i) => Math.exp(-((i - half) ** 2) / (2 * width ** 2)));
  const sum = line.reduce((a, b) => a + b, 0);
  return line.map((value) => value / sum);
}

// J = k ⊗ I with a Gaussian k whose sum is `strength`: separable, so each component takes two short passes. Symmetric.
export class Gaussian {
  symmetric = true;

  constructor({ kernelSize, width, strength }) {
    this.line = Float32Array.from(gaussianLine(kernelSize, width));
    this.strength = strength;
    this.half = (kernelSize - 1) / 2;
    this.across = new Float32Array(0);
    this.padded = new Float32Array(0);
  }

  add(force, x, size, n) {
    const { line, half, strength } = this;
    const area = size * size;
    if (this.across.length !== area) {
      this.across = new Float32Array(area);
      this.padded = new Float32Array(size + 2 * half);
    }
    const { across, padded } = this;
    for (let k = 0; k < n; k++) {
      const plane = x.subarray(k * area, (k + 1) * area);
      for (let row = 0; row < size; row++) {
        const start = row * size;
        for (let i = 0; i < padded.length; i++) padded[i] = plane[start + ((i - half + size) % size)];
        for (let column = 0; column < size; column++) {
          let sum = 0;
          for (let i = 0; i < line.length; i++) sum += line[i] * padded[column + i];
          across[start + column] = sum;
        }
      }
      const out = force.subarray(k * area, (k + 1) * area);
      for (let row = 0; row < size; row++) {
        for (let i = 0; i < line.length; i++) {
          const weight = strength * line[i];
          const [from, to] = [((row + i - half + size) % size) * size, row * size];
          for (let column = 0; column < size; column++) out[to + column] += weight * across[from + column];
        }
      }
    }
  }
}

// A full N×N block of random numbers at each offset, blurred, each component's numbers summing to zero; `strength` is
// the largest eigenvalue of J's symmetric part, the fastest rate at which a wave grows.
export class Random {
  symmetric = false;

  constructor({ n, kernelSize, width, strength, seed }) {
    this.n = n;
    this.half = (kernelSize - 1) / 2;
    this.kernel = blurredNoise(n, kernelSize, width, seed); // [N, N, k, k]
    const growth = growthRate(this.kernel, n, kernelSize);
    const scale = growth > 1e-9 ? strength / growth : 0;
    this.kernel = this.kernel.map((value) => scale * value);
  }

  add(force, x, size, n) {
    const { kernel, half } = this;
    const [area, width, side] = [size * size, 2 * half + 1, size + 2 * half];
    const places = side * side;
    // One more row of zeros after the last plane: a pass may read beyond the end, with weight 0.
    if (this.padded?.length !== n * places + side) this.padded = new Float64Array(n * places + side);
    const sums = new Float64Array(size);
    for (let from = 0; from < n; from++) pad(this.padded, from * places, x.subarray(from * area, (from + 1) * area), size, half);
    for (let to = 0; to < n; to++) {
      for (let row = 0; row < size; row++) {
        sums.fill(0);
        for (let from = 0; from < n; from++) {
          for (let i = 0; i < width; i++) {
            const weights = ((to * n + from) * width + i) * width;
            addRow(sums, this.padded, from * places + (row + i) * side, kernel, weights, width);
          }
        }
        const start = to * area + row * size;
        for (let column = 0; column < size; column++) force[start + column] += sums[column];
      }
    }
  }
}

// Add one row of a kernel to a row of sums, three weights per pass: numbers that stay in registers make it fast.
function addRow(sums, padded, start, kernel, weights, width) {
  for (let j = 0; j < width; j += 3) {
    const a = kernel[weights + j];
    const b = j + 1 < width ? kernel[weights + j + 1] : 0;
    const c = j + 2 < width ? kernel[weights + j + 2] : 0;
    let at = start + j;
    let [p, q] = [padded[at], padded[at + 1]];
    for (let column = 0; column < sums.length; column++, at++) {
      const r = padded[at + 2];
      sums[column] += a * p + b * q + c * r;
      p = q;
      q = r;
    }
  }
}

function pad(padded, start, plane, size, half) {
  const side = size + 2 * half;
  for (let row = 0; row < side; row++) {
    const from = ((row - half + size) % size) * size;
    for (let column = 0; column < side; column++) {
      padded[start + row * side + column] = plane[from + ((column - half + size) % size)];
    }
  }
}

function blurredNoise(n, size, width, seed) {
  const margin = Math.ceil(3 * width);
  const side = size + 2 * margin; // so that the blur needs no border
  const line = width > 0 ? gaussianLine(2 * margin + 1, width) : Float64Array.of(1);
  const next = uniform(seed + 1);
  const kernel = new Float32Array(n * n * size * size);
  for (let block = 0; block < n * n; block++) {
    const noise = fillNormal(new Float64Array(side * side), next);
    const here = kernel.subarray(block * size * size, (block + 1) * size * size);
    for (let row = 0; row < size; row++) {
      for (let column = 0; column < size; column++) {
        let sum = 0;
        for (let i = 0; i < line.length; i++) {
          for (let j = 0; j < line.length; j++) sum += line[i] * line[j] * noise[(row + i) * side + column + j];
        }
        here[row * size + column] = sum;
      }
    }
    const mean = here.reduce((a, b) => a + b, 0) / here.length;
    for (let i = 0; i < here.length; i++) here[i] -= size > 1 ? mean : 0;
  }
  return kernel;
}

// The largest eigenvalue of (J + Jᵀ)/2: each plane wave gives a Hermitian N×N matrix, solved by shifted power iteration.
export function growthRate(kernel, n, size, waves = 32, rounds = 60) {
  const half = (size - 1) / 2;
  const [re, im] = [new Float64Array(n * n), new Float64Array(n * n)];
  let largest = -Infinity;
  for (let p = 0; p <= waves / 2; p++) {
    for (let q = 0; q < waves; q++) {
      for (let block = 0; block < n * n; block++) {
        let [a, b] = [0, 0];
        for (let i = 0; i < size; i++) {
          for (let j = 0; j < size; j++) {
            const angle = (2 * Math.PI * (p * (i - half) + q * (j - half))) / waves;
            const value = kernel[(block * size + i) * size + j];
            a += value * Math.cos(angle);
            b += value * Math.sin(angle);
          }
        }
        re[block] = a;
        im[block] = b;
      }
      largest = Math.max(largest, largestEigenvalue(re, im, n, rounds));
    }
  }
  return largest;
}

function largestEigenvalue(re, im, n, rounds) {
  const [a, b] = [new Float64Array(n * n), new Float64Array(n * n)];
  let shift = 0;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      a[i * n + j] = (re[i * n + j] + re[j * n + i]) / 2;
      b[i * n + j] = (im[i * n + j] - im[j * n + i]) / 2;
      shift += a[i * n + j] ** 2 + b[i * n + j] ** 2;
    }
  }
  shift = Math.sqrt(shift);
  if (shift === 0) return 0;
  let u = Float64Array.from({ length: n }, (_, i) => 1 + 0.3 * i);
  let v = Float64Array.from({ length: n }, (_, i) => 0.2 * i * i);
  let value = 0;
  for (let round = 0; round < rounds; round++) {
    const [s, t] = [new Float64Array(n), new Float64Array(n)];
    for (let i = 0; i < n; i++) {
      s[i] = shift * u[i];
      t[i] = shift * v[i];
      for (let j = 0; j < n; j++) {
        s[i] += a[i * n + j] * u[j] - b[i * n + j] * v[j];
        t[i] += a[i * n + j] * v[j] + b[i * n + j] * u[j];
      }
    }
    const length = Math.hypot(...s, ...t);
    value = length / Math.hypot(...u, ...v);
    u = s.map((part) => part / length);
    v = t.map((part) => part / length);
  }
  return value - shift;
}

// Every oscillator coupled to every other: J = K/size² between any two, so each one feels the mean. Symmetric.
export class All {
  symmetric = true;

  constructor({ strength }) {
    this.strength = strength;
  }

  add(force, x, size, n) {
    const area = size * size;
    for (let k = 0; k < n; k++) {
      const plane = x.subarray(k * area, (k + 1) * area);
      let sum = 0;
      for (let i = 0; i < area; i++) sum += plane[i];
      const pull = (this.strength * sum) / area;
      const out = force.subarray(k * area, (k + 1) * area);
      for (let i = 0; i < area; i++) out[i] += pull;
    }
  }
}
