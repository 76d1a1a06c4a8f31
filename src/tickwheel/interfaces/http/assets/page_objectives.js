// Objectives of lateness: the targets, what was attained, and how fast the error budget burns.

import { get } from "./api.js";
import { h } from "./dom.js";
import { clock, count, length, relative, words } from "./format.js";
import { heading, live, table } from "./parts.js";

const EVERY_MS = 5000;
const SPANS = [["5m", "5 min"], ["1h", "1 h"], ["6h", "6 h"], ["3d", "3 d"]];
const ALERTS = [["fast", "14.4× in 1 h and 5 min"], ["medium", "6× in 6 h and 30 min"], ["slow", "1× in 3 d and 6 h"]];

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
    one.alert ? h("span", { class: "chip bad" }, `! ${one.alert}`) : h("span", { class: "chip good" }, "✓ none"),
  ]);
  return [
    h("p", {}, `Counted by the node ${seen.node} since ${clock(seen.counted_since)} (${relative(seen.counted_since)}), of the last ${seen.period_days} days at most.`),
    table("Objectives", ["Objective", "Target", "Attained", "Late", "Error budget left", "Burn rate", "Alert"], rows, "No objective is set."),
    h("p", { class: "soft" }, "An error budget that burns at 1× lasts exactly for the whole period; at 14× it is gone in two days. What this node has not watched of a span counts as calm, and runs that were held because their host answered nothing are not counted."),
    h("p", { class: "soft" }, "Alerts, each from ten late starts on: ", ALERTS.map(([name, says], place) => [place ? "; " : "", h("b", {}, name), ` at ${says}`]), "."),
  ];
}

function budget(one) {
  const left = one.budget_left_percent;
  if (left < 0) return h("span", { class: "meter" }, `spent ${times(1 - left / 100)} over`, meter(0));
  return h("span", { class: "meter" }, `${left.toFixed(1)} %`, meter(left));
}

const times = (number) => (number >= 10 ? `${count(Math.round(number))} times` : `${number.toFixed(1)} times`);

const meter = (left) => h("meter", { min: "0", max: "100", low: "10", high: "50", optimum: "100", value: String(left), "aria-hidden": "true" });
