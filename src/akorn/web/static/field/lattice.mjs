// A field of oscillators on a torus: x ← Π[x + γ(Ωx + Proj(c + Jx))]. Arrays are N planes of size² numbers.

import { fillNormal, uniform } from "../random.mjs";

// Orthonormal directions: that of c = 1, then two at right angles to it, which span the plane in which Ω turns (for
// N = 2 there is only one plane).
export function directions(n) {
  const rows = [
    new Array(n).fill(1),
    [1, -1, ...new Array(n - 2).fill(0)],
    ...(n > 2 ? [[1, 1, -2, ...new Array(n - 3).fill(0)]] : []),
  ];
  return rows.map((row) => {
    const length = Math.hypot(...row);
    return row.map((value) => value / length);
  });
}

export class Field {
  // frequencies: null, or a rate for each oscillator, which omega multiplies.
  constructor({ size, n, coupling, omega, gamma, seed, frequencies = null }) {
    Object.assign(this, { size, n, coupling, omega, gamma, frequencies });
    this.area = size * size;
    this.x = fillNormal(new Float32Array(n * this.area), uniform(seed));
    this.force = new Float32Array(n * this.area);
    this.stimulus = new Float32Array(this.area); // c = this · (1, …, 1)
    this.steps = 0;
    const [first, second] = directions(n).slice(-2);
    this.turn = Array.from({ length: n }, (_, i) =>
      Array.from({ length: n }, (_, j) => second[i] * first[j] - first[i] * second[j]),
    );
    this.#toSphere();
  }

  // Take one step; returns the energy per oscillator and the order parameter before the step.
  step() {
    const { size, n, area, x, force, stimulus, gamma } = this;
    force.fill(0);
    this.coupling.add(force, x, size, n);
    let energy = 0;
    const mean = new Float64Array(n);
    const here = new Float64Array(n);
    const there = new Float64Array(n);
    for (let i = 0; i < area; i++) {
      const c = stimulus[i];
      let along = 0;
      for (let k = 0; k < n; k++) {
        const value = x[k * area + i];
        const pull = force[k * area + i];
        here[k] = value;
        there[k] = pull + c;
        mean[k] += value;
        along += value * (pull + c);
        energy -= value * (0.5 * pull + c);
      }
      const rate = this.frequencies === null ? this.omega : this.omega * this.frequencies[i];
      let length = 0;
      for (let k = 0; k < n; k++) {
        let turned = 0;
        if (rate !== 0) for (let j = 0; j < n; j++) turned += this.turn[k][j] * here[j];
        const moved = here[k] + gamma * (rate * turned + there[k] - along * here[k]);
        force[k * area + i] = moved;
        length += moved * moved;
      }
      const scale = 1 / Math.sqrt(length);
      for (let k = 0; k < n; k++) x[k * area + i] = force[k * area + i] * scale;
    }
    this.steps++;
    return { energy: energy / area, order: Math.hypot(...mean) / area };
  }

  // Whether the energy must fall if the steps are small enough: J is symmetric, and no rotation works against c or J.
  get falls() {
    if (!this.coupling.symmetric) return false;
    if (this.omega === 0) return true;
    return this.frequencies === null && (this.n > 2 || this.stimulus.every((value) => value === 0));
  }

  #toSphere() {
    const { x, n, area } = this;
    for (let i = 0; i < area; i++) {
      let length = 0;
      for (let k = 0; k < n; k++) length += x[k * area + i] ** 2;
      const scale = 1 / Math.sqrt(length);
      for (let k = 0; k < n; k++) x[k * area + i] *= scale;
    }
  }
}

// Frequencies at evenly spaced quantiles of the Lorentzian of half-width 1, in random order.
export function lorentzian(count, seed) {
  const values = Float32Array.from({ length: count }, (_, i) => Math.tan(Math.PI * ((i + 0.5) / count - 0.5)));
  const next = uniform(seed + 2);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [values[i], values[j]] = [values[j], values[i]];
  }
  return values;
}

// Whether a square lies on the fish: an ellipse, a forked tail, a fin above and one below.
export function onFish(row, column, size) {
  const x = ((column + 0.5) / size) * 2 - 1;
  const y = ((row + 0.5) / size) * 2 - 1;
  const body = ((x + 0.17) / 0.66) ** 2 + (y / 0.42) ** 2 < 1;
  const fork = x > 0.69 && Math.abs(y) < 0.9 * (x - 0.69);
  const tail = x > 0.33 && x < 0.9 && Math.abs(y) < 0.06 + 0.7 * (x - 0.33) && !fork;
  const above = x > -0.36 && x < 0.22 && y < -0.15 && y > -0.62 + 0.5 * Math.abs(x + 0.04) ** 1.2;
  const below = x > -0.13 && x < 0.17 && y > 0.2 && y < 0.56 - 0.9 * Math.abs(x - 0.12);
  return body || tail || above || below;
}

const AXES = [
  [1, 1, 1].map((value) => (0.8 * value) / Math.sqrt(3)),
  [1, -1, 0].map((value) => (0.62 * value) / Math.sqrt(2)),
  [1, 1, -2].map((value) => (0.62 * value) / Math.sqrt(6)),
];

// The colours of `akorn simulate`: for N = 2 the angle is the hue; otherwise what points along c is white, what points
// against it is black, and two directions at right angles to c give the colour.
export function paint(pixels, field) {
  const { n, area, x } = field;
  if (n === 2) {
    for (let i = 0; i < area; i++) {
      const angle = Math.atan2(x[area + i], x[i]);
      for (let k = 0; k < 3; k++) pixels[4 * i + k] = 255 * (0.5 + 0.45 * Math.cos(angle - (2 * k * Math.PI) / 3));
      pixels[4 * i + 3] = 255;
    }
    return;
  }
  const rows = directions(n);
  const map = [0, 1, 2].map((k) => Array.from({ length: n }, (_, j) => 255 * rows.reduce((s, row, d) => s + row[j] * AXES[d][k], 0)));
  for (let i = 0; i < area; i++) {
    for (let k = 0; k < 3; k++) {
      let value = 127.5;
      for (let j = 0; j < n; j++) value += map[k][j] * x[j * area + i];
      pixels[4 * i + k] = value; // a clamped array
    }
    pixels[4 * i + 3] = 255;
  }
}
