// The load that comes, where it crowds, and where there would be room.

import { get } from "./api.js";
import { heatStrip, mostUncrowded, NARROW } from "./charts.js";
import { fill, h } from "./dom.js";
import { clock, count, hereZone, plural, words } from "./format.js";
import { banner, choice, field, heading, jobLink, loading, moment, table } from "./parts.js";
import { query, setQuery } from "./router.js";

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
  const strip = h("div", {});
  const draw = () => fill(strip, heatStrip(forecast, (place) => choose(place, forecast, chosen, signal)));
  NARROW.addEventListener("change", draw, { signal });
  draw();
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
      strip,
      legend(forecast),
    ),
    chosen,
    h("h2", {}, "Where they crowd"),
    peaks(forecast),
  );
}

function legend(forecast) {
  const most = mostUncrowded(forecast.due, forecast.crowded);
  return h(
    "p",
    { class: "legend soft" },
    "nothing ",
    [0, 1, 2, 3, 4, 5].map((level) => h("span", { class: `key heat heat-${level}`, "aria-hidden": "true" })),
    ` ${count(most)} in a minute; `,
    h("span", { class: "key heat heat-6", "aria-hidden": "true" }),
    ` crowded: ${rule(forecast)}. Choose a minute to see what is due in it.`,
  );
}

const rule = (forecast) =>
  `${forecast.peak_least} runs or more, and at least ${forecast.peak_times} times as many as in a usual minute of the hour around it`;

const minuteAt = (forecast, place) => new Date(Date.parse(forecast.start) + place * MINUTE_MS).toISOString();

async function choose(place, forecast, box, signal) {
  const at = minuteAt(forecast, place);
  const lanes = Object.entries(forecast.due_by_lane).filter(([, due]) => due[place]);
  const title = h("h2", {}, `${time(at)}: ${count(forecast.due[place])} due`);
  fill(box, title, loading());
  try {
    const { jobs, is_whole: isWhole } = await get("v1/forecast/due", { at, limit: 50 }, signal);
    const rows = jobs.map((job) => [
      { content: [moment(job.at), job.runs > 1 && h("span", { class: "soft" }, `and ${count(job.runs - 1)} more in this minute`)], class: "when" },
      { content: jobLink(job.job_id, job.job_name), class: "wide" },
      job.tenant_id,
      words(job.priority),
    ]);
    fill(
      box,
      title,
      lanes.length > 0 && h("p", {}, lanes.map(([lane, due]) => `${words(lane)}: ${count(due[place])}`).join(", ")),
      table("Due in this minute", ["Due", "Job", "Tenant", "Priority"], rows, "Nothing is due in this minute."),
      !isWhole && h("p", { class: "soft" }, "There are more of them."),
    );
  } catch (error) {
    if (error.name !== "AbortError") fill(box, title, banner(error));
  }
}

function peaks(forecast) {
  const { crowded, peaks: told } = forecast;
  if (!crowded.length) return h("p", {}, `Nowhere: no minute has ${rule(forecast)}.`);
  const more = crowded.length > told.length && h("p", {}, `${plural(crowded.length, "minute")} are crowded; these are the fullest.`);
  return [more, told.map((peak) =>
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
  )];
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
