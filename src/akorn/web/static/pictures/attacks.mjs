// What an adaptive attack makes of the page's own pictures, computed beforehand by benchmarks/web_attacks.py.

import { CLASSES, SIDE, best } from "./classes.mjs";
import { paintPlanes, readPicture } from "./files.mjs";

const LOUDER = 10; // how much the change is magnified, so that it can be seen
const find = (id) => document.getElementById(id);
const percent = (chances) => `${CLASSES[best(chances)]}, ${(100 * Math.max(...chances)).toFixed(1)} %`;

export class Attacks {
  #told = { pictures: [] };
  #attacked = null; // the file of the attacked picture that is shown

  // classify(blob, name): asks the model in this browser.
  constructor(classify) {
    find("attacked-classify").addEventListener("click", () => classify(this.#attacked.blob, this.#attacked.name));
  }

  // Load the results; returns the names of the pictures.
  async load() {
    const answer = await fetch("pictures/drawn/attacks.json");
    this.#told = await answer.json();
    return this.#told.pictures.map(({ name }) => name);
  }

  // Show the attack on a picture; show nothing if the picture is not one of the page's.
  async show(name) {
    const whose = name.replace(/ after the attack$/, "");
    const found = this.#told.pictures.find((picture) => picture.name === whose);
    find("attack").hidden = found === undefined;
    if (found === undefined) return;
    const files = [`${whose}.png`, `${whose}-attacked.png`];
    const blobs = await Promise.all(files.map(async (file) => (await fetch(`pictures/drawn/${file}`)).blob()));
    const [clean, attacked] = await Promise.all(blobs.map((blob, i) => readPicture(blob, files[i])));
    this.#attacked = { blob: blobs[1], name: `${whose} after the attack` };
    paintPlanes(find("attacked"), attacked.planes, SIDE);
    const change = attacked.planes.map((plane, k) =>
      Uint8ClampedArray.from(plane, (value, i) => 128 + LOUDER * (value - clean.planes[k][i])),
    );
    paintPlanes(find("change"), change, SIDE);
    const { epsilon, steps, eot, starts } = this.#told;
    find("attack-words").textContent =
      `Without the attack: ${percent(found.clean)}. After it: ${percent(found.attacked)}.` +
      ` ${best(found.attacked) === best(found.clean) ? "Here it fails." : "Here it succeeds."} No value of a pixel was changed` +
      ` by more than ${epsilon} of 255, in ${steps} steps with gradients averaged over ${eot} starts; the probabilities are` +
      ` means over ${starts} starts that the attack had not seen. All this was computed beforehand by akorn's adaptive attack.`;
  }
}
