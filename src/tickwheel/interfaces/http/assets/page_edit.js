// Make a job, or change one: with a look at which times appear, move or vanish before anything is saved.

import { call } from "./api.js";
import { note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { clock, count, knowsZone, offset, pretty, words } from "./format.js";
import { button, choice, field, heading } from "./parts.js";
import { go } from "./router.js";
import { tenant, tenantQuery } from "./session.js";

const LANES = ["CRITICAL", "HIGH", "DEFAULT", "LOW"];
const METHODS = ["POST", "PUT", "PATCH", "GET", "DELETE"];
const PLURALS = { appears: "appear", moves: "move", vanishes: "vanish", stays: "stay" };
const COMPARED = 40;
const SHOWN = 20;
const PREVIEW_AFTER_MS = 300;

export async function newPage({ signal }) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const blank = { schedule_type: "CRON", cron_expression: "0 9 * * *", timezone: zone, priority: "DEFAULT", target: { type: "HTTP_WEBHOOK", method: "POST", endpoint: "" }, tags: [], retry_policy: { max_retries: 3 } };
  const form = new Form(blank, null, signal);
  return h("div", {}, heading("New job"), form.node);
}

export async function editPage({ params, signal }) {
  const [job, headers] = await call("GET", `v1/jobs/${params.id}`, { query: tenantQuery(), signal, withHeaders: true });
  const form = new Form(job, headers.get("etag"), signal);
  return h("div", {}, heading(`Edit “${job.job_name || job.job_id}”`), form.node);
}

class Form {
  constructor(job, etag, signal) {
    this.job = job;
    this.etag = etag;
    this.signal = signal;
    this.isNew = etag === null;
    const text = (value, props = {}) => h("input", { type: "text", value: value ?? "", autocomplete: "off", spellcheck: "false", ...props });
    const target = job.target;
    this.controls = {
      job_name: text(job.job_name),
      type: choice([["CRON", "again and again"], ["ONE_OFF", "once"]], job.cron_expression ? "CRON" : "ONE_OFF", { disabled: !this.isNew }),
      cron_expression: text(job.cron_expression),
      timezone: text(job.timezone, { list: "zones" }),
      execute_at: text(job.execute_at || new Date(Date.now() + 3_600_000).toISOString()),
      "target.endpoint": text(target.endpoint, { type: "url", inputmode: "url" }),
      "target.name": text(target.name),
      "target.method": choice(METHODS.map((one) => [one, one]), target.method || "POST"),
      priority: choice(LANES.map((one) => [one, words(one)]), job.priority, { disabled: !this.isNew }),
      "retry_policy.max_retries": text(job.retry_policy?.max_retries ?? 3, { type: "number", min: "0", max: "100" }),
      tags: text((job.tags || []).join(", ")),
      payload: h("textarea", { rows: "6", spellcheck: "false" }, job.payload === null || job.payload === undefined ? "" : pretty(job.payload)),
    };
    this.preview = h("div", { class: "live", "aria-live": "polite" });
    this.problem = h("div", { role: "alert" });
    this.rows = {};
    this.node = this.build();
    this.arrange();
    this.controls.type.addEventListener("change", () => this.arrange());
    this.controls.cron_expression.addEventListener("input", () => this.soon());
    this.controls.timezone.addEventListener("input", () => this.soon());
    this.compare();
  }

