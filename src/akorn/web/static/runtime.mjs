// onnxruntime-web for Workers: on WebGPU if there is a GPU and the server has the runtime's build for it, otherwise in
// WASM on one thread.

import { fetchWhole } from "./fetching.mjs";

const FOLDER = new URL("vendor/onnxruntime-web/", import.meta.url);
const BUILDS = {
  webgpu: { code: "ort.webgpu.bundle.min.mjs", wasm: "ort-wasm-simd-threaded.asyncify.wasm" },
  wasm: { code: "ort.wasm.bundle.min.mjs", wasm: "ort-wasm-simd-threaded.wasm" },
};

export let Tensor = null; // the class of the build that runs, once a model is open

// A session for a model. wish: null, "wasm" or "webgpu"; "webgpu" also accepts a GPU that the CPU emulates.
export async function openModel(model, wish = null) {
  if (wish !== "wasm" && (await isThere(wish === "webgpu"))) {
    try {
      return await open(model, "webgpu");
    } catch (error) {
      if (wish === "webgpu") throw error; // otherwise WASM is used
    }
  }
  return open(model, "wasm");
}

async function isThere(anyway) {
  const { webgpu } = await (await fetch(new URL("runtime.json", import.meta.url))).json();
  if (!webgpu || !navigator.gpu) return false;
  const adapter = await navigator.gpu.requestAdapter();
  return adapter !== null && (anyway || !(adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter));
}

async function open(model, kind) {
  const { code, wasm } = BUILDS[kind];
  const ort = await import(new URL(code, FOLDER));
  ort.env.wasm.numThreads = 1;
  const tell = (words, share) => postMessage({ kind: "progress", words, share });
  const binary = await fetchWhole(new URL(wasm, FOLDER), "The runtime", tell);
  tell("Starting the model in this browser.", null);
  ort.env.wasm.wasmBinary = binary.buffer;
  ort.env.logLevel = "error";
  const session = await ort.InferenceSession.create(model, {
    executionProviders: [kind],
    graphOptimizationLevel: "all",
    logSeverityLevel: 3, // errors only: a warning says that some operators stay on the CPU, as they should
  });
  Tensor = ort.Tensor;
  session.runsOn = kind;
  return session;
}
