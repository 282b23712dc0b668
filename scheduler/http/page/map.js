// The map of slots: one cell a slot, on one canvas. Colour tells the job, shape the state.

import { SHAPES } from "./words.js";

const PITCHES = [26, 22, 18, 15, 12, 10, 8, 7, 6];
const HEIGHT_MAX = 620;
const ROW_SLOTS_MAX = 16;
const LABEL_HEIGHT = 17;
const LABELLED_NODES_MAX = 200;
const LABEL_WIDTH = 92;

/** What is on each slot of a node: [{state, job, shared: [job, ...]}, ...]. */
export function cellsOf(node) {
  const cells = Array.from({ length: node.slots }, () => ({ state: node.away ? "away" : "free", job: null, shared: [] }));
  for (const [job, state, slots] of node.held) {
    for (const slot of slots) if (cells[slot]) Object.assign(cells[slot], { state, job });
  }
  for (const [job, , slots] of node.shared) for (const slot of slots) cells[slot]?.shared.push(job);
  const free = cells.filter((cell) => cell.job === null);
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
  const state = cell.state === "away" ? `free, but the node takes no workers: ${node.away}` : cell.state;
  const shared = cell.shared.length > 0 ? `; shared by ${cell.shared.map(name).join(", ")}` : "";
  return `${node.name}, slot ${slot}: ${cell.job === null ? "" : `${name(cell.job)}, `}${state}${shared}`;
}

