"use strict";
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector) => document.querySelector(selector);
const links = JSON.parse(one("#links").textContent);   // line: [near records, far records, last line, loops around]
const records = new Map(all(".record").map((e) => [+e.dataset.r, e]));
const rows = new Map(all("#pane-loops tbody tr").map((e) => [+e.dataset.l, e]));
const instructions = all("#pane-assembly > .i");
const assemblyCount = all("#pane-assembly > div").length;
const places = new Map(all("#pane-assembly > div").map((e, i) => [e, i]));
let pinned = null;

// Light and dark

const theme = one("#theme");
function chosenTheme() { try { return localStorage.getItem("tilewright-theme"); } catch { return null; } }
function keepTheme(value) { try { localStorage.setItem("tilewright-theme", value); } catch { /* a frame without storage */ } }
function isDark() {
  const set = document.documentElement.dataset.theme;
  return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
if (chosenTheme()) document.documentElement.dataset.theme = chosenTheme();
theme.addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  keepTheme(next);
});

// Tabs

const tabs = all("[role=tab]");
function open(tab) {
  for (const each of tabs) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", chosen);
    each.tabIndex = chosen ? 0 : -1;
    one("#" + each.getAttribute("aria-controls")).hidden = !chosen;
  }
}
tabs.forEach((tab, i) => {
  tab.addEventListener("click", () => {
    open(tab);
    if (tab.id === "tab-steps") one("#slider").focus();   // whose arrow keys step
  });
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.stopPropagation();
    const next = tabs[(i + step + tabs.length) % tabs.length];
    open(next);
    next.focus();
  });
});
if (location.hash && one("#tab-" + CSS.escape(location.hash.slice(1)))) open(one("#tab-" + CSS.escape(location.hash.slice(1))));

// What belongs together

const within = (e, first, last) => {
  const line = +(e.dataset.l || e.dataset.w || 0);
  return line >= first && line <= last;
};

function ofLine(line) {
  const [near, far, end, chain] = links[line] || [[], [], line, []];
  const owner = near.length + far.length || !chain.length ? [near, far] : links[chain[chain.length - 1]];
  const body = [];
  for (let inner = line + 1; inner <= end; inner++) body.push(inner);
  return {
    lit: { records: owner[0], rows: [line], instructions: instructions.filter((e) => within(e, line, end)) },
    near: { records: owner[1], rows: body },
  };
}

function ofRecord(number) {
  const lit = [], near = [], ranges = [];
  for (const [line, [direct, indirect, end]] of Object.entries(links)) {
    if (direct.includes(number)) { lit.push(+line); ranges.push([+line, end]); }
    else if (indirect.includes(number)) { near.push(+line); }
  }
  const spans = ranges.length ? ranges : near.map((line) => [line, links[line][2]]);
  return {
    lit: { records: [number], rows: lit, instructions: instructions.filter((e) => spans.some(([a, b]) => within(e, a, b))) },
    near: { records: [], rows: near },
  };
}

function ofInstruction(e) {
  const line = +(e.dataset.l || e.dataset.w || 0);
  if (!line) return { lit: { records: [], rows: [], instructions: [e] }, near: { records: [], rows: [] } };
  const chain = (links[line] || [[], [], line, []])[3];
  const owner = links[line] && links[line][0].length ? links[line] : links[chain[chain.length - 1]] || [[], []];
  return {
    lit: { records: owner[0], rows: [line], instructions: [e] },
    near: { records: owner[1], rows: chain },
  };
}

function clear() {
  for (const e of all(".lit, .near")) e.classList.remove("lit", "near");
  const map = one("#map");
  if (map) map.replaceChildren();
}

function light(what, said) {
  clear();
  for (const number of what.near.records) records.get(number)?.classList.add("near");
  for (const line of what.near.rows) rows.get(line)?.classList.add("near");
  for (const number of what.lit.records) records.get(number)?.classList.add("lit");
  for (const line of what.lit.rows) rows.get(line)?.classList.add("lit");
  for (const e of what.lit.instructions) e.classList.add("lit");
  const count = what.lit.instructions.length;
  if (one("#lit-assembly")) one("#lit-assembly").textContent = count ? `${count} of ${instructions.length} instructions` : "";
  drawMap(what.lit.instructions);
  one("#told").replaceChildren(...said);
}

function drawMap(lit) {
  const map = one("#map");
  if (!map || !assemblyCount) return;
  let from = -2, to = -2;
  const add = () => {
    if (from < 0) return;
    const mark = document.createElement("i");
    mark.style.top = (100 * from) / assemblyCount + "%";
    mark.style.height = (100 * (to - from + 1)) / assemblyCount + "%";
    map.append(mark);
  };
  for (const e of lit) {
    const at = places.get(e);
    if (at > to + 3) { add(); from = at; }
    to = at;
  }
  add();
}

function bold(text) {
  const e = document.createElement("b");
  e.textContent = text;
  return e;
}

