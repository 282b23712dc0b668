// Making and renewing elements. Text is only ever set as text, so nothing that users name becomes markup.

const SVG = "http://www.w3.org/2000/svg";

/** The element with this id. */
export const byId = (id) => document.getElementById(id);

/** An element with attributes and children (elements or text). */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same of SVG. */
export function drawing(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Change a text only where it differs, so that screen readers hear of real changes. */
export function say(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** A link to a job's page. */
export function jobLink(id, text = `${id}`) {
  return element("a", { href: `#/jobs/${id}` }, text);
}

const FOCUSABLE = "a, button, input, select";

/**
 * Rows of a list that change in place: only rows whose content differs are made anew, so scroll stays; the focus goes on
 * to what stands in its place in the row.
 * `contentOf(item)` gives [signature, () => children].
 */
export class Rows {
  constructor(parent, rowName, keyOf, contentOf) {
    Object.assign(this, { parent, rowName, keyOf, contentOf, rows: new Map() });
  }

  update(items) {
    const focus = this.#focus();
    const kept = new Map();
    for (const item of items) {
      const key = this.keyOf(item);
      const [signature, children] = this.contentOf(item);
      const before = this.rows.get(key);
      if (before !== undefined && before.signature === signature) {
        kept.set(key, before);
        continue;
      }
      const row = before?.row ?? element(this.rowName);
      row.replaceChildren(...children());
      kept.set(key, { row, signature });
    }
    for (const [key, { row }] of this.rows) if (!kept.has(key)) row.remove();
    let place = this.parent.firstElementChild;
    for (const { row } of kept.values()) {
      if (row === place) place = place.nextElementSibling;
      else this.parent.insertBefore(row, place);
    }
    this.rows = kept;
    if (focus === null || document.activeElement === focus.element) return;
    const row = kept.get(focus.key)?.row;
    row?.querySelectorAll(FOCUSABLE)[focus.place]?.focus({ preventScroll: true });
  }

  /** What has the focus, in which row, and at which place of it; null: nothing of the list. */
  #focus() {
    const element = document.activeElement;
    if (!this.parent.contains(element)) return null;
    for (const [key, { row }] of this.rows) {
      if (row.contains(element)) return { element, key, place: [...row.querySelectorAll(FOCUSABLE)].indexOf(element) };
    }
    return null;
  }
}
