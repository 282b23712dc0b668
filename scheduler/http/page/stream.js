// Server-sent events by fetch, since EventSource sends no token. Comes again by itself where the stream breaks off.

import { headers, parse, refusal } from "./api.js";

const PAUSE_MS_MIN = 250;
const PAUSE_MS_MAX = 5000;
// The daemon says something every ten seconds.
const SILENCE_MS_MAX = 25000;

/**
 * Follow a stream for ever. `take(kind, text, receivedAt)` gets each message; `away(refused or error)` is told once per
 * break, and resolves when it makes sense to try again at once (a token was given) or to undefined for an ordinary pause.
 */
export async function follow(path, take, away) {
  const seen = { id: "" };
  let pauseMs = PAUSE_MS_MIN;
  for (;;) {
    try {
      await once(path, seen, (...message) => {
        pauseMs = PAUSE_MS_MIN;
        take(...message);
      });
      throw new Error("the daemon closed the stream");
    } catch (error) {
      const atOnce = await away(error);
      if (!atOnce) await new Promise((done) => setTimeout(done, pauseMs));
      pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX);
    }
  }
}

async function once(path, seen, take) {
  const control = new AbortController();
  let silence = setTimeout(() => control.abort(), SILENCE_MS_MAX);
  try {
    const answer = await fetch(path, {
      cache: "no-store", signal: control.signal, headers: headers({ "last-event-id": seen.id }),
    });
    if (!answer.ok) throw await refusal(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(() => control.abort(), SILENCE_MS_MAX);
      const receivedAt = performance.now();
      const messages = (rest + value).split("\n\n");
      rest = messages.pop();
      for (const message of messages) pass(message, seen, take, receivedAt);
    }
  } finally {
    clearTimeout(silence);
  }
}

function pass(message, seen, take, receivedAt) {
  const fields = {};
  for (const line of message.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  if (fields.data === undefined) return; // a comment: all is well
  take(fields.event, parse(fields.data), receivedAt);
  seen.id = fields.id ?? seen.id;
}
