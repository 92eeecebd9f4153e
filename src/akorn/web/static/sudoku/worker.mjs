// The model on a thread of its own: each call runs a block of steps, and then sends what the page shows.

import { Tensor, openModel } from "../runtime.mjs";
import { startNoise } from "./starts.mjs";

const SHOWN = 16; // oscillators of each square that are drawn
const N = 4; // rotating dimensions
const CHANNELS = 512;

let session = null;
let stopped = 0; // the newest job that was stopped

async function solve({ job, puzzle, starts, steps, seed }) {
  const digits = new BigInt64Array(starts * 81);
  digits.forEach((_, i) => (digits[i] = BigInt(puzzle[i % 81])));
  const board = new Tensor("int64", digits, [starts, 81]);
  const noise = new Float32Array(starts * 81 * CHANNELS);
  for (let k = 0; k < starts; k++) noise.set(startNoise(puzzle, k, seed, 81 * CHANNELS), k * 81 * CHANNELS);
  let state = new Tensor("float32", noise, [starts, 81, CHANNELS]);
  const began = performance.now();
  for (let done = 0; done < steps && stopped < job; ) {
    const out = await session.run({ puzzle: board, state });
    state = out.next_state;
    done += out.energies.dims[1];
    const told = {
      kind: "block",
      job,
      done,
      seconds: (performance.now() - began) / 1000,
      probabilities: out.probabilities.data.slice(),
      energies: out.energies.data.slice(),
      confidence: out.confidence.data.slice(),
      oscillators: some(state.data, starts),
    };
    postMessage(told);
    await new Promise((next) => setTimeout(next)); // so that a request to stop is heard
  }
  postMessage({ kind: "done", job, stopped: stopped >= job, seconds: (performance.now() - began) / 1000 });
}

// A few calls to warm up: browsers compile WASM again, and better, once it has been running for a while.
async function warmUp() {
  const puzzle = new Tensor("int64", new BigInt64Array(81), [1, 81]);
  const state = new Tensor("float32", new Float32Array(81 * CHANNELS).fill(0.5), [1, 81, CHANNELS]);
  for (let call = 0; call < 3; call++) await session.run({ puzzle, state });
}

// The first components of the first oscillators of every square: [starts, 81, SHOWN, N].
function some(state, starts) {
  const width = SHOWN * N;
  const found = new Float32Array(starts * 81 * width);
  for (let i = 0; i < starts * 81; i++) found.set(state.subarray(i * CHANNELS, i * CHANNELS + width), i * width);
  return found;
}

onmessage = async ({ data }) => {
  try {
    if (data.kind === "load") {
      session = await openModel(data.model, data.wish);
      await warmUp();
      postMessage({ kind: "loaded", runsOn: session.runsOn });
    } else if (data.kind === "stop") {
      stopped = data.job;
    } else {
      await solve(data);
    }
  } catch (error) {
    postMessage({ kind: "failed", job: data.job, message: String(error?.message ?? error) });
  }
};
