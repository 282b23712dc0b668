// Words for typed reasons and states, and for times.

export const WAITS = {
  SUBMITTED: "waiting for the next scheduling pass",
  INSUFFICIENT_SLOTS: "not enough free slots",
  WAITING_FOR_VICTIMS: "slots are being freed for it",
  BEHIND_RESERVATION: "starting it would delay a job ahead of it",
  BACKOFF: "a worker failed; restarting after a pause",
  NO_MATCHING_NODE: "no node has the required labels and GPU type",
  EXCEEDS_CLUSTER: "too large for the suitable nodes, even when they are empty",
  BOOKED_LATER: "its booking has not started",
  BOOKING_FULL: "its booking is fully used",
  BEHIND_BOOKING: "it would fit only on slots that are booked",
  BEHIND_FOREIGN: "workloads outside this scheduler wait for these slots",
  QUEUE_LIMIT: "its queue is at its limit",
  BUDGET_SPENT: "the budget of its queue is spent for this month",
  QUEUE_UNREADABLE: "the row of its queue cannot be read",
  USER_LIMIT: "its user is at the limit of its queue",
  NOT_GUARANTEED: "it, or its minimum, is not preemptible, and the guarantee of its queue is in use",
  POLICY_WITHOUT_FIXED: "the current policy does not support fixed groups",
  NODES_UNAVAILABLE: "suitable nodes are unavailable",
};

/** Why no job of a queue starts. */
export const QUEUE_TROUBLES = {
  BUDGET_SPENT: "budget spent for this month",
  QUEUE_UNREADABLE: "its row cannot be read",
  INSIDE: "jobs of queues inside cannot start",
};

// State of a slot: how it is drawn, see cells.js.
export const SHAPES = {
  ready: "square: ready worker",
  starting: "frame: starting worker",
  leaving: "triangle: leaving worker",
  reserved: "plus: reserved for a waiting job",
  foreign: "stroke: used outside this scheduler",
  free: "dot: free",
  away: "cross: node or slot closed to new workers",
  shared: "disc: shared with another job",
};

const STATE_SIGNS = {
  QUEUED: "○", STARTING: "◔", RUNNING: "●", RESIZING: "◐", STOPPING: "◢", SUSPENDED: "‖", HELD: "!",
  SUCCEEDED: "✓", FAILED: "✗", CANCELLED: "–",
};

/** A job's state by shape as well as word. */
export const stateText = (state) => `${STATE_SIGNS[state] ?? "?"} ${state.toLowerCase()}`;

/** Why a job waits or was stopped. */
export function why(job) {
  const text = WAITS[job.reason] ?? (job.reason ?? "").toLowerCase().replaceAll("_", " ");
  return job.for_job ? `${text} (job ${job.for_job})` : text;
}

// Made once: making one for each number or time costs more than all else.
const numbers = new Intl.NumberFormat("en");
const clocks = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const moments = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const numberText = (count) => numbers.format(count);

/** A number of slots, which may be a fraction where they are divided; a dash where it is not known. */
export const slotsText = (slots) => (slots === null ? "–" : tenths.format(slots));

/** A number with its noun, in the singular or plural. */
export const counted = (count, one, many = `${one}s`) => `${numberText(count)} ${count === 1 ? one : many}`;

/** How many workers it may have, and of how many slots where that is not one. */
export function wants(job) {
  const range = job.min_workers === job.max_workers ? `${job.min_workers}` : `${job.min_workers}–${job.max_workers}`;
  return job.slots_per_worker === 1 ? range : `${range} × ${job.slots_per_worker} slots`;
}

/** A span of time, in its largest unit. */
export function span(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** A moment, in the reader's own time: the time of day, with the date where that is not today. */
export function clock(at) {
  const when = new Date(at * 1000);
  return (when.toDateString() === new Date().toDateString() ? clocks : moments).format(when);
}

/** The same always with the date; a dash for none. */
export const moment = (at) => (at === null || at === undefined ? "–" : moments.format(at * 1000));

/** What happened, in words. */
export const kindText = (kind) => kind.toLowerCase().replaceAll("_", " ");
