// The pictures' part of the page: a picture as the model sees it, and the ten classes with their probabilities.

import { startWorker } from "../models.mjs";

const SIDE = 32;
const CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];
const find = (id) => document.getElementById(id);
let worker = null;
let job = 0;
let busy = false;
let found = []; // probabilities of each start

export function begin() {
  find("classes").replaceChildren(
    ...CLASSES.map((name) => {
      const item = document.createElement("li");
      const [text, value] = [document.createElement("span"), document.createElement("span")];
      text.textContent = name;
      item.append(text, document.createElement("canvas"), value);
      return item;
    }),
  );
  find("file").addEventListener("change", () => take(find("file").files[0]));
  find("classify").addEventListener("click", classify);
  const drop = find("drop");
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") take(event.dataTransfer.files[0]);
    });
  }
  addEventListener("paste", (event) => {
    if (!find("pictures").hidden && event.clipboardData.files.length) take(event.clipboardData.files[0]);
  });
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return { show: draw };
}

function say(words, kind = "") {
  find("picture-verdict").textContent = words;
  find("picture-verdict").className = `verdict ${kind}`;
}

function tell(words, share) {
  say(words);
  find("picture-progress").hidden = false;
  if (share === null) find("picture-progress").removeAttribute("value");
  else find("picture-progress").value = share;
}

// Show the middle of a picture at 32×32.
async function take(file) {
  if (file === undefined || busy) return;
  let picture;
  try {
    picture = await createImageBitmap(file);
  } catch {
    say(`${file.name}: this browser cannot read it as a picture.`, "bad");
    return;
  }
  const cut = Math.min(picture.width, picture.height);
  const pen = find("picture").getContext("2d", { willReadFrequently: true });
  pen.fillStyle = "white"; // behind what is transparent
  pen.fillRect(0, 0, SIDE, SIDE);
  pen.imageSmoothingQuality = "high";
  pen.drawImage(picture, (picture.width - cut) / 2, (picture.height - cut) / 2, cut, cut, 0, 0, SIDE, SIDE);
  find("classify").disabled = false;
  found = [];
  draw();
  await classify();
}

function pixels() {
  const { data } = find("picture").getContext("2d").getImageData(0, 0, SIDE, SIDE);
  const values = new Float32Array(3 * SIDE * SIDE);
  for (let i = 0; i < SIDE * SIDE; i++) {
    for (let k = 0; k < 3; k++) values[k * SIDE * SIDE + i] = data[4 * i + k] / 255;
  }
  return values;
}

async function classify() {
  if (busy) return;
  busy = true;
  for (const id of ["classify", "file", "picture-starts"]) find(id).disabled = true;
  try {
    worker ??= await startWorker(new URL("worker.mjs", import.meta.url), "cifar10-conv", tell);
    const starts = Number(find("picture-starts").value);
    found = [];
    await run(starts);
    judge();
  } catch (error) {
    say(error.message, "bad");
  } finally {
    busy = false;
    find("picture-progress").hidden = true;
    for (const id of ["classify", "file", "picture-starts"]) find(id).disabled = false;
  }
}

function run(starts) {
  const mine = ++job;
  return new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(event.message || "The Worker failed."));
    worker.onmessage = ({ data }) => {
      if (data.job !== mine) return;
      if (data.kind === "done") return resolve();
      if (data.kind === "failed") return reject(new Error(data.message));
      found.push(data.probabilities);
      tell(`${found.length} of ${starts} starts.`, found.length / starts);
      return draw();
    };
    worker.postMessage({ kind: "classify", job: mine, pixels: pixels(), starts, seed: 0 });
  });
}

const means = () => CLASSES.map((_, k) => found.reduce((sum, chances) => sum + chances[k], 0) / Math.max(found.length, 1));
const best = (chances) => chances.indexOf(Math.max(...chances));

function judge() {
  const mean = means();
  const winner = best(mean);
  const votes = found.filter((chances) => best(chances) === winner).length;
  const sure = mean[winner] < 0.5 ? " It is not sure." : "";
  const said = found.length > 1 ? `; ${votes} of ${found.length} starts say so` : "";
  say(`Of its ten classes: ${CLASSES[winner]}, ${(100 * mean[winner]).toFixed(1)} %${said}.${sure}`);
}

function draw() {
  const mean = means();
  for (const [k, item] of [...find("classes").children].entries()) {
    const [, canvas, value] = item.children;
    canvas.width = canvas.clientWidth || 200;
    canvas.height = 18;
    const pen = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    pen.fillStyle = style.color;
    pen.fillRect(0, 0, mean[k] * canvas.width, canvas.height);
    pen.fillStyle = getComputedStyle(item).color;
    for (const chances of found) pen.fillRect(Math.min(chances[k] * canvas.width, canvas.width - 2), 0, 2, canvas.height);
    value.textContent = found.length ? `${(100 * mean[k]).toFixed(1)} %` : "";
    item.classList.toggle("winner", found.length > 0 && k === best(mean));
  }
}
