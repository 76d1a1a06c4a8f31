// Whether all is on time, and what to look at if it is not.

import { follow, get } from "./api.js";
import { heatStrip, seconds } from "./charts.js";
import { isSilent, lastHeard, onContact } from "./contact.js";
import { fill, h } from "./dom.js";
import { clock, count, length, plural, words } from "./format.js";
import { banner, chip, heading, jobLink, jobTitle, live, loading, moment, runHref, table } from "./parts.js";
import { href } from "./router.js";
import { isDefaultTenant, isForAll, may, tenant, tenantQuery } from "./session.js";
import { tenantStanding } from "./tenant_standing.js";

const SIGNS = { on_time: "✓", idle: "✓", late: "!", store_unavailable: "✗" };
const SHOWN = 8;
const EVERY_MS = 5000;

export function overviewPage({ signal }) {
  const page = h("div", {}, heading("Overview"));
  if (isForAll() && may("metrics:read")) {
    const now = h("div", { class: "live" }, loading());
    page.append(now);
    let seen = null;
    const draw = () => seen && fill(now, overview(seen));
    const show = (event) => {
      seen = event;
      if (!signal.aborted) draw();
    };
    follow("v1/live", show, (error) => fill(now, banner(error)), signal);
    onContact(draw, signal);
    page.append(h("h2", {}, "The next hour, all tenants"), live(() => upcoming(signal), { everyMs: 30_000, signal }));
  }
  if (isForAll()) page.append(h("h2", {}, `Tenant ${tenant()}`));
  page.append(live(() => tenantStanding(signal), { everyMs: EVERY_MS, signal }));
  if (!isForAll()) page.append(h("p", { class: "soft" }, "This is about the jobs of your tenant. How the whole installation does is for tokens of all tenants."));
  page.append(
    h("h2", {}, "Last failures"),
    live(() => failures(signal), { everyMs: EVERY_MS, signal }),
    h("h2", {}, "Next due"),
    live(() => nextDue(signal), { everyMs: EVERY_MS, signal }),
  );
  return page;
}

function overview(seen) {
  return [
    h("p", { class: "soft" }, "All tenants together:"),
    verdict(seen),
    cards(seen),
    waits(seen),
    h("h2", {}, "By lane, last minute, all tenants"),
    lanes(seen),
  ];
}

// Where to look at what holds runs.
function placeOf(wait) {
  if (wait.kind === "worker") return ["Workers", href("/workers")];
  if (wait.kind === "tenant") return ["The tenant", href(`/tenants/${encodeURIComponent(wait.subject)}`)];
  if (wait.kind === "store" || wait.kind === "takeover" || wait.kind === "start") return ["Nodes", href("/nodes")];
  return ["Jobs that wait", href("/jobs", { order: "due" })];
}

function waits(seen) {
  const now = seen.waits.filter((wait) => wait.goes_on);
  if (!now.length) return null;
  const rows = now.map((wait) => {
    const [text, place] = placeOf(wait);
    return [{ content: wait.says, class: "wide" }, length(wait.seconds * 1000), h("a", { href: place }, text)];
  });
  return [h("h2", {}, "What runs wait for"), table("What runs wait for", ["Waits for", "For", "See"], rows, "")];
}

function verdict(seen) {
  if (isSilent()) return was(seen);
  const fine = seen.dead || seen.silent_nodes.length ? "warn" : "good";
  const kind = { on_time: fine, idle: fine, late: "warn", store_unavailable: "bad" }[seen.standing];
  const more = [];
  const [wait] = seen.standing === "late" ? seen.waits.filter((one) => seen.says.includes(one.says)) : [];
  if (wait) {
    const [text, place] = placeOf(wait);
    more.push(h("a", { href: place }, text));
  }
  if (seen.dead) more.push(h("a", { href: href("/dead-letters") }, `${plural(seen.dead, "run")} gave up in the last minute.`));
  if (seen.silent_nodes.length) more.push(h("a", { href: href("/nodes") }, `Silent: ${seen.silent_nodes.join(", ")}.`));
  return h(
    "section",
    { class: `verdict ${kind}`, "aria-label": "Standing" },
    h("span", { class: "sign", "aria-hidden": "true" }, kind === "warn" ? "!" : SIGNS[seen.standing]),
    h("p", {}, h("b", {}, seen.says), " ", more.flatMap((one) => [one, " "])),
  );
}

// Nobody knows how it is now: what was told last is no verdict any more.
function was(seen) {
  return h(
    "section",
    { class: "verdict off", "aria-label": "Standing" },
    h("span", { class: "sign", "aria-hidden": "true" }, "?"),
    h("p", {}, h("b", {}, `Not known since ${clock(lastHeard()).slice(11)}. `), `Before that: ${seen.says}`),
  );
}

function card(value, label, { to, bad = false } = {}) {
  const inside = [h("b", {}, value), h("span", {}, label)];
  return to ? h("a", { class: bad ? "card bad" : "card", href: href(to) }, inside) : h("div", { class: bad ? "card bad" : "card" }, inside);
}