  build() {
    const row = (name, label, hint) => (this.rows[name] = field(label, this.controls[name], hint));
    const isHandler = this.job.target.type === "HANDLER";
    return h(
      "form",
      { class: "edit", novalidate: true, on: { submit: (event) => this.save(event) } },
      h(
        "div",
        { class: "pair" },
        h(
          "section",
          {},
          h("h2", {}, "What and when"),
          row("job_name", "Name"),
          row("type", "Runs"),
          row("cron_expression", "Cron expression", "Minute, hour, day of month, month, day of week: 30 2 * * 1-5"),
          row("timezone", "Time zone", "An IANA name, such as Europe/Berlin"),
          row("execute_at", "Runs at", "ISO 8601 with an offset or Z"),
          isHandler ? row("target.name", "Handler") : [row("target.endpoint", "Calls", "The address of your webhook"), row("target.method", "Method")],
          row("priority", "Priority"),
          row("retry_policy.max_retries", "Retries after a failure"),
          row("tags", "Tags", "With commas between"),
          row("payload", "Payload", "JSON; empty for none"),
        ),
        h("section", {}, h("h2", {}, this.isNew ? "Next runs" : "What will change"), this.preview),
      ),
      this.problem,
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "submit", class: "primary" }, this.isNew ? "Make the job" : "Save"),
        button("Leave it", () => history.back()),
      ),
      h("datalist", { id: "zones" }, (Intl.supportedValuesOf?.("timeZone") || []).map((zone) => h("option", { value: zone }))),
    );
  }

  value(name) {
    return this.controls[name].value.trim();
  }

  get recurring() {
    return this.value("type") === "CRON";
  }

  arrange() {
    this.rows.cron_expression.hidden = this.rows.timezone.hidden = !this.recurring;
    this.rows.execute_at.hidden = this.recurring;
    this.compare();
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.compare(), PREVIEW_AFTER_MS);
  }

  async compare() {
    if (!this.recurring) {
      fill(this.preview, h("p", { class: "soft" }, "It runs once."));
      return;
    }
    const asked = { cron_expression: this.value("cron_expression"), timezone: this.value("timezone") || "UTC" };
    try {
      const fresh = await this.timesOf(asked);
      const isSame = !this.isNew && asked.cron_expression === this.job.cron_expression && asked.timezone === this.job.timezone;
      const old = this.isNew ? null : isSame ? fresh : await this.timesOf({ cron_expression: this.job.cron_expression, timezone: this.job.timezone });
      fill(this.preview, old === null ? timesList(fresh, asked.timezone) : changes(old, fresh, asked.timezone), remarks(fresh));
    } catch (error) {
      if (error.name === "AbortError") return;
      const told = error.errors?.length ? error.errors.map((one) => `${one.field}: ${one.message}`) : [error.message];
      fill(this.preview, h("ul", { class: "notes bad" }, told.map((one) => h("li", {}, one))));
    }
  }

  timesOf(asked) {
    return call("POST", "v1/schedules/preview", { body: { ...asked, count: COMPARED }, signal: this.signal });
  }

  /** What differs from the job as it is, as the API takes it. */
  members() {
    const members = {};
    const set = (path, value) => {
      const names = path.split(".");
      let at = members;
      for (const name of names.slice(0, -1)) at = at[name] ??= {};
      at[names.at(-1)] = value;
    };
    const was = (path) => path.split(".").reduce((at, name) => at?.[name], this.job);
    const plain = ["job_name", ...(this.recurring ? ["cron_expression", "timezone"] : ["execute_at"])];
    plain.push(...(this.job.target.type === "HANDLER" ? ["target.name"] : ["target.endpoint", "target.method"]));
    if (this.isNew) plain.push("priority");
    for (const path of plain) {
      if (this.isNew || this.value(path) !== (was(path) ?? "")) set(path, this.value(path) || null);
    }
    const retries = Number(this.value("retry_policy.max_retries"));
    if (this.isNew || retries !== was("retry_policy.max_retries")) set("retry_policy.max_retries", retries);
    const tags = this.value("tags").split(",").map((one) => one.trim()).filter(Boolean);
    if (tags.join() !== (this.job.tags || []).join()) members.tags = tags.length ? tags : null;
    const text = this.value("payload");
    const before = this.job.payload === null || this.job.payload === undefined ? "" : pretty(this.job.payload);
    if (text !== before) members.payload = text ? JSON.parse(text) : null;
    if (this.isNew) {
      members.schedule_type = this.value("type");
      members.target.type = this.job.target.type;
      for (const name of ["job_name", "payload", "tags"]) if (members[name] === null) delete members[name];
      if (tenant() !== "default") members.tenant_id = tenant();
    }
    return members;
  }

  async save(event) {
    event.preventDefault();
    let members;
    try {
      members = this.members();
    } catch (error) {
      this.tell([{ field: "payload", message: `is not JSON: ${error.message}` }]);
      return;
    }
    if (!this.isNew && !Object.keys(members).length) {
      note("Nothing is different.");
      return;
    }
    try {
      if (this.isNew) {
        const made = await call("POST", "v1/jobs", { body: members });
        note("It is made.");
        go(`/jobs/${made.job_id}`);
      } else {
        await this.change(members);
      }
    } catch (error) {
      const stale = error.status === 412 ? "Somebody else has changed it meanwhile. Open it again." : "";
      this.tell(error.errors?.length ? error.errors : [{ field: "", message: stale || error.message }]);
    }
  }

  async change(members) {
    const path = `v1/jobs/${this.job.job_id}`;
    const [, headers] = await call("PATCH", path, { query: tenantQuery(), body: members, headers: { "if-match": this.etag }, withHeaders: true });
    const back = former(this.job, members);
    const undo = () => call("PATCH", path, { query: tenantQuery(), body: back, headers: { "if-match": headers.get("etag") } });
    note("It is saved.", { undo });
    go(`/jobs/${this.job.job_id}`);
  }

  tell(errors) {
    for (const control of Object.values(this.controls)) control.removeAttribute("aria-invalid");
    for (const { field: name } of errors) this.controls[name]?.setAttribute("aria-invalid", "true");
    fill(this.problem, h("ul", { class: "notes bad" }, errors.map((one) => h("li", {}, `${one.field} ${one.message}`.trim()))));
    this.node.querySelector('[aria-invalid="true"]')?.focus();
  }
}

