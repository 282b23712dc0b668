// A job's page: explanation, sizes over time, workers, output, events, and what may be asked of it.

import { Actions } from "./actions.js";
import { Refused, ask, read } from "./api.js";
import { strip } from "./chart.js";
import { Rows, byId, element, say } from "./dom.js";
import { factsOf, forecastText } from "./explanation.js";
import { eventRow } from "./lists.js";
import { moment, stateText, wants } from "./words.js";

// Ended workers that are remembered, the newest.
const WORKERS_MAX = 10_000;
const EVENTS_MAX = 100;
const LOG_BYTES = 65536;
const LOG_CHARACTERS_MAX = 400_000;
const LOOK_MS = 2000;
// What no message tells of (steps, times that pass) is asked for so often.
const RENEW_MS = 15_000;
const cell = (...children) => element("td", {}, ...children);

/** The page of one job, from its making until `close`. */
export class JobPage {
  constructor(root, id, cluster) {
    Object.assign(this, { root, id, cluster, closed: false, known: false, log: { worker: "", offset: -LOG_BYTES } });
    this.past = { workers: [], after: 0 };
    this.actions = new Actions(id);
    this.#build();
    this.timers = [setInterval(() => this.#readLog(), LOOK_MS), setInterval(() => document.hidden || this.update(), RENEW_MS)];
    this.update();
  }

  close() {
    this.closed = true;
    this.timers.forEach(clearInterval);
  }

  /** Read everything again; once more at the end if it was asked for meanwhile. */
  async update() {
    this.again = true;
    if (this.busy) return;
    this.busy = true;
    try {
      while (this.again && !this.closed) {
        this.again = false;
        await this.#read();
      }
    } finally {
      this.busy = false;
    }
  }

  #build() {
    const part = (title, ...children) => element("section", { "aria-label": title }, element("h3", {}, title), ...children);
    this.title = element("h2", { tabindex: "-1" }, `Job ${this.id}`);
    this.summary = element("p", { class: "summary", role: "status" });
    const reasons = element("ul", { class: "reasons", "aria-label": "Reasons" });
    this.reasons = new Rows(reasons, "li", ([signature]) => signature, (fact) => fact);
    this.facts = element("dl", { class: "facts" });
    this.sizes = element("div", {});
    const head = ["Worker", "State", "Node", "Slots", "Rank", "Started", "Ended", "Reason"];
    const body = element("tbody", {});
    this.workers = new Rows(body, "tr", (worker) => worker.id, workerRow);
    this.chooser = element("select", { "aria-label": "Worker" }, element("option", { value: "" }, "rank 0"));
    this.chooser.addEventListener("change", () => this.#openLog(this.chooser.value));
    const scrolled = (kind, label) => ({ class: kind, role: "group", tabindex: "0", "aria-label": label });
    this.output = element("pre", scrolled("log", "Output"));
    const events = element("ol", {});
    this.events = new Rows(events, "li", (event) => event.id, (event) => eventRow(event, this.cluster.jobs));
    this.root.replaceChildren(
      element("p", {}, element("a", { href: "#/" }, "← Cluster")), this.title, this.summary, reasons, this.actions.root,
      part("Details", this.facts), part("Workers over time", this.sizes),
      part("Workers", element("div", scrolled("scroll", "Workers"), element("table", {},
        element("thead", {}, element("tr", {}, ...head.map((text) => element("th", { scope: "col" }, text)))), body))),
      part("Output", this.chooser, this.output),
      part("Events", element("div", scrolled("log", "Events"), events)));
    this.title.focus();
  }

  /** Nothing else is asked for before it is known that there is such a job. */
  async #read() {
    const path = `/v1/jobs/${this.id}`;
    try {
      const asked = read(path);
      if (!this.known) await asked;
      this.known = true;
      const [job, explanation, workers, page] = await Promise.all([
        asked, read(`${path}/explain`), this.#allWorkers(), read(`/v1/events?job=${this.id}&after=-1&limit=${EVENTS_MAX}`),
      ]);
      if (!this.closed) this.#show(job, explanation, workers, page.events);
      await this.#readLog();
    } catch (error) {
      if (this.closed) return;
      if (error instanceof Refused && error.status === 404) this.#missing();
      else say(this.summary, error.message);
    }
  }

  /** There is no such job: nothing is offered, and nothing asked for any more. */
  #missing() {
    this.close();
    say(this.title, `Job ${this.id} not found`);
    say(this.summary, `Job ${this.id} does not exist, or it ended long ago and was removed.`);
    [...this.root.children].slice(3).forEach((part) => part.remove());
  }

