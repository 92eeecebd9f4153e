// The oscillators' part of the page: a field that runs, its controls, and a pen for the stimulus.

import { drawLines } from "../chart.mjs";
import { History } from "./history.mjs";
import { Field, lorentzian, onFish, paint } from "./lattice.mjs";
import { PRESETS, SLIDERS, expectedOrder, makeCoupling } from "./presets.mjs";
import { Film, asJson, download, savePicture } from "./saving.mjs";

const SIDE = 512; // pixels of the canvas
const find = (id) => document.getElementById(id);
const history = new History();
const small = document.createElement("canvas");
let preset = "fish";
let settings = { ...PRESETS.fish, seed: 0 };
let field;
let running = !matchMedia("(prefers-reduced-motion: reduce)").matches;
let shown = false;
let film = null;
let cursor = null; // where the keyboard's pen is
let frames = { since: 0, count: 0 };

export function begin() {
  find("lattice").width = find("lattice").height = SIDE;
  find("preset").addEventListener("change", () => choose(find("preset").value));
  find("size").addEventListener("change", restart);
  find("run").addEventListener("click", () => setRunning(!running));
  find("step").addEventListener("click", () => {
    setRunning(false);
    advance();
    draw();
  });
  find("again").addEventListener("click", () => {
    settings.seed++;
    restart();
  });
  for (const kind of ["none", "all", "fish"]) {
    find(`stimulus-${kind}`).addEventListener("click", () => {
      stimulate(kind);
      draw();
    });
  }
  listenToPen();
  find("save-png").addEventListener("click", () => savePicture(find("lattice"), `akorn-${preset}.png`));
  find("save-json").addEventListener("click", () => {
    const text = asJson(preset, settings, field, history);
    download(new Blob([text], { type: "application/json" }), `akorn-${preset}.json`);
  });
  find("save-film").hidden = !Film.possible;
  find("save-film").addEventListener("click", () => {
    if (film === null) film = new Film(find("lattice"), `akorn-${preset}`);
    else film = void film.stop() ?? null;
    find("save-film").textContent = film === null ? "Film" : "End the film";
  });
  choose("fish");
  setRunning(running);
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return {
    show: () => {
      shown = true;
      draw();
      loop();
    },
    hide: () => (shown = false),
  };
}

function choose(name) {
  preset = name;
  settings = { ...PRESETS[name], seed: settings.seed };
  find("drawing").hidden = name === "classic";
  makeSliders();
  field = undefined;
  restart();
}

function makeSliders() {
  const labels = SLIDERS.filter(({ not }) => not !== preset).map(({ name, text, classic, min, max, step }) => {
    const label = document.createElement("label");
    const value = document.createElement("output");
    const input = document.createElement("input");
    const words = preset === "classic" && classic ? classic : text;
    Object.assign(input, { type: "range", id: `slider-${name}`, min, max, step });
    input.value = settings[name];
    value.value = settings[name];
    input.addEventListener("input", () => {
      settings[name] = Number(input.value);
      value.value = input.value;
      if (name === "n") restart();
      else change();
    });
    label.append(words, value, input);
    return label;
  });
  find("sliders").replaceChildren(...labels);
}

// Apply new settings to the field that is running.
function change() {
  field.coupling = makeCoupling(preset, settings);
  Object.assign(field, { omega: settings.omega, gamma: settings.gamma });
  history.clear();
  field.steps = 0;
  note();
  draw();
}

function restart() {
  const before = field;
  const size = Number(find("size").value);
  const frequencies = preset === "classic" ? lorentzian(size * size, settings.seed) : null;
  field = new Field({ ...settings, size, coupling: makeCoupling(preset, settings), frequencies });
  small.width = small.height = size;
  if (before?.size === size) field.stimulus.set(before.stimulus);
  else stimulate(settings.stimulus);
  cursor = null;
  history.clear();
  note();
  draw();
}

function stimulate(kind) {
  const { size, stimulus } = field;
  for (let i = 0; i < stimulus.length; i++) {
    stimulus[i] = kind === "all" || (kind === "fish" && !onFish(Math.floor(i / size), i % size, size)) ? 1 : 0;
  }
  note();
}

