// From the server to a Worker that holds the model: wait while the file is made, fetch it, load it.

import { fetchWhole } from "./fetching.mjs";

const wait = (milliseconds) => new Promise((next) => setTimeout(next, milliseconds));

// tell(words, share): share is from 0 to 1, or null if it is not known.
async function fetchModel(name, tell) {
  for (;;) {
    const answer = await fetch(`models/${name}.json`);
    if (!answer.ok) throw new Error(`The server has no model ${name} (status ${answer.status}).`);
    const told = await answer.json();
    if (told.state === "ready") break;
    if (told.state === "failed") throw new Error(`The model could not be made: ${told.message}`);
    const seconds = Math.round(told.seconds);
    tell(`The server is converting the model's weights to an ONNX file, which happens only once: ${seconds} s so far.`, null);
    await wait(500);
  }
  return fetchWhole(`models/${name}.onnx`, "The model", tell);
}

// A Worker that has loaded a model; from then on the caller listens to its messages.
export async function startWorker(url, name, tell) {
  const model = await fetchModel(name, tell);
  tell("Starting the model in this browser.", null);
  const worker = new Worker(url, { type: "module" });
  await new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message || "The Worker could not be started."));
    worker.onmessage = ({ data }) => {
      if (data.kind === "progress") return tell(data.words, data.share);
      if (data.kind !== "loaded") return reject(new Error(data.message));
      document.getElementById("runs-on").textContent = { webgpu: " on WebGPU", wasm: " on WASM, one thread" }[data.runsOn];
      return resolve();
    };
    const wish = new URLSearchParams(location.search).get("runtime"); // ?runtime=wasm or ?runtime=webgpu, to compare them
    worker.postMessage({ kind: "load", model, wish }, [model.buffer]);
  });
  return worker;
}
