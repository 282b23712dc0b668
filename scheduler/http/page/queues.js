// The queues among which the slots are divided: a row for each, below the one that contains it.

import { drawing, element } from "./dom.js";
import { slotsText } from "./words.js";

const WIDTH = 160;
const HEIGHT = 22;
const cell = (...children) => element("td", {}, ...children);
const number = (text) => element("td", { class: "number" }, text);

/** All queues, each followed by those inside it. */
export function asTree(queues) {
  const place = ({ path }) => path.replaceAll("/", "\u0001"); // before all that a name may have
  return [...queues].map((queue) => [place(queue), queue]).sort(([a], [b]) => (a < b ? -1 : 1)).map(([, queue]) => queue);
}

/** The most slots that any of them holds or is entitled to: the length of a whole bar. */
export const mostSlots = (queues) => queues.reduce((most, each) => Math.max(most, each.slots_held, each.slots_entitled ?? 0), 1);

/** A queue's row, as [signature, () => children]. */
export function queueRow(queue, most) {
  return [JSON.stringify([queue, most]), () => {
    const { slots_held: held, slots_entitled: entitled } = queue;
    return [
      nameCell(queue.path.split("/")), number(`${slotsText(held)} of ${slotsText(entitled)}`), cell(bar(held, entitled, most)),
      number(slotsText(queue.slots_guaranteed)), number(slotsText(queue.jobs_running)), number(slotsText(queue.jobs_waiting)),
      cell(usersText(queue)),
    ];
  }];
}

/** Its own name, moved to the right for each level; screen readers and searches get the whole path. */
function nameCell(names) {
  const around = names.slice(0, -1).map((name) => `${name}/`).join("");
  const made = element("th", { scope: "row", class: "inside" });
  if (around) made.append(element("span", { class: "unseen" }, around));
  made.append(names.at(-1));
  made.style.setProperty("--level", names.length - 1);
  return made;
}

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
