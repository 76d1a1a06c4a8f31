// Who is told when something goes wrong.

import { call, get, post } from "./api.js";
import { attempt, confirmed, note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { length } from "./format.js";
import { button, choice, field, heading, moment, shownAddress, table } from "./parts.js";
import { query, setQuery } from "./router.js";
import { isForAll, may, tenant, tenantQuery } from "./session.js";

const EVENTS = {
  "run.dead_lettered": "a run is out of attempts",
  "job.failing": "a job has failed several times in a row",
  "job.recovered": "a failing job succeeds again",
  "schedule.exhausted": "a schedule will never fire again",
  "objective.burning": "too many starts are late",
};
const BURNING = "objective.burning";
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
    { content: [destination(rule.to), rule.warnings.map((one) => h("div", { class: "soft" }, `! ${one}`))], class: "wide" },
    [rule.job_name_prefix && `name begins with ${rule.job_name_prefix} `, rule.tag && `tag ${rule.tag}`].filter(Boolean).join(", ") || "all",
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
  if (to.webhook) return h("code", {}, shownAddress(to.webhook.endpoint));
  return to.email.join(", ");
}

const path = (name) => `v1/notifications/${encodeURIComponent(name)}`;

async function trial(rule) {
  await attempt(async () => {
    const seen = await post(`${path(rule.name)}/test`, undefined, whose());
    const says = seen.delivered ? "The trial message arrived." : `It did not arrive: ${seen.error}`;
    note([says, ...seen.warnings.map((one) => ` Note: ${one}.`)].join(""), { bad: !seen.delivered });
  });
}

async function remove(rule, show) {
  const yes = await confirmed({ title: `Delete the rule “${rule.name}”?`, text: "Nobody is told by it any more.", action: "Delete the rule", dangerous: true });
  if (!yes) return;
  await attempt(async () => {
    await call("DELETE", path(rule.name), { query: whose() });
    const { name, tenant_id: _, version: __, updated_at: ___, warnings: ____, ...body } = rule;
    note("It is deleted.", { undo: () => save(name, body, show) });
    await show();
  });
}

async function save(name, body, show) {
  const made = await call("PUT", path(name), { query: whose(), body });
  await show();
  return made;
}

async function change(rule, show) {
  const text = (value, props = {}) => h("input", { type: "text", value: value ?? "", autocomplete: "off", spellcheck: "false", ...props });
  const name = text(rule?.name, { disabled: Boolean(rule) });
  const boxes = Object.entries(EVENTS)
    .map(([event, says]) => [event, says, h("input", { type: "checkbox", checked: rule ? rule.events.includes(event) : event === "run.dead_lettered" })]);
  const kind = choice([["webhook", "a webhook"], ["email", "e-mail"]], rule?.to.email ? "email" : "webhook");
  const to = text(rule ? rule.to.webhook?.endpoint || rule.to.email.join(", ") : "");
  const prefix = text(rule?.job_name_prefix);
  const tag = text(rule?.tag);
  const secret = text(rule?.to.webhook?.signing_secret);
  const failures = text(rule?.failures ?? 3, { type: "number", min: "1", max: "100" });
  const quiet = text(rule?.quiet_seconds ?? 900, { type: "number", min: "0" });
  const chosen = () => boxes.filter(([, , box]) => box.checked).map(([event]) => event);
  const yes = await confirmed({
    title: rule ? `Change “${rule.name}”` : "New rule",
    fields: [
      field("Name", name),
      h("fieldset", {}, h("legend", {}, "Tell when"), boxes.map(([event, says, box]) => h("label", { class: "check" }, box, event === BURNING && !isWide() ? `${says}, by an objective of this tenant` : says))),
      field("By", kind),
      field("To", to, "An address of a webhook, or e-mail addresses with commas between"),
      field("Signing secret of the webhook", secret, isWide() ? "Rules of the installation are signed with the server's own; leave it empty" : "The name of one of the tenant's; empty: the one called default"),
      field("Failures in a row that make a job failing", failures),
      field("Only jobs whose name begins with", prefix),
      field("Only jobs with the tag", tag),
      field("Of one job at most one message in so many seconds", quiet),
    ],
    action: "Save",
    check: () => (!name.value.trim() ? "The rule needs a name." : !chosen().length ? "Choose when to tell." : !to.value.trim() ? "Say whom to tell." : kind.value === "email" && secret.value.trim() ? "E-mail is not signed: leave the secret empty." : ""),
  });
  if (!yes) return;
  const addresses = to.value.split(",").map((one) => one.trim()).filter(Boolean);
  const webhook = { endpoint: to.value.trim(), signing_secret: secret.value.trim() || null };
  const body = {
    events: chosen(),
    to: kind.value === "email" ? { email: addresses } : { webhook },
    job_name_prefix: prefix.value.trim() || null,
    tag: tag.value.trim() || null,
    quiet_seconds: Number(quiet.value),
    failures: Number(failures.value),
  };
  await attempt(async () => {
    const made = await save(name.value.trim(), body, show);
    note(["The rule is saved.", ...made.warnings.map((one) => ` Note: ${one}.`)].join(""));
  });
}