function cards(seen) {
  const worst = Math.max(0, ...seen.lanes.map((lane) => lane.p99_ms));
  return h(
    "div",
    { class: "cards" },
    h(
      "div",
      { class: "card wide" },
      h("b", {}, count(seen.started)),
      h("span", {}, "starts in the last minute"),
      seconds(seen.starts_by_second, seen.failures_by_second),
    ),
    card(seen.started ? length(worst) : "–", "lateness p99"),
    card(count(seen.failed), "failed attempts", { bad: seen.failed > 0 }),
    card(count(seen.backlog + seen.held + seen.elsewhere), "due and waiting", { bad: seen.oldest_due_seconds > 1 }),
    card(seen.oldest_due_seconds ? length(seen.oldest_due_seconds * 1000) : "–", "oldest due", { bad: seen.oldest_due_seconds > 1 }),
    card(count(seen.in_flight), "running"),
    card(count(seen.jobs), seen.jobs === 1 ? "job" : "jobs", { to: "/jobs" }),
    card(count(seen.waiting), "timers waiting", { to: "/upcoming" }),
    card(count(seen.dead_letters), seen.dead_letters === 1 ? "dead letter" : "dead letters", { to: "/dead-letters", bad: seen.dead_letters > 0 }),
    card(count(seen.nodes), seen.nodes === 1 ? "node" : "nodes", { to: "/nodes", bad: seen.silent_nodes.length > 0 }),
  );
}

function lanes(seen) {
  const rows = seen.lanes.map((lane) => [
    words(lane.lane),
    count(lane.started),
    lane.started ? length(lane.p50_ms) : "–",
    lane.started ? length(lane.p99_ms) : "–",
    lane.started ? length(lane.max_ms) : "–",
    count(lane.backlog),
    lane.oldest_due_seconds ? length(lane.oldest_due_seconds * 1000) : "–",
  ]);
  const headings = ["Lane", "Starts", "Lateness p50", "p99", "most", "Waits for a slot", "Oldest of these"];
  return table("Lanes", headings, rows, "There are no lanes.");
}

async function upcoming(signal) {
  const forecast = await get("v1/forecast", { minutes: 60 }, signal);
  const total = forecast.due.reduce((sum, due) => sum + due, 0);
  const [peak] = forecast.peaks;
  return h(
    "section",
    { class: "panel" },
    h(
      "p",
      {},
      `${plural(total, "run")} will be due. `,
      peak && h("b", {}, `At ${clock(peak.at, undefined, { seconds: false }).slice(11)} they crowd: ${count(peak.due)} in one minute. `),
      h("a", { href: href("/upcoming") }, "The next hours"),
    ),
    heatStrip(forecast, () => (location.hash = href("/upcoming"))),
  );
}

async function failures(signal) {
  const { dead_letters: letters } = await get("v1/dlq", { ...tenantQuery(), limit: SHOWN }, signal);
  const rows = letters.map((letter) => [
    { content: moment(letter.failed_at), class: "when" },
    { content: h("a", { href: runHref(letter.run_id), class: "name" }, jobTitle(letter.job_id, letter.job_name)), class: "wide" },
    count(letter.attempts),
    { content: [letter.cause, letter.error && letter.error !== letter.cause && h("span", { class: "soft" }, letter.error)], class: "wide" },
  ]);
  return table("Last failures", ["Failed", "Run of", "Attempts", "Cause"], rows, "No run has failed for good.");
}

async function nextDue(signal) {
  const { jobs } = await get("v1/jobs", { ...tenantQuery(), order: "due", limit: SHOWN }, signal);
  const rows = jobs.map((job) => [
    { content: moment(job.next_run_time_iso), class: "when" },
    { content: jobLink(job.job_id, job.job_name), class: "wide" },
    schedule(job),
    words(job.priority),
    job.overdue_seconds ? h("span", { class: "chip bad" }, `overdue ${length(job.overdue_seconds * 1000)}`) : chip(job.status),
  ]);
  if (!rows.length && !isDefaultTenant(tenant())) return table("Next due", [], [], await nothingDue(signal));
  return table("Next due", ["Due", "Job", "Schedule", "Priority", "Status"], rows, [
    "Nothing is scheduled. ",
    h("a", { href: "docs" }, "The API reference"),
    " shows how to make a job.",
  ]);
}

async function nothingDue(signal) {
  const { jobs } = await get("v1/jobs", { ...tenantQuery(), limit: 1 }, signal);
  return jobs.length ? `Nothing of the tenant ${tenant()} is scheduled.` : `The tenant ${tenant()} has no jobs.`;
}

export function schedule(job) {
  if (!job.cron_expression) return words(job.schedule_type);
  return [h("code", {}, job.cron_expression), h("span", { class: "soft" }, job.timezone)];
}
