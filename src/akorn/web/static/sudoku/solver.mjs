// How the page uses the model in its Worker: load it once, solve, stop.

import { startWorker } from "../models.mjs";

export class Solver {
  #worker = null;
  #loading = null;
  #job = 0;
  #running = null;

  // Load the model once; after a failure it can be tried again.
  load(tell) {
    this.#loading ??= this.#load(tell).catch((error) => {
      this.#loading = null;
      throw error;
    });
    return this.#loading;
  }

  // Run `steps` steps; shown(block) is called after each block of them. Resolves with {stopped, seconds}.
  solve({ puzzle, starts, steps, seed }, shown) {
    const job = ++this.#job;
    return new Promise((resolve, reject) => {
      this.#running = { job, shown, resolve, reject };
      this.#worker.postMessage({ kind: "solve", job, puzzle, starts, steps, seed });
    });
  }

  stop() {
    this.#worker?.postMessage({ kind: "stop", job: this.#job });
  }

  async #load(tell) {
    const worker = await startWorker(new URL("worker.mjs", import.meta.url), "sudoku", tell);
    worker.onmessage = ({ data }) => this.#hear(data);
    worker.onerror = (event) => this.#running?.reject(new Error(event.message || "The Worker failed."));
    this.#worker = worker;
  }

  #hear(data) {
    if (data.job !== this.#running?.job) return;
    if (data.kind === "block") this.#running.shown(data);
    else if (data.kind === "done") this.#running.resolve(data);
    else this.#running.reject(new Error(data.message));
  }
}
