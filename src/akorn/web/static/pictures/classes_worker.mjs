// The classifier on a thread of its own: one start per call, so that each can be shown as it comes.

import { Tensor, openModel } from "../runtime.mjs";
import { TorchGenerator, deriveSeed } from "../torch_random.mjs";

let session = null;

async function classify({ job, pixels, starts, seed, channels = 64, side = 32 }) {
  const picture = new Tensor("float32", pixels, [1, 3, side, side]);
  const generator = new TorchGenerator(deriveSeed(seed, "classify")); // as in src/akorn/robustness/classifier.py
  for (let start = 0; start < starts; start++) {
    const noise0 = new Tensor("float32", generator.normal(channels * side * side), [1, channels, side, side]);
    const { probabilities } = await session.run({ pixels: picture, noise0 });
    postMessage({ kind: "start", job, start, probabilities: probabilities.data.slice() });
  }
  postMessage({ kind: "done", job });
}

onmessage = async ({ data }) => {
  try {
    if (data.kind === "load") {
      session = await openModel(data.model, data.wish);
      postMessage({ kind: "loaded", runsOn: session.runsOn });
    } else {
      await classify(data);
    }
  } catch (error) {
    postMessage({ kind: "failed", job: data.job, message: String(error?.message ?? error) });
  }
};
