// Somebody else has changed the job while it was edited: what they made of it, and what is in the form.

import { h } from "./dom.js";
import { laidOut } from "./json_text.js";
import { button, table } from "./parts.js";
import { isSame, valueOf } from "./edit_fields.js";

/** A box that shows where `theirs` differs from what the form began with, and offers the two ways out. */
export function conflict({ base, theirs, fields, mine }, { saveOnTop, takeTheirs }) {
  const rows = fields
    .map((field) => ({ field, now: valueOf(theirs, field.path), was: valueOf(base, field.path) }))
    .filter(({ now, was }) => !isSame(now, was))
    .map(({ field, now }) => row(field, now, mine));
  const [had, have] = [base, theirs].map((job) => Object.keys(job.target.headers || {}).join(", "));
  if (had !== have) rows.push(["Headers", have || "none", mine.has("target.headers") ? "yours" : unchanged()]);
  return h(
    "section",
    { class: "panel", "aria-label": "Somebody else has changed it" },
    h("p", {}, h("b", {}, "Somebody else has changed it meanwhile. "), "What you typed is still here, and nothing of it is saved."),
    table("Differences", ["Field", "Theirs", "Yours"], rows, theirs.status === base.status ? "No field differs from what you began with." : "It was paused or resumed; no field differs."),
    h("div", { class: "buttons" }, button("Save mine on top", saveOnTop, { kind: "primary" }), button("Take theirs", takeTheirs)),
  );
}

const unchanged = () => h("span", { class: "soft" }, "not changed: theirs stays");

function row({ path, label }, now, mine) {
  const yours = mine.has(path) ? shown(path, mine.get(path)) : unchanged();
  return [label, { content: shown(path, now), class: "wide" }, { content: yours, class: "wide" }];
}

function shown(path, value) {
  if (value === null) return "–";
  if (path === "payload") return h("pre", { tabindex: "0" }, laidOut(value));
  if (typeof value === "string") return value;
  return h("code", {}, JSON.stringify(value));
}