function told(target) {
  if (target.matches("tr")) {
    const cells = [...target.cells];
    const said = [bold(cells[0].textContent.trim().replace(/:$/, ""))];
    if (target.classList.contains("loop")) {
      const [, trips, total, operations, bytes, intensity] = cells.map((cell) => cell.textContent.trim());
      said.push(`  ${trips} iterations a run, ${total} in all; ${bytes} touched a run` + (operations ? `; ${operations} operations` : "")
        + (intensity ? `, ${intensity} for each byte` : ""));
    }
    if (target.dataset.s) said.push(`  · stage ${target.dataset.s}`);
    const near = (links[target.dataset.l] || [[]])[0];
    if (near.length) said.push(`  · record${near.length > 1 ? "s" : ""} ${near.join(", ")}`);
    return said;
  }
  if (target.matches(".record")) return [bold(target.querySelector("code").lastChild.textContent)];
  const line = +(target.dataset.l || target.dataset.w || 0);
  if (!line) return [bold(target.textContent.trim()), "  belongs to no one line: the call, or what several lines share"];
  const how = target.dataset.l ? "came from" : "runs within";
  return [bold(target.textContent.trim().replace(/\s+/g, " ")), `  ${how}: ${rows.get(line)?.cells[0].textContent.trim()}`];
}

function point(target) {
  const what = target.matches("tr") ? ofLine(+target.dataset.l) : target.matches(".record") ? ofRecord(+target.dataset.r) : ofInstruction(target);
  light(what, told(target));
  return what;
}

function reveal(pane, elements, source) {
  if (!pane || !elements.length || pane.contains(source)) return;
  const box = pane.getBoundingClientRect();
  const seen = elements.some((e) => { const r = e.getBoundingClientRect(); return r.bottom > box.top + 24 && r.top < box.bottom; });
  if (!seen) pane.scrollTop += elements[0].getBoundingClientRect().top - box.top - box.height / 3;
}

function revealAll(what, source) {
  reveal(one("#pane-records"), what.lit.records.map((number) => records.get(number)).filter(Boolean), source);
  reveal(one("#pane-loops"), what.lit.rows.map((line) => rows.get(line)).filter(Boolean), source);
  reveal(one("#pane-assembly"), what.lit.instructions, source);
}

const TARGETS = "#pane-loops tr.loop, #pane-loops tr.body, .record, #pane-assembly > .i";
const panes = one("#loops .panes");
let waiting = 0;
panes.addEventListener("mouseover", (event) => {
  const target = event.target.closest(TARGETS);
  if (!target || pinned) return;
  const what = point(target);
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (!pinned) revealAll(what, target); }, 250);
});
panes.addEventListener("mouseleave", () => {
  clearTimeout(waiting);
  if (!pinned) unlight();
});
panes.addEventListener("focusin", (event) => {
  const target = event.target.closest(TARGETS);
  if (target && !pinned && target.matches(":focus-visible")) point(target);
});
panes.addEventListener("click", (event) => {
  const target = event.target.closest(TARGETS);
  if (target) keep(target);
});
panes.addEventListener("keydown", (event) => {
  const target = event.target.closest(TARGETS);
  if (!target) return;
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); keep(target); }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    const fellows = all("[tabindex]", target.closest(".scroll"));
    const next = fellows[fellows.indexOf(target) + step];
    if (next) { event.preventDefault(); if (pinned) release(); next.focus(); }
  }
});

function keep(target) {
  if (pinned === target) { release(); return; }
  pinned = null;
  revealAll(point(target), target);
  pinned = target;
  const pin = document.createElement("span");
  pin.className = "pin";
  pin.textContent = "kept (Esc lets go)";
  one("#told").prepend(pin);
}

function release() { pinned = null; unlight(); }

const hint = one("#told").textContent;
function unlight() {
  clear();
  if (one("#lit-assembly")) one("#lit-assembly").textContent = "";
  one("#told").textContent = hint;
}

// Steps

const steps = all("#step-list li");
const diffs = all(".diff");
let step = steps.length - 1;
function show(number) {
  step = Math.max(0, Math.min(steps.length - 1, number));
  steps.forEach((e, i) => { if (i === step) e.setAttribute("aria-current", "step"); else e.removeAttribute("aria-current"); });
  diffs.forEach((e, i) => { e.hidden = i !== step; });
  one("#slider").value = step;
  one("#previous").disabled = step === 0;
  one("#next").disabled = step === steps.length - 1;
  one("#place").textContent = `${step} of ${steps.length - 1}`;
  const plus = all(".plus", diffs[step]).length, minus = all(".minus", diffs[step]).length;
  one("#changed").textContent = plus + minus ? `${plus} lines more, ${minus} less` : "";
  if (!one("#steps").hidden) {
    steps[step].scrollIntoView({ block: "nearest" });
    (diffs[step].querySelector(".plus, .minus") || diffs[step]).scrollIntoView({ block: "center" });
  }
}
steps.forEach((e, i) => e.addEventListener("click", () => show(i)));
one("#previous").addEventListener("click", () => show(step - 1));
one("#next").addEventListener("click", () => show(step + 1));
one("#slider").addEventListener("input", () => show(+one("#slider").value));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && pinned) release();
  if (one("#steps").hidden || event.target === one("#slider")) return;
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by) { event.preventDefault(); show(step + by); }
});
show(step);

// Stages

const graph = one("#graph");
for (const box of all(".stage", graph)) {
  box.addEventListener("mouseenter", () => {
    graph.classList.add("pointed");
    box.classList.add("lit");
    for (const path of all("path.reads", graph)) {
      if (path.dataset.from === box.dataset.box || path.dataset.to === box.dataset.box) {
        path.classList.add("lit");
        for (const end of [path.dataset.from, path.dataset.to]) one(`[data-box="${end}"]`).classList.add("lit");
      }
    }
  });
  box.addEventListener("mouseleave", () => {
    graph.classList.remove("pointed");
    for (const e of all(".lit", graph)) e.classList.remove("lit");
  });
}