  /** Oldest first. Pages before the first worker that has not ended stay as they are, and are read once. */
  async #allWorkers() {
    const found = [];
    for (let { after } = this.past; after !== null;) {
      const answer = await read(`/v1/jobs/${this.id}/workers?after=${after}&limit=1000`);
      found.push(...answer.workers);
      after = answer.next;
      if (after !== null && found.every((worker) => worker.ended_at !== null)) {
        this.past = { workers: [...this.past.workers, ...found.splice(0)].slice(-WORKERS_MAX), after };
      }
    }
    return [...this.past.workers, ...found];
  }

  #show(job, explanation, workers, events) {
    say(this.title, `Job ${job.id}: ${job.name}`);
    say(this.summary, explanation.summary + forecastText(explanation.forecast));
    this.reasons.update(factsOf(explanation, this.cluster.now()));
    this.actions.update(job);
    const facts = {
      State: stateText(job.state), User: job.user || "–", ...(job.queue ? { Queue: job.queue } : {}), Priority: `${job.priority}`,
      Workers: `${job.workers} of ${wants(job)}`, Generation: `${job.generation}`, Attempt: `${job.attempt} (${job.retries_used} of ${job.max_retries} retries used)`,
      Submitted: moment(job.submitted_at), Started: startedText(job), Finished: moment(job.finished_at),
      Step: `${job.progress.step ?? "–"}`, Command: job.command.join(" "),
    };
    this.facts.replaceChildren(...Object.entries(facts).flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
    const steps = sizeSteps(workers);
    const until = job.finished_at ?? this.cluster.now();
    this.sizes.replaceChildren(strip(steps, job.submitted_at, until, Math.max(job.max_workers, ...steps.map(([, size]) => size)), { width: 1000, height: 80, kind: "sizes" }));
    this.workers.update([...workers].reverse().slice(0, 200));
    this.events.update([...events].reverse());
    this.#offer(workers);
  }

  #offer(workers) {
    const names = workers.slice(-200).map((worker) => worker.id).reverse();
    const present = [...this.chooser.options].slice(1).map((option) => option.value);
    if (names.join() === present.join()) return;
    const chosen = this.chooser.value;
    this.chooser.replaceChildren(this.chooser.options[0], ...names.map((name) => element("option", { value: name }, `worker ${name}`)));
    this.chooser.value = names.includes(chosen) ? chosen : "";
  }

  #openLog(worker) {
    this.log = { worker, offset: -LOG_BYTES };
    this.output.textContent = "";
    this.#readLog();
  }

  async #readLog() {
    if (this.reading || this.closed || !this.known) return;
    this.reading = true;
    const log = this.log;
    try {
      const worker = log.worker ? `&worker=${log.worker}` : "";
      const answer = await ask(`/v1/jobs/${this.id}/logs?offset=${log.offset}&limit=${LOG_BYTES}${worker}`);
      const bytes = await answer.arrayBuffer();
      const from = answer.headers.get("x-sched-worker");
      if (this.closed || log !== this.log) return;
      if (log.from !== undefined && from !== log.from && !log.worker) return this.#restartLog(from);
      log.from = from;
      log.offset = Number(answer.headers.get("x-sched-offset"));
      log.decoder ??= new TextDecoder(); // a character may be cut in two by two looks
      this.#append(log.decoder.decode(bytes, { stream: true }));
      const behind = bytes.byteLength >= LOG_BYTES;
      if (behind && log.behind) {
        this.#append("\n… output left out …\n");
        Object.assign(log, { offset: -LOG_BYTES, decoder: undefined });
      }
      log.behind = behind;
    } catch {
      // The next look may do better; that the daemon is away is said above.
    } finally {
      this.reading = false;
    }
  }

  /** Another worker is rank 0 now: what follows is its output, from its end. */
  #restartLog(from) {
    this.log = { worker: "", offset: -LOG_BYTES, from };
    this.output.textContent = "";
  }

  #append(text) {
    if (text === "") return;
    const { output } = this;
    const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 4;
    output.textContent = (output.textContent + text).slice(-LOG_CHARACTERS_MAX);
    if (atEnd) output.scrollTop = output.scrollHeight;
  }
}

/** Where the page of a job is shown. */
export const jobRoot = () => byId("job");

/** How many workers it had, from when on: [[time, workers], ...]. */
export function sizeSteps(workers) {
  const changes = new Map();
  const add = (at, change) => changes.set(at, (changes.get(at) ?? 0) + change);
  for (const worker of workers.filter(({ fixed_index }) => fixed_index === null)) {
    add(worker.created_at, 1);
    if (worker.ended_at !== null) add(worker.ended_at, -1);
  }
  let size = 0;
  return [...changes].sort(([a], [b]) => a - b).map(([at, change]) => [at, (size += change)]);
}

/** When it was started first, and again. */
function startedText(job) {
  const again = job.attempt > 1 && job.started_at !== null ? `; this attempt ${moment(job.started_at)}` : "";
  return moment(job.first_started_at) + again;
}

function workerRow(worker) {
  const reason = [worker.leave_reason, worker.exit_reason, worker.detail].filter(Boolean).join(", ");
  return [JSON.stringify(worker), () => [
    element("th", { scope: "row" }, worker.id), cell(worker.desired === "STOP" && !worker.ended_at ? "leaving" : worker.state.toLowerCase()),
    cell(worker.node), cell(worker.slot_ids.join(" ")), cell(worker.rank === null ? "–" : `${worker.rank}`),
    cell(moment(worker.started_at)), cell(moment(worker.ended_at)), cell(reason),
  ]];
}
