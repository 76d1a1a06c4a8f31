// Make a job, or change one: with a look at which times appear, move or vanish before anything is saved.

import { call, textOf } from "./api.js";
import { clearNotes, note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { conflict } from "./edit_conflict.js";
import { fieldAbout, fieldsOf, inWords, isSame, valueOf } from "./edit_fields.js";
import { changes, remarks, timesList, timesOf } from "./edit_preview.js";
import { clock, offset } from "./format.js";
import { withTexts } from "./json_text.js";
import { button, field as labelled, heading, jobTitle } from "./parts.js";
import { go } from "./router.js";
import { isDefaultTenant, may, tenant, tenantQuery } from "./session.js";

const PREVIEW_AFTER_MS = 300;
const TIMING = ["cron_expression", "timezone", "start_at", "end_at"];

export async function newPage({ signal }) {
  const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const execute_at = new Date(Date.now() + 3_600_000).toISOString();
  const blank = { schedule_type: "CRON", cron_expression: "0 9 * * *", timezone, execute_at, priority: "DEFAULT", target: { type: "HTTP_WEBHOOK", method: "POST" }, retry_policy: { max_retries: 3 } };
  const form = new Form(blank, null, signal);
  return h("div", {}, heading("New job"), form.node);
}

export async function editPage({ params, signal }) {
  const [job, etag] = await read(params.id, signal);
  const form = new Form(job, etag, signal);
  return h("div", {}, heading(`Edit “${jobTitle(job.job_id, job.job_name)}”`), form.node);
}

async function read(id, signal) {
  const [job, headers] = await call("GET", `v1/jobs/${encodeURIComponent(id)}`, { query: tenantQuery(), signal, withHeaders: true });
  return [job, headers.get("etag")];
}

class Form {
  constructor(job, etag, signal) {
    this.job = job;
    this.etag = etag;
    this.signal = signal;
    this.isNew = etag === null;
    this.whose = tenantQuery();
    this.fields = fieldsOf(job, this.isNew);
    this.preview = h("div", { class: "live", "aria-live": "polite" });
    this.problem = h("div", { role: "alert" });
    this.asked = 0;
    this.node = this.build();
    this.control("type").node.addEventListener("change", () => this.arrange());
    this.control("target.type").node.addEventListener("change", () => this.arrange());
    this.control("target.endpoint").node.addEventListener("input", () => this.control("target.headers").move(this.value("target.endpoint") || ""));
    for (const path of [...TIMING, "execute_at"]) this.control(path).node.addEventListener("input", () => this.soon());
    this.arrange();
  }

  build() {
    for (const field of this.fields) field.row = this.row(field);
    const rows = (more) => this.fields.filter((field) => Boolean(field.more) === more).map((field) => field.row);
    this.more = h("details", {}, h("summary", {}, "More: timeout, waits between retries, overlap, downtime, deadline, bounds, signature, limits"), rows(true));
    return h(
      "form",
      { class: "edit", novalidate: true, on: { submit: (event) => this.save(event) } },
      h(
        "div",
        { class: "pair" },
        h("section", {}, h("h2", {}, "What and when"), rows(false), this.more),
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
      this.secrets(),
    );
  }

  row(field) {
    field.fault = h("span", { class: "problem" });
    const { control, label, hint } = field;
    field.fault.id = `fault-${field.path}`;
    const row = field.group
      ? h("fieldset", { class: "field" }, h("legend", {}, label), control.node, hint && h("span", { class: "hint" }, hint))
      : labelled(label, control.node, hint);
    row.append(field.fault);
    const described = control.node.getAttribute("aria-describedby");
    control.node.setAttribute("aria-describedby", described ? `${described} ${field.fault.id}` : field.fault.id);
    return row;
  }

  /** Suggests the names of the tenant's signing secrets, if they may be seen. */
  secrets() {
    const list = h("datalist", { id: "secrets" });
    if (may("secrets:write")) {
      call("GET", "v1/secrets", { query: this.whose, signal: this.signal }).then(
        ({ secrets }) => fill(list, secrets.map(({ name }) => h("option", { value: name }))),
        () => {}, // a suggestion less
      );
    }
    return list;
  }

  control(path) {
    return this.fields.find((field) => field.path === path).control;
  }

  value(path) {
    return this.control(path).read([]);
  }

  get recurring() {
    return this.value("type") === "CRON";
  }

  isShown({ path, only }) {
    if (path === "execute_at" && this.job.schedule_type === "INSTANT") return false;
    return !only || only === this.value("type") || only === this.value("target.type");
  }

  arrange() {
    for (const field of this.fields) field.row.hidden = !this.isShown(field);
    this.compare();
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.compare(), PREVIEW_AFTER_MS);
  }

  async compare() {
    this.asked += 1;
    const turn = this.asked;
    const shown = await this.comparison().catch((error) => (error.name === "AbortError" ? null : this.refused(error)));
    if (shown && turn === this.asked) fill(this.preview, shown);
  }

  async comparison() {
    if (!this.recurring) return onceText(this.value("execute_at"));
    const asked = Object.fromEntries(TIMING.map((path) => [path, this.value(path)]));
    asked.timezone ||= "UTC";
    for (const path of ["start_at", "end_at"]) if (asked[path] && Number.isNaN(Date.parse(asked[path]))) throw new Error(`“${asked[path]}” is no instant.`);
    const fresh = await timesOf(asked, this.signal);
    if (this.isNew) return [timesList(fresh, asked.timezone), remarks(fresh)];
    const stored = Object.fromEntries(TIMING.map((path) => [path, valueOf(this.job, path)]));
    const old = isSame(asked, stored) ? fresh : await timesOf(stored, this.signal);
    return [changes(old, fresh, asked.timezone), remarks(fresh)];
  }

  refused(error) {
    const told = error.errors?.length ? error.errors.map((one) => this.sentence(one)) : [error.message];
    return h("ul", { class: "notes bad" }, told.map((one) => h("li", {}, one)));
  }

  sentence(one) {
    const [field, part] = fieldAbout(this.fields, one.field);
    return field ? inWords(field, part, one) : `${one.field} ${one.message}`.trim();
  }

  /** What differs from the job as it is: by path, as the API takes it. Faults are collected as the API tells them. */
  differing(faults) {
    const found = new Map();
    for (const { path, control, isFixed, ...field } of this.fields) {
      if (path === "type" || isFixed || !this.isShown({ path, ...field })) continue;
      const problems = [];
      const value = control.read(problems);
      faults.push(...problems.map((message) => ({ field: path, message })));
      if (this.isNew ? value !== null : !isSame(value, valueOf(this.job, path))) found.set(path, value);
    }
    return found;
  }

  async save(event) {
    event?.preventDefault();
    if (this.isSaving) return;
    clearNotes();
    const faults = [];
    const differing = this.differing(faults);
    this.tell(faults);
    if (faults.length) return;
    if (!this.isNew && !differing.size) {
      note("Nothing is different.");
      return;
    }
    this.isSaving = true;
    try {
      await (this.isNew ? this.make(differing) : this.change(differing));
    } catch (error) {
      await this.failed(error, differing);
    } finally {
      this.isSaving = false;
    }
  }

  async failed(error, differing) {
    if (error.status === 412) await this.meet(differing);
    else if (error.code === "secret_stays") this.tell([{ field: "target.headers", message: this.control("target.headers").reason() }]);
    else this.tell(error.errors?.length ? error.errors : [{ field: "", message: error.message }]);
  }

  async make(differing) {
    const members = nested(differing);
    members.schedule_type = this.value("type");
    if (!isDefaultTenant(tenant())) members.tenant_id = tenant();
    const made = await call("POST", "v1/jobs", { body: withTexts(members, texts(differing)) });
    go(`/jobs/${made.job_id}`);
    note("It is made.");
  }

  async change(differing) {
    const path = `v1/jobs/${this.job.job_id}`;
    const patch = (body, etag) => call("PATCH", path, { query: this.whose, body, headers: { "if-match": etag }, withHeaders: true });
    const [, headers] = await patch(withTexts(nested(differing), texts(differing)), this.etag);
    go(`/jobs/${this.job.job_id}`);
    if (this.forgets(differing)) note("It is saved. There is no undo: nobody knows the former values of headers.");
    else note("It is saved.", { undo: () => patch(this.former(differing), headers.get("etag")).catch(unlessChanged) });
  }

  /** Whether a stored value of a header is gone for good with this change. */
  forgets(differing) {
    return Object.keys(differing.get("target.headers") || {}).some((name) => name in (this.job.target.headers || {}));
  }

  /** The change that puts this one back. */
  former(differing) {
    const back = new Map([...differing.keys()].map((path) => [path, valueOf(this.job, path)]));
    if (back.has("target.headers")) back.set("target.headers", Object.fromEntries(Object.keys(differing.get("target.headers")).map((name) => [name, null])));
    if (back.has("payload")) back.set("payload", textOf(this.job, "payload"));
    return withTexts(nested(back), texts(back));
  }

  /** Somebody else was faster: keep what was typed, put it on top of theirs, and let the person look. */
  async meet(mine) {
    const [theirs, etag] = await read(this.job.job_id, this.signal);
    const next = new Form(theirs, etag, this.signal);
    for (const [path, value] of mine) next.control(path).write(value);
    next.control("target.headers").move(next.value("target.endpoint") || "");
    next.arrange();
    const plain = () => next.node.replaceWith(new Form(theirs, etag, this.signal).node);
    this.node.replaceWith(next.node);
    next.problem.append(conflict({ base: this.job, theirs, fields: next.fields, mine }, { saveOnTop: () => next.save(), takeTheirs: plain }));
    next.problem.querySelector("button").focus();
  }

  tell(errors) {
    for (const field of this.fields) {
      fill(field.fault, []);
      this.inputs(field).forEach((one) => one.removeAttribute("aria-invalid"));
    }
    this.control("target.headers").tell();
    const elsewhere = errors.filter((one) => !this.at(one));
    const wrong = errors.length - elsewhere.length;
    const said = elsewhere.map((one) => this.sentence(one));
    if (wrong) said.push(wrong === 1 ? "It is not saved: one field has to be mended." : `It is not saved: ${wrong} fields have to be mended.`);
    fill(this.problem, said.length > 0 && h("ul", { class: "notes bad" }, said.map((one) => h("li", {}, one))));
    const first = this.node.querySelector('[aria-invalid="true"]');
    if (first && this.more.contains(first)) this.more.open = true;
    first?.focus();
  }

  /** Say a problem at its field; gives whether it has one that is shown. */
  at(one) {
    const [field] = fieldAbout(this.fields, one.field);
    if (!field || field.row.hidden) return false;
    field.fault.append(h("span", {}, `${this.sentence(one)}. `));
    this.inputs(field)[0]?.setAttribute("aria-invalid", "true");
    return true;
  }

  inputs(field) {
    const { node } = field.control;
    return field.group ? [...node.querySelectorAll("input, select")] : [node];
  }
}

function onceText(at) {
  if (!at) return h("p", {}, "It runs once.");
  return h("p", {}, Number.isNaN(Date.parse(at)) ? `“${at}” is no instant.` : `It runs once, at ${clock(at)} ${offset(at)}.`);
}

function unlessChanged(error) {
  throw error.status === 412 ? new Error("Somebody else has changed it since, so nothing is put back.") : error;
}

/** Paths and values as objects within objects; the payload goes apart, as a text. */
function nested(values) {
  const members = {};
  for (const [path, value] of values) {
    if (path === "payload") continue;
    const names = path.split(".");
    let at = members;
    for (const name of names.slice(0, -1)) at = at[name] ??= {};
    at[names.at(-1)] = value;
  }
  return members;
}

const texts = (values) => (values.has("payload") ? { payload: values.get("payload") ?? "null" } : {});
