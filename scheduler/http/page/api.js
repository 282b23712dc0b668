// The daemon's API, with the token of this tab where one is needed.

const KEY = "sched-token";

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

/** An answer that says no. `status` 0: nobody answered. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Headers of a request of this user. */
export function headers(more = {}) {
  const known = token.get();
  return known === null ? more : { ...more, authorization: `Bearer ${known}` };
}

/** The response to a request. Raises `Refused` for everything but success. */
export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options, headers: headers(options.headers) });
  } catch (error) {
    throw new Refused(0, `The daemon does not respond: ${error.message}`);
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

/** What a failed response says. */
export async function refusal(answer) {
  try {
    return new Refused(answer.status, parse(await answer.text()).error.message);
  } catch {
    return new Refused(answer.status, `The daemon responded with status ${answer.status}.`);
  }
}

// Controls, marks of direction, separators of lines: found within strings only.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]/gu;

/** A JSON document. What its strings hold of characters that would not be seen, or turn others round, is written out. */
export const parse = (text) => JSON.parse(text.replace(UNSEEN, (odd) => `\\\\u{${odd.codePointAt(0).toString(16)}}`));

export const read = async (path) => parse(await (await ask(path)).text());
const send = (method, path, body) =>
  ask(path, { method, body: JSON.stringify(body), headers: { "content-type": "application/json" } });
export const post = (path, body) => (body === undefined ? ask(path, { method: "POST" }) : send("POST", path, body));
export const patch = (path, body) => send("PATCH", path, body);
