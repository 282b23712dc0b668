// The page: ties the stream to the map, the lists and the page of a job.

import { Refused, post, read, token } from "./api.js";
import { drawLegend } from "./cells.js";
import { utilization, utilizationText } from "./chart.js";
import { Cluster } from "./cluster.js";
import { byId, element, say } from "./dom.js";
import { JobPage, jobRoot } from "./job.js";
import { Lists } from "./lists.js";
import { SlotMap } from "./map.js";
import { follow } from "./stream.js";
import { counted, numberText } from "./words.js";

const HISTORY_MS = 30_000;
const CODE = /^#code=([\w-]+)$/;
const THEMES = { system: "system", light: "light", dark: "dark" };

const cluster = new Cluster();
const lists = new Lists(cluster);
const map = new SlotMap(byId("map"), cluster, (job) => (location.hash = `#/jobs/${job}`), (text) => say(byId("map-told"), text));
let jobPage = null;
let due = null; // what the next frame has to draw
let drawn = false; // whether the map was shown
let broken = false; // whether the stream has broken off since its last message

// From the stream to the screen: messages change the cluster, the next frame draws all that they touched.

function take(kind, message, receivedAt) {
  const touched = cluster.take(kind, message);
  cluster.receivedAt = receivedAt;
  broken = false;
  if (due === null) {
    due = { layout: false, nodes: new Set(), receivedAt };
    requestAnimationFrame(drawDue);
  }
  due.layout ||= touched.layout;
  touched.nodes.forEach((name) => due.nodes.add(name));
  const about = (event) => event.job_id === jobPage?.id;
  if (jobPage && (kind === "picture" || touched.events.some(about) || message.jobs?.some((job) => job.id === jobPage.id))) jobPage.update();
}

function drawDue() {
  const { layout, nodes, receivedAt } = due;
  due = null;
  if (layout) map.layout();
  else map.drawNodes(nodes);
  drawFigures();
  if (drawn) {
    drawLists(receivedAt);
    return;
  }
  drawn = true;
  setTimeout(() => { // the first map is painted before the lists below it are made
    performance.mark("sched-first-map");
    drawLists(receivedAt);
  });
}

function drawLists(receivedAt) {
  lists.update();
  drawHistory();
  setTimeout(() => { // painted: how long it took is for whoever measures
    performance.clearMeasures("sched-update");
    performance.measure("sched-update", { start: receivedAt, end: performance.now() });
  });
}

function drawFigures() {
  const { slots_used: used, slots_total: total, jobs_by_state: states, head } = cluster;
  const share = total > 0 ? ` (${Math.round((100 * used) / total)} %)` : "";
  const jobs = Object.entries(states).filter(([, count]) => count > 0).map(([state, count]) => `${numberText(count)} ${state.toLowerCase()}`);
  say(byId("figures"), `${numberText(used)} of ${counted(total, "slot")} used${share}; jobs: ${jobs.join(", ") || "none"}`);
  if (!broken) standing(head);
}

function standing({ term, leader, not_ready: trouble }) {
  const follows = term === null && leader !== null;
  const text = follows ? `Live, from a standby; ${leader.name} leads` : "Live";
  const place = byId("standing");
  if (place.textContent !== text) {
    const reachable = follows && /^https?:\/\//.test(leader.url ?? "");
    place.replaceChildren(...(reachable ? ["Live, from a standby; ", element("a", { href: leader.url }, leader.name), " leads"] : [text]));
  }
  alarm(trouble ? `The scheduler is not making decisions: ${trouble}` : "");
}

function alarm(text) {
  byId("trouble").hidden = text === "";
  say(byId("trouble"), text);
}

// History: asked for after the first picture, and again now and then.

async function readHistory() {
  if (document.hidden) return;
  try {
    cluster.takeHistory(await read("/v1/history"));
    lists.update();
    drawHistory();
  } catch {
    // The stream says what is wrong; the next look may do better.
  }
}

