// What users may ask of a job. The daemon decides; this asks it by the same calls as `sched`.

import { patch, post, read } from "./api.js";
import { byId, element, say } from "./dom.js";
import { repricingText } from "./explanation.js";

/** Whether the user says yes. */
export function confirmed(text) {
  const dialog = byId("confirm-dialog");
  say(byId("confirm-text"), text);
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((answer) => dialog.addEventListener("close", () => answer(dialog.returnValue === "yes"), { once: true }));
}

/** The forms of one job. `told` is where results are said; they are kept while the job's page is shown. */
export class Actions {
  constructor(id) {
    this.path = `/v1/jobs/${id}`;
    this.id = id;
    this.told = element("p", { class: "told", role: "status" });
    this.priority = field("Priority", -1_000_000);
    this.least = field("Minimum workers", 1);
    this.most = field("Maximum workers", 1);
    this.suspend = button("Suspend", () => this.#do("Suspend requested.", () => post(`${this.path}/suspend`)));
    this.resume = button("Resume", () => this.#do("Resume requested.", () => post(`${this.path}/resume`)));
    this.cancel = button("Cancel", () => this.#cancel(), "danger");
    this.root = element("section", { class: "actions", "aria-label": "Actions", hidden: true },
      form([this.priority], "Set priority", () => this.#setPriority(), button("Preview", () => this.#askPriority())),
      form([this.least, this.most], "Scale", () => this.#scale()),
      element("div", { class: "row" }, this.suspend, this.resume, this.cancel),
      this.told);
  }

  /** Show them, with the job's present values where nobody is about to write others. */
  update(job) {
    const ended = ["SUCCEEDED", "FAILED", "CANCELLED"].includes(job.state);
    this.root.hidden = ended;
    this.suspend.hidden = ["SUSPENDED", "HELD"].includes(job.state);
    this.resume.hidden = !this.suspend.hidden;
    const present = [[this.priority, job.priority], [this.least, job.min_workers], [this.most, job.max_workers]];
    for (const [{ input }, value] of present) {
      if (input.dataset.was === input.value || input.dataset.was === undefined) input.value = value;
      input.dataset.was = `${value}`;
    }
  }

  #setPriority() {
    const priority = this.priority.input.valueAsNumber;
    return this.#do(`Priority ${priority} requested.`, () => patch(this.path, { priority }));
  }

  /** Asks only. */
  #askPriority() {
    const { input } = this.priority;
    if (!input.reportValidity()) return undefined;
    return this.#do(repricingText, () => read(`${this.path}/whatif?priority=${input.valueAsNumber}`));
  }

  #scale() {
    const [least, most] = [this.least.input.valueAsNumber, this.most.input.valueAsNumber];
    return this.#do(`${least} to ${most} workers requested.`, () => patch(this.path, { min_workers: least, max_workers: most }));
  }

  async #cancel() {
    if (await confirmed(`Cancel job ${this.id}? Its workers will be stopped. This cannot be undone.`)) {
      await this.#do("Cancel requested.", () => post(`${this.path}/cancel`));
    }
  }

  /** `done`: what to say then, or how to say the answer. */
  async #do(done, call) {
    try {
      const answer = await call();
      say(this.told, typeof done === "function" ? done(answer) : done);
      this.told.classList.remove("refused");
    } catch (error) {
      say(this.told, `Refused: ${error.message}`);
      this.told.classList.add("refused");
    }
  }
}

function field(text, min) {
  const input = element("input", { type: "number", step: 1, min, required: true });
  return { input, label: element("label", {}, `${text} `, input) };
}

function form(fields, text, act, ...more) {
  const submit = element("button", { type: "submit" }, text);
  const made = element("form", { class: "row" }, ...fields.map(({ label }) => label), submit, ...more);
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    act();
  });
  return made;
}

function button(text, act, kind = null) {
  const made = element("button", { type: "button", class: kind }, text);
  made.addEventListener("click", act);
  return made;
}
