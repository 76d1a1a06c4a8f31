// Who works: workers elsewhere, and how many would be needed.

import { get } from "./api.js";
import { meter } from "./charts.js";
import { h } from "./dom.js";
import { count, length, plural } from "./format.js";
import { heading, live, moment, table } from "./parts.js";
import { isForAll, may } from "./session.js";

const EVERY_MS = 5000;

export function workersPage({ signal }) {
  return h("div", {}, heading("Workers"), live(() => content(signal), { everyMs: EVERY_MS, signal }));
}

async function content(signal) {
  const { workers } = await get("v1/workers", {}, signal);
  if (!isForAll() || !may("metrics:read")) return list(workers, "No worker runs elsewhere.");
  let seen, waits;
  try {
    [seen, { waits }] = await Promise.all([get("v1/scaling", {}, signal), get("v1/overview", {}, signal)]);
  } catch (error) {
    if (error.status !== 503) throw error;
    return [h("p", {}, error.message), list(workers, "No worker runs elsewhere.")]; // a node that fires nothing
  }
  const missing = seen.backlog ? waits.filter((wait) => wait.kind === "worker" && wait.goes_on) : [];
  return [
    need(seen),
    missing.map((wait) =>
      h(
        "p",
        { class: "banner", role: "status" },
        "No server or worker has the handler ",
        h("code", {}, wait.subject),
        ". Its runs wait, and lose nothing, until one is started with --app MODULE that registers it.",
      ),
    ),
    list(workers, seen.backlog ? "No worker runs elsewhere." : "No worker runs elsewhere: servers with the role worker do the work themselves."),
  ];
}

function need(seen) {
  if (!seen.workers && !seen.backlog && !seen.needed_workers) return h("p", {}, "No worker lives elsewhere, and none is needed.");
  const lacks = seen.needed_workers > seen.workers;
  const lives = seen.workers ? `${count(seen.workers)} ${seen.workers === 1 ? "lives" : "live"}` : "none lives";
  return h(
    "p",
    {},
    `${plural(seen.backlog, "due run waits", "due runs wait")} for workers elsewhere, ${plural(seen.in_flight, "run is", "runs are")} under way there. `,
    seen.workers && seen.mean_run_ms ? `A run takes ${length(seen.mean_run_ms)}. ` : "",
    lacks ? h("b", {}, `The load needs ${plural(seen.needed_workers, "worker")}, and ${lives}.`) : seen.workers > 0 && `${plural(seen.workers, "worker lives", "workers live")}, which is enough.`,
  );
}

function list(workers, empty) {
  const rows = workers.map((one) => [
    { content: [one.name, h("span", { class: "soft" }, one.worker_id)], class: "wide" },
    one.tenant_id || "all tenants",
    one.stalled ? h("span", { class: "chip bad" }, "stalled") : one.draining ? h("span", { class: "chip off" }, "draining") : h("span", { class: "chip good" }, "alive"),
    meter(one.busy, one.slots),
    { content: [one.handlers.map((name) => [h("code", {}, name), " "]), one.webhooks && "webhooks"], class: "wide" },
    one.via,
    { content: moment(one.seen_at), class: "when" },
    one.version,
  ]);
  return table("Workers", ["Worker", "For", "State", "Slots", "Does", "Through", "Last seen", "Version"], rows, empty);
}
