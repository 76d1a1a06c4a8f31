// Who changed what.

import { get } from "./api.js";
import { h } from "./dom.js";
import { pretty } from "./format.js";
import { button, field, heading, jobHref, moment, runHref, table } from "./parts.js";
import { query, setQuery } from "./router.js";
import { tenant, tenantQuery } from "./session.js";

const FILTERS = [["action", "Action"], ["actor", "Who"], ["subject", "What"]];

export async function auditLogPage({ signal }) {
  const asked = query();
  const wanted = { ...tenantQuery(), limit: 50, cursor: asked.get("cursor") };
  for (const [name] of FILTERS) wanted[name] = asked.get(name);
  const { entries, next_cursor: next } = await get("v1/audit-log", wanted, signal);
  const controls = FILTERS.map(([name]) => h("input", { type: "text", value: asked.get(name) || "", autocomplete: "off", spellcheck: "false" }));
  const submit = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(FILTERS.map(([name], place) => [name, controls[place].value.trim()]));
    setQuery({ ...given, cursor: "" });
  };
  return h(
    "div",
    {},
    heading("Audit log"),
    h("form", { class: "filters", role: "search", on: { submit } }, FILTERS.map(([, label], place) => field(label, controls[place])), h("button", { type: "submit", class: "primary" }, "Search")),
    table("Changes", ["When", "Who", "Did", "To what", "Before and after"], entries.map(row), `Nothing was changed${FILTERS.some(([name]) => asked.get(name)) ? " like that" : ` for the tenant ${tenant()} yet`}.`),
    h("nav", { class: "pages", "aria-label": "Pages" }, next && button("More", () => setQuery({ cursor: next }))),
  );
}

function row(entry) {
  return [
    { content: moment(entry.at), class: "when" },
    { content: [entry.actor, h("span", { class: "soft" }, entry.source && `from ${entry.source}`)], class: "wide" },
    h("code", {}, entry.action),
    { content: subject(entry.subject), class: "wide" },
    { content: difference(entry.before, entry.after), class: "wide" },
  ];
}

function subject(text) {
  if (/^job_\w+$/.test(text)) return h("a", { href: jobHref(text) }, text);
  if (/^run_\w+$/.test(text)) return h("a", { href: runHref(text) }, text);
  return text;
}

function difference(before, after) {
  if (!before && !after) return "–";
  const shown = [];
  if (before) shown.push(h("h4", {}, "Before"), h("pre", { tabindex: "0" }, pretty(before)));
  if (after) shown.push(h("h4", {}, "After"), h("pre", { tabindex: "0" }, pretty(after)));
  return h("details", {}, h("summary", {}, before && after ? Object.keys(after).join(", ") || "show" : after ? "created" : "removed"), shown);
}
