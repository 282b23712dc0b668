// The queues among which the slots are divided: a tree of rows. Of many queues only the first level is open at first.

import { Rows, byId, drawing, element } from "./dom.js";
import { QUEUE_TROUBLES, slotsText } from "./words.js";

const MANY = 50;
const KEPT = "sched-queues"; // what was sought last, for the next visit
const WIDTH = 160;
const HEIGHT = 22;
const cell = (...children) => element("td", {}, ...children);
const number = (text) => element("td", { class: "number" }, text);
const pathOf = ({ path }) => path;
const parentOf = (path) => path.slice(0, Math.max(0, path.lastIndexOf("/")));

export class QueueTree {
  /** `changed` is called when others of its rows, or of the jobs, are to be seen. */
  constructor(cluster, changed) {
    Object.assign(this, { cluster, changed, me: { user: null, queue: null }, chosen: new Map(), most: 1 });
    this.rows = new Rows(byId("queues"), "tr", ({ queue }) => queue.path, (row) => this.#row(row));
    this.field = byId("queues-sought");
    this.field.value = localStorage.getItem(KEPT) ?? "";
    this.field.addEventListener("input", () => {
      localStorage.setItem(KEPT, this.field.value);
      this.chosen.clear();
      this.changed();
    });
  }

  /** What is sought, in lower case; empty: everything, as where there are no queues. */
  get sought() {
    return this.cluster.queues.size === 0 ? "" : this.field.value.trim().toLowerCase();
  }

  /** Whether the queue or the user of a job is sought. */
  holds(job) {
    return job.queue.includes(this.sought) || job.user.toLowerCase().includes(this.sought);
  }

  /** Paths of the queues that are sought: by name, or by a user who shares them or has jobs in them. */
  found() {
    const { sought } = this;
    const named = ({ path, users }) => path.includes(sought) || users.some(([user]) => user.toLowerCase().includes(sought));
    const found = [...this.cluster.queues.values()].filter(named).map(pathOf);
    const jobs = sought === "" ? [] : [...this.cluster.jobs.values()].filter((job) => this.holds(job));
    return new Set([...found, ...jobs.map(({ queue }) => queue)].filter((path) => this.cluster.queues.has(path)));
  }

  /** The rows to be seen of these queues and those around them, each before those inside it. */
  visible(found) {
    const all = [...this.cluster.queues.values()];
    const many = all.length > MANY;
    this.most = mostSlots(all);
    const own = this.#own();
    const troubled = ways(all.filter(({ trouble }) => trouble !== null).map(pathOf));
    const rank = ({ path, jobs_running: running, jobs_waiting: waiting }) =>
      own.has(path) ? 0 : running + waiting > 0 || troubled.has(path) ? 1 : 2;
    const inside = byPlace(all, ways(found), many ? rank : () => 0);
    const isOpen = (path) => this.chosen.get(path) ?? (!many || this.sought !== "" || own.has(path));
    const below = (around) => (inside.get(around) ?? []).flatMap((queue) => {
      const open = inside.has(queue.path) ? isOpen(queue.path) : null;
      return [{ queue, open, troubled: troubled.has(queue.path) }, ...(open ? below(queue.path) : [])];
    });
    return below("");
  }

  update(rows) {
    this.rows.update(rows);
  }

  /** The queues of this user's token and jobs, with those around them. */
  #own() {
    const { user, queue } = this.me;
    const jobs = user === null ? [] : [...this.cluster.jobs.values()].filter((job) => job.user === user);
    return ways([queue ?? "", ...jobs.map((job) => job.queue)]);
  }

  /** A queue's row, as [signature, () => children]. */
  #row({ queue, open, troubled }) {
    return [JSON.stringify([queue, open, troubled, this.most]), () => {
      const { slots_held: held, slots_entitled: entitled } = queue;
      return [
        this.#nameCell(queue, open, troubled), number(`${slotsText(held)} of ${slotsText(entitled)}`), cell(bar(held, entitled, this.most)),
        number(slotsText(queue.slots_guaranteed)), number(slotsText(queue.jobs_running)), number(slotsText(queue.jobs_waiting)),
        cell(usersText(queue)),
      ];
    }];
  }

  /** Its own name, moved to the right for each level; screen readers and searches get the whole path. */
  #nameCell({ path, trouble }, open, troubled) {
    const around = parentOf(path);
    const name = [...(around ? [element("span", { class: "unseen" }, `${around}/`)] : []), path.slice(around ? around.length + 1 : 0)];
    const made = element("th", { scope: "row", class: "inside" });
    made.append(open === null ? element("span", { class: "leaf" }, ...name) : this.#opener(path, open, name));
    const told = trouble === null && troubled && !open ? "INSIDE" : trouble;
    if (told !== null) made.append(" ", element("span", { class: "refused" }, QUEUE_TROUBLES[told]));
    made.style.setProperty("--level", path.split("/").length - 1);
    return made;
  }

  #opener(path, open, name) {
    const made = element("button", { type: "button", class: "opener", "aria-label": path, "aria-expanded": `${open}` }, ...name);
    made.addEventListener("click", () => {
      this.chosen.set(path, !open);
      this.changed();
    });
    return made;
  }
}

/** These paths with all those around them. */
function ways(paths) {
  const found = new Set();
  for (let path of paths) for (; path !== "" && !found.has(path); path = parentOf(path)) found.add(path);
  return found;
}

/** The shown queues by the one around them, in the order of their ranks and names. */
function byPlace(queues, shown, rank) {
  const placed = queues.filter(({ path }) => shown.has(path)).map((queue) => [rank(queue), queue]);
  placed.sort(([rankA, a], [rankB, b]) => rankA - rankB || (a.path < b.path ? -1 : 1));
  const found = new Map();
  for (const [, queue] of placed) {
    const around = parentOf(queue.path);
    if (!found.has(around)) found.set(around, []);
    found.get(around).push(queue);
  }
  return found;
}

/** The most slots that any of them holds or is entitled to: the length of a whole bar. */
const mostSlots = (queues) => queues.reduce((most, each) => Math.max(most, each.slots_held, each.slots_entitled ?? 0), 1);

/** The held slots, and a mark at those that it is entitled to. The numbers stand beside it. */
function bar(held, entitled, most) {
  const x = (slots) => ((slots / most) * (WIDTH - 2) + 1).toFixed(1);
  return drawing("svg", { class: "strip", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    drawing("line", { x1: 0, x2: WIDTH, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
    drawing("path", { d: held > 0 ? `M1,6H${x(held)}V${HEIGHT - 1}H1Z` : "" }),
    drawing("path", { class: "line", d: entitled === null ? "" : `M${x(entitled)},1V${HEIGHT - 1}` }));
}

function usersText({ users, users_more: more }) {
  const named = users.map(([user, held, entitled]) => `${user || "–"}: ${slotsText(held)} of ${slotsText(entitled)}`);
  return [...named, ...(more > 0 ? [`${more} more`] : [])].join(", ");
}
