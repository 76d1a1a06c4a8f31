// Whether the jobs of one tenant are on time, as far as its own jobs, dead letters and objectives tell. How the slots,
// the nodes and the other tenants do is for those who look after the whole installation.

import { get } from "./api.js";
import { h } from "./dom.js";
import { length, plural } from "./format.js";
import { whyItWaits } from "./parts.js";
import { href } from "./router.js";
import { may, tenant, tenantQuery } from "./session.js";

const LATE_MS = 1000;
const LATELY_MS = 3_600_000;
const MOST = 100;

export async function tenantStanding(signal) {
  const [due, letters, objectives] = await Promise.all([
    get("v1/jobs", { ...tenantQuery(), order: "due", limit: MOST }, signal),
    may("runs:read") ? get("v1/dlq", { ...tenantQuery(), limit: MOST }, signal) : { dead_letters: [] },
    may("runs:read") ? ofObjectives(signal) : [],
  ]);
  const overdue = await findOverdue(due.jobs, signal);
  const since = Date.now() - LATELY_MS;
  const dead = letters.dead_letters.filter((letter) => Date.parse(letter.failed_at) > since);
  const missed = objectives.filter((one) => one.alert || one.budget_left_percent < 0);
  const isFine = !overdue.past.length && !dead.length && !missed.length;
  return h(
    "section",
    { class: `verdict ${isFine ? "good" : "warn"}`, "aria-label": `Standing of the tenant ${tenant()}` },
    h("span", { class: "sign", "aria-hidden": "true" }, isFine ? "✓" : "!"),
    h(
      "p",
      {},
      h("b", {}, lateness(overdue, due.jobs.length)),
      dead.length > 0 && [" ", h("a", { href: href("/dead-letters") }, `${some(dead.length, "run")} gave up in the last hour.`)],
      !dead.length && may("runs:read") && " No run gave up in the last hour.",
      objectives.map((one) => ` ${attained(one)}`),
    ),
  );
}

const some = (number, what) => (number < MOST ? plural(number, what) : `${number} ${what}s or more`);

/** The jobs whose next run is overdue, for how long that of the oldest is, and why if that is known. */
async function findOverdue(jobs, signal) {
  const now = Date.now();
  const past = jobs.filter((job) => job.overdue_seconds || Date.parse(job.next_run_time_iso) < now - LATE_MS);
  if (!past.length) return { past };
  // The clock here may be wrong: the server says of a single job whether it is held, and why.
  const oldest = await get(`v1/jobs/${past[0].job_id}`, tenantQuery(), signal);
  if (!oldest.waits_for && !oldest.overdue_seconds) return { past: past.filter((job) => job.overdue_seconds) };
  const ms = oldest.overdue_seconds ? oldest.overdue_seconds * 1000 : now - Date.parse(past[0].next_run_time_iso);
  return { past, ms, why: whyItWaits(oldest.waits_for) };
}

function lateness({ past, ms, why }, known) {
  if (!known) return "Nothing is scheduled.";
  if (!past.length) return "On time: no job is overdue.";
  const oldest = ms ? `, the oldest for ${length(ms)}${why ? `: ${why}` : ""}` : "";
  return `Late: ${some(past.length, "job")} ${past.length === 1 ? "is" : "are"} overdue${oldest}.`;
}

async function ofObjectives(signal) {
  try {
    const { objectives } = await get("v1/slo", tenantQuery(), signal);
    return objectives.filter((one) => one.tenant_id === tenant());
  } catch (error) {
    if (error.status === 503) return []; // this node fires nothing
    throw error;
  }
}

function attained(one) {
  const share = one.on_time_percent === null ? "nothing was due yet" : `${one.on_time_percent} % were on time`;
  return `Objective ${one.name} (${one.target_percent} % within ${length(one.bound_ms)}): ${share}.`;
}
