// What the form of a job is made of. Each control has a node, reads a value as the API takes it (null: the default), and
// writes one; what is wrong with what was typed goes into `problems` as texts.

import { fill, h } from "./dom.js";
import { laidOut, packed } from "./json_text.js";
import { choice } from "./parts.js";

const input = (props = {}) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...props });
const small = (text, act, props = {}) => h("button", { type: "button", class: "plain small", ...props, on: { click: act } }, text);

class Plain {
  constructor(node) {
    this.node = node;
  }

  get text() {
    return this.node.value.trim();
  }

  read() {
    return this.text || null;
  }

  write(value) {
    this.node.value = value ?? "";
  }
}

export class TextControl extends Plain {
  constructor(props) {
    super(input(props));
  }
}

export class NumberControl extends Plain {
  constructor(props) {
    super(input({ inputmode: "decimal", ...props }));
  }

  read(problems) {
    if (!this.text) return null;
    const value = Number(this.text);
    if (!Number.isFinite(value)) problems.push("must be a number");
    return value;
  }
}

export class ChoiceControl extends Plain {
  constructor(options, props) {
    super(choice(options, options[0][0], props));
    this.first = options[0][0];
  }

  write(value) {
    super.write(value ?? this.first);
  }
}

/** JSON, kept as text: no number of it is ever made a number of JavaScript's. */
export class JsonControl extends Plain {
  constructor() {
    super(h("textarea", { rows: "6", spellcheck: "false" }));
  }

  read(problems) {
    if (!this.text) return null;
    try {
      const text = packed(this.text);
      return text === "null" ? null : text;
    } catch (error) {
      problems.push(`is not JSON: ${error.message}`);
      return null;
    }
  }

  write(text) {
    this.node.value = text ? laidOut(text) : "";
  }
}

/** Tags: one chip for each, since a tag may hold commas and blanks. */
export class TagsControl {
  constructor() {
    this.tags = [];
    this.input = input({ "aria-label": "Another tag" });
    this.chips = h("span", { class: "chips" });
    this.node = h("div", { class: "row" }, this.chips, this.input, small("Add", () => this.add()));
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !this.input.value.trim()) return;
      event.preventDefault(); // else it would save the form
      this.add();
    });
  }

  add() {
    this.write(this.read());
    this.input.value = "";
    this.input.focus();
  }

  /** With what is typed and not added yet. */
  read() {
    const all = [...new Set([...this.tags, this.input.value.trim()])].filter(Boolean);
    return all.length ? all : null;
  }

  write(tags) {
    this.tags = [...(tags || [])];
    fill(this.chips, this.tags.map((tag) => h("span", { class: "tag" }, tag, small("×", () => this.drop(tag), { "aria-label": `Remove the tag ${tag}` }))));
  }

  drop(tag) {
    this.write(this.tags.filter((one) => one !== tag));
    this.input.focus();
  }
}

const SCOPES = [
  ["key", "runs with the key"],
  ["job_name", "runs of jobs of this name"],
  ["tenant", "runs of the tenant"],
];

/** Limits of concurrency, a row for each. */
export class LimitsControl {
  constructor() {
    this.list = h("div", {});
    this.node = h("div", {}, this.list, small("Add a limit", () => this.add({ limit: 1 }).querySelector("input").focus()));
  }

  add(limit) {
    const scope = choice(SCOPES, limit.scope || "key", { "aria-label": "Counted" });
    const key = input({ "aria-label": "Key", placeholder: "key", value: limit.key ?? "" });
    const most = input({ "aria-label": "At most at a time", inputmode: "numeric", size: "4", value: limit.limit ?? "" });
    const waiting = input({ "aria-label": "At most waiting", inputmode: "numeric", size: "4", placeholder: "all", value: limit.max_waiting ?? "" });
    const row = h("div", { class: "row" }, scope, key, h("span", { class: "soft" }, "at most"), most, h("span", { class: "soft" }, "at a time, waiting at most"), waiting);
    row.append(small("Remove", () => row.remove(), { "aria-label": "Remove this limit" }));
    const arrange = () => (key.hidden = scope.value !== "key");
    scope.addEventListener("change", arrange);
    arrange();
    row.read = () => ({
      scope: scope.value,
      ...(scope.value === "key" ? { key: key.value } : {}),
      limit: wholeOr(most.value),
      ...(waiting.value.trim() ? { max_waiting: wholeOr(waiting.value) } : {}),
    });
    this.list.append(row);
    return row;
  }

