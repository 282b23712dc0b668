// What is on a slot, and how that is drawn and said: colour tells the job, shape the state.

import { SHAPES } from "./words.js";

/** What is on each slot of a node: [{state, job, shared: [job, ...], why}, ...]. */
export function cellsOf(node) {
  const why = node.away ? `the node is closed to new workers: ${node.away}` : "";
  const cells = Array.from({ length: node.slots }, () => ({ state: why ? "away" : "free", job: null, shared: [], why }));
  for (const [slot, closure, detail] of node.closed) {
    const told = `closed to new workers: ${detail || closure.toLowerCase()}`;
    if (cells[slot]) Object.assign(cells[slot], { state: closure === "FOREIGN" ? "foreign" : "away", why: told });
  }
  for (const [job, state, slots] of node.held) {
    for (const slot of slots) if (cells[slot]) Object.assign(cells[slot], { state, job });
  }
  for (const [job, , slots] of node.shared) for (const slot of slots) cells[slot]?.shared.push(job);
  const closed = new Set(node.closed.map(([slot]) => slot));
  const free = cells.filter((cell, slot) => cell.job === null && !closed.has(slot));
  for (let count = node.foreign; count > 0 && free.length > 0; count--) free.pop().state = "foreign";
  for (const [job, count] of node.reserved) {
    for (const cell of free.splice(0, count)) Object.assign(cell, { state: "reserved", job });
  }
  return cells;
}

/** Colours of jobs, far apart for neighbours; a job keeps its own. */
export const colourOf = (job, dark) => `hsl(${(job * 137.508) % 360} ${dark ? "62% 62%" : "65% 43%"})`;

/** Draw one cell of the size at x, y. */
export function drawCell(context, cell, x, y, size, ink) {
  const colour = cell.job === null ? ink.faint : ink.of(cell.job);
  const middle = size / 2;
  const line = Math.max(1, size / 9);
  context.fillStyle = colour;
  if (cell.state === "ready") context.fillRect(x, y, size, size);
  else drawUnready(context, cell.state, x, y, size, line, colour);
  if (cell.shared.length > 0) disc(context, x + middle, y + middle, size / 3, ink.of(cell.shared[0]), ink.ground);
}

function drawUnready(context, state, x, y, size, line, colour) {
  const middle = size / 2;
  context.strokeStyle = colour;
  context.lineWidth = line;
  switch (state) {
    case "starting":
      context.strokeRect(x + line, y + line, size - 2 * line, size - 2 * line);
      break;
    case "leaving":
      path(context, [[x, y], [x + size, y + size], [x, y + size]]);
      context.fill();
      break;
    case "reserved":
      context.fillRect(x + middle - line, y, 2 * line, size);
      context.fillRect(x, y + middle - line, size, 2 * line);
      break;
    case "foreign":
      path(context, [[x, y + size], [x + size, y]]);
      context.lineWidth = 2 * line;
      context.stroke();
      break;
    case "away":
      path(context, [[x + line, y + line], [x + size - line, y + size - line]]);
      context.moveTo(x + size - line, y + line);
      context.lineTo(x + line, y + size - line);
      context.stroke();
      break;
    default:
      context.fillRect(x + middle - line, y + middle - line, 2 * line, 2 * line);
  }
}

function path(context, points) {
  context.beginPath();
  points.forEach(([x, y], at) => (at === 0 ? context.moveTo(x, y) : context.lineTo(x, y)));
}

function disc(context, x, y, radius, colour, edge) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = colour;
  context.fill();
  context.strokeStyle = edge;
  context.stroke();
}

/** What a cell is, in words. */
export function cellText(node, slot, cell, jobs) {
  const name = (id) => `job ${id}${jobs.get(id) ? ` (${jobs.get(id).name})` : ""}`;
  const state = cell.why === "" ? cell.state : cell.state === "away" ? `free, but ${cell.why}` : `${cell.state}, ${cell.why}`;
  const shared = cell.shared.length > 0 ? `; shared by ${cell.shared.map(name).join(", ")}` : "";
  return `${node.name}, slot ${slot}: ${cell.job === null ? "" : `${name(cell.job)}, `}${state}${shared}`;
}

/** Colours as the style sheet has them now. */
export function inks(canvas) {
  const style = getComputedStyle(canvas);
  const dark = style.getPropertyValue("--dark").trim() === "1";
  const known = new Map();
  const of = (job) => known.get(job) ?? (known.set(job, colourOf(job, dark)), known.get(job));
  const [text, faint, ground, warning] = ["text", "faint", "ground", "warning"].map((name) =>
    style.getPropertyValue(`--${name}`).trim(),
  );
  canvas.getContext("2d").font = `12px ${style.fontFamily}`;
  return { text, faint, ground, warning, of };
}

/** The shapes with their meaning, each drawn as on the map. */
export function drawLegend(list, make) {
  const ink = { ...inks(list.ownerDocument.getElementById("map")), of: () => getComputedStyle(list).color };
  list.replaceChildren(
    ...Object.entries(SHAPES).map(([state, text]) => {
      const canvas = make("canvas", { width: 28, height: 28, "aria-hidden": "true" });
      const cell = state === "shared" ? { state: "ready", job: 0, shared: [1] } : { state, job: null, shared: [] };
      if (["ready", "starting", "leaving", "reserved"].includes(state)) cell.job = 0;
      if (state === "shared") ink.of = (job) => (job === 0 ? getComputedStyle(list).color : ink.faint);
      drawCell(canvas.getContext("2d"), cell, 3, 3, 22, ink);
      return make("li", {}, canvas, text);
    }),
  );
}
