// What a change of its schedule does to a job: which times appear, move and vanish.

import { call } from "./api.js";
import { h } from "./dom.js";
import { clock, count, knowsZone, offset } from "./format.js";

const PLURALS = { appears: "appear", moves: "move", vanishes: "vanish", stays: "stay" };
const COMPARED = 40;
const SHOWN = 20;
const UNITS = [10, 13, 16]; // of a time on the clock: its day, its hour, its minute

/** The next times of a schedule, within its own bounds; `isWhole` says whether there are no more. */
export async function timesOf({ cron_expression, timezone, start_at: from, end_at: to }, signal) {
  const start = from && Date.parse(from) > Date.now() ? new Date(Date.parse(from) - 1).toISOString() : undefined;
  const ask = (many) => call("POST", "v1/schedules/preview", { body: { cron_expression, timezone, start, count: many }, signal });
  const seen = await ask(COMPARED);
  const next = seen.next.filter((at) => !to || Date.parse(at) < Date.parse(to));
  const isWhole = next.length < COMPARED;
  // What is said of clock changes after the end is none of its business.
  const { notes, warnings } = isWhole && next.length && next.length < seen.next.length ? await ask(next.length) : seen;
  return { next, isWhole, notes: next.length ? notes : [], warnings };
}

const told = (iso, zone) => (knowsZone(zone) ? `${clock(iso, zone)} ${offset(iso, zone)}` : iso);

export function timesList(seen, zone) {
  if (!seen.next.length) return h("p", {}, "None: no time lies within its bounds.");
  return h("ul", { class: "times" }, seen.next.slice(0, SHOWN).map((at) => h("li", {}, told(at, zone))));
}

/** Which times stay, appear, vanish; one that goes and one that comes on the same day (hour, minute) is a move. */
export function changes(old, fresh, zone) {
  const { items, end } = compared(old, fresh, zone);
  if (items.every((one) => one.kind === "stays")) return [h("p", {}, "Its times stay as they are."), timesList(fresh, zone)];
  const sums = Object.keys(PLURALS).map((kind) => [kind, items.filter((one) => one.kind === kind).length]).filter(([, number]) => number);
  const said = sums.map(([kind, number]) => `${count(number)} ${number === 1 ? kind : PLURALS[kind]}`).join(", ");
  return [
    h("p", {}, `${end === null ? "Of all its times" : `Of the times until ${told(new Date(end).toISOString(), zone)}`}: ${said}.`),
    h("ul", { class: "times" }, items.slice(0, SHOWN).map(({ kind, at, to }) => h("li", { class: kind }, h("span", { class: `mark ${kind}` }, kind), to ? `${told(at, zone)} → ${told(to, zone)}` : told(at, zone)))),
  ];
}

/**
 * Both lists end somewhere, and beyond the end of the shorter nothing is known: so whole days are compared, or whole
 * hours or minutes where not even a day is known. Otherwise the last time of the one would seem to vanish, only since
 * its counterpart is not in the other.
 */
function compared(old, fresh, zone) {
  const local = (at, unit) => (knowsZone(zone) ? clock(at, zone) : at.replace("T", " ")).slice(0, unit);
  const ends = [old, fresh].filter((one) => !one.isWhole).map((one) => one.next.at(-1));
  const last = ends.length ? ends.reduce((one, other) => (one < other ? one : other)) : null;
  const first = [old.next[0], fresh.next[0]].filter(Boolean).sort()[0];
  const unit = last && UNITS.find((one) => local(first, one) < local(last, one));
  const isKnown = (at) => !last || (unit ? local(at, unit) < local(last, unit) : at <= last);
  const [before, after] = [old.next.filter(isKnown), fresh.next.filter(isKnown)];
  const gone = before.filter((at) => !after.includes(at));
  const come = after.filter((at) => !before.includes(at));
  const items = after.filter((at) => before.includes(at)).map((at) => ({ at, kind: "stays" }));
  for (const at of gone) {
    const place = come.findIndex((one) => local(one, unit || UNITS[0]) === local(at, unit || UNITS[0]));
    if (place < 0) items.push({ at, kind: "vanishes" });
    else items.push({ at, to: come.splice(place, 1)[0], kind: "moves" });
  }
  items.push(...come.map((at) => ({ at, kind: "appears" })));
  items.sort((one, other) => (one.at < other.at ? -1 : 1));
  return { items, end: last && Math.max(...[...before, ...after].map((at) => Date.parse(at))) };
}

export function remarks(seen) {
  const all = [...seen.notes, ...seen.warnings];
  return all.length > 0 && h("ul", { class: "notes" }, all.map((one) => h("li", {}, one)));
}
