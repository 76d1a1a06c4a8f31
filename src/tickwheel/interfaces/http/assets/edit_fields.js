// The fields of a job in the form: how each is called there, where its value is in the API's job, and what it goes with.

import { textOf } from "./api.js";
import { ChoiceControl, HeadersControl, JsonControl, LimitsControl, NumberControl, TagsControl, TextControl } from "./edit_controls.js";
import { words } from "./format.js";
import { packed } from "./json_text.js";

const LANES = ["CRITICAL", "HIGH", "DEFAULT", "LOW"];
const METHODS = ["POST", "PUT", "PATCH", "GET", "DELETE"];

export const TYPES = { CRON: "again and again", ONE_OFF: "once" };
export const OVERLAPS = { allow: "start the next one beside it", skip: "skip the next one", buffer_one: "let the next one wait, and skip further ones" };
export const CATCH_UPS = { fire_once: "run the first that was missed", fire_all: "run all that were missed", skip: "skip those that were missed" };
export const EXHAUSTED = { dead_letter: "keep it with the dead letters", drop: "note it in the history only" };

const INSTANT = "ISO 8601 with an offset or Z: 2027-03-01T08:00:00Z";
const number = (props) => () => new NumberControl(props);
const text = (props) => () => new TextControl(props);
const one = (options) => () => new ChoiceControl(Object.entries(options));

/** path, label, how its control is made, hint; `only`: the schedule or the target that it goes with; `more`: folded away. */
const FIELDS = [
  { path: "job_name", label: "Name", make: text() },
  { path: "type", label: "Runs", make: one(TYPES), fixed: "It can't be changed; make another job for that." },
  { path: "cron_expression", label: "Cron expression", make: text(), only: "CRON", hint: "Minute, hour, day of month, month, day of week: 30 2 * * 1-5" },
  { path: "timezone", label: "Time zone", make: text({ list: "zones" }), only: "CRON", hint: "An IANA name, such as Europe/Berlin" },
  { path: "execute_at", label: "Runs at", make: text(), only: "ONE_OFF", hint: INSTANT },
  { path: "target.type", label: "Does", make: one({ HTTP_WEBHOOK: "call a webhook", HANDLER: "run a handler" }), fixed: "It can't be changed here; make another job for that." },
  { path: "target.endpoint", label: "Calls", make: text({ inputmode: "url" }), only: "HTTP_WEBHOOK", hint: "The address of your webhook" },
  { path: "target.method", label: "Method", make: one(Object.fromEntries(METHODS.map((name) => [name, name]))), only: "HTTP_WEBHOOK" },
  { path: "target.headers", label: "Headers", make: (job) => new HeadersControl(job), only: "HTTP_WEBHOOK", group: true, hint: "Stored values are secrets: they are kept unless you type another" },
  { path: "target.name", label: "Handler", make: text(), only: "HANDLER", hint: "The name that it was registered under" },
  { path: "priority", label: "Priority", make: one(Object.fromEntries(LANES.map((name) => [name, words(name)]))) },
  { path: "retry_policy.max_retries", label: "Retries after a failure", make: number({ placeholder: "3" }) },
  { path: "tags", label: "Tags", make: () => new TagsControl(), group: true, hint: "Enter adds one; a comma is a part of it" },
  { path: "payload", label: "Payload", make: () => new JsonControl(), hint: "JSON; empty for none. Blanks between its values are not sent" },
  { path: "target.timeout_seconds", label: "Timeout of an attempt, in seconds", make: number({ placeholder: "30" }), more: true },
  { path: "retry_policy.initial_interval_sec", label: "Longest wait before the first retry, in seconds", make: number({ placeholder: "10" }), more: true },
  { path: "retry_policy.backoff_multiplier", label: "Factor by which each further wait grows", make: number({ placeholder: "2" }), more: true },
  { path: "retry_policy.max_interval_sec", label: "Longest wait before any retry, in seconds", make: number({ placeholder: "300" }), more: true },
  { path: "retry_policy.when_exhausted", label: "When the last retry has failed", make: one(EXHAUSTED), more: true },
  { path: "overlap", label: "If one still runs", make: one(OVERLAPS), only: "CRON", more: true },
  { path: "catch_up.policy", label: "After downtime", make: one(CATCH_UPS), only: "CRON", more: true },
  { path: "catch_up.max", label: "At most so many that were missed", make: number({ placeholder: "100" }), only: "CRON", more: true, hint: "Where all are run: the newest ones" },
  { path: "deadline_seconds", label: "Too late after, in seconds", make: number(), more: true, hint: "A run that can't start by then is skipped; empty: it is never too late" },
  { path: "start_at", label: "Not before", make: text(), only: "CRON", more: true, hint: INSTANT },
  { path: "end_at", label: "Not at or after", make: text(), only: "CRON", more: true, hint: INSTANT },
  { path: "target.signing_secret", label: "Signed with", make: text({ list: "secrets" }), only: "HTTP_WEBHOOK", more: true, hint: "The name of a signing secret; empty: the one called default, if there is one" },
  { path: "concurrency", label: "Limits", make: () => new LimitsControl(), more: true, group: true, hint: "A run starts only while fewer than so many are in flight in the whole cluster" },
];

