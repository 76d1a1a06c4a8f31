// Instants, lengths and counts for people. Instants come as ISO texts in UTC, with milliseconds.

const NUMBER = new Intl.NumberFormat("en-US");
const UNITS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
];
const HERE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

export const count = (number) => (number === null || number === undefined ? "–" : NUMBER.format(number));

export const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many || `${one}s`}`;

/** `850 ms`, `4.2 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. */
export function length(ms) {
  if (ms === null || ms === undefined) return "–";
  const sign = ms < 0 ? "−" : "";
  const size = Math.abs(ms);
  if (size < 1000) return `${sign}${Math.round(size)} ms`;
  if (size < 60_000) return `${sign}${(size / 1000).toFixed(size < 10_000 ? 1 : 0)} s`;
  const place = UNITS.findIndex(([unit]) => size >= unit);
  const [unit, name] = UNITS[place];
  const [below, belowName] = UNITS[place + 1];
  const rest = Math.floor((size % unit) / below);
  return `${sign}${Math.floor(size / unit)} ${name}${rest ? ` ${rest} ${belowName}` : ""}`;
}

/** `in 5 min`, `3 h ago`, `now`. */
export function relative(iso, now = Date.now()) {
  if (!iso) return "–";
  const ms = Date.parse(iso) - now;
  if (Math.abs(ms) < 1000) return "now";
  const [unit, name] = UNITS.find(([one]) => Math.abs(ms) >= one);
  const amount = `${Math.floor(Math.abs(ms) / unit)} ${name}`;
  return ms > 0 ? `in ${amount}` : `${amount} ago`;
}

/** `2026-03-29 01:30:00` on the clock of a zone; this browser's, unless another is named. */
export function clock(iso, zone = HERE, { millis = false, seconds = true } = {}) {
  if (!iso) return "–";
  const parts = Object.fromEntries(formatter(zone).formatToParts(new Date(iso)).map((part) => [part.type, part.value]));
  const time = `${parts.hour}:${parts.minute}${seconds ? `:${parts.second}` : ""}`;
  const fraction = millis && seconds ? `.${iso.slice(20, 23)}` : "";
  return `${parts.year}-${parts.month}-${parts.day} ${time}${fraction}`;
}

/** The offset of a zone at an instant: `UTC+2`. */
export function offset(iso, zone = HERE) {
  const parts = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "shortOffset" }).formatToParts(
    new Date(iso),
  );
  return parts.find((part) => part.type === "timeZoneName").value.replace("GMT", "UTC");
}

export const hereZone = HERE;

/** Whether this browser knows the zone. */
export function knowsZone(zone) {
  try {
    formatter(zone);
    return true;
  } catch {
    return false;
  }
}

const formatters = new Map();

function formatter(zone) {
  let known = formatters.get(zone);
  if (!known) {
    known = new Intl.DateTimeFormat("en-CA", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "2-digit",
      day: "2-digit",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
    });
    formatters.set(zone, known);
  }
  return known;
}

/** SCHEDULED -> scheduled; on_time -> on time. */
export const words = (name) => String(name || "").toLowerCase().replaceAll("_", " ");

export const pretty = (value) => JSON.stringify(value, null, 2);
