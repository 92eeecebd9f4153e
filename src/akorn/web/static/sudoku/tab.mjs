// The Sudoku part of the page: a board, the model at work on it, and the result.

import { drawLines, lineColour } from "../chart.mjs";
import { EXAMPLES, clashes, faults, likeliest, parse, write } from "./board.mjs";
import { countSolutions } from "./exact.mjs";
import { Grid } from "./grid.mjs";
import { Solver } from "./solver.mjs";
import { drawBoard, drawOscillators } from "./pictures.mjs";

const find = (id) => document.getElementById(id);
const solver = new Solver();
let grid;
let busy = false;
let latest = null; // what the curves and pictures show

export function begin() {
  grid = new Grid(find("grid"), { changed, refused: (message) => say(message, "bad") });
  for (const [name, board] of Object.entries(EXAMPLES)) find("example").add(new Option(name, board));
  find("example").add(new Option("your own", ""));
  find("example").addEventListener("change", () => {
    if (find("example").value) take(parse(find("example").value));
  });
  find("text").addEventListener("input", () => {
    try {
      const digits = parse(find("text").value);
      grid.set(digits);
      changed();
    } catch (error) {
      say(error.message, "bad");
    }
  });
  find("clear").addEventListener("click", () => {
    take(new Array(81).fill(0));
    find("example").value = "";
  });
  find("reset").addEventListener("click", () => take(grid.puzzle));
  find("solve").addEventListener("click", solve);
  find("stop").addEventListener("click", () => solver.stop());
  take(parse(find("example").value));
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return { show: draw };
}

function take(digits) {
  grid.set(digits);
  find("text").value = write(grid.puzzle);
  complain();
}

function changed() {
  const text = write(grid.puzzle);
  if (document.activeElement !== find("text")) find("text").value = text;
  find("example").value = Object.values(EXAMPLES).includes(text) ? text : "";
  complain();
}

// Say what makes the puzzle impossible; returns whether anything does.
function complain() {
  const wrong = clashes(grid.puzzle);
  if (wrong.length) {
    const { digit, unit } = wrong[0];
    say(`This board cannot be solved: ${unit} has the digit ${digit} twice.`, "bad");
  } else {
    say("");
  }
  return wrong.length > 0;
}

function say(words, kind = "") {
  find("verdict").textContent = words;
  find("verdict").className = `verdict ${kind}`;
}

function tell(words, share) {
  say(words);
  find("progress").hidden = false;
  if (share === null) find("progress").removeAttribute("value");
  else find("progress").value = share;
}

function hold(held) {
  busy = held;
  grid.lock(held);
  for (const id of ["solve", "clear", "reset", "example", "text", "starts", "steps", "seed"]) find(id).disabled = held;
  find("stop").disabled = !held;
}

async function solve() {
  grid.showPuzzle();
  if (busy || complain()) return;
  const puzzle = [...grid.puzzle];
  const { solutions } = countSolutions(puzzle);
  if (solutions === 0) {
    say("This board cannot be solved: no digit is repeated, but an exact search finds no solution.", "bad");
    return;
  }
  const number = (id) => Math.max(0, Math.trunc(Number(find(id).value)) || 0);
  const [starts, steps, seed] = [number("starts"), number("steps"), number("seed")];
  hold(true);
  try {
    await solver.load(tell);
    latest = { puzzle, starts, steps, energies: lists(starts), confidence: lists(starts), boards: [], done: 0, lead: 0 };
    find("watch").hidden = false;
    votes();
    const end = await solver.solve({ puzzle, starts, steps, seed }, (block) => {
      add(block);
      grid.showAnswer(latest.boards[latest.lead]);
      tell(`${latest.done} of ${steps} steps.`, latest.done / steps);
      draw();
    });
    judge(end, solutions);
  } catch (error) {
    say(error.message, "bad");
  } finally {
    find("progress").hidden = true;
    hold(false);
  }
}

const lists = (count) => Array.from({ length: count }, () => []);

function add(block) {
  const per = block.energies.length / latest.starts;
  for (let k = 0; k < latest.starts; k++) {
    latest.energies[k].push(...block.energies.subarray(k * per, (k + 1) * per));
    latest.confidence[k].push(block.confidence[k]);
    latest.boards[k] = likeliest(block.probabilities.subarray(k * 729, (k + 1) * 729));
  }
  latest.lead = block.confidence.indexOf(Math.max(...block.confidence));
  latest.done = block.done;
  latest.per = per;
  latest.oscillators = block.oscillators;
}

// What is said about the number of solutions; null if the search gave up.
const ABOUT = {
  1: "",
  2: " Several boards fit these givens; this is one of them.",
  null: " Whether other boards fit these givens is not known.",
};

function judge({ stopped, seconds }, solutions) {
  if (!latest.done) return say("Stopped before the first steps.");
  const { digits } = latest.boards[latest.lead];
  const { broken, changed: lost, solved } = faults(latest.puzzle, digits);
  const many = latest.starts > 1 ? ` by start ${latest.lead + 1} of ${latest.starts}` : "";
  const time = `${latest.done} steps, ${seconds.toFixed(1)} s`;
  if (solved) return say(`Solved${many}: every row, column and box has nine digits (${time}).${ABOUT[solutions]}`, "good");
  grid.mark(digits);
  const parts = [`${broken} of 27 rows, columns and boxes repeat a digit`];
  if (lost) parts.push(`${lost} ${lost === 1 ? "given" : "givens"} would be changed`);
  const advice = stopped ? "It was stopped early." : "More steps, more starts or another seed may help.";
  const unknown = solutions === null ? " It may have no solution: an exact search gave up." : "";
  return say(`Not solved${many}: ${parts.join(", and ")} (${time}). ${advice}${unknown}`, "bad");
}

function votes() {
  find("votes").replaceChildren(
    ...Array.from({ length: latest.starts }, (_, k) => {
      const item = document.createElement("li");
      const canvas = document.createElement("canvas");
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `Board of start ${k + 1}`);
      const title = document.createElement("b");
      title.textContent = `start ${k + 1}`;
      title.style.borderLeft = `.35rem solid ${lineColour(k)}`; // like its line in the charts
      item.append(canvas, title, document.createElement("span"), document.createElement("span"));
      return item;
    }),
  );
}

function draw() {
  if (latest === null || !latest.done) return;
  const { puzzle, lead, starts } = latest;
  const width = latest.oscillators.length / starts;
  drawOscillators(find("oscillators"), latest.oscillators.subarray(lead * width, (lead + 1) * width));
  drawLines(find("energy"), latest.energies.map((values) => ({ values })), { last: latest.steps, lead });
  const confidence = latest.confidence.map((values) => ({ values, step: latest.per, first: latest.per }));
  const low = Math.min(0.5, ...latest.confidence.flat());
  drawLines(find("confidence"), confidence, { last: latest.steps, low, high: 1, lead });
  for (const [k, item] of [...find("votes").children].entries()) {
    const [canvas, , sure, rules] = item.children;
    const { broken, solved } = faults(puzzle, latest.boards[k].digits);
    drawBoard(canvas, puzzle, latest.boards[k]);
    sure.textContent = `confidence ${latest.confidence[k].at(-1).toFixed(5)}`;
    rules.textContent = solved ? "breaks no rule" : `${broken} of 27 units broken`;
    item.classList.toggle("winner", k === lead);
  }
}
