// The lists of the overview: nodes, jobs, the queue, events. Rows that did not change are left as they are.

import { cellsOf, colourOf } from "./cells.js";
import { lastHour } from "./chart.js";
import { Rows, byId, element, jobLink, say } from "./dom.js";
import { QueueTree } from "./queues.js";
import { clock, counted, kindText, numberText, span, stateText, wants, why } from "./words.js";

const ROWS_FIRST = 50;
const cell = (...children) => element("td", {}, ...children);
const number = (text) => element("td", { class: "number" }, text);

export class Lists {
  constructor(cluster) {
    this.cluster = cluster;
    this.shown = { jobs: ROWS_FIRST, queue: ROWS_FIRST, queues: ROWS_FIRST };
    this.nodes = new Rows(byId("nodes"), "tr", (node) => node.name, (node) => this.#node(node));
    this.jobs = new Rows(byId("jobs"), "tr", (job) => job.id, (job) => this.#job(job));
    this.queue = new Rows(byId("queue"), "tr", ([, job]) => job.id, (placed) => this.#waiting(placed));
    this.queues = new QueueTree(cluster, () => this.update());
    this.suspended = new Rows(byId("suspended"), "tr", (job) => job.id, (job) => this.#suspended(job));
    this.events = new Rows(byId("events"), "li", (event) => event.id, (event) => eventRow(event, this.cluster.jobs));
    byId("map-as-table").addEventListener("toggle", () => this.updateNodes());
    for (const name of ["jobs", "queue", "queues"]) {
      byId(`${name}-more`).addEventListener("click", () => {
        this.shown[name] *= 4;
        this.update();
      });
    }
  }

  update() {
    const { cluster } = this;
    // Asked once, before anything changes: each question about styles has them computed anew.
    this.dark = getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1";
    const waiting = cluster.waiting().map((job, at) => [at + 1, job]);
    const suspended = cluster.suspended();
    this.#queues();
    const states = cluster.jobs_by_state;
    const queued = states.QUEUED ?? 0;
    const all = Object.values(states).reduce((sum, count) => sum + count, 0) - queued - (states.SUSPENDED ?? 0);
    this.#jobsOf("jobs", cluster.active(), all, (job) => job, (jobs) => this.jobs.update(jobs));
    this.#jobsOf("queue", waiting, queued, ([, job]) => job, (placed) => this.queue.update(placed));
    byId("suspended-title").hidden = byId("suspended-part").hidden = suspended.length === 0;
    const sought = suspended.filter((job) => this.queues.holds(job));
    say(byId("suspended-count"), this.#count(sought.length, suspended.length, states.SUSPENDED ?? 0));
    this.suspended.update(sought.slice(0, ROWS_FIRST));
    this.events.update([...cluster.events].reverse());
    this.updateNodes();
  }

  /** The colours are others now. */
  drawAnew() {
    this.jobs.rows.clear();
    byId("jobs").replaceChildren();
    this.update();
  }

  /** Only while it is open: it is long. */
  updateNodes() {
    if (byId("map-as-table").open) this.nodes.update([...this.cluster.nodes.values()]);
  }

  /** A list of jobs, without those that are not sought. `jobOf` is the job of a row. */
  #jobsOf(name, listed, all, jobOf, update) {
    const sought = listed.filter((row) => this.queues.holds(jobOf(row)));
    this.#section(name, sought, this.#count(sought.length, listed.length, all), update);
  }

  #section(name, rows, count, update) {
    update(rows.slice(0, this.shown[name]));
    say(byId(`${name}-count`), count);
    byId(`${name}-more`).hidden = rows.length <= this.shown[name];
  }

  /** Neither they nor the columns that name them are there where there are none. */
  #queues() {
    const count = this.cluster.queues.size;
    byId("queues-part").hidden = count === 0;
    for (const head of document.querySelectorAll("th.of-queue")) head.hidden = count === 0;
    const found = this.queues.found();
    this.#section("queues", this.queues.visible(found), this.#count(found.size, count, count), (rows) => this.queues.update(rows));
  }

  /** How many there are, or how many of those that are listed are sought. */
  #count(found, listed, all) {
    if (this.queues.sought === "") return numberText(all);
    return `${numberText(found)} of ${numberText(listed)}${listed < all ? " listed" : ""}`;
  }

  /** The queue of a job, as a cell of a row. */
  #queueOf(job) {
    return this.cluster.queues.size === 0 ? [] : [cell(job.queue || "–")];
  }

