// From the server to a Worker that has the model: waiting while it is made, fetching it, loading it.

import { fetchWhole } from "./fetching.mjs";

const wait = (milliseconds) => new Promise((next) => setTimeout(next, milliseconds));

// tell(words, share): share is from 0 to 1, or null where nobody can know.
async function fetchModel(name, tell) {
  for (;;) {
    const answer = await fetch(`models/${name}.json`);
    if (!answer.ok) throw new Error(`The server has no model ${name} (status ${answer.status}).`);
    const told = await answer.json();
    if (told.state === "ready") break;
    if (told.state === "failed") throw new Error(`The model could not be made: ${told.message}`);
    const seconds = Math.round(told.seconds);
    tell(`The server turns the model's weights into an ONNX file, once: ${seconds} s so far.`, null);
    await wait(500);
  }
  return fetchWhole(`models/${name}.onnx`, "The model", tell);
}

// A Worker that has loaded a model; its messages are the caller's from then on.
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
    const wish = new URLSearchParams(location.search).get("runtime"); // ?runtime=wasm or webgpu, to compare them
    worker.postMessage({ kind: "load", model, wish }, [model.buffer]);
  });
  return worker;
}
