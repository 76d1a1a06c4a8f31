// Who changed what.

import { get } from "./api.js";
import { h } from "./dom.js";
import { pretty } from "./format.js";
import { button, field, heading, jobHref, moment, runHref, table } from "./parts.js";
import { query, setQuery } from "./router.js";
import { isDefaultTenant, isForAll, tenant, who } from "./session.js";

const TEXTS = [["action", "Action", "job, token.revoke"], ["actor", "Who", "key:…"], ["subject", "What", "job_…"]];
const TIMES = [["from", "From"], ["to", "Before"]];
const FILTERS = [...TEXTS, ...TIMES].map(([name]) => name);

export async function auditLogPage({ signal }) {
  const asked = query();
  const wanted = { tenant_id: whose(asked), limit: 50, cursor: asked.get("cursor") };
  for (const name of FILTERS) wanted[name] = asked.get(name);
  const { entries, next_cursor: next } = await get("v1/audit-log", wanted, signal);
  return h(
    "div",
    {},
    heading("Audit log"),
    filters(asked),
    table("Changes", ["When", "Who", isForAll() && "Tenant", "Did", "To what", "Before and after"].filter(Boolean), entries.map(row), empty(asked)),
    h("nav", { class: "pages", "aria-label": "Pages" }, next && button("More", () => setQuery({ cursor: next }))),
  );
}

/** Of all tenants, unless the token is for one, or one is named. The default one has to be named here. */
function whose(asked) {
  if (!isForAll()) return who().tenant_id;
  return isDefaultTenant(tenant()) ? asked.get("of") || "" : tenant();
}

function filters(asked) {
  const text = (value, props) => h("input", { type: "text", value, autocomplete: "off", spellcheck: "false", ...props });
  const of = text(whose(asked), { placeholder: "all tenants" });
  const texts = TEXTS.map(([name, label, example]) => [name, label, text(asked.get(name) || "", { placeholder: example })]);
  const times = TIMES.map(([name, label]) => [name, label, h("input", { type: "datetime-local", step: "1", value: local(asked.get(name)) })]);
  const submit = (event) => {
    event.preventDefault();
    const given = Object.fromEntries(texts.map(([name, , control]) => [name, control.value.trim()]));
    for (const [name, , control] of times) given[name] = control.value && new Date(control.value).toISOString();
    if (isForAll()) {
      const name = of.value.trim();
      Object.assign(given, isDefaultTenant(name) ? { of: name, tenant: "" } : { of: "", tenant: name });
    }
    setQuery({ ...given, cursor: "" });
  };
  return h(
    "form",
    { class: "filters", role: "search", on: { submit } },
    isForAll() && field("Tenant", of),
    [...texts, ...times].map(([, label, control]) => field(label, control)),
    h("button", { type: "submit", class: "primary" }, "Search"),
  );
}

/** An instant as a control of the browser shows it, in the zone of whoever looks. */
function local(iso) {
  const at = new Date(iso || "");
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

function empty(asked) {
  if (FILTERS.some((name) => asked.get(name))) return "Nothing was changed like that.";
  return whose(asked) ? `Nothing was changed for the tenant ${whose(asked)} yet.` : "Nothing was changed yet.";
}

function row(entry) {
  const by = [entry.actor_label && h("b", {}, entry.actor_label), h("span", { class: entry.actor_label ? "soft" : false }, entry.actor)];
  const cells = [
    { content: moment(entry.at), class: "when" },
    { content: [by, h("span", { class: "soft" }, entry.source && ` from ${entry.source}`)], class: "wide" },
  ];
  if (isForAll()) cells.push(entry.tenant_id || h("span", { class: "soft" }, "all"));
  cells.push(
    h("code", {}, entry.action),
    { content: subject(entry.subject), class: "wide" },
    { content: difference(entry.before, entry.after), class: "wide" },
  );
  return cells;
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