/** The map on its canvas. `open(job)` is called where one is chosen, `tell(text)` with what is pointed at. */
export class SlotMap {
  constructor(canvas, cluster, open, tell) {
    Object.assign(this, { canvas, cluster, open, tell, blocks: new Map(), order: [], chosen: null, pitch: PITCHES[0] });
    this.context = canvas.getContext("2d", { alpha: false });
    canvas.addEventListener("mousemove", (event) => this.#point(event));
    canvas.addEventListener("mouseleave", () => tell(""));
    canvas.addEventListener("click", (event) => this.#openAt(this.#at(event)));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("focus", () => this.#choose(this.chosen ?? this.#first()));
    canvas.addEventListener("blur", () => this.#choose(null));
    new ResizeObserver(() => this.#resized()).observe(canvas.parentElement);
  }

  /** Place all nodes anew and draw everything. */
  layout() {
    const width = this.canvas.parentElement.clientWidth;
    if (width === 0) return; // not shown now
    this.width = width;
    const nodes = [...this.cluster.nodes.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    this.labelled = nodes.length <= LABELLED_NODES_MAX;
    let height = 0;
    const slots = nodes.reduce((sum, node) => sum + node.slots, 0);
    // Those at which the cells alone would be too high need not be tried.
    const first = PITCHES.findIndex((pitch) => (slots * pitch * pitch) / width <= HEIGHT_MAX);
    for (this.pitch of PITCHES.slice(first)) if ((height = this.#place(nodes, width)) <= HEIGHT_MAX) break;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = Math.max(1, height) * scale;
    this.canvas.style.height = `${Math.max(1, height)}px`;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
    this.draw();
  }

  /** Draw everything in the colours of now. */
  draw() {
    this.ink = inks(this.canvas);
    this.context.fillStyle = this.ink.ground;
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    for (const block of this.order) this.#drawBlock(block);
    this.canvas.setAttribute("aria-label", this.#summary());
  }

  /** Draw these nodes, whose places stay. */
  drawNodes(names) {
    if (this.ink === undefined) return;
    for (const name of names) {
      const block = this.blocks.get(name);
      if (block) this.#drawBlock({ ...block, clear: true });
    }
    this.canvas.setAttribute("aria-label", this.#summary());
  }

  #place(nodes, width) {
    const { pitch } = this;
    const head = this.labelled ? LABEL_HEIGHT : 0;
    let [x, y, tallest] = [0, 0, 0];
    this.blocks.clear();
    for (const { name, slots } of nodes) {
      const columns = Math.max(1, Math.min(slots, ROW_SLOTS_MAX, Math.floor(width / pitch)));
      const wide = Math.max(columns * pitch, this.labelled ? LABEL_WIDTH : 0);
      const tall = Math.ceil(slots / columns) * pitch + head;
      if (x > 0 && x + wide > width) [x, y, tallest] = [0, y + tallest + pitch / 2, 0];
      this.blocks.set(name, { name, slots, columns, x, y: y + head, wide, tall: tall - head });
      x += wide + pitch * 0.6;
      tallest = Math.max(tallest, tall);
    }
    this.order = [...this.blocks.values()];
    return Math.ceil(y + tallest);
  }

  #drawBlock({ name, columns, x, y, wide, tall, clear }) {
    const { context, pitch, ink } = this;
    const node = this.cluster.nodes.get(name);
    if (clear) {
      context.fillStyle = ink.ground;
      context.fillRect(x, y - (this.labelled ? LABEL_HEIGHT : 0), wide, tall + (this.labelled ? LABEL_HEIGHT : 0));
    }
    if (this.labelled) {
      context.fillStyle = node.away ? ink.warning : ink.text;
      context.fillText(node.away ? `${name} (${node.away})` : name, x, y - 6, wide);
    }
    const size = pitch - (pitch > 8 ? 2 : 1);
    cellsOf(node).forEach((cell, slot) => {
      drawCell(context, cell, x + (slot % columns) * pitch, y + Math.floor(slot / columns) * pitch, size, ink);
    });
    if (this.chosen?.name === name) this.#frame(this.chosen);
  }

  #frame({ name, slot }) {
    const { x, y, columns } = this.blocks.get(name);
    this.context.strokeStyle = this.ink.text;
    this.context.lineWidth = 2;
    const size = this.pitch - 1;
    this.context.strokeRect(x + (slot % columns) * this.pitch, y + Math.floor(slot / columns) * this.pitch, size, size);
  }

  #summary() {
    const { slots_used: used, slots_total: total, nodes } = this.cluster;
    return `Map of slots: ${used} of ${total} used on ${nodes.size} nodes`;
  }

  #at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    const block = this.order.find((b) => x >= b.x && x < b.x + b.columns * this.pitch && y >= b.y && y < b.y + b.tall);
    if (block === undefined) return null;
    const slot = Math.floor((y - block.y) / this.pitch) * block.columns + Math.floor((x - block.x) / this.pitch);
    return slot < block.slots ? { name: block.name, slot } : null;
  }

  #point(event) {
    const place = this.#at(event);
    this.canvas.classList.toggle("on-job", place !== null && this.#cell(place).job !== null);
    this.tell(place === null ? "" : this.#text(place));
  }

  #cell({ name, slot }) {
    return cellsOf(this.cluster.nodes.get(name))[slot];
  }

  #text(place) {
    return cellText(this.cluster.nodes.get(place.name), place.slot, this.#cell(place), this.cluster.jobs);
  }

  #openAt(place) {
    const job = place === null ? null : this.#cell(place).job;
    if (job !== null) this.open(job);
  }

  #first() {
    const block = this.order.find(({ slots }) => slots > 0);
    return block === undefined ? null : { name: block.name, slot: 0 };
  }

  #choose(place) {
    const before = this.chosen;
    this.chosen = place;
    this.drawNodes(new Set([before?.name, place?.name].filter((name) => name !== undefined)));
    if (place !== null) this.tell(this.#text(place));
  }

  #key(event) {
    if (this.chosen === null || !this.blocks.has(this.chosen.name)) this.chosen = this.#first();
    if (this.chosen === null) return;
    const moved = this.#moved(event.key);
    if (moved === undefined) return;
    event.preventDefault();
    if (moved === null) this.#openAt(this.chosen);
    else this.#choose(moved);
  }

  /** Where a key leads; null: it opens, undefined: it means nothing here. */
  #moved(key) {
    const { name, slot } = this.chosen;
    const at = this.order.findIndex((block) => block.name === name);
    const block = this.order[at];
    const to = (other, wanted) => (other ? { name: other.name, slot: Math.min(wanted, other.slots - 1) } : this.chosen);
    switch (key) {
      case "ArrowRight":
        return slot + 1 < block.slots ? { name, slot: slot + 1 } : to(this.order[at + 1], 0);
      case "ArrowLeft":
        return slot > 0 ? { name, slot: slot - 1 } : to(this.order[at - 1], Infinity);
      case "ArrowDown":
        return slot + block.columns < block.slots ? { name, slot: slot + block.columns } : to(this.order[at + 1], slot % block.columns);
      case "ArrowUp":
        return slot >= block.columns ? { name, slot: slot - block.columns } : to(this.order[at - 1], slot);
      case "Home":
        return to(this.order[0], 0);
      case "End":
        return to(this.order.at(-1), Infinity);
      case "Enter":
        return null;
      default:
        return undefined;
    }
  }

  #resized() {
    if (this.order.length > 0 && this.canvas.parentElement.clientWidth !== this.width) this.layout();
  }
}

/** Colours as the style sheet has them now. */
function inks(canvas) {
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
