// One job: what it is, when it runs next, how its runs went, and what can be done with it.

import { call, get, post, textOf } from "./api.js";
import { historyStrip } from "./charts.js";
import { attempt, confirmed, note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { CATCH_UPS, EXHAUSTED, OVERLAPS } from "./edit_fields.js";
import { remarks } from "./edit_preview.js";
import { clock, hereZone, knowsZone, length, offset, plural, relative, words } from "./format.js";
import { laidOut } from "./json_text.js";
import { button, chip, facts, heading, jobTitle, live, moment, runHref, shownAddress, stateKind, table, whyItWaits } from "./parts.js";
import { go, href } from "./router.js";
import { may, tenantQuery } from "./session.js";

const SHOWN_RUNS = 50;
const SHOWN_TIMES = 10;
const PREVIEW_EVERY_MS = 5000;
const EVERY_MS = 3000;
const NO_RIGHT = "Your token may not change jobs.";

export async function jobPage({ params, signal }) {
  const path = `v1/jobs/${encodeURIComponent(params.id)}`;
  const read = () => get(path, tenantQuery(), signal);
  const top = h("div", {});
  const waits = h("div", {});
  const below = h("div", {});
  let shown = "";
  let shownPayload = null;
  const show = (job) => {
    fill(waits, late(job));
    const text = textOf(job, "payload");
    if (text !== shownPayload) fill(below, payload(text)); // else it would be folded again
    shownPayload = text;
    const { overdue_seconds: _, waits_for: __, ...rest } = job;
    if (JSON.stringify(rest) === shown) return;
    shown = JSON.stringify(rest);
    fill(
      top,
      heading(nameOf(job), h("span", {}, chip(job.status)), actions(job, again)),
      h("div", { class: "pair" }, definition(job), times(job, signal)),
    );
  };
  const again = async () => show(await read());
  const job = await read();
  show(job);
  const runs = live(
    async () => {
      const [, { runs: latest }] = await Promise.all([
        again(),
        get(`${path}/runs`, { ...tenantQuery(), limit: SHOWN_RUNS }, signal),
      ]);
      return past(latest);
    },
    { everyMs: EVERY_MS, signal },
  );
  return h("div", {}, top, waits, h("h2", {}, "Past runs"), runs, below);
}

function late(job) {
  if (!job.overdue_seconds && !job.waits_for) return null;
  const since = job.overdue_seconds ? `Its next run has been due for ${length(job.overdue_seconds * 1000)}` : "Its next run is due";
  return h("div", { class: "banner", role: "status" }, job.waits_for ? `${since}: ${whyItWaits(job.waits_for)}.` : `${since}.`);
}

function definition(job) {
  const target = job.target;
  const what = target.type === "HANDLER" ? [`handler `, h("code", {}, target.name)] : [h("code", {}, target.method || "POST"), " ", h("code", {}, shownAddress(target.endpoint))];
  const retry = job.retry_policy || {};
  return h(
    "section",
    {},
    h("h2", {}, "Definition"),
    facts([
      ["Calls", what],
      ["Headers", Object.keys(target.headers || {}).length > 0 && Object.keys(target.headers).join(", ")],
      ["Schedule", job.cron_expression ? [h("code", {}, job.cron_expression), ` in ${job.timezone}`] : words(job.schedule_type)],
      ["Runs at", job.execute_at && moment(job.execute_at)],
      ["Not before", job.start_at && moment(job.start_at)],
      ["Not at or after", job.end_at && moment(job.end_at)],
      ["Priority", words(job.priority)],
      ["Timeout", `${length(target.timeout_seconds * 1000)} an attempt`],
      ["Signed with", target.signing_secret],
      ["Retries", retries(retry)],
      ["After downtime", job.catch_up && caughtUp(job.catch_up)],
      ["If one still runs", job.overlap && OVERLAPS[job.overlap]],
      ["Limits", job.concurrency && job.concurrency.map((one) => h("div", {}, limit(one)))],
      ["Too late after", job.deadline_seconds && length(job.deadline_seconds * 1000)],
      ["Tags", job.tags.length > 0 && job.tags.map((tag) => [h("a", { class: "tag", href: href("/jobs", { tag }) }, tag), " "])],
      ["Idempotency key", job.idempotency_key && h("code", {}, job.idempotency_key)],
      ["Id", h("code", {}, job.job_id)],
      ["Created", [moment(job.created_at)]],
      ["Version", String(job.version)],
    ]),
  );
}

function retries(policy) {
  const { max_retries: most, initial_interval_sec: first, backoff_multiplier: factor, max_interval_sec: longest, when_exhausted: then } = policy;
  const after = then && then !== "dead_letter" ? `; when the last has failed, ${EXHAUSTED[then]}` : "";
  if (!most) return `none${after}`;
  return `${most} after a failure, the first within ${length(first * 1000)}, each later within ${factor} times as long, ${length(longest * 1000)} at most${after}`;
}

const caughtUp = ({ policy, max }) => (policy === "fire_all" ? `${CATCH_UPS[policy]}, the newest ${max} at most` : CATCH_UPS[policy]);

function limit({ scope, key, limit: most, max_waiting: waiting }) {
  const whose = { job_name: "of jobs of this name", tenant: "of the tenant's jobs with such a limit" };
  const counted = whose[scope] || ["of jobs with the key ", h("code", {}, key)];
  return [`at most ${plural(most, "run")} at a time `, counted, waiting !== null && waiting !== undefined && `; at most ${waiting} wait, further ones are skipped`];
}

function times(job, signal) {
  const box = h("section", {}, h("h2", {}, "Next runs"));
  if (job.status === "PAUSED") {
    box.append(h("p", {}, "None while it is paused."));
  } else if (!job.cron_expression) {
    box.append(h("p", {}, job.next_run_time_iso ? moment(job.next_run_time_iso) : "None: it is over."));
  } else if (!job.next_run_time_iso) {
    box.append(h("p", {}, "None: its schedule has no time left."));
  } else {
    const list = live(() => preview(job, signal), { signal });
    const timer = setInterval(() => (box.isConnected ? list.update() : clearInterval(timer)), PREVIEW_EVERY_MS);
    box.append(list);
  }
  return box;
}

async function preview(job, signal) {
  const zone = job.timezone;
  const start = new Date(Math.max(Date.parse(job.next_run_time_iso) - 1000, Date.now())).toISOString(); // no past ones
  const body = { cron_expression: job.cron_expression, timezone: zone, start, count: SHOWN_TIMES };
  const seen = await call("POST", "v1/schedules/preview", { body, signal });
  const known = knowsZone(zone);
  const rows = seen.next
    .filter((at) => !job.end_at || Date.parse(at) < Date.parse(job.end_at))
    .map((at, place) => [
      { content: h("span", { dataset: { at } }, relative(at)), class: "when" },
      { content: known ? `${clock(at, zone)} ${offset(at, zone)}` : seen.local[place], class: "when" },
      { content: clock(at), class: "when" },
    ]);
  return [
    table("Next runs", ["In", zone, `here (${hereZone})`], rows, "None."),
    remarks(seen),
  ];
}

function past(runs) {
  const rows = runs.slice(0, 20).map((run) => [
    { content: h("a", { href: runHref(run.run_id) }, moment(run.scheduled_at)), class: "when" },
    [chip(run.status), run.skip_reason && h("span", { class: "soft" }, words(run.skip_reason))],
    run.timeline.lateness_ms === null ? "–" : length(run.timeline.lateness_ms),
    took(run),
    String(run.attempt),
    { content: run.error || (run.http_status ? `HTTP ${run.http_status}` : "–"), class: "wide" },
  ]);
  return [
    runs.length > 1 && historyStrip([...runs].reverse(), stateKind, runHref),
    table("Past runs", ["Scheduled", "State", "Late by", "Took", "Attempts", "Answer"], rows, "It has not run yet."),
  ];
}

function took({ timeline: { started, finished } }) {
  return started && finished ? length(Date.parse(finished) - Date.parse(started)) : "–";
}

function payload(text) {
  return text && h("details", {}, h("summary", {}, "Payload"), h("pre", { tabindex: "0" }, laidOut(text)));
}

function actions(job, again) {
  const allowed = may("jobs:write");
  const can = (isPossible) => ({ enabled: allowed && isPossible, why: allowed ? `Not while it is ${words(job.status)}.` : NO_RIGHT });
  const isOver = ["CANCELLED", "COMPLETED", "SUCCEEDED", "FAILED", "SKIPPED"].includes(job.status);
  const isPaused = job.status === "PAUSED";
  return h(
    "div",
    { class: "buttons" },
    button("Run now", () => trigger(job), can(job.status !== "CANCELLED")),
    isPaused ? button("Resume", () => turn(job, "resume", again), can(true)) : button("Pause", () => turn(job, "pause", again), can(!isOver)),
    button("Edit", () => go(`/jobs/${job.job_id}/edit`), can(!isOver)),
    button("Cancel", () => cancel(job, again), can(!isOver)),
    button("Delete", () => remove(job), { ...can(true), kind: "danger" }),
  );
}

const nameOf = (job) => jobTitle(job.job_id, job.job_name);

async function trigger(job) {
  const yes = await confirmed({ title: `Run “${nameOf(job)}” now?`, text: "One more run begins at once. Its schedule stays as it is.", action: "Run now" });
  if (!yes) return;
  await attempt(async () => {
    const headers = { "idempotency-key": crypto.randomUUID ? crypto.randomUUID() : String(Math.random()).slice(2) };
    const made = await call("POST", `v1/jobs/${job.job_id}/trigger`, { query: tenantQuery(), headers });
    go(`/runs/${made.run_id}`);
    note("It runs.");
  });
}

async function turn(job, verb, again) {
  const texts = {
    pause: ["Pause", "It does not run until it is resumed. What runs now goes on.", "It is paused."],
    resume: ["Resume", "It runs again from its next time on.", "It is resumed."],
  };
  const [action, text, done] = texts[verb];
  if (!(await confirmed({ title: `${action} “${nameOf(job)}”?`, text, action }))) return;
  await attempt(async () => {
    await post(`v1/jobs/${job.job_id}/${verb}`, undefined, tenantQuery());
    await again();
    const back = verb === "pause" ? "resume" : "pause";
    const undo = async () => {
      await post(`v1/jobs/${job.job_id}/${back}`, undefined, tenantQuery());
      await again();
    };
    note(done, { undo });
  });
}

async function cancel(job, again) {
  const text = "It never runs again, and what runs now is told to stop. This can't be undone.";
  if (!(await confirmed({ title: `Cancel “${nameOf(job)}”?`, text, action: "Cancel the job", dangerous: true }))) return;
  await attempt(async () => {
    await post(`v1/jobs/${job.job_id}/cancel`, undefined, tenantQuery());
    await again();
    note("It is cancelled.");
  });
}

async function remove(job) {
  const text = "The job is taken out of all lists, and its runs with it once they are old. This can't be undone.";
  if (!(await confirmed({ title: `Delete “${nameOf(job)}”?`, text, action: "Delete the job", dangerous: true }))) return;
  await attempt(async () => {
    await call("DELETE", `v1/jobs/${job.job_id}`, { query: tenantQuery() });
    go("/jobs");
    note("It is deleted.");
  });
}
