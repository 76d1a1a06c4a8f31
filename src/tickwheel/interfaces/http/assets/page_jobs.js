// The list of jobs. Search and filters are in the address, so that a list can be shared and the back button works.

import { get } from "./api.js";
import { isSilent } from "./contact.js";
import { fill, h } from "./dom.js";
import { count, length, words } from "./format.js";
import { schedule } from "./page_overview.js";
import { button, choice, chip, field, heading, jobLink, moment, runHref, table } from "./parts.js";
import { go, href, query, setQuery } from "./router.js";
import { isDefaultTenant, may, tenant, tenantQuery } from "./session.js";

const STATES = ["SCHEDULED", "CLAIMED", "DISPATCHED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "PAUSED", "COMPLETED"];
const LANES = ["CRITICAL", "HIGH", "DEFAULT", "LOW"];
const TYPES = ["ONE_OFF", "DELAYED", "CRON", "INSTANT"];
const ANY = ["", "any"];
const EVERY_MS = 5000;
const FILTERS = ["q", "status", "type", "priority", "tag", "order"];

export async function jobsPage({ signal }) {
  const asked = query();
  const wanted = {
    ...tenantQuery(),
    name_prefix: asked.get("q"),
    status: asked.get("status"),
    schedule_type: asked.get("type"),
    priority: asked.get("priority"),
    tag: asked.get("tag"),
    order: asked.get("order"),
    cursor: asked.get("cursor"),
    limit: 50,
  };
  const isFiltered = FILTERS.some((name) => asked.get(name));
  const look = () => get("v1/jobs", wanted, signal);
  const found = await look();
  return h(
    "div",
    {},
    heading("Jobs", newJob()),
    filters(asked),
    fresh(found, look, (seen) => content(seen, asked, isFiltered), signal),
  );
}

function content({ jobs, next_cursor: next }, asked, isFiltered) {
  return [
    table("Jobs", ["Job", "Status", "Schedule", "Next due", "Last run", "Priority"], jobs.map(row), empty(isFiltered)),
    h(
      "nav",
      { class: "pages", "aria-label": "Pages" },
      asked.get("cursor") && h("button", { type: "button", class: "plain", on: { click: () => history.back() } }, "Back"),
      next && h("button", { type: "button", class: "plain", on: { click: () => setQuery({ cursor: next }) } }, "More"),
    ),
  ];
}

/**
 * The list, made anew every so often as long as the same jobs are in it: their states and times change in place.
 * If other jobs are, nothing moves under the eyes or the pointer of who reads; a button shows them. A list in the order
 * of what is due moves all the time: it does so unless the pointer or the focus is in it.
 */
function fresh(first, look, make, signal) {
  const box = h("div", { class: "live" }, make(first));
  const news = h("p", { class: "news", role: "status" });
  let shown = first;
  const show = (seen) => {
    shown = seen;
    fill(news);
    fill(box, make(seen));
  };
  const again = async () => {
    if (signal.aborted) return;
    if (!document.hidden && !isSilent()) {
      try {
        const seen = await look();
        if (signal.aborted) return;
        const isCalm = query().get("order") === "due" && !box.matches(":hover") && !box.contains(document.activeElement);
        if (isCalm || sameJobs(seen.jobs, shown.jobs)) show(seen);
        else fill(news, h("button", { type: "button", class: "plain", on: { click: () => show(seen) } }, newsText(seen.jobs, shown.jobs)));
      } catch (error) {
        if (error.name === "AbortError" || signal.aborted) return;
        if (error.status) fill(news, `The list is not fresh: ${error.message}`);
      }
    }
    setTimeout(again, EVERY_MS);
  };
  setTimeout(again, EVERY_MS);
  return [news, box];
}

const sameJobs = (some, others) => some.length === others.length && some.every((job, place) => job.job_id === others[place].job_id);

function newsText(now, before) {
  const known = new Set(before.map((job) => job.job_id));
  const added = now.filter((job) => !known.has(job.job_id)).length;
  return added ? `${count(added)} new: show` : "The list has changed: show";
}

function newJob() {
  if (may("jobs:write")) return h("a", { class: "button primary", href: href("/new") }, "New job");
  return button("New job", () => {}, { kind: "primary", enabled: false, why: "Your token may not change jobs." });
}

function empty(isFiltered) {
  if (isFiltered) return "No job is like that. Take a filter out to see more.";
  if (!may("jobs:write")) return `The tenant ${tenant()} has no jobs.`;
  const none = isDefaultTenant(tenant()) ? "There is no job yet." : `The tenant ${tenant()} has no jobs.`;
  return [none, " Make one with ", h("a", { href: href("/new") }, "New job"), ", or over the API."];
}

function row(job) {
  return [
    { content: [jobLink(job.job_id, job.job_name), job.job_name && h("span", { class: "soft" }, job.job_id)], class: "wide" },
    [chip(job.status), job.overdue_seconds && h("span", { class: "chip bad" }, `overdue ${length(job.overdue_seconds * 1000)}`)],
    schedule(job),
    { content: moment(job.next_run_time_iso), class: "when" },
    job.last_run ? h("a", { href: runHref(job.last_run.run_id) }, chip(job.last_run.status)) : "–",
    words(job.priority),
  ];
}

function filters(asked) {
  const search = h("input", { type: "search", value: asked.get("q") || "", placeholder: "start of name (case counts), or id", autocomplete: "off", spellcheck: "false" });
  const tag = h("input", { type: "text", value: asked.get("tag") || "", autocomplete: "off" });
  const changed = (name) => ({ on: { change: (event) => setQuery({ [name]: event.target.value, cursor: "" }) } });
  const named = (values) => [ANY, ...values.map((one) => [one, words(one)])];
  const submit = (event) => {
    event.preventDefault();
    const text = search.value.trim();
    if (/^job_\w+$/.test(text)) go(`/jobs/${text}`);
    else if (/^run_\w+$/.test(text)) go(`/runs/${text}`);
    else setQuery({ q: text, tag: tag.value.trim(), cursor: "" });
  };
  return h(
    "form",
    { class: "filters", role: "search", on: { submit } },
    field("Search", search),
    field("Status", choice(named(STATES), asked.get("status") || "", changed("status"))),
    field("Type", choice(named(TYPES), asked.get("type") || "", changed("type"))),
    field("Priority", choice(named(LANES), asked.get("priority") || "", changed("priority"))),
    field("Tag", tag),
    field("Order", choice([["", "newest first"], ["due", "soonest due first"]], asked.get("order") || "", changed("order"))),
    h("button", { type: "submit", class: "primary" }, "Search"),
  );
}
