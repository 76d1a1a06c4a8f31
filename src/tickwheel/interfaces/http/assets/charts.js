// Small pictures. Each says in words what it shows, for those who can't see it.

import { h, s, spoken } from "./dom.js";
import { clock, count, length } from "./format.js";

const HEAT_LEVELS = 5;
const CROWDED = 6;

/** Where a finger is wider than a sixtieth of the screen. */
export const NARROW = matchMedia("(max-width: 45rem)");

/** Bars of one minute, a second each; failures stand on top of starts. */
export function seconds(starts, failures) {
  const height = 48;
  const most = Math.max(1, ...starts.map((value, place) => Math.max(value, failures[place])));
  const bars = starts.flatMap((value, place) => {
    const tall = (value / most) * height;
    const bad = (failures[place] / most) * height;
    const x = place * 5;
    return [
      value > 0 && s("rect", { class: "bar", x, y: height - Math.max(1, tall), width: 4, height: Math.max(1, tall) }),
      failures[place] > 0 && s("rect", { class: "bar bad", x, y: height - Math.max(1, bad), width: 4, height: Math.max(1, bad) }),
    ];
  });
  const total = starts.reduce((sum, value) => sum + value, 0);
  const label = `Starts in each second of the last minute: ${count(total)} in all, at most ${count(Math.max(...starts))}`;
  return s(
    "svg",
    { class: "seconds", viewBox: `0 0 ${starts.length * 5} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    bars,
  );
}

/** How full a minute that is not crowded is, from 0 to HEAT_LEVELS: by the root, so that few are seen beside many. */
function heat(due, most) {
  if (!due) return 0;
  return Math.ceil(Math.sqrt(due / most) * HEAT_LEVELS);
}

/** The most that is due in a minute that is not crowded. */
export function mostUncrowded(due, crowded) {
  const peaks = new Set(crowded);
  return Math.max(0, ...due.filter((_, place) => !peaks.has(place)));
}

/**
 * Rows of hours, columns of minutes; on a narrow screen rows of ten minutes. Red is what the server calls crowded.
 * `onChosen` gets the number of a minute. It is a table: a reader hears the hour, the minute and the count; arrow keys
 * move between minutes.
 */
export function heatStrip({ start, due, crowded }, onChosen) {
  const columns = NARROW.matches ? 10 : 60;
  const first = new Date(start);
  const skipped = first.getMinutes() % columns;
  const lines = Math.ceil((skipped + due.length) / columns);
  const most = Math.max(1, mostUncrowded(due, crowded));
  const peaks = new Set(crowded);
  const cells = [];
  const rows = [];
  for (let line = 0; line < lines; line++) {
    const begins = new Date(first.getTime() + (line * columns - skipped) * 60_000).toISOString();
    const row = h("tr", {}, h("th", { scope: "row" }, clock(begins, undefined, { seconds: false }).slice(11)));
    for (let minute = 0; minute < columns; minute++) {
      const place = line * columns + minute - skipped;
      if (place < 0 || place >= due.length) {
        row.append(h("td", { class: "none" }));
        continue;
      }
      const at = new Date(first.getTime() + place * 60_000).toISOString();
      const time = clock(at, undefined, { seconds: false }).slice(11);
      const text = `${time}, ${count(due[place])} due${peaks.has(place) ? ", crowded" : ""}`;
      const level = peaks.has(place) ? CROWDED : heat(due[place], most);
      const cell = h(
        "td",
        { class: `heat heat-${level}`, title: text, tabindex: cells.length ? "-1" : "0", dataset: { place } },
        spoken(text),
      );
      cells[place] = cell;
      row.append(cell);
    }
    rows.push(row);
  }
  const marks = columns === 60 ? [":00", ":15", ":30", ":45"] : [...Array(columns).keys()].map((minute) => `+${minute}`);
  const grid = h(
    "table",
    { class: `heatstrip of-${columns}`, "aria-label": "Runs due by minute" },
    h("thead", {}, h("tr", {}, h("td", {}), marks.map((mark) => h("th", { scope: "col", colspan: String(columns / marks.length) }, mark)))),
    h("tbody", {}, rows),
  );
  const move = (place) => {
    const target = cells[place];
    if (!target) return;
    grid.querySelector('[tabindex="0"]')?.setAttribute("tabindex", "-1");
    target.setAttribute("tabindex", "0");
    target.focus();
  };
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  grid.addEventListener("keydown", (event) => {
    const place = Number(event.target.dataset.place);
    if (event.key in steps) {
      event.preventDefault();
      move(place + steps[event.key]);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onChosen(place);
    }
  });
  grid.addEventListener("click", (event) => {
    const cell = event.target.closest("[data-place]");
    if (cell) onChosen(Number(cell.dataset.place));
  });
  return grid;
}

/** Past runs, the oldest first: colour and sign by state, height by how long they took. */
export function historyStrip(runs, stateKind, runHref) {
  const took = (run) => {
    const { started, finished } = run.timeline;
    return started && finished ? Date.parse(finished) - Date.parse(started) : 0;
  };
  const most = Math.max(1, ...runs.map(took));
  const signs = { good: "", bad: "✗", off: "–", wait: "○", busy: "•" };
  const bars = runs.map((run) => {
    const kind = stateKind(run.status);
    const share = Math.ceil((Math.log(took(run) + 1) / Math.log(most + 1)) * 10);
    const text = `${clock(run.scheduled_at)}: ${run.status.toLowerCase()}${took(run) ? `, took ${length(took(run))}` : ""}`;
    return h(
      "li",
      {},
      h(
        "a",
        { href: runHref(run.run_id), class: `run ${kind} tall-${Math.max(3, share)}`, title: text },
        h("span", { "aria-hidden": "true" }, signs[kind]),
        spoken(text),
      ),
    );
  });
  return h("ol", { class: "history", "aria-label": "Past runs, the oldest first" }, bars);
}

/** Stations of a run on one line, with the time between them. */
export function stations(steps) {
  const known = steps.filter(([, at]) => at);
  return h(
    "ol",
    { class: "stations" },
    steps.map(([name, at]) => {
      const place = known.findIndex(([one]) => one === name);
      const before = place > 0 ? known[place - 1][1] : null;
      return h(
        "li",
        { class: at ? "reached" : "missing" },
        h("span", { class: "dot", "aria-hidden": "true" }),
        h("b", {}, name),
        at
          ? h("span", { class: "soft" }, clock(at, undefined, { millis: true }).slice(11))
          : h("span", { class: "soft" }, "not reached"),
        before && h("span", { class: "gap" }, `+ ${length(Date.parse(at) - Date.parse(before))}`),
      );
    }),
  );
}

/** Which node holds which shard: a square each. */
export function shardMap(nodes, shardCount, freeShards) {
  const owners = new Array(shardCount).fill(null);
  nodes.forEach((node, place) => node.shards.forEach((shard) => (owners[shard] = place)));
  const squares = owners.map((owner, shard) =>
    h("li", { class: owner === null ? "shard free" : `shard owner-${owner % 8}`, title: `shard ${shard}: ${owner === null ? "nobody" : nodes[owner].name}` }),
  );
  const says = nodes.map((node) => `${node.name} holds ${node.shards.length}`).join(", ");
  return h("ol", { class: "shards", role: "img", "aria-label": `${shardCount} shards: ${says}, ${freeShards.length} are free` }, squares);
}

/** A share of a limit, in words and as a bar. */
export function meter(used, limit) {
  if (!limit) return h("span", {}, `${count(used)}, no limit`);
  return h(
    "span",
    { class: "meter" },
    `${count(used)} of ${count(limit)}`,
    h("meter", { min: "0", max: String(limit), value: String(used), high: String(limit * 0.9), low: "0", optimum: "0", "aria-hidden": "true" }),
  );
}
