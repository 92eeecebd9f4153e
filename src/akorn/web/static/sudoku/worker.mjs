// The model on one thread of its own: a block of steps a call, and after each what the page shows.

import { Tensor, openModel } from "../runtime.mjs";
import { startNoise } from "./starts.mjs";

const SHOWN = 16; // oscillators of each square that are drawn
const N = 4; // rotating dimensions

let session = null;
let stopped = 0; // the newest job that was stopped

async function solve({ job, puzzle, starts, steps, seed }) {
  const digits = new BigInt64Array(starts * 81);
  digits.forEach((_, i) => (digits[i] = BigInt(puzzle[i % 81])));
  const board = new Tensor("int64", digits, [starts, 81]);
  const channels = 512;
  const noise = new Float32Array(starts * 81 * channels);
  for (let k = 0; k < starts; k++) noise.set(startNoise(puzzle, k, seed, 81 * channels), k * 81 * channels);
  let state = new Tensor("float32", noise, [starts, 81, channels]);
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
      oscillators: some(state.data, starts, channels),
    };
    postMessage(told);
    await new Promise((next) => setTimeout(next)); // lets a stop be heard
  }
  postMessage({ kind: "done", job, stopped: stopped >= job, seconds: (performance.now() - began) / 1000 });
}

// The first components of the first oscillators of every square: [starts, 81, SHOWN, N].
function some(state, starts, channels) {
  const width = SHOWN * N;
  const found = new Float32Array(starts * 81 * width);
  for (let i = 0; i < starts * 81; i++) found.set(state.subarray(i * channels, i * channels + width), i * width);
  return found;
}

onmessage = async ({ data }) => {
  try {
    if (data.kind === "load") {
      session = await openModel(data.model, data.wish);
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
