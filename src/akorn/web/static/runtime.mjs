// onnxruntime-web on one thread, for Workers.

import * as ort from "./vendor/onnxruntime-web/ort.wasm.bundle.min.mjs";

ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = {
  wasm: new URL("vendor/onnxruntime-web/ort-wasm-simd-threaded.wasm", import.meta.url).href,
};
ort.env.logLevel = "error";

export const Tensor = ort.Tensor;

export function openModel(model) {
  return ort.InferenceSession.create(model, { executionProviders: ["wasm"], graphOptimizationLevel: "all" });
}
