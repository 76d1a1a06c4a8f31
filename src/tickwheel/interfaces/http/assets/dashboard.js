// The dashboard: its frame, its pages, and who looks at it.

import { ApiError, forgetToken, get, hasToken, onTokenNeeded } from "./api.js";
import { nextHeard, watchContact } from "./contact.js";
import { note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { hereZone, offset } from "./format.js";
import { auditLogPage } from "./page_audit_log.js";
import { deadLettersPage } from "./page_dead_letters.js";
import { editPage, newPage } from "./page_edit.js";
import { jobPage } from "./page_job.js";
import { jobsPage } from "./page_jobs.js";
import { nodesPage } from "./page_nodes.js";
import { notificationsPage } from "./page_notifications.js";
import { objectivesPage } from "./page_objectives.js";
import { overviewPage } from "./page_overview.js";
import { runPage } from "./page_run.js";
import { tenantPage, tenantsPage } from "./page_tenants.js";
import { upcomingPage } from "./page_upcoming.js";
import { workersPage } from "./page_workers.js";
import { banner, field, heading, loading, retell } from "./parts.js";
import { href, route, start } from "./router.js";
import { isDefaultTenant, isForAll, may, openSession, showTenant, tenant, who } from "./session.js";

const THEME = "tickwheel.theme";
const THEMES = ["auto", "light", "dark"];
const PAGES = [
  ["/", "Overview", () => may("jobs:read")],
  ["/upcoming", "Upcoming", () => isForAll() && may("metrics:read")],
  ["/jobs", "Jobs", () => may("jobs:read")],
  ["/dead-letters", "Dead letters", () => may("runs:read")],
  ["/objectives", "Objectives", () => isForAll() && may("metrics:read")],
  ["/workers", "Workers", () => may("workers:read")],
  ["/nodes", "Nodes", () => isForAll() && may("metrics:read")],
  ["/tenants", "Tenants", () => may("tenants:read")],
  ["/notifications", "Notifications", () => may("notifications:write")],
  ["/audit-log", "Audit log", () => may("audit:read")],
];

route("/", overviewPage);
route("/upcoming", upcomingPage);
route("/jobs", jobsPage);
route("/jobs/:id", jobPage);
route("/jobs/:id/edit", editPage);
route("/new", newPage);
route("/runs/:id", runPage);
route("/dead-letters", deadLettersPage);
route("/objectives", objectivesPage);
route("/workers", workersPage);
route("/nodes", nodesPage);
route("/tenants", tenantsPage);
route("/tenants/:id", tenantPage);
route("/notifications", notificationsPage);
route("/audit-log", auditLogPage);

const main = document.getElementById("main");
let reopen = () => {}; // shows the page of the address anew, as soon as there are pages

async function show(page, context, current) {
  fill(document.getElementById("pages"), links(current));
  document.querySelector("#pages [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  fill(document.getElementById("whose"), whose());
  const isNew = main.dataset.path !== current;
  const isFirst = main.dataset.path === undefined;
  main.dataset.path = current;
  if (isNew) fill(main, loading());
  try {
    const made = page ? await page(context) : nowhere();
    if (context.signal.aborted) return;
    main.replaceChildren(made);
  } catch (error) {
    if (error.name === "AbortError" || context.signal.aborted) return;
    main.replaceChildren(heading(error.status === 404 ? "There is no such thing" : "This can't be shown"), banner(error));
    if (error.status === 0) nextHeard(context.signal).then(() => context.signal.aborted || show(page, context, current));
    if (!(error instanceof ApiError)) console.error(error);
  }
  const title = main.querySelector("h1");
  document.title = title ? `${title.textContent} · Tickwheel` : "Tickwheel";
  if (isNew) {
    if (!isFirst) title?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

function nowhere() {
  return h("div", {}, heading("There is no such page"), h("p", {}, h("a", { href: href("/") }, "To the overview")));
}

function links(current) {
  const isIn = (target) => (target === "/" ? current === "/" : current === target || current.startsWith(`${target}/`) || (target === "/jobs" && /^\/(runs|new)/.test(current)));
  return PAGES.filter(([, , isShown]) => isShown()).map(([target, text]) =>
    h("a", { href: href(target), "aria-current": isIn(target) ? "page" : false }, text),
  );
}

function whose() {
  const name = who().tenant_id;
  const out = hasToken() && h("button", { type: "button", class: "plain", on: { click: signOut } }, "Sign out");
  if (name) return [h("span", { class: "soft" }, `${who().principal}, tenant ${name}`), out];
  const input = h("input", { type: "text", value: tenant(), "aria-label": "Tenant whose jobs are shown", size: "10", spellcheck: "false", autocomplete: "off", list: "tenants" });
  const known = h("datalist", { id: "tenants" });
  input.addEventListener("focus", () => suggest(known));
  const change = (event) => {
    event.preventDefault();
    showTenant(input.value.trim() || "default");
  };
  return [h("form", { class: isDefaultTenant(tenant()) ? "tenant" : "tenant other", on: { submit: change } }, h("span", { class: "soft" }, "Tenant"), input, known), out];
}

/** Offer the tenants that have a record. */
async function suggest(list) {
  if (!may("tenants:read")) return;
  const { tenants } = await get("v1/tenants");
  fill(list, [...new Set(["default", ...tenants.map((one) => one.tenant_id)])].map((name) => h("option", { value: name })));
}

function signOut() {
  forgetToken();
  location.reload();
}

function askForToken(problem) {
  return new Promise((resolve) => {
    const input = h("input", { type: "password", autocomplete: "current-password", spellcheck: "false" });
    const submit = (event) => {
      event.preventDefault();
      if (!input.value.trim()) return;
      resolve(input.value.trim());
      setTimeout(reopen); // once the token is kept; the form stands where the page was
    };
    main.replaceChildren(
      h(
        "form",
        { class: "sign-in panel", on: { submit } },
        h("h1", { tabindex: "-1" }, "Sign in"),
        h("p", {}, "This server asks for a token. It is kept in this tab only."),
        problem && h("p", { class: "problem", role: "alert" }, problem),
        field("Token", input, "To look at a tenant's jobs: tickwheel tokens create --role reader --tenant NAME. What else a role may do stands in the API reference below."),
        h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Sign in")),
      ),
    );
    main.dataset.path = "";
    input.focus();
  });
}

function turnTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  localStorage.setItem(THEME, name);
  const button = document.getElementById("theme");
  button.textContent = { auto: "◐", light: "☀", dark: "☾" }[name];
  button.setAttribute("aria-label", `Colours: ${name}`);
  button.title = `Colours: ${name}`;
  button.dataset.name = name;
}

async function open() {
  turnTheme(THEMES.includes(localStorage.getItem(THEME)) ? localStorage.getItem(THEME) : "auto");
  document.getElementById("theme").addEventListener("click", (event) => {
    turnTheme(THEMES[(THEMES.indexOf(event.currentTarget.dataset.name) + 1) % THEMES.length]);
  });
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  onTokenNeeded(askForToken);
  watchContact(main, (signal) => get("healthz", {}, signal));
  for (;;) {
    try {
      await openSession();
      break;
    } catch (error) {
      main.replaceChildren(heading("This can't be shown"), banner(error));
      await new Promise((resolve) => setTimeout(resolve, 3000));
    }
  }
  get("healthz").then((health) => {
    document.getElementById("about").textContent = `${health.version} · tzdata ${health.tzdata_version} · instants as in ${hereZone} (${offset(Date.now())})`;
  });
  if (hasToken()) document.querySelector('footer a[href="metrics"]').remove(); // a link can't carry the token
  setInterval(retell, 1000);
  if (!isForAll() && !may("jobs:read")) note("This token may not see jobs.", { bad: true });
  reopen = start(show);
}

addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name !== "AbortError") note(event.reason?.message || "Something went wrong.", { bad: true });
});

open();