  read() {
    const all = [...this.list.children].map((row) => row.read());
    return all.length ? all : null;
  }

  write(limits) {
    this.list.replaceChildren();
    for (const limit of limits || []) this.add(limit);
  }
}

/** A number, or the text as it is, for the server to say what is wrong with it. */
const wholeOr = (text) => (/^\d+$/.test(text.trim()) ? Number(text) : text.trim() || null);

/**
 * Headers. Values that are stored are secrets which nobody is shown: each is kept, replaced or removed. A value stays
 * with the host that it was given for, so that whoever may change a job can't have it sent to an address of his own.
 * What is read and written is the change: a name with null is removed.
 */
export class HeadersControl {
  constructor(job) {
    this.stored = Object.keys(job.target.headers || {});
    this.from = job.target.endpoint || "";
    this.to = this.from;
    this.list = h("div", {});
    this.told = h("div", { "aria-live": "polite" });
    this.node = h("div", {}, this.told, this.list, small("Add a header", () => this.add("", "").querySelector("input").focus()));
    this.write({});
  }

  add(name, value, isStored = false) {
    const of = isStored ? ` of ${name}` : "";
    const naming = input({ "aria-label": "Name of a header", placeholder: "name", value: name });
    const giving = input({ "aria-label": `Value${of}`, placeholder: isStored ? "kept as it is, not shown" : "value", value });
    const remove = () => {
      row.remove();
      this.tell();
    };
    const row = h("div", { class: "row" }, isStored ? h("code", {}, name) : naming, giving, small("Remove", remove, { "aria-label": isStored ? `Remove ${name}` : "Remove this header" }));
    Object.assign(row, { isStored, giving, name: () => naming.value.trim() });
    giving.addEventListener("input", () => this.tell());
    this.list.append(row);
    return row;
  }

  get rows() {
    return [...this.list.children];
  }

  read(problems) {
    const kept = this.rows.filter((row) => row.isStored).map((row) => row.name());
    const changes = Object.fromEntries(this.stored.filter((name) => !kept.includes(name)).map((name) => [name, null]));
    for (const row of this.rows) {
      if (!row.name() && row.giving.value) problems.push("has a value without a name");
      if (row.name() && (row.giving.value || !row.isStored)) changes[row.name()] = row.giving.value;
    }
    const left = this.left();
    if (left.length) problems.push(`give ${left.map((row) => row.name()).join(", ")} again, or remove ${left.length === 1 ? "it" : "them"}`);
    return Object.keys(changes).length ? changes : null;
  }

  write(changes) {
    this.list.replaceChildren();
    for (const name of this.stored) if (changes?.[name] !== null) this.add(name, changes?.[name] ?? "", true);
    for (const [name, value] of Object.entries(changes || {})) if (value !== null && !this.stored.includes(name)) this.add(name, value);
    this.tell();
  }

  /** The address is to be this one. */
  move(endpoint) {
    this.to = endpoint;
    this.tell();
  }

  /** The rows whose stored value can't go to the new host. */
  left() {
    const to = originOf(this.to);
    if (to === null || to === originOf(this.from)) return [];
    return this.rows.filter((row) => row.isStored && !row.giving.value && !HARMLESS.includes(row.name().toLowerCase()));
  }

  reason() {
    return `given for ${originOf(this.from)}, and not sent to another host. Type the value again, or remove the header.`;
  }

  tell() {
    const left = this.left();
    for (const row of this.rows) {
      if (left.includes(row)) row.giving.setAttribute("aria-invalid", "true");
      else row.giving.removeAttribute("aria-invalid");
      if (row.isStored) row.giving.placeholder = left.includes(row) ? "type it again" : "kept as it is, not shown";
    }
    fill(this.told, left.length > 0 && h("p", { class: "problem" }, `${left.map((row) => row.name()).join(", ")}: ${this.reason()}`));
  }
}

/** Headers that are no secrets by what they mean: the server lets them move. */
const HARMLESS = ["accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "content-encoding", "content-language", "content-type", "pragma"];

/** Scheme, host and port as the server compares them: a host is what is written. Null for what is no address. */
function originOf(endpoint) {
  const found = /^(https?):\/\/([^/?#]*?)(?::(\d+))?(?:[/?#].*)?$/is.exec(endpoint);
  if (!found) return null;
  const scheme = found[1].toLowerCase();
  return `${scheme}://${found[2].toLowerCase()}:${found[3] ? Number(found[3]) : scheme === "https" ? 443 : 80}`;
}
