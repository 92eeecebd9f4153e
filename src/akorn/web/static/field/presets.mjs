// The presets of `akorn simulate` (src/akorn/simulate/presets.py), and the sliders of each.

import { All, Gaussian, Random } from "./couplings.mjs";

export const PRESETS = {
  fish: { n: 4, strength: 2, kernelSize: 9, width: 0.7, omega: 1, gamma: 0.1, stimulus: "fish" },
  waves: { n: 4, strength: 1.5, kernelSize: 5, width: 1, omega: 0, gamma: 0.2, stimulus: "fish" }, // 9 there; 5 is faster
  classic: { n: 2, strength: 3, kernelSize: 9, width: 0.7, omega: 1, gamma: 0.05, stimulus: "none" },
};

export const SLIDERS = [
  { name: "n", text: "Dimensions N", min: 2, max: 8, step: 1, not: "classic" },
  { name: "strength", text: "Coupling strength", classic: "Coupling strength K", min: 0, max: 6, step: 0.1 },
  { name: "kernelSize", text: "Kernel size", min: 1, max: 9, step: 2, not: "classic" },
  { name: "width", text: "Kernel width σ", min: 0.3, max: 3, step: 0.1, not: "classic" },
  { name: "omega", text: "Rotation Ω", classic: "Spread of frequencies Δ", min: 0, max: 4, step: 0.1 },
  { name: "gamma", text: "Step size γ", min: 0.01, max: 0.5, step: 0.01 },
];

export function makeCoupling(preset, settings) {
  return new { fish: Gaussian, waves: Random, classic: All }[preset](settings);
}

// In the classic model with Lorentzian frequencies: r = √(1 − 2Δ/K) above K = 2Δ, and 0 below.
export function expectedOrder({ strength, omega }) {
  return strength > 2 * omega ? Math.sqrt(1 - (2 * omega) / strength) : 0;
}
