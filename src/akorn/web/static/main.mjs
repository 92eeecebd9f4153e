// The page's tabs. Each part is loaded when it is first shown.

const parts = {
  sudoku: () => import("./sudoku/tab.mjs"),
  field: () => import("./field/tab.mjs"),
  pictures: () => import("./pictures/tab.mjs"),
};
const shown = new Map(); // name → what the part's begin() returned: perhaps show() and hide()
const tabs = [...document.querySelectorAll("[role=tab]")];
let current = null;

async function open(name, focus = false) {
  if (name === current) return;
  if (current !== null) (await shown.get(current))?.hide?.();
  current = name;
  for (const tab of tabs) {
    const chosen = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    if (chosen && focus) tab.focus();
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (location.hash !== `#${name}`) history.replaceState(null, "", `#${name}`);
  if (!shown.has(name)) shown.set(name, parts[name]().then((module) => module.begin()));
  const part = await shown.get(name);
  if (name === current) part?.show?.();
}

function named(hash) {
  const name = hash.replace("#", "");
  return Object.hasOwn(parts, name) ? name : "sudoku";
}

for (const [place, tab] of tabs.entries()) {
  tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = tabs[(place + by + tabs.length) % tabs.length];
    open(next.getAttribute("aria-controls"), true);
  });
}
addEventListener("hashchange", () => open(named(location.hash)));
open(named(location.hash));
