// Objects: the clusters of a picture's features, as colours on the picture.

import { startWorker } from "../models.mjs";
import { ask } from "./asking.mjs";
import { asFloats, asWhole, paintPlanes } from "./files.mjs";

// As in the models' config.json; clusters: how many the model's data set has, including the background.
export const MODELS = {
  shapes: { side: 40, channels: 1, patch: 2, features: 256, clusters: 5 },
  tetrominoes: { side: 32, channels: 3, patch: 4, features: 128, clusters: 4 },
  dsprites: { side: 64, channels: 3, patch: 4, features: 128, clusters: 7 },
};
// The colours of src/akorn/objects/colouring.py: the background, then objects.
const PALETTE = [
  [58, 64, 74], [230, 75, 60], [52, 152, 219], [241, 196, 15], [46, 178, 100], [155, 89, 182], [243, 140, 40],
  [26, 188, 172], [232, 121, 178], [149, 204, 64], [130, 90, 60], [90, 110, 200], [200, 180, 150],
];
const find = (id) => document.getElementById(id);

export class Objects {
  #workers = new Map(); // one for each model, once it has been asked
  #tell;
  #name = "shapes";
  #planes = null;
  #found = null; // {labels, grid}

  constructor(tell) {
    this.#tell = tell;
    find("clusters").max = PALETTE.length;
  }

  // Choose the task's model: the controls then show its numbers.
  choose(name) {
    if (name !== this.#name) this.#planes = null;
    this.#name = name;
    this.#found = null;
    const { clusters, patch } = MODELS[name];
    find("clusters").value = clusters;
    const factors = [1, 2, 4].filter((factor) => patch % factor === 0);
    find("uptile").replaceChildren(...factors.map((factor) => new Option(factor)));
  }

  take(picture) {
    const { side, channels } = MODELS[this.#name];
    this.#planes = asWhole(picture, side, channels);
    this.#found = null;
    paintPlanes(find("picture"), this.#planes, side);
  }

  async answer(seed) {
    const [name, model] = [this.#name, MODELS[this.#name]];
    const url = new URL("objects_worker.mjs", import.meta.url);
    if (!this.#workers.has(name)) this.#workers.set(name, await startWorker(url, name, this.#tell));
    const factor = Number(find("uptile").value);
    const most = Math.min(PALETTE.length, ((model.side / model.patch) * factor) ** 2);
    const clusters = Math.min(most, Math.max(1, Math.trunc(Number(find("clusters").value)) || 1));
    find("clusters").value = clusters;
    this.#tell("The oscillators are settling.", null);
    const question = { kind: "segment", pixels: asFloats(this.#planes), model, factor, clusters, seed };
    this.#found = await ask(this.#workers.get(name), question, ({ done, of }) => {
      this.#tell(done < of ? `${done} of ${of} rows of windows.` : "Clustering.", done / of);
    });
    this.draw();
    const { seconds, labels } = this.#found;
    const count = new Set(labels).size - 1;
    return `The background and ${count} ${count === 1 ? "cluster" : "clusters"}, by ${name} (${seconds.toFixed(1)} s).`;
  }

  draw() {
    const mask = find("mask");
    mask.hidden = this.#found === null;
    delete mask.dataset.labels;
    find("parts").replaceChildren();
    if (this.#found === null) return;
    const { labels, grid } = this.#found;
    mask.dataset.labels = labels.join(" ");
    mask.width = mask.height = grid;
    const pixels = new ImageData(grid, grid);
    labels.forEach((label, i) => pixels.data.set([...PALETTE[label], label ? 165 : 110], 4 * i));
    mask.getContext("2d").putImageData(pixels, 0, 0);
    const counts = new Array(Math.max(...labels) + 1).fill(0);
    for (const label of labels) counts[label]++;
    find("parts").replaceChildren(
      ...counts.map((count, label) => {
        const item = document.createElement("li");
        const swatch = document.createElement("span");
        swatch.className = "swatch";
        swatch.style.setProperty("background", `rgb(${PALETTE[label].join(" ")})`);
        const share = ((100 * count) / labels.length).toFixed(1);
        item.append(swatch, `${label ? `cluster ${label}` : "background"}: ${share} % of the picture`);
        return item;
      }),
    );
  }
}