/** Whose queues and jobs come first. */
async function readWhoLooks() {
  try {
    lists.queues.me = await read("/v1/whoami");
    lists.update();
  } catch {
    // Nobody's queues come first.
  }
}

function drawHistory() {
  const { history, slots_used: used, slots_total: total } = cluster;
  if (history === null) return;
  byId("utilization").replaceChildren(utilization(history, used, total));
  say(byId("utilization-told"), utilizationText(history));
}

// Which page: the cluster's or a job's.

function route() {
  if (location.hash !== "" && !location.hash.startsWith("#/")) return; // a place on this page
  const id = Number(/^#\/jobs\/(\d{1,15})$/.exec(location.hash)?.[1] ?? 0);
  if ((jobPage?.id ?? 0) === id) return;
  jobPage?.close();
  byId("overview").hidden = id !== 0;
  jobRoot().hidden = id === 0;
  document.title = id === 0 ? "Elastic GPU scheduler" : `Job ${id} – Elastic GPU scheduler`;
  if (id !== 0) {
    jobPage = new JobPage(jobRoot(), id, cluster);
    return;
  }
  jobPage = null;
  jobRoot().replaceChildren();
  map.layout();
  byId("main").focus();
}

// The token, where the daemon asks for one.

/** Logs in with the code that `sched page` has put into the address, which is removed from there and from the history. */
async function logIn() {
  const code = CODE.exec(location.hash)?.[1];
  if (code === undefined) return;
  history.replaceState(null, "", location.pathname);
  try {
    token.set((await (await post("/v1/page-tokens", { code })).json()).token);
    byId("forget-token").hidden = false;
  } catch (error) {
    alarm(`The login failed: ${error.message}`);
  }
}

function askForToken(why) {
  const dialog = byId("token-dialog");
  if (why !== null) say(byId("token-why"), `The scheduler rejected this token: ${why}`);
  if (!dialog.open) dialog.showModal();
  return new Promise((given) => {
    byId("token-form").addEventListener("submit", () => {
      token.set(byId("token").value);
      byId("token").value = "";
      byId("forget-token").hidden = false;
      given(true);
    }, { once: true });
  });
}

async function away(error) {
  broken = true;
  if (error instanceof Refused && error.status === 401) {
    const why = token.get() === null ? null : error.message;
    token.forget();
    say(byId("standing"), "Token required");
    return await askForToken(why);
  }
  say(byId("standing"), "Not live");
  alarm(`Connection to the daemon lost (${error.message}). This is the last known state. Reconnecting…`);
  return false;
}

// Light and dark.

function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  localStorage.setItem("sched-theme", name);
  say(byId("theme"), `Theme: ${THEMES[name]}`);
  drawLegend(byId("legend"), element);
  map.draw();
  lists.drawAnew();
}

function nextTheme() {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(localStorage.getItem("sched-theme")) + 1) % names.length]);
}

const known = localStorage.getItem("sched-theme");
setTheme(known in THEMES ? known : "system");
byId("theme").addEventListener("click", nextTheme);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(localStorage.getItem("sched-theme")));
// Escape closes the question; then a button asks it again.
byId("token-dialog").addEventListener("close", () => (byId("give-token").hidden = token.get() !== null));
byId("give-token").addEventListener("click", () => byId("token-dialog").showModal());
byId("forget-token").hidden = token.get() === null;
byId("forget-token").addEventListener("click", () => {
  token.forget();
  location.reload();
});
addEventListener("hashchange", () => {
  if (CODE.test(location.hash)) location.reload(); // an address by `sched page` was opened in this tab
  else route();
});
await logIn();
route();
let begun = false;
follow("/v1/live", (kind, message, receivedAt) => {
  take(kind, message, receivedAt);
  if (!begun) {
    begun = true;
    readWhoLooks();
    readHistory();
    setInterval(readHistory, HISTORY_MS);
  }
}, away);
