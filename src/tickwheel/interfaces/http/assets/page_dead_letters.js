// Runs that gave up: why, of which jobs, and a way back for one, for some, or for all.

import { get, post } from "./api.js";
import { attempt, confirmed, note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { count, plural, relative } from "./format.js";
import { button, heading, jobLink, jobTitle, moment, runHref, table } from "./parts.js";
import { href, query, setQuery } from "./router.js";
import { may, tenantQuery } from "./session.js";

const NO_RIGHT = "Your token may not redrive runs.";

export async function deadLettersPage({ signal }) {
  const box = h("div", {});
  const show = async () => {
    const asked = query();
    const filter = { cause: asked.get("cause") || "", job_id: asked.get("job") || "" };
    const [{ causes, is_whole: isWhole }, page] = await Promise.all([
      get("v1/dlq/causes", tenantQuery(), signal),
      get("v1/dlq", { ...tenantQuery(), ...filter, cursor: asked.get("cursor"), limit: 50 }, signal),
    ]);
    fill(box, content(causes, isWhole, page, filter, show));
  };
  await show();
  return box;
}

function content(causes, isWhole, page, filter, show) {
  const total = causes.reduce((sum, one) => sum + one.count, 0);
  const isFiltered = Boolean(filter.cause || filter.job_id);
  const chosen = new Set();
  return [
    heading("Dead letters", redriveButton("Redrive all", { all: true }, `all ${count(total)}`, show, total > 0)),
    h("p", {}, total ? `${plural(total, "run")}${isWhole ? "" : " or more"} gave up and wait for you. A redrive gives each all its attempts again.` : "No run has failed for good."),
    causes.length > 0 && h("h2", {}, "By cause"),
    causes.length > 0 && h("div", { class: "causes" }, causes.map((one) => group(one, filter, show))),
    h("h2", {}, isFiltered ? ["Those with ", filterText(filter), " ", button("Show all", () => setQuery({ cause: "", job: "", cursor: "" }))] : "The newest"),
    letters(page.dead_letters, chosen, isFiltered),
    page.dead_letters.length > 0 && selected(chosen, show),
    h("nav", { class: "pages", "aria-label": "Pages" }, page.next_cursor && button("More", () => setQuery({ cursor: page.next_cursor }))),
  ];
}

const filterText = (filter) => [filter.cause && `“${filter.cause}”`, filter.job_id].filter(Boolean).join(" of ");

function group(one, filter, show) {
  const names = one.jobs.slice(0, 3).map((job) => [jobLink(job.job_id, job.job_name), " "]);
  const more = one.jobs.length > 3 ? `and ${one.jobs.length >= 20 ? "more" : one.jobs.length - 3}` : "";
  return h(
    "section",
    { class: filter.cause === one.cause ? "panel chosen" : "panel" },
    h("h3", {}, h("a", { href: href("/dead-letters", { cause: one.cause }) }, one.cause)),
    h("p", {}, h("b", {}, plural(one.count, "run")), ` of `, names, more),
    h("p", { class: "soft" }, one.count === 1 ? relative(one.newest_failed_at) : `the last ${relative(one.newest_failed_at)}, the first ${relative(one.oldest_failed_at)}`),
    h(
      "div",
      { class: "buttons" },
      h("a", { class: "button plain", href: runHref(one.example_run_id) }, "An example"),
      redriveButton("Redrive these", { cause: one.cause }, `${count(one.count)} with “${one.cause}”`, show, true),
    ),
  );
}

function letters(items, chosen, isFiltered) {
  const rows = items.map((letter) => {
    const box = h("input", { type: "checkbox", "aria-label": `Choose the run of ${jobTitle(letter.job_id, letter.job_name)}` });
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(letter.run_id);
      else chosen.delete(letter.run_id);
      box.dispatchEvent(new Event("chosen", { bubbles: true }));
    });
    return [
      box,
      { content: h("a", { href: runHref(letter.run_id) }, moment(letter.failed_at)), class: "when" },
      { content: jobLink(letter.job_id, letter.job_name), class: "wide" },
      count(letter.attempts),
      letter.http_status ? `HTTP ${letter.http_status}` : "–",
      { content: [letter.cause, letter.error && letter.error !== letter.cause && h("span", { class: "soft" }, letter.error)], class: "wide" },
    ];
  });
  return table("Dead letters", ["Choose", "Failed", "Run of", "Attempts", "Answer", "Cause"], rows, isFiltered ? "None on this page." : "The queue is empty.");
}

function selected(chosen, show) {
  const box = h("div", { class: "buttons" });
  const act = button("Redrive the chosen", async () => {
    if (!chosen.size) {
      note("Choose some first.");
      return;
    }
    await redrive({ run_ids: [...chosen] }, plural(chosen.size, "run"), show);
  }, { enabled: may("runs:write"), why: NO_RIGHT });
  box.append(act);
  return box;
}

function redriveButton(text, body, what, show, isUseful) {
  const allowed = may("runs:write");
  return button(text, () => redrive(body, what, show), { enabled: allowed && isUseful, why: allowed ? "There is nothing to redrive." : NO_RIGHT });
}

async function redrive(body, what, show) {
  const text = "Each gets all its attempts anew, the first at once. Mend the target first, or they will be back.";
  if (!(await confirmed({ title: `Redrive ${what}?`, text, action: "Redrive" }))) return;
  await attempt(async () => {
    const done = await post("v1/dlq/redrive", body, tenantQuery());
    note(`${plural(done.redriven_count, "run")} will run again.`);
    if (done.refused.length) note(`${count(done.refused.length)} refused: ${done.refused[0].detail}`, { bad: true });
    await show();
  });
}