/** The fields of this job's form, each with its control, filled in. */
export function fieldsOf(job, isNew) {
  return FIELDS.map((about) => {
    const field = { ...about, control: about.make(job) };
    if (about.path !== "target.headers") field.control.write(valueOf(job, about.path));
    if (about.fixed && !isNew) {
      Object.assign(field, { hint: about.fixed, isFixed: true });
      field.control.node.disabled = true;
    }
    return field;
  });
}

/** The value of a field in the job as it is stored; that of `target.headers` is the change, so it is null. */
export function valueOf(job, path) {
  if (path === "type") return job.cron_expression || job.schedule_type === "CRON" ? "CRON" : "ONE_OFF";
  if (path === "payload") return payloadOf(job);
  if (path === "target.headers") return null;
  if (path === "tags") return job.tags?.length ? job.tags : null;
  if (path === "retry_policy.when_exhausted") return job.retry_policy?.when_exhausted || "dead_letter";
  return path.split(".").reduce((at, name) => at?.[name], job) ?? null;
}

function payloadOf(job) {
  const text = job.job_id ? textOf(job, "payload") : null;
  return text && packed(text);
}

/** Whether two values of a field are the same. Blanks between the values of a payload don't count. */
export function isSame(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** The field that a problem of the API is about, and what of it. */
export function fieldAbout(fields, name) {
  const found = fields.find(({ path }) => name === path || name.startsWith(`${path}.`) || name.startsWith(`${path}[`));
  return [found, found ? partText(name.slice(found.path.length)) : ""];
}

function partText(rest) {
  const item = /^\[(\d+)\]/.exec(rest);
  if (item) return `number ${Number(item[1]) + 1}: `;
  return rest ? `${rest.slice(1)}: ` : "";
}

const NAMES = FIELDS.flatMap(({ path, label }) => [[path, label], [path.split(".").at(-1), label]])
  .filter(([name]) => /[._]/.test(name))
  .sort(([one], [other]) => other.length - one.length);
const NAMED = new RegExp(`\\b(${NAMES.map(([name]) => name.replace(".", "\\.")).join("|")})\\b`, "g");

/** What the API says of a field, in the words of the form. */
export function inWords(field, part, { message, code }) {
  const said = code === "required" ? "is needed" : message.replace(NAMED, (name) => `“${NAMES.find(([one]) => one === name)[1]}”`);
  if (part) return `${field.label}, ${part}${said}`;
  return /^(is|has|must|can't|goes|lies|belongs) /.test(said) ? `${field.label} ${said}` : `${field.label}: ${said}`;
}
