// The list of jobs. Search and filters are in the address, so that a list can be shared and the back button works.

import { get } from "./api.js";
import { h } from "./dom.js";
import { length, words } from "./format.js";
import { schedule } from "./page_overview.js";
import { choice, chip, field, heading, jobLink, moment, runHref, table } from "./parts.js";
import { go, query, setQuery } from "./router.js";
import { tenantQuery } from "./session.js";

const STATES = ["SCHEDULED", "CLAIMED", "DISPATCHED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "PAUSED", "COMPLETED"];
const LANES = ["CRITICAL", "HIGH", "DEFAULT", "LOW"];
const TYPES = ["ONE_OFF", "DELAYED", "CRON", "INSTANT"];
const ANY = ["", "any"];
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
  const { jobs, next_cursor: next } = await get("v1/jobs", wanted, signal);
  const isFiltered = FILTERS.some((name) => asked.get(name));
  return h(
    "div",
    {},
    heading("Jobs", h("a", { class: "button primary", href: "#/new" + keptTenant() }, "New job")),
    filters(asked),
    table("Jobs", ["Job", "Status", "Schedule", "Next due", "Last run", "Priority"], jobs.map(row), empty(isFiltered)),
    h(
      "nav",
      { class: "pages", "aria-label": "Pages" },
      asked.get("cursor") && h("button", { type: "button", class: "plain", on: { click: () => history.back() } }, "Back"),
      next && h("button", { type: "button", class: "plain", on: { click: () => setQuery({ cursor: next }) } }, "More"),
    ),
  );
}

const keptTenant = () => (query().get("tenant") ? `?tenant=${encodeURIComponent(query().get("tenant"))}` : "");

function empty(isFiltered) {
  if (isFiltered) return "No job is like that. Take a filter out to see more.";
  return ["There is no job yet. Make one with ", h("a", { href: "#/new" + keptTenant() }, "New job"), ", or over the API."];
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
  const search = h("input", { type: "search", value: asked.get("q") || "", placeholder: "start of a name, or an id", autocomplete: "off", spellcheck: "false" });
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
