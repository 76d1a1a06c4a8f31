// Whether the server is heard. Every answer and every piece of a stream is a sign of life. If none comes though one is
// owed, a line above the page says since when, and what is shown is greyed: it is from then. Meanwhile only this asks.

import { h } from "./dom.js";
import { clock, relative } from "./format.js";

const SILENT_MS = 4000;
const LOOK_MS = 500;
const ASK_MS = 2000;

const owed = new Map(); // what was asked and not answered yet -> when
const listeners = new Set();
const waiting = new Set();
let heardMs = Date.now();
let isMissed = false;
let isLost = false;
let askedMs = 0;
let hope = new AbortController();

/** Something is asked: pass what is returned to `answered`. */
export function asked() {
  const one = {};
  owed.set(one, Date.now());
  return one;
}

/** It was answered, or nobody waits for it any more. */
export const answered = (one) => owed.delete(one);

/** A sign of life. */
export function heard() {
  heardMs = Date.now();
  isMissed = false;
  if (isLost) change(false);
  for (const resolve of waiting) resolve();
  waiting.clear();
}

/** The server could not be reached. */
export function missed() {
  isMissed = true;
}

/** Says stop to what waits for an answer when the server falls silent. */
export const whileHeard = () => hope.signal;

export const isSilent = () => isLost;

/** The instant of the last sign of life. */
export const lastHeard = () => new Date(heardMs).toISOString();

/** `listener` is called when the server falls silent and when it is heard again, until `signal` says stop. */
export function onContact(listener, signal) {
  listeners.add(listener);
  signal?.addEventListener("abort", () => listeners.delete(listener));
}

/** The next sign of life, or that `signal` says stop. */
export function nextHeard(signal) {
  return new Promise((resolve) => {
    waiting.add(resolve);
    signal?.addEventListener("abort", resolve);
  });
}

/** Begin to look, and tell it above `main`. `ask` asks for a sign of life. */
export function watchContact(main, ask) {
  const place = h("section", { class: "contact", "aria-label": "Connection" });
  main.before(place);
  onContact(() => {
    main.classList.toggle("silent", isLost);
    place.replaceChildren(...(isLost ? [notice()] : []));
  });
  setInterval(() => look(ask), LOOK_MS);
}

function look(ask) {
  const now = Date.now();
  const isOwed = isMissed || now - Math.min(...owed.values()) > SILENT_MS;
  if (!isLost && isOwed && now - heardMs > SILENT_MS) change(true);
  if ((isLost || isMissed) && now - askedMs > ASK_MS) {
    askedMs = now;
    ask(AbortSignal.timeout(ASK_MS)).catch(() => {});
  }
}

function change(lost) {
  isLost = lost;
  if (lost) {
    hope.abort();
    hope = new AbortController();
  }
  for (const listener of [...listeners]) listener();
}

// The age is beside what is read aloud: it changes every second.
function notice() {
  const at = lastHeard();
  return h(
    "div",
    { class: "banner" },
    h("span", { role: "alert" }, `Nothing has been heard from the server since ${clock(at).slice(11)}. What is shown is from then. It is asked again and again.`),
    " Last heard: ",
    h("span", { dataset: { at } }, relative(at)),
    ".",
  );
}
