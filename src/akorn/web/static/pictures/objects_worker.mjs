// A model of objects on a thread of its own: features of a picture, up-tiled if asked for, and their clusters.

import { Tensor, openModel } from "../runtime.mjs";
import { TorchGenerator } from "../torch_random.mjs";
import { asPoints, averageLinkage, backgroundFirst, cut } from "./clusters.mjs";

let session = null;

// pixels: channels planes of side² numbers. Answers with a label for each of (factor · side / patch)² places.
async function segment({ job, pixels, model, factor, clusters, seed }) {
  const { side, patch, channels, features: width } = model;
  const grid = side / patch;
  const [stride, count] = [patch / factor, grid * grid];
  const large = enlarge(pixels, channels, side, side + patch - stride);
  const generator = new TorchGenerator(BigInt(seed) * 1_000_003n);
  const tiled = new Float32Array(width * count * factor * factor);
  const began = performance.now();
  for (let r = 0; r < factor; r++) {
    const windows = new Float32Array(factor * channels * side * side);
    for (let s = 0; s < factor; s++) cutOut(windows, s, large, channels, side, side + patch - stride, r * stride, s * stride);
    const noise0 = new Tensor("float32", generator.normal(factor * count * width), [factor, count, width]);
    const { features } = await session.run({ pixels: new Tensor("float32", windows, [factor, channels, side, side]), noise0 });
    weave(tiled, features.data, { width, grid, factor, r });
    postMessage({ kind: "row", job, done: r + 1, of: factor });
  }
  const { points, size } = asPoints(tiled, width, count * factor * factor);
  const labels = backgroundFirst(cut(averageLinkage(points, size), clusters), grid * factor);
  postMessage({ kind: "done", job, labels, grid: grid * factor, seconds: (performance.now() - began) / 1000 });
}

// Planes [channels, side, side] at another size, interpolated bilinearly between the centres of pixels.
function enlarge(pixels, channels, side, wanted) {
  if (side === wanted) return pixels;
  const result = new Float32Array(channels * wanted * wanted);
  const places = Array.from({ length: wanted }, (_, i) => {
    const at = Math.max(0, ((i + 0.5) * side) / wanted - 0.5);
    const low = Math.floor(at);
    return [low, Math.min(low + 1, side - 1), at - low];
  });
  for (let k = 0; k < channels; k++) {
    const plane = pixels.subarray(k * side * side, (k + 1) * side * side);
    for (const [i, [top, bottom, v]] of places.entries()) {
      for (const [j, [left, right, u]] of places.entries()) {
        const above = (1 - u) * plane[top * side + left] + u * plane[top * side + right];
        const below = (1 - u) * plane[bottom * side + left] + u * plane[bottom * side + right];
        result[(k * wanted + i) * wanted + j] = (1 - v) * above + v * below;
      }
    }
  }
  return result;
}

function cutOut(windows, place, large, channels, side, wide, top, left) {
  for (let k = 0; k < channels; k++) {
    for (let i = 0; i < side; i++) {
      const from = (k * wide + top + i) * wide + left;
      windows.set(large.subarray(from, from + side), ((place * channels + k) * side + i) * side);
    }
  }
}

// Feature (i, j) of window (r, s) becomes feature (factor·i + r, factor·j + s).
function weave(tiled, features, { width, grid, factor, r }) {
  const wide = grid * factor;
  for (let s = 0; s < factor; s++) {
    for (let k = 0; k < width; k++) {
      for (let i = 0; i < grid; i++) {
        for (let j = 0; j < grid; j++) {
          const value = features[((s * width + k) * grid + i) * grid + j];
          tiled[(k * wide + factor * i + r) * wide + factor * j + s] = value;
        }
      }
    }
  }
}

onmessage = async ({ data }) => {
  try {
    if (data.kind === "load") {
      session = await openModel(data.model, data.wish);
      postMessage({ kind: "loaded", runsOn: session.runsOn });
    } else {
      await segment(data);
    }
  } catch (error) {
    postMessage({ kind: "failed", job: data.job, message: String(error?.message ?? error) });
  }
};
