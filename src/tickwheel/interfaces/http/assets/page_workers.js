// Who works: workers elsewhere, and how many would be needed.

import { get } from "./api.js";
import { meter } from "./charts.js";
import { h } from "./dom.js";
import { count, length } from "./format.js";
import { heading, live, moment, table } from "./parts.js";
import { isForAll, may } from "./session.js";

const EVERY_MS = 5000;

export function workersPage({ signal }) {
  return h(
    "div",
    {},
    heading("Workers"),
    isForAll() && may("metrics:read") && live(() => need(signal), { everyMs: EVERY_MS, signal }),
    live(() => list(signal), { everyMs: EVERY_MS, signal }),
  );
}

async function need(signal) {
  const seen = await get("v1/scaling", {}, signal);
  const lacks = seen.needed_workers > seen.workers;
  if (!seen.workers && !lacks) return h("p", {}, "No worker lives elsewhere, and none is needed.");
  return h(
    "p",
    {},
    `${count(seen.backlog)} due runs wait for workers, ${count(seen.in_flight)} run. `,
    seen.mean_run_ms ? `A run takes ${length(seen.mean_run_ms)}. ` : "",
    lacks ? h("b", {}, `The load needs ${count(seen.needed_workers)} workers, and ${count(seen.workers)} live.`) : `The ${count(seen.workers)} that live are enough.`,
  );
}

async function list(signal) {
  const { workers } = await get("v1/workers", {}, signal);
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
  return table("Workers", ["Worker", "For", "State", "Slots", "Does", "Through", "Last seen", "Version"], rows, "No worker runs elsewhere: this server does the work itself.");
}
