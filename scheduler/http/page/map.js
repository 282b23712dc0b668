// The map of slots: one cell a slot, on one canvas. Colour tells the job, shape the state.

import { cellText, cellsOf, drawCell, inks } from "./cells.js";

const PITCHES = [26, 22, 18, 15, 12, 10, 8, 7, 6];
const HEIGHT_MAX = 620;
const ROW_SLOTS_MAX = 16;
const LABEL_HEIGHT = 17;
const LABELLED_NODES_MAX = 200;
const LABEL_WIDTH = 92;

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
    if (width === 0) { // not shown now: what was placed may be gone when it is
      this.blocks.clear();
      this.order = [];
      return;
    }
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
