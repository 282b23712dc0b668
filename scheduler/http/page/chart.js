// Drawings of sizes and utilization over time, as SVG.

import { drawing } from "./dom.js";
import { clock, counted } from "./words.js";

const HOUR_SECONDS = 3600;

/** A job's number of workers over a time: steps of [time, workers], the last one lasting until the end. */
export function strip(steps, since, until, most, { width = 160, height = 22, kind = "strip" } = {}) {
  const x = (at) => (((Math.max(at, since) - since) / Math.max(1e-9, until - since)) * width).toFixed(1);
  const y = (workers) => (height - 1 - (workers / Math.max(1, most)) * (height - 2)).toFixed(1);
  const before = steps.filter(([at]) => at <= since).at(-1);
  const shown = [...(before ? [[since, before[1]]] : []), ...steps.filter(([at]) => at > since)];
  let area = "";
  shown.forEach(([at, workers], n) => {
    const end = n + 1 < shown.length ? shown[n + 1][0] : until;
    area += `${n === 0 ? `M${x(at)},${height - 1}` : ""}L${x(at)},${y(workers)}L${x(end)},${y(workers)}`;
  });
  if (area) area += `L${x(until)},${height - 1}Z`;
  const sizes = shown.map(([, workers]) => workers);
  const text = sizes.length === 0 ? "no workers"
    : `${counted(sizes.at(-1), "worker")} now, ${Math.min(...sizes)} to ${Math.max(...sizes)} since ${clock(shown[0][0])}`;
  return drawing("svg", { class: kind, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": text },
    drawing("title", {}, text),
    drawing("line", { x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }),
    drawing("path", { d: area }));
}

/** The strip of the last hour. */
export const lastHour = (steps, now, most, options) => strip(steps, now - HOUR_SECONDS, now, most, options);

/** Used slots over the last hour, and what they are now. */
export function utilization(history, usedNow, total) {
  const [width, height] = [1000, 90];
  const points = [...history.slots_used, usedNow];
  const most = Math.max(1, total, ...points);
  const y = (slots) => (height - (slots / most) * height).toFixed(1);
  const x = (n) => ((n / (points.length - 1)) * width).toFixed(1);
  const line = points.map((slots, n) => `${n === 0 ? "M" : "L"}${x(n)},${y(slots)}`).join("");
  const text = utilizationText(history);
  return drawing("svg", { class: "utilization", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": text },
    drawing("title", {}, text),
    ...[0, 0.5, 1].map((share) => drawing("line", { x1: 0, x2: width, y1: y(share * total), y2: y(share * total) })),
    drawing("path", { class: "area", d: `${line}L${width},${height}L0,${height}Z` }),
    drawing("path", { class: "line", d: line }));
}

/** How much of the slots that there were was used on average. */
export function utilizationText(history) {
  const [used, total] = [history.slots_used, history.slots_total].map((slots) => slots.reduce((sum, each) => sum + each, 0));
  if (total === 0) return "no slots";
  return `${Math.round((100 * used) / total)} % of slots used on average since ${clock(history.since)}`;
}