/** The members that put a change back. */
function former(job, members) {
  return Object.fromEntries(
    Object.entries(members).map(([name, value]) => {
      const was = job[name] ?? null;
      const isObject = value !== null && typeof value === "object" && !Array.isArray(value) && name !== "payload";
      return [name, isObject ? former(was || {}, value) : was];
    }),
  );
}

const told = (iso, zone) => (knowsZone(zone) ? `${clock(iso, zone)} ${offset(iso, zone)}` : iso);

function timesList(seen, zone) {
  return h("ul", { class: "times" }, seen.next.slice(0, SHOWN).map((at) => h("li", {}, told(at, zone))));
}

/** Which times stay, appear, vanish; one that goes and one that comes on the same day is a move. */
function changes(old, fresh, zone) {
  const end = Math.min(Date.parse(old.next.at(-1) || 0), Date.parse(fresh.next.at(-1) || 0));
  const within = (list) => list.filter((at) => Date.parse(at) <= end);
  const [before, after] = [within(old.next), within(fresh.next)];
  const gone = before.filter((at) => !after.includes(at));
  const come = after.filter((at) => !before.includes(at));
  const items = after.filter((at) => before.includes(at)).map((at) => ({ at, kind: "stays", text: told(at, zone) }));
  for (const at of gone) {
    const place = come.findIndex((one) => clock(one, zone).slice(0, 10) === clock(at, zone).slice(0, 10));
    if (place >= 0) {
      const [to] = come.splice(place, 1);
      items.push({ at: to, kind: "moves", text: `${told(at, zone)} → ${told(to, zone)}` });
    } else {
      items.push({ at, kind: "vanishes", text: told(at, zone) });
    }
  }
  items.push(...come.map((at) => ({ at, kind: "appears", text: told(at, zone) })));
  items.sort((a, b) => (a.at < b.at ? -1 : 1));
  const sums = Object.keys(PLURALS).map((kind) => [kind, items.filter((one) => one.kind === kind).length]).filter(([, number]) => number);
  if (sums.length === 1 && sums[0][0] === "stays") return [h("p", {}, "Its times stay as they are."), timesList(fresh, zone)];
  return [
    h("p", {}, `Of the times until ${told(new Date(end).toISOString(), zone)}: ${sums.map(([kind, number]) => `${count(number)} ${number === 1 ? kind : PLURALS[kind]}`).join(", ")}.`),
    h("ul", { class: "times" }, items.slice(0, SHOWN).map((one) => h("li", { class: one.kind }, h("span", { class: `mark ${one.kind}` }, one.kind), one.text))),
  ];
}

function remarks(seen) {
  const all = [...seen.notes, ...seen.warnings];
  return all.length > 0 && h("ul", { class: "notes" }, all.map((one) => h("li", {}, one)));
}