  #signature(...parts) {
    return JSON.stringify([this.cluster.queues.size === 0, ...parts]);
  }

  #node(node) {
    return [JSON.stringify(node), () => {
      const cells = cellsOf(node);
      const used = cells.filter(({ state }) => ["ready", "starting", "leaving"].includes(state));
      const shared = cells.flatMap((each) => each.shared.map((job) => ({ job })));
      const held = cells.filter(({ state }) => state === "reserved");
      const foreign = cells.filter(({ state }) => state === "foreign").length;
      const others = foreign > 0 ? [`outside this scheduler: ${counted(foreign, "slot")}`] : [];
      const broken = node.closed.filter(([, closure]) => closure !== "FOREIGN");
      const besides = [...others, ...broken.map(([slot, , detail]) => `slot ${slot}: ${detail}`)].join("; ");
      return [
        element("th", { scope: "row" }, node.name), number(`${used.length}`), number(`${node.slots}`),
        cell(node.away ? `no: ${node.away}` : "yes"),
        cell(...byJob(used), ...byJob(shared, " shared"), ...byJob(held, " reserved"), besides),
      ];
    }];
  }

  #job(job) {
    const now = this.cluster.now();
    const steps = this.cluster.sizes.get(job.id) ?? [];
    const since = span(now - job.since);
    const signature = this.#signature(job, steps, since, Math.floor(now / 15));
    return [signature, () => [
      cell(swatch(job.id, this.dark), jobLink(job.id)), cell(jobLink(job.id, job.name)), ...this.#queueOf(job),
      cell(stateText(job.state)), number(`${job.priority}`), cell(`${job.workers} of ${wants(job)}`),
      cell(lastHour(steps, now, job.max_workers)), cell(since), cell(job.user),
    ]];
  }

  #waiting([place, job]) {
    const since = span(this.cluster.now() - job.since);
    return [this.#signature(place, job, since), () => [
      number(`${place}`), cell(jobLink(job.id)), cell(jobLink(job.id, job.name)), ...this.#queueOf(job),
      number(`${job.priority}`), cell(wants(job)), cell(since), cell(why(job)),
    ]];
  }

  #suspended(job) {
    return [this.#signature(job), () => [
      cell(jobLink(job.id)), cell(jobLink(job.id, job.name)), ...this.#queueOf(job), number(`${job.priority}`), cell(wants(job)),
    ]];
  }
}

/** Slots by their job, as parts of a line. */
function byJob(cells, how = "") {
  const counts = new Map();
  for (const { job } of cells) counts.set(job, (counts.get(job) ?? 0) + 1);
  return [...counts].flatMap(([job, slots]) => [jobLink(job, `job ${job}`), `: ${counted(slots, "slot")}${how} `]);
}

function swatch(job, dark) {
  const made = element("span", { class: "swatch", "aria-hidden": "true" });
  made.style.setProperty("--job", colourOf(job, dark));
  return made;
}

/** One line of what happened. */
export function eventRow(event, jobs) {
  const name = event.job_id === null ? "" : (jobs.get(event.job_id)?.name ?? "");
  const at = clock(event.at); // its day is said from the next one on
  return [`${event.id} ${at} ${name}`, () => {
    const parts = [element("time", {}, at), " ", element("b", {}, kindText(event.kind)), " "];
    if (event.job_id !== null) parts.push(jobLink(event.job_id, `job ${event.job_id}`), name ? ` ${name} ` : " ");
    if (event.worker_id !== null) parts.push(`worker ${event.worker_id} `);
    if (event.node !== null) parts.push(`on ${event.node} `);
    if (event.detail) parts.push(`– ${event.detail} `);
    if (event.cause) parts.push(element("span", { class: "cause" }, event.cause), " ");
    if (event.for_job !== null) parts.push("for ", jobLink(event.for_job, `job ${event.for_job}`));
    return parts;
  }];
}
