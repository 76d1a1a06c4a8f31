// One run: its stations, its attempts, why it was late or not at all, and what can be done about it.

import { call, get, post, textOf } from "./api.js";
import { stations } from "./charts.js";
import { attempt, confirmed, note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { count, length, words } from "./format.js";
import { laidOut } from "./json_text.js";
import { button, chip, facts, heading, jobHref, jobTitle, live, moment, table } from "./parts.js";
import { may, tenantQuery } from "./session.js";

const EVERY_MS = 2000;
const OPEN = ["SCHEDULED", "CLAIMED", "DISPATCHED", "RUNNING", "PAUSED"];

export async function runPage({ params, signal }) {
  const path = `v1/runs/${encodeURIComponent(params.id)}`;
  const [run, told] = await Promise.all([get(path, tenantQuery(), signal), explain(path, signal)]);
  const job = await get(`v1/jobs/${run.job_id}`, tenantQuery(), signal).catch(() => null);
  const name = jobTitle(run.job_id, job?.job_name);
  const box = h("div", { class: "live" });
  let was = run.status;
  const show = (latest, why) => fill(box, content(latest, why, again));
  const again = async () => {
    const [latest, why] = await Promise.all([get(path, tenantQuery(), signal), explain(path, signal)]);
    was = latest.status;
    show(latest, why);
  };
  show(run, told);
  const timer = setInterval(() => OPEN.includes(was) && !document.hidden && again().catch(() => {}), EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  return h("div", {}, heading(h("span", {}, "Run of ", h("a", { href: jobHref(run.job_id) }, name))), box);
}

async function explain(path, signal) {
  try {
    return await get(`${path}/explain`, tenantQuery(), signal);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return null;
  }
}

function content(run, told, again) {
  const times = run.timeline;
  const result = textOf(run, "result");
  const due = Date.parse(run.scheduled_at) <= Date.now() ? run.scheduled_at : null;
  const names = ["claimed", "dispatched", "started", "finished"];
  const steps = [["armed", times.armed], ["due", due], ...names.map((one) => [one, times[one]])];
  return [
    h("div", { class: "under" }, chip(run.status), actions(run, again)),
    told && explanation(told),
    h("section", { class: "panel" }, stations(steps)),
    facts([
      ["Scheduled for", moment(run.scheduled_at)],
      ["Late by", times.lateness_ms === null ? "–" : length(times.lateness_ms)],
      ["Attempts", String(run.attempt)],
      ["Next attempt", run.retry_at && moment(run.retry_at)],
      ["Skipped because", run.skip_reason && words(run.skip_reason)],
      ["Answer", run.http_status ? `HTTP ${run.http_status}` : null],
      ["Error", run.error],
      ["Worker", run.worker_id && h("code", {}, run.worker_id)],
      ["Fencing token", run.fencing_token && h("code", {}, textOf(run, "fencing_token"))],
      ["Progress", run.progress !== null && run.progress !== undefined && `${Math.round(run.progress * 100)} % ${run.note || ""}`],
      ["Priority", words(run.priority)],
      ["Id", h("code", {}, run.run_id)],
    ]),
    h("h2", {}, "Attempts"),
    told?.edited_since && h("p", { class: "soft" }, "The job was changed since: the requests shown are those that it would send now."),
    told ? attempts(told.attempts) : h("p", { class: "soft" }, "They can't be shown now."),
    result && h("details", {}, h("summary", {}, "Result"), h("pre", { tabindex: "0" }, laidOut(result))),
  ];
}

function explanation(told) {
  const more = (told.causes || []).filter((one) => !told.headline.includes(one.sentence));
  return h(
    "section",
    { class: "why", "aria-label": "Why" },
    h("p", {}, h("b", {}, told.headline)),
    more.length > 0 && h("ul", {}, more.map((one) => h("li", {}, one.sentence))),
  );
}

/** What the API calls retryable was not tried again if no attempt was left: that is no word for how it ended. */
const OUTCOMES = { retryable: "failed", permanent: "failed for good", timeout: "no answer in time", lost: "worker lost" };

function attempts(stories) {
  const rows = stories.map((one) => [
    [String(one.attempt), one.why && h("span", { class: "soft" }, one.why.sentence)],
    { content: moment(one.started_at), class: "when" },
    { content: one.took_ms === null ? "–" : length(one.took_ms), class: "when" },
    OUTCOMES[one.outcome] || words(one.outcome),
    { content: request(one), class: "wide" },
    { content: answer(one), class: "wide" },
    h("code", {}, one.worker_id),
  ]);
  return table("Attempts", ["Attempt", "Began", "Took", "Outcome", "Request", "Answer", "Worker"], rows, "There was none yet.");
}

function request({ request: sent, reached_target: reached }) {
  const what = sent.handler ? [`handler `, h("code", {}, sent.handler)] : [h("code", {}, sent.method), " ", h("code", {}, sent.endpoint)];
  const headers = Object.entries(sent.headers || {}).map(([name, value]) => h("span", { class: "soft" }, `${name}: ${value}`));
  const size = sent.payload_bytes ? h("span", { class: "soft" }, `${count(sent.payload_bytes)} bytes of payload`) : null;
  return [what, headers, size, reached !== "yes" && h("span", { class: "soft" }, `reached its target: ${reached}`)];
}

function answer(one) {
  return [
    one.http_status ? `HTTP ${one.http_status} ` : "",
    one.error || (one.http_status ? "" : "–"),
    one.excerpt && h("pre", { tabindex: "0" }, one.excerpt),
  ];
}

function actions(run, again) {
  const allowed = may("runs:write");
  const why = "Your token may not change runs.";
  const done = async (text) => {
    note(text);
    await again();
  };
  const cancel = async () => {
    if (!(await confirmed({ title: "Cancel this run?", text: "What runs is told to stop, and it is not tried again. This can't be undone.", action: "Cancel the run", dangerous: true }))) return;
    await attempt(async () => {
      await post(`v1/runs/${run.run_id}/cancel`, undefined, tenantQuery());
      await done("It is cancelled.");
    });
  };
  const redrive = async () => {
    if (!(await confirmed({ title: "Run it again?", text: "It gets all its attempts anew, the first at once.", action: "Redrive" }))) return;
    await attempt(async () => {
      const { redriven_count: redriven, refused, not_found: missing } = await post("v1/dlq/redrive", { run_ids: [run.run_id] }, tenantQuery());
      if (redriven) await done("It will run again.");
      else note(refused[0]?.detail || `${missing[0]} is not in the dead-letter queue.`, { bad: true });
    });
  };
  const drop = async () => {
    if (!(await confirmed({ title: "Take it out of the queue?", text: "It stays failed in the history of its job. This can't be undone.", action: "Take it out", dangerous: true }))) return;
    await attempt(async () => {
      await call("DELETE", `v1/dlq/${run.run_id}`, { query: tenantQuery() });
      await done("It is out of the queue.");
    });
  };
  return h(
    "div",
    { class: "buttons" },
    OPEN.includes(run.status) && button("Cancel", cancel, { enabled: allowed, why }),
    run.status === "FAILED" && button("Redrive", redrive, { kind: "primary", enabled: allowed, why }),
    run.status === "FAILED" && button("Take out of the queue", drop, { enabled: allowed, why }),
  );
}
