// Tenants: what each may use, and what it does use.

import { call, get } from "./api.js";
import { meter } from "./charts.js";
import { attempt, confirmed, note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { count, words } from "./format.js";
import { banner, button, facts, field, heading, live, loading, table } from "./parts.js";
import { href } from "./router.js";
import { isForAll, may, showTenant, who } from "./session.js";

const EVERY_MS = 5000;
const NO_RIGHT = "Your token may not change tenants.";

export async function tenantsPage({ signal }) {
  if (!isForAll()) return tenantPage({ params: { id: who().tenant_id }, signal });
  const { tenants, defaults } = await get("v1/tenants", {}, signal);
  const name = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const open = (event) => {
    event.preventDefault();
    if (name.value.trim()) location.hash = href(`/tenants/${encodeURIComponent(name.value.trim())}`);
  };
  const rows = tenants.map((one) => [
    { content: h("a", { href: href(`/tenants/${encodeURIComponent(one.tenant_id)}`), class: "name" }, one.tenant_id), class: "wide" },
    one.disabled ? h("span", { class: "chip bad" }, "disabled") : h("span", { class: "chip good" }, "enabled"),
    { content: limitsText(one.effective.limits), class: "wide" },
    { content: one.note || "–", class: "wide" },
  ]);
  return h(
    "div",
    {},
    heading("Tenants"),
    h("p", {}, "Those with a record of their own. A tenant without one has the defaults: ", defaults ? limitsText(defaults.limits) : "no limit", "."),
    table("Tenants", ["Tenant", "State", "Limits", "Note"], rows, "No tenant has a record: all have the defaults."),
    h("form", { class: "filters", on: { submit: open } }, field("Open a tenant", name), h("button", { type: "submit", class: "primary" }, "Open")),
  );
}

function limitsText(limits) {
  const set = Object.entries(limits).filter(([, value]) => value !== null && value !== undefined);
  return set.length ? set.map(([name, value]) => `${words(name)} ${count(value)}`).join(", ") : "no limit";
}

export async function tenantPage({ params, signal }) {
  const path = `v1/tenants/${encodeURIComponent(params.id)}`;
  const record = h("div", {}, loading());
  const show = async () => {
    try {
      fill(record, shown(await get(path, {}, signal), path, show));
    } catch (error) {
      if (error.name !== "AbortError") fill(record, banner(error));
    }
  };
  await show();
  return h(
    "div",
    {},
    heading(`Tenant “${params.id}”`, isForAll() && button("Show its jobs", () => { location.hash = "#/jobs"; showTenant(params.id); })),
    record,
    h("h2", {}, "Usage"),
    live(() => usage(path, signal), { everyMs: EVERY_MS, signal }),
  );
}

function shown(tenant, path, show) {
  const allowed = may("tenants:write") && isForAll();
  const change = async (changes, done) => {
    const body = { limits: tenant.limits, egress: tenant.egress, disabled: tenant.disabled, note: tenant.note, ...changes };
    await call("PUT", path, { body });
    note(done);
    await show();
  };
  return [
    facts([
      ["State", tenant.effective.disabled ? "disabled: its requests are refused, its runs wait" : "enabled"],
      ["Limits", limitsText(tenant.effective.limits)],
      ["Egress", tenant.effective.egress ? h("code", {}, JSON.stringify(tenant.effective.egress)) : "as the server has it"],
      ["Note", tenant.note],
    ]),
    h(
      "div",
      { class: "buttons" },
      button("Change limits", () => changeLimits(tenant, change), { enabled: allowed, why: NO_RIGHT }),
      button(tenant.disabled ? "Enable" : "Disable", () => turn(tenant, change), { enabled: allowed, why: NO_RIGHT, kind: tenant.disabled ? "plain" : "danger" }),
    ),
  ];
}

async function turn(tenant, change) {
  const text = tenant.disabled ? "Its requests are taken again, and its runs begin." : "Its requests are refused, and its runs wait until it is enabled.";
  const action = tenant.disabled ? "Enable" : "Disable";
  if (!(await confirmed({ title: `${action} “${tenant.tenant_id}”?`, text, action, dangerous: !tenant.disabled }))) return;
  await attempt(() => change({ disabled: !tenant.disabled }, tenant.disabled ? "It is enabled." : "It is disabled."));
}

async function changeLimits(tenant, change) {
  const names = Object.keys(tenant.effective.limits);
  const controls = names.map((name) => h("input", { type: "number", min: "0", value: tenant.limits[name] ?? "" }));
  const yes = await confirmed({
    title: `Limits of “${tenant.tenant_id}”`,
    text: "Empty: as the defaults have it.",
    fields: names.map((name, place) => field(words(name), controls[place])),
    action: "Save",
  });
  if (!yes) return;
  const limits = Object.fromEntries(names.map((name, place) => [name, controls[place].value === "" ? null : Number(controls[place].value)]));
  await attempt(() => change({ limits }, "The limits are saved."));
}

async function usage(path, signal) {
  const seen = await get(`${path}/usage`, {}, signal);
  const rows = seen.limits.map((one) => [
    words(one.limit),
    one.used === null ? (one.allowed === null ? "no limit" : `at most ${count(one.allowed)}`) : [one.at_least && "at least ", meter(one.used, one.allowed)],
    count(seen.refused[one.limit] || 0),
  ]);
  return [
    table("Usage", ["Limit", "Used", "Refused by this node"], rows, "It has no limits."),
    h("p", { class: "soft" }, `${count(seen.requests_last_minute)} requests in the last minute at this node.`),
  ];
}
