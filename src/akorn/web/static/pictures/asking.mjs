// Ask a Worker, and hear its answers up to the last one.

let jobs = 0;

// Resolves with the message of the kind "done"; heard(message) gets those before it.
export function ask(worker, question, heard) {
  const job = ++jobs;
  return new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message || "The Worker failed."));
    worker.onmessage = ({ data }) => {
      if (data.job !== job) return;
      if (data.kind === "done") resolve(data);
      else if (data.kind === "failed") reject(new Error(data.message));
      else heard(data);
    };
    worker.postMessage({ ...question, job });
  });
}