// Say what theory predicts for these settings.
function note() {
  const falls = field.falls
    ? "J is symmetric and the rotation does not act against c or J, so the energy falls if the steps are small."
    : "It need not fall here: J is not symmetric, or the rotation acts against c or J.";
  find("energy-note").textContent = `Energy per oscillator. ${falls}`;
  const theory = preset === "classic" ? " The dashed line is theory's √(1 − 2Δ/K), for infinitely many oscillators." : "";
  find("order-note").textContent = `Order parameter r: 0 if the directions cancel out, 1 if all are the same.${theory}`;
}

function setRunning(wanted) {
  running = wanted;
  find("run").textContent = running ? "Pause" : "Run";
  find("speed").textContent = "";
  loop();
}

let waiting = false;

function loop() {
  if (waiting || !running || !shown) return;
  waiting = true;
  requestAnimationFrame((now) => {
    waiting = false;
    if (!running || !shown) return;
    advance();
    draw();
    frames.count++;
    if (now - frames.since > 1000) {
      if (frames.since) find("speed").textContent = `${Math.round((1000 * frames.count) / (now - frames.since))} frames a second`;
      frames = { since: now, count: 0 };
    }
    loop();
  });
}

function advance() {
  const step = field.steps;
  const row = field.step();
  history.add(step, row);
  Object.assign(find("lattice").dataset, { step: field.steps, energy: row.energy, order: row.order });
}

function draw() {
  const { size } = field;
  const picture = new ImageData(size, size);
  paint(picture.data, field);
  small.getContext("2d").putImageData(picture, 0, 0);
  const pen = find("lattice").getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, SIDE, SIDE);
  if (cursor !== null && document.activeElement === find("lattice")) {
    pen.strokeStyle = "#c8640a";
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(((cursor.column + 0.5) * SIDE) / size, ((cursor.row + 0.5) * SIDE) / size, (brush() * SIDE) / size, 0, 7);
    pen.stroke();
  }
  if (!shown) return;
  drawLines(find("field-energy"), [history.line("energy")]);
  const marks = preset === "classic" ? [{ value: expectedOrder(settings), text: "theory" }] : [];
  drawLines(find("field-order"), [history.line("order")], { low: 0, high: 1, marks });
}

const brush = () => Math.max(1, (Number(find("brush").value) * field.size) / 128);

function dot(row, column) {
  const { size, stimulus } = field;
  const value = Number(document.querySelector("[name=pen]:checked").value);
  const reach = Math.ceil(brush());
  for (let r = Math.max(0, row - reach); r <= Math.min(size - 1, row + reach); r++) {
    for (let c = Math.max(0, column - reach); c <= Math.min(size - 1, column + reach); c++) {
      if ((r - row) ** 2 + (c - column) ** 2 < brush() ** 2) stimulus[r * size + c] = value;
    }
  }
}

function listenToPen() {
  const canvas = find("lattice");
  let last = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    const to = (at, start, length) => Math.floor(((at - start) / length) * field.size);
    return { row: to(event.clientY, box.top, box.height), column: to(event.clientX, box.left, box.width) };
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (preset === "classic") return;
    canvas.setPointerCapture(event.pointerId);
    last = place(event);
    dot(last.row, last.column);
    note();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (last === null) return;
    const next = place(event);
    const count = Math.max(1, Math.hypot(next.row - last.row, next.column - last.column));
    for (let i = 1; i <= count; i++) {
      const between = (a, b) => Math.round(a + ((b - a) * i) / count);
      dot(between(last.row, next.row), between(last.column, next.column));
    }
    last = next;
  });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => (last = null));
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-2, 0], ArrowDown: [2, 0], ArrowLeft: [0, -2], ArrowRight: [0, 2] }[event.key];
    if ((move === undefined && event.key !== " ") || preset === "classic") return;
    event.preventDefault();
    cursor ??= { row: field.size >> 1, column: field.size >> 1 };
    if (move !== undefined) {
      cursor.row = Math.min(field.size - 1, Math.max(0, cursor.row + move[0]));
      cursor.column = Math.min(field.size - 1, Math.max(0, cursor.column + move[1]));
    } else {
      dot(cursor.row, cursor.column);
      note();
    }
    draw();
  });
  canvas.addEventListener("blur", draw);
}
