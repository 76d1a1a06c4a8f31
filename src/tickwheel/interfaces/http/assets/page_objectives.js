// Objectives of lateness: the targets, what was attained, and how fast the error budget burns.

import { get } from "./api.js";
import { h } from "./dom.js";
import { clock, count, length, relative, words } from "./format.js";
import { heading, live, table } from "./parts.js";

const EVERY_MS = 5000;
const SPANS = [["5m", "5 min"], ["1h", "1 h"], ["6h", "6 h"], ["3d", "3 d"]];

export function objectivesPage({ signal }) {
  return h("div", {}, heading("Objectives"), live(() => content(signal), { everyMs: EVERY_MS, signal }));
}

async function content(signal) {
  const seen = await get("v1/slo", {}, signal);
  const rows = seen.objectives.map((one) => [
    { content: [one.name, h("span", { class: "soft" }, [one.lane && `lane ${words(one.lane)}`, one.tenant_id && `tenant ${one.tenant_id}`].filter(Boolean).join(", "))], class: "wide" },
    `${one.target_percent} % within ${length(one.bound_ms)}`,
    one.on_time_percent === null ? "nothing was due" : `${one.on_time_percent.toFixed(3)} %`,
    `${count(one.late)} of ${count(one.starts)}`,
    budget(one),
    SPANS.map(([id, text]) => [`${text}: ${one.burn_rates[id].toFixed(1)}×`, h("br", {})]),
    one.alert ? h("span", { class: "chip bad" }, `! ${words(one.alert)}`) : h("span", { class: "chip good" }, "✓ none"),
  ]);
  return [
    h("p", {}, `Counted by the node ${seen.node} since ${clock(seen.counted_since)} (${relative(seen.counted_since)}), of the last ${seen.period_days} days at most.`),
    table("Objectives", ["Objective", "Target", "Attained", "Late", "Error budget left", "Burn rate", "Alert"], rows, "No objective is set."),
    h("p", { class: "soft" }, "An error budget that burns at 1× lasts exactly for the whole period; at 14× it is gone in two days."),
  ];
}

function budget(one) {
  const left = Math.max(0, one.budget_left_percent);
  return h("span", { class: "meter" }, `${one.budget_left_percent.toFixed(1)} %`, h("meter", { min: "0", max: "100", low: "10", high: "50", optimum: "100", value: String(left), "aria-hidden": "true" }));
}
