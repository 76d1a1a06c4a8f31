// Who is told when something goes wrong.

import { call, get, post } from "./api.js";
import { attempt, confirmed, note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { length } from "./format.js";
import { button, choice, field, heading, moment, table } from "./parts.js";
import { query, setQuery } from "./router.js";
import { isForAll, may, tenant, tenantQuery } from "./session.js";

const EVENTS = {
  "run.dead_lettered": "a run is out of attempts",
  "job.failing": "several runs of a job in a row are",
  "job.recovered": "a failing job succeeds again",
  "schedule.exhausted": "a schedule will never fire again",
  "objective.burning": "too many starts are late",
};
const NO_RIGHT = "Your token may not change notifications.";
const SCOPE = "notifications:write";

/** Whether the rules of the installation are shown, not those of a tenant. */
const isWide = () => isForAll() && query().get("of") === "installation";
const whose = () => (isWide() ? { installation: "true" } : tenantQuery());

export async function notificationsPage({ signal }) {
  const box = h("div", {});
  const show = async () => {
    const { notifications } = await get("v1/notifications", whose(), signal);
    fill(box, content(notifications, show));
  };
  await show();
  return box;
}

function content(rules, show) {
  const rows = rules.map((rule) => [
    { content: rule.name, class: "wide name" },
    { content: rule.events.map((event) => h("div", {}, EVENTS[event] || event)), class: "wide" },
    { content: destination(rule.to), class: "wide" },
    { content: [rule.job_name_prefix && `name begins with ${rule.job_name_prefix} `, rule.tag && `tag ${rule.tag}`].filter(Boolean).join(", ") || "all", class: "wide" },
    length(rule.quiet_seconds * 1000),
    { content: moment(rule.updated_at), class: "when" },
    h(
      "div",
      { class: "buttons" },
      button("Try it", () => trial(rule), rights()),
      button("Change", () => change(rule, show), rights()),
      button("Delete", () => remove(rule, show), { ...rights(), kind: "danger" }),
    ),
  ]);
  const headings = ["Rule", "Tells when", "To", "Of jobs", "At most once in", "Changed", "Actions"];
  return [
    heading("Notifications", button("New rule", () => change(null, show), { ...rights(), kind: "primary" })),
    isForAll() &&
      h(
        "form",
        { class: "filters" },
        field(
          "Rules of",
          choice([["", `the tenant ${tenant()}`], ["installation", "the installation: all tenants"]], isWide() ? "installation" : "", {
            on: { change: (event) => setQuery({ of: event.target.value }) },
          }),
        ),
      ),
    table("Rules", headings, rows, "Nobody is told yet when something goes wrong. Make a rule with New rule."),
  ];
}

const rights = () => ({ enabled: may(SCOPE), why: NO_RIGHT });

function destination(to) {
  if (to.webhook) return h("code", {}, to.webhook.endpoint);
  return to.email.join(", ");
}

const path = (name) => `v1/notifications/${encodeURIComponent(name)}`;

async function trial(rule) {
  await attempt(async () => {
    const seen = await post(`${path(rule.name)}/test`, undefined, whose());
    note(seen.delivered ? "The trial message arrived." : `It did not arrive: ${seen.error}`, { bad: !seen.delivered });
  });
}

async function remove(rule, show) {
  const yes = await confirmed({ title: `Delete the rule “${rule.name}”?`, text: "Nobody is told by it any more.", action: "Delete the rule", dangerous: true });
  if (!yes) return;
  await attempt(async () => {
    await call("DELETE", path(rule.name), { query: whose() });
    const { name, tenant_id: _, version: __, updated_at: ___, ...body } = rule;
    note("It is deleted.", { undo: () => save(name, body, show) });
    await show();
  });
}

async function save(name, body, show) {
  await call("PUT", path(name), { query: whose(), body });
  await show();
}

async function change(rule, show) {
  const text = (value, props = {}) => h("input", { type: "text", value: value ?? "", autocomplete: "off", spellcheck: "false", ...props });
  const name = text(rule?.name, { disabled: Boolean(rule) });
  const boxes = Object.entries(EVENTS)
    .filter(([event]) => event !== "objective.burning" || isWide())
    .map(([event, says]) => [event, says, h("input", { type: "checkbox", checked: rule ? rule.events.includes(event) : event === "run.dead_lettered" })]);
  const kind = choice([["webhook", "a webhook"], ["email", "e-mail"]], rule?.to.email ? "email" : "webhook");
  const to = text(rule ? rule.to.webhook?.endpoint || rule.to.email.join(", ") : "");
  const prefix = text(rule?.job_name_prefix);
  const tag = text(rule?.tag);
  const quiet = text(rule?.quiet_seconds ?? 900, { type: "number", min: "0" });
  const chosen = () => boxes.filter(([, , box]) => box.checked).map(([event]) => event);
  const yes = await confirmed({
    title: rule ? `Change “${rule.name}”` : "New rule",
    fields: [
      field("Name", name),
      h("fieldset", {}, h("legend", {}, "Tell when"), boxes.map(([, says, box]) => h("label", { class: "check" }, box, says))),
      field("By", kind),
      field("To", to, "An address of a webhook, or e-mail addresses with commas between"),
      field("Only jobs whose name begins with", prefix),
      field("Only jobs with the tag", tag),
      field("Of one job at most one message in so many seconds", quiet),
    ],
    action: "Save",
    check: () => (!name.value.trim() ? "The rule needs a name." : !chosen().length ? "Choose when to tell." : !to.value.trim() ? "Say whom to tell." : ""),
  });
  if (!yes) return;
  const addresses = to.value.split(",").map((one) => one.trim()).filter(Boolean);
  const isSame = rule?.to.webhook?.endpoint === to.value.trim();
  const webhook = { endpoint: to.value.trim(), signing_secret: isSame ? rule.to.webhook.signing_secret : null };
  const body = {
    events: chosen(),
    to: kind.value === "email" ? { email: addresses } : { webhook },
    job_name_prefix: prefix.value.trim() || null,
    tag: tag.value.trim() || null,
    quiet_seconds: Number(quiet.value),
    ...(rule ? { failures: rule.failures } : {}),
  };
  await attempt(async () => {
    await save(name.value.trim(), body, show);
    note("The rule is saved.");
  });
}
