// The nodes of the installation, and who fires which shards.

import { get } from "./api.js";
import { shardMap } from "./charts.js";
import { h } from "./dom.js";
import { count, length } from "./format.js";
import { heading, live, table } from "./parts.js";

const EVERY_MS = 3000;

export function nodesPage({ signal }) {
  return h("div", {}, heading("Nodes and shards"), live(() => content(signal), { everyMs: EVERY_MS, signal }));
}

async function content(signal) {
  const { nodes, shard_count: shardCount, free_shards: free } = await get("v1/nodes", {}, signal);
  const rows = nodes.map((node, place) => [
    { content: [shardCount > 0 && h("span", { class: `key owner-${place % 8}`, "aria-hidden": "true" }), node.name, h("span", { class: "soft" }, [node.is_this && "this one", node.roles.join(", "), node.version].filter(Boolean).join(" · "))], class: "wide" },
    standing(node),
    node.is_leader ? "yes" : "no",
    shardCount ? count(node.shards.length) : "all",
    count(node.started),
    node.started ? length(node.p99_ms) : "–",
    count(node.failed),
    count(node.in_flight),
    count(node.backlog),
    count(node.armed),
    length(node.clock_difference_ms),
  ]);
  const headings = ["Node", "State", "Leads", "Shards", "Starts/min", "Lateness p99", "Failed", "Running", "Waiting", "Armed", "Clock off"];
  return [
    table("Nodes", headings, rows, "No node is known."),
    shardCount > 0 && h("h2", {}, `${shardCount} shards`),
    free.length > 0 && h("div", { class: "banner", role: "status" }, `${count(free.length)} shards belong to no node that lives: what is due in them waits for the next owner.`),
    shardCount > 0 && shardMap(nodes, shardCount, free),
    !shardCount && h("p", { class: "soft" }, "This server is alone on its store, and fires everything."),
  ];
}

function standing(node) {
  if (node.standing === "silent") return h("span", { class: "chip bad" }, `✗ silent for ${length(node.silent_seconds * 1000)}`);
  if (node.unfit) return [h("span", { class: "chip bad" }, "! unfit"), h("span", { class: "soft" }, node.unfit)];
  if (node.draining) return h("span", { class: "chip off" }, "‖ draining");
  return node.standing === "new" ? h("span", { class: "chip wait" }, "○ new") : h("span", { class: "chip good" }, "✓ alive");
}
