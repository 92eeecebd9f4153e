// The ten classes of CIFAR-10: probabilities over several starts, and what the page says about them.

import { startWorker } from "../models.mjs";
import { ask } from "./asking.mjs";
import { asFloats, asSquare, paintPlanes } from "./files.mjs";

export const SIDE = 32;
export const CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];
const find = (id) => document.getElementById(id);
export const best = (chances) => chances.indexOf(Math.max(...chances));

export class Classes {
  #worker = null;
  #planes = null;
  #found = []; // probabilities of each start
  #tell;

  constructor(tell) {
    this.#tell = tell;
    find("classes").replaceChildren(
      ...CLASSES.map((name) => {
        const item = document.createElement("li");
        const [text, value] = [document.createElement("span"), document.createElement("span")];
        text.textContent = name;
        const bar = document.createElement("canvas");
        bar.setAttribute("aria-hidden", "true"); // the number beside it says the same
        item.append(text, bar, value);
        return item;
      }),
    );
  }

  choose() {}

  take(picture) {
    this.#planes = asSquare(picture, SIDE);
    this.#found = [];
    paintPlanes(find("picture"), this.#planes, SIDE);
  }

  async answer(seed) {
    this.#worker ??= await startWorker(new URL("classes_worker.mjs", import.meta.url), "cifar10-conv", this.#tell);
    const starts = Number(find("picture-starts").value);
    this.#found = [];
    await ask(this.#worker, { kind: "classify", pixels: asFloats(this.#planes), starts, seed }, ({ probabilities }) => {
      this.#found.push(probabilities);
      this.#tell(`${this.#found.length} of ${starts} starts.`, this.#found.length / starts);
      this.draw();
    });
    return this.#verdict();
  }

  #means() {
    const count = Math.max(this.#found.length, 1);
    return CLASSES.map((_, k) => this.#found.reduce((sum, chances) => sum + chances[k], 0) / count);
  }

  #verdict() {
    const mean = this.#means();
    const winner = best(mean);
    const votes = this.#found.filter((chances) => best(chances) === winner).length;
    const sure = mean[winner] < 0.5 ? " It is not sure." : "";
    const said = this.#found.length > 1 ? `; ${votes} of ${this.#found.length} starts say so` : "";
    return `Of its ten classes: ${CLASSES[winner]}, ${(100 * mean[winner]).toFixed(1)} %${said}.${sure}`;
  }

  draw() {
    const mean = this.#means();
    for (const [k, item] of [...find("classes").children].entries()) {
      const [, canvas, value] = item.children;
      canvas.width = canvas.clientWidth || 200;
      canvas.height = 18;
      const pen = canvas.getContext("2d");
      pen.fillStyle = getComputedStyle(canvas).color;
      pen.fillRect(0, 0, mean[k] * canvas.width, canvas.height);
      pen.fillStyle = getComputedStyle(item).color;
      for (const chances of this.#found) {
        pen.fillRect(Math.min(chances[k] * canvas.width, canvas.width - 2), 0, 2, canvas.height);
      }
      value.textContent = this.#found.length ? `${(100 * mean[k]).toFixed(1)} %` : "";
      item.dataset.chance = this.#found.length ? mean[k] : "";
      item.classList.toggle("winner", this.#found.length > 0 && k === best(mean));
    }
  }
}
