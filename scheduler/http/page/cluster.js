// The cluster as this page knows it: the last whole picture and all changes since.

const EVENTS_MAX = 100;
const STEPS_MAX = 60;

export class Cluster {
  constructor() {
    this.clear();
    this.sizes = new Map(); // job id -> [[time, workers], ...] over the last hour
    this.history = null;
  }

  clear() {
    Object.assign(this, {
      time: 0, head: {}, slots_total: 0, slots_used: 0, jobs_by_state: {}, queue: [], events: [],
      nodes: new Map(), jobs: new Map(), queues: new Map(),
    });
  }

  /** Take a message of the stream; what it touched: {nodes: names or null for all, ...}. */
  take(kind, message) {
    const anew = kind === "picture";
    if (anew) this.clear();
    const layout = anew || this.#nodesComeOrGo(message);
    for (const name of ["time", "head", "slots_total", "slots_used", "jobs_by_state", "queue"]) {
      if (message[name] !== undefined) this[name] = message[name];
    }
    for (const name of message.nodes_gone ?? []) this.nodes.delete(name);
    for (const node of message.nodes ?? []) this.nodes.set(node.name, node);
    for (const id of message.jobs_gone ?? []) {
      this.jobs.delete(id);
      this.sizes.delete(id);
    }
    for (const job of message.jobs ?? []) {
      this.jobs.set(job.id, job);
      this.#note(job);
    }
    if (anew) for (const id of this.sizes.keys()) if (!this.jobs.has(id)) this.sizes.delete(id);
    for (const path of message.queues_gone ?? []) this.queues.delete(path);
    for (const queue of message.queues ?? []) this.queues.set(queue.path, queue);
    if (message.events) this.events = [...this.events, ...message.events].slice(-EVENTS_MAX);
    return { layout, nodes: (message.nodes ?? []).map((node) => node.name), events: message.events ?? [] };
  }

  /** Sizes and utilization of the hour before. */
  takeHistory(history) {
    this.history = history;
    this.sizes = new Map(Object.entries(history.jobs).map(([id, steps]) => [Number(id), steps]));
    for (const job of this.jobs.values()) this.#note(job);
  }

  /** Now, by the daemon's clock, as far as this page knows it. */
  now() {
    return this.time + (this.receivedAt === undefined ? 0 : (performance.now() - this.receivedAt) / 1000);
  }

  /** Waiting jobs in the order in which they are served. */
  waiting() {
    return this.queue.map((id) => this.jobs.get(id)).filter((job) => job !== undefined);
  }

  /** Jobs with workers, most important first. */
  active() {
    return [...this.jobs.values()]
      .filter((job) => job.state !== "QUEUED" && job.state !== "SUSPENDED")
      .sort((a, b) => b.priority - a.priority || a.id - b.id);
  }

  suspended() {
    return [...this.jobs.values()].filter((job) => job.state === "SUSPENDED");
  }

  #nodesComeOrGo(message) {
    const other = (node) => this.nodes.get(node.name)?.slots !== node.slots;
    return Boolean(message.nodes_gone) || (message.nodes ?? []).some(other);
  }

  #note(job) {
    const steps = this.sizes.get(job.id) ?? [];
    if (steps.at(-1)?.[1] === job.workers || (steps.length === 0 && job.workers === 0)) return;
    // Before its history is known, a job has had its size since it started.
    const at = steps.length === 0 ? job.since : this.time;
    this.sizes.set(job.id, [...steps, [at, job.workers]].slice(-STEPS_MAX));
  }
}
