// The pictures' part of the page: where a picture comes from, what is asked about it, and which model answers.

import { Attacks } from "./attacks.mjs";
import { Classes } from "./classes.mjs";
import { readPicture } from "./files.mjs";
import { MODELS, Objects } from "./objects.mjs";

const find = (id) => document.getElementById(id);
const CLASSES = "classes";
let picture = null; // as read from the file
let busy = false;
let asked; // who answers: classes or objects
let attacks;

export async function begin() {
  const tell = (words, share) => {
    say(words);
    find("picture-progress").hidden = false;
    if (share === null) find("picture-progress").removeAttribute("value");
    else find("picture-progress").value = share;
  };
  asked = { [CLASSES]: new Classes(tell), objects: new Objects(tell) };
  attacks = new Attacks((blob, name) => take(blob, name, CLASSES));
  await examples();
  find("task").addEventListener("change", choose);
  find("example-picture").addEventListener("change", takeExample);
  find("file").addEventListener("change", () => takeFile(find("file").files[0]));
  find("classify").addEventListener("click", () => answer());
  const drop = find("drop");
  for (const kind of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop") takeFile(event.dataTransfer.files[0]);
    });
  }
  addEventListener("paste", (event) => {
    if (!find("pictures").hidden && event.clipboardData.files.length) takeFile(event.clipboardData.files[0]);
  });
  choose();
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return { show: draw };
}

const task = () => find("task").value;
const who = () => asked[task() === CLASSES ? CLASSES : "objects"];
const draw = () => who().draw();

// List the pictures that come with the page, grouped by the task they are meant for.
async function examples() {
  const list = find("example-picture");
  list.add(new Option("your own", ""));
  const add = (label, names, wanted) => {
    const group = document.createElement("optgroup");
    group.label = label;
    for (const name of names) {
      const option = new Option(name, `${name}.png`);
      option.dataset.task = wanted(name);
      group.append(option);
    }
    list.add(group);
  };
  add("drawn for the ten classes", await attacks.load(), () => CLASSES);
  add("drawn for objects", Object.keys(MODELS), (name) => name);
}

function say(words, kind = "") {
  find("picture-verdict").textContent = words;
  find("picture-verdict").className = `verdict ${kind}`;
}

// Show what belongs to the task, and the picture as its model sees it.
function choose() {
  const classes = task() === CLASSES;
  for (const element of document.querySelectorAll("#pictures [data-for]")) {
    element.hidden = (element.dataset.for === CLASSES) !== classes;
  }
  find("classify").textContent = classes ? "Classify" : "Find objects";
  who().choose(task());
  if (picture !== null) who().take(picture);
  else find("picture").height = find("picture").width;
  draw();
}

async function takeExample() {
  const chosen = find("example-picture").selectedOptions[0];
  if (!chosen.value) return;
  const answer = await fetch(`pictures/drawn/${chosen.value}`);
  await take(await answer.blob(), chosen.textContent, chosen.dataset.task);
}

async function takeFile(file) {
  if (file === undefined) return;
  find("example-picture").value = "";
  await take(file, file.name);
}

// Read a picture, show it and ask at once.
async function take(blob, name, wanted = task()) {
  if (busy) return;
  try {
    picture = await readPicture(blob, name);
  } catch (error) {
    say(error.message, "bad");
    return;
  }
  find("task").value = wanted;
  choose();
  attacks.show(name);
  await answer();
}

const HELD = ["classify", "file", "task", "example-picture", "picture-starts", "picture-seed", "clusters", "uptile"];

async function answer() {
  if (busy || picture === null) return;
  busy = true;
  for (const id of HELD) find(id).disabled = true;
  try {
    const seed = Math.max(0, Math.trunc(Number(find("picture-seed").value)) || 0);
    say(await who().answer(seed));
  } catch (error) {
    say(error.message, "bad");
  } finally {
    busy = false;
    find("picture-progress").hidden = true;
    for (const id of HELD) find(id).disabled = false;
  }
}
