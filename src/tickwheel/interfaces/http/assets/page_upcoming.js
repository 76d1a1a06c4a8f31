// The load that comes, where it crowds, and where there would be room.

import { get } from "./api.js";
import { heatStrip } from "./charts.js";
import { fill, h } from "./dom.js";
import { clock, count, hereZone, plural, words } from "./format.js";
import { banner, choice, field, heading, jobLink, loading, moment, table } from "./parts.js";
import { query, setQuery } from "./router.js";
import { tenantQuery } from "./session.js";

const HOURS = [3, 6, 12, 24];
const MINUTE_MS = 60_000;

const time = (iso) => clock(iso, undefined, { seconds: false }).slice(11);

export async function upcomingPage({ signal }) {
  const hours = HOURS.includes(Number(query().get("hours"))) ? Number(query().get("hours")) : 6;
  const forecast = await get("v1/forecast", { minutes: hours * 60 }, signal);
  const total = forecast.due.reduce((sum, due) => sum + due, 0);
  const chosen = h("div", { class: "live", "aria-live": "polite" });
  const range = choice(HOURS.map((one) => [String(one), `${one} hours`]), String(hours), {
    on: { change: (event) => setQuery({ hours: event.target.value }) },
  });
  return h(
    "div",
    {},
    heading("Upcoming load"),
    h("form", { class: "filters" }, field("Show", range)),
    h(
      "p",
      {},
      `${plural(total, "run")} will be due in the next ${hours} hours, by the clock of ${hereZone}. `,
      !forecast.is_whole && h("b", {}, "There are more than could be counted."),
    ),
    h(
      "section",
      { class: "panel" },
      heatStrip(forecast.start, forecast.due, (place) => choose(place, forecast, chosen, signal)),
      legend(forecast.due),
    ),
    chosen,
    h("h2", {}, "Where they crowd"),
    peaks(forecast),
  );
}

function legend(due) {
  const most = Math.max(0, ...due);
  return h(
    "p",
    { class: "legend soft" },
    "nothing ",
    [0, 1, 2, 3, 4, 5, 6].map((level) => h("span", { class: `key heat heat-${level}`, "aria-hidden": "true" })),
    ` ${count(most)} in a minute. Choose a minute to see what is due in it.`,
  );
}

async function choose(place, forecast, box, signal) {
  const from = new Date(Date.parse(forecast.start) + place * MINUTE_MS).toISOString();
  const to = new Date(Date.parse(from) + MINUTE_MS).toISOString();
  const lanes = Object.entries(forecast.due_by_lane).filter(([, due]) => due[place]);
  const title = h("h2", {}, `${time(from)}: ${count(forecast.due[place])} due`);
  fill(box, title, loading());
  try {
    const asked = { ...tenantQuery(), order: "due", due_from: from, due_to: to, limit: 20 };
    const { jobs, next_cursor: more } = await get("v1/jobs", asked, signal);
    const rows = jobs.map((job) => [
      { content: moment(job.next_run_time_iso), class: "when" },
      { content: jobLink(job.job_id, job.job_name), class: "wide" },
      words(job.priority),
    ]);
    fill(
      box,
      title,
      lanes.length > 0 && h("p", {}, lanes.map(([lane, due]) => `${words(lane)}: ${count(due[place])}`).join(", ")),
      table("Due in this minute", ["Due", "Job", "Priority"], rows, "No job's next run is in this minute. A recurring job may be back by then, after its next run."),
      more && h("p", { class: "soft" }, "There are more of them."),
    );
  } catch (error) {
    if (error.name !== "AbortError") fill(box, title, banner(error));
  }
}

function peaks(forecast) {
  if (!forecast.peaks.length) {
    return h("p", {}, "Nowhere: no minute has many more runs than those around it.");
  }
  return forecast.peaks.map((peak) =>
    h(
      "section",
      { class: "panel" },
      h("h3", {}, `${time(peak.at)}: ${plural(peak.due, "run")} in one minute`),
      h("p", {}, `A usual minute near it has ${count(peak.usual)}.`),
      peak.causes.length > 0 &&
        h(
          "ul",
          {},
          peak.causes.map((cause) =>
            h("li", {}, h("code", {}, cause.cron_expression), ` in ${cause.timezone}, ${words(cause.priority)}: ${plural(cause.jobs, "job")}`),
          ),
        ),
      h("p", {}, advice(peak)),
    ),
  );
}

function advice(peak) {
  const quiet = peak.quiet.map(time).join(", ");
  const [cause] = peak.causes;
  if (!cause) return `Least is due at ${quiet}: jobs that need not run at ${time(peak.at)} could run then.`;
  const minute = peak.quiet.length ? new Date(peak.quiet[0]).getUTCMinutes() : 0;
  const fields = cause.cron_expression.split(" ");
  const isPlain = fields.length === 5 && /^\d+$/.test(fields[0]);
  const example = isPlain ? [` For example `, h("code", {}, [minute, ...fields.slice(1)].join(" ")), ` for some of them.`] : [];
  return [`Least is due at ${quiet}. Give jobs that need not run at ${time(peak.at)} another minute.`, ...example];
}
