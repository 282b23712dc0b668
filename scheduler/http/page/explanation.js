// What is said of why a job is as it is, and of what another priority would change.

import { element, jobLink } from "./dom.js";
import { clock, counted, moment, span } from "./words.js";

const STARTS = { CERTAIN: "It starts", UPPER_BOUND: "It starts no later than", ESTIMATE: "It is expected to start" };
const WOULD = { CERTAIN: "It would start", UPPER_BOUND: "It would start no later than", ESTIMATE: "It would be expected to start" };
const NAMED_MAX = 4;

/** When it starts, where that is known. */
export function forecastText(forecast) {
  return forecast?.start_at ? ` ${STARTS[forecast.certainty] ?? STARTS.ESTIMATE} at ${clock(forecast.start_at)}.` : "";
}

/** Since when, who gave up workers for whom, and what would change it: items of a list, as [signature, () => children]. */
export function factsOf(explanation, now) {
  const facts = [];
  const { since } = explanation;
  if (since !== null) {
    const text = `In this state since ${moment(since)}, for ${span(now - since)}.`;
    facts.push([text, () => [text]]);
  }
  for (const each of explanation.gave) facts.push(taking(each, "It", ["for ", () => jobLink(each.for_job, `job ${each.for_job}`)]));
  for (const each of explanation.got) facts.push(taking(each, () => jobLink(each.job_id, `Job ${each.job_id}`), ["for it"]));
  for (const { at, sentence } of explanation.lost) {
    const text = `It lost workers at ${moment(at)}: ${sentence.replace("->", "→")}.`;
    facts.push([text, () => [text]]);
  }
  for (const way of explanation.would_change) facts.push([way, () => [element("b", {}, "What would change it: "), way]]);
  return facts;
}

function taking(each, who, whom) {
  const what = each.kind === "JOB_SHRANK" ? `gave up workers (${each.detail.replace("->", "→")})` : "was stopped";
  const made = (part) => (typeof part === "function" ? part() : part);
  return [JSON.stringify(each), () => [made(who), ` ${what} `, ...whom.map(made), ` at ${moment(each.at)}.`]];
}

/** What another priority would do, in sentences. */
export function repricingText({ changed_priority: priority, start, size }) {
  return start === null ? sizesText(priority, size) : startText(priority, start);
}

function startText(priority, { wait, changed, as_it_is: present }) {
  const parts = [`With priority ${priority}:`];
  if (changed.start_at === null) parts.push("its start cannot be predicted.", wait ?? "");
  else if (changed.start_at <= changed.at) parts.push(`it would start immediately, with ${counted(changed.workers, "worker")}.`);
  else parts.push(`${WOULD[changed.certainty] ?? WOULD.ESTIMATE} at ${clock(changed.start_at)}, with ${counted(changed.workers, "worker")}.`);
  const losses = changed.losses.map((loss) => `job ${loss.id} (${loss.name}): ${loss.workers_before} → ${loss.workers_after} workers`);
  if (losses.length) parts.push(`It would take workers from ${named(losses)}.`);
  parts.push(present.start_at === null ? "Without the change, its start cannot be predicted." : `Without the change: at ${clock(present.start_at)}.`);
  return parts.filter(Boolean).join(" ");
}

function sizesText(priority, { workers, as_it_is: present, changed, others, others_count: count }) {
  const settles = changed === 0 ? "it would be stopped and would wait." : `it would settle at ${counted(changed, "worker")}.`;
  const parts = [`With priority ${priority}:`, settles, `It has ${workers} now; without the change it settles at ${present}.`];
  const texts = others.map((each) => `job ${each.id} (${each.name}): ${each.as_it_is} → ${each.changed} workers`);
  parts.push(count ? `Other jobs: ${named(texts, count)}.` : "No other job would change its size.");
  return parts.join(" ");
}

function named(texts, count = texts.length) {
  const shown = texts.slice(0, NAMED_MAX);
  return count > shown.length ? `${shown.join("; ")}; ${count - shown.length} more` : shown.join("; ");
}
