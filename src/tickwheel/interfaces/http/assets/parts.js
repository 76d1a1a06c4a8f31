// Pieces that several pages are made of.

import { isSilent, nextHeard } from "./contact.js";
import { fill, h } from "./dom.js";
import { clock, hereZone, offset, relative, words } from "./format.js";
import { href } from "./router.js";

const MARKS = {
  SCHEDULED: ["○", "wait"],
  CLAIMED: ["◔", "busy"],
  DISPATCHED: ["◑", "busy"],
  RUNNING: ["◕", "busy"],
  SUCCEEDED: ["✓", "good"],
  COMPLETED: ["✓", "good"],
  FAILED: ["✗", "bad"],
  CANCELLED: ["–", "off"],
  SKIPPED: ["»", "off"],
  PAUSED: ["‖", "off"],
};

/** A state as a word with a sign: never by colour alone. */
export function chip(state) {
  const [mark, kind] = MARKS[state] || ["?", "off"];
  return h("span", { class: `chip ${kind}` }, h("span", { "aria-hidden": "true" }, mark), words(state));
}

export const stateKind = (state) => (MARKS[state] || ["?", "off"])[1];

/** An instant as people say it, with the exact one below; `data-at` lets it be told anew as time goes by. */
export function moment(iso, zone) {
  if (!iso) return "–";
  const exact = `${clock(iso, zone)} ${offset(iso, zone)}`;
  return h(
    "time",
    { datetime: iso, title: `${iso} (shown for ${zone || hereZone})` },
    h("span", { dataset: { at: iso } }, relative(iso)),
    h("span", { class: "soft" }, exact),
  );
}

/** Tell all relative instants on the page anew. */
export function retell() {
  const now = Date.now();
  for (const element of document.querySelectorAll("[data-at]")) {
    const text = relative(element.dataset.at, now);
    if (element.textContent !== text) element.textContent = text;
  }
}

const WAITS = {
  failing: "its host gives no answer, and is asked now and then only",
  retry_after: "its host asked to be left alone for a while",
  slowed: "its host pushes back and gets less",
  full: "all places of its host, or all slots of its workers, are in use",
  rate: "its rate, or its handler's, is used up",
  worker: "no server or worker that lives does it",
  due_per_second: "its tenant starts as many runs per second as it may",
  concurrency: "as many runs of its tenant are under way as may be",
  disabled: "its tenant is disabled",
};

/** Why a due run of a job is not started: what the API calls `waits_for`, in words. */
export const whyItWaits = (word) => WAITS[word] || words(word);

const SHOWS = /[^\p{Z}\p{C}\u115f\u1160\u2800\u3164\uffa0]/u;

export const jobHref = (jobId) => href(`/jobs/${jobId}`);
export const runHref = (runId) => href(`/runs/${runId}`);

/** An address with the values of its secret parameters hidden, by the names that the server hides in explanations. */
export const shownAddress = (url) => String(url || "").replace(/([?&][^=&]*(?:password|passwd|secret|token)[^=&]*=)[^&]+/gi, "$1***");

/** Its name, or its id where a stored name shows nothing (blanks, say). */
export const jobTitle = (jobId, name) => (SHOWS.test(name || "") ? name : jobId);

export function jobLink(jobId, name) {
  return h("a", { href: jobHref(jobId), class: "name" }, jobTitle(jobId, name));
}

/**
 * A table in a box that scrolls sideways; rows are lists of cells (nodes or texts, or {content, class}).
 * On a narrow screen each row is a block and each cell carries its heading.
 */
export function table(caption, headings, rows, empty) {
  if (!rows.length) return h("div", { class: "scroll" }, h("div", { class: "empty" }, empty));
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "spoken" }, caption),
      h("thead", {}, h("tr", {}, headings.map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, place) => cellOf(cell, headings[place]))))),
    ),
  );
}

function cellOf(cell, heading) {
  const isPlain = cell instanceof Node || Array.isArray(cell) || typeof cell !== "object" || cell === null;
  const { content, class: css } = isPlain ? { content: cell, class: "" } : cell;
  const label = heading instanceof Node ? heading.textContent : heading;
  return h("td", { class: css || false, "data-label": label }, content);
}

/** The heading of a page; it takes the focus when the page is opened, so that it is read. */
export function heading(text, ...beside) {
  return h("div", { class: "heading" }, h("h1", { tabindex: "-1" }, text), beside);
}

export function banner(error) {
  return h("div", { class: "banner", role: "alert" }, `This can't be shown now: ${error.message}`);
}

export function loading() {
  return h("p", { class: "soft loading" }, "Loading …");
}

/**
 * A part of a page that shows what `make` gives, and why if that fails; made anew every so often. It stays as it is
 * while the server is silent (the page says so), and is made anew when it is heard again.
 */
export function live(make, { everyMs = 0, signal, first = loading() } = {}) {
  const box = h("div", { class: "live" }, first);
  const update = async () => {
    try {
      const made = await make();
      if (!signal.aborted) fill(box, made);
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (error.status === 0) nextHeard(signal).then(() => signal.aborted || update());
      else fill(box, banner(error));
    }
  };
  const again = async () => {
    if (signal.aborted) return;
    if (!document.hidden && !isSilent()) await update();
    setTimeout(again, everyMs);
  };
  if (everyMs) again();
  else update();
  box.update = update;
  return box;
}

/** Name and value pairs. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => ![undefined, null, false, ""].includes(value));
  return h("dl", { class: "facts" }, shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function button(text, act, { kind = "plain", enabled = true, why = "" } = {}) {
  const props = { type: "button", class: kind, disabled: !enabled, title: enabled ? false : why };
  const element = h("button", props, text);
  element.addEventListener("click", async () => {
    if (element.ariaBusy) return; // a disabled one would lose the focus, and no dialog could give it back
    element.ariaBusy = "true";
    try {
      await act();
    } finally {
      element.ariaBusy = null;
    }
  });
  return element;
}

/** A field with its label; `control` gets an id, and the hint is told with it. */
export function field(label, control, hint) {
  const id = `f${(field.next = (field.next || 0) + 1)}`;
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    control,
    hint && h("span", { class: "hint", id: `${id}-hint` }, hint),
  );
}

export function choice(options, value, props = {}) {
  return h(
    "select",
    props,
    options.map(([id, text]) => h("option", { value: id, selected: id === value }, text)),
  );
}
