// All channels; and what a channel is made of, as a tree: its admins, their proxies.

import { address, channelLink, go } from "/address.js";
import { age, bytes, count, el, show, within } from "/dom.js";
import { list } from "/lists.js";
import { get } from "/service.js";

/** A table of channels. */
export const channelTable = {
  id: (channel) => `channel-${channel.id}`, empty: "No such channels.",
  row: (channel) => (channel.held_suppliers ? "bad" : channel.consumers_behind ? "warn" : ""),
  onopen: (channel) => go("channel", [channel.id]),
  columns: [
    { title: "Channel", wide: true, sort: "", cell: (channel) => channelLink(channel.id, channel.name) },
    { title: "Events in", number: true, sort: "events", cell: (channel) => count(channel.events_in) },
    { title: "Delivered", number: true, cell: (channel) => count(channel.delivered) },
    { title: "Dropped", number: true, sort: "dropped", cell: (channel) => count(channel.dropped) },
    { title: "Wait", number: true, sort: "backlog", cell: (channel) => count(channel.backlog_events) },
    { title: "Oldest", number: true, cell: (channel) => age(channel.oldest_ms) },
    { title: "Consumers", number: true, sort: "consumers", cell: (channel) => count(channel.consumers) },
    { title: "behind", number: true, cell: (channel) => count(channel.consumers_behind) },
    { title: "Blocked suppliers", number: true, cell: (channel) => count(channel.held_suppliers) },
    { title: "Memory", number: true, cell: (channel) => bytes(channel.memory_bytes) },
    { title: "99 % within", number: true, cell: (channel) => within(channel.latency, channel.latency.p99_below_ns) },
  ],
};

export const view = list({
  ...channelTable, title: "Channels", path: "channels", columns: () => channelTable.columns,
  sorts: [["", "number"], ["backlog", "what waits"], ["events", "events"], ["dropped", "drops"], ["consumers", "consumers"]],
});

function move(event, item) {
  if (event.target !== item) return;
  const visible = [...item.closest("[role=tree]").querySelectorAll("[role=treeitem]")].filter((other) => !other.parentElement.closest("[aria-expanded=false]"));
  const at = visible.indexOf(item);
  const open = item.getAttribute("aria-expanded");
  let to = null;
  if (event.key === "ArrowDown") to = visible[at + 1];
  else if (event.key === "ArrowUp") to = visible[at - 1];
  else if (event.key === "Home") to = visible[0];
  else if (event.key === "End") to = visible.at(-1);
  else if (event.key === "ArrowRight" && open === "true") to = visible[at + 1];
  else if (event.key === "ArrowLeft" && open !== "true") to = item.parentElement.closest("[role=treeitem]");
  else if ((event.key === "ArrowRight" && open === "false") || (event.key === "ArrowLeft" && open === "true") || event.key === "Enter" || event.key === " ") item.toggle?.();
  else return;
  event.preventDefault();
  if (to) { item.tabIndex = -1; to.tabIndex = 0; to.focus(); }
}

/** A line of the tree, with what is beneath it when it is opened. */
function item(parts, load, to) {
  const line = el("div", { class: "row" }, ...parts);
  const self = el("li", { role: "treeitem", tabindex: "-1", "aria-expanded": load ? "false" : null }, line);
  self.toggle = async () => {
    if (to) { location.hash = to; return; }
    if (!load) return;
    const opened = self.getAttribute("aria-expanded") === "true";
    self.setAttribute("aria-expanded", opened ? "false" : "true");
    self.querySelector(":scope > [role=group]")?.remove();
    if (opened) return;
    const group = el("ul", { role: "group" });
    self.append(group);
    try { await load(group); } catch (error) { group.append(item([error.message])); }
  };
  self.addEventListener("keydown", (event) => move(event, self));
  line.addEventListener("click", () => { self.focus(); self.toggle(); });
  return self;
}

export const KINDS = { Any: "Any", Structured: "structured", Sequence: "sequences", Plain: "Event Service" };
/** Proxies that an admin shows at most. */
const PROXIES_MAX = 1_000;

function proxyLine(channel, proxy) {
  const gone = proxy.client ? (proxy.client.suspended ? "suspended" : "connected") : "not connected";
  const view = proxy.side === "Consumers" ? "consumer" : "supplier";
  return item([
    el("b", {}, `proxy ${proxy.id}`), `${KINDS[proxy.events] ?? proxy.events}, ${proxy.pull ? "pull" : "push"}`,
    el("span", { class: "detail" }, [proxy.name, gone].filter(Boolean).join("  ")),
  ], null, address(view, [channel, proxy.id]));
}

async function proxies(channel, admin, group) {
  let behind;
  for (;;) {
    const found = (await get(`channels/${channel}`, { behind })).configured.proxies;
    if (!found.length) break;
    group.append(...found.filter((proxy) => proxy.side === admin.side && proxy.admin === admin.id).map((proxy) => proxyLine(channel, proxy)));
    behind = found.at(-1).id;
    if (found.length < 256) break;
    if (group.children.length >= PROXIES_MAX) {
      group.append(item([el("span", { class: "detail" }, "and more: the list of consumers or suppliers has all")]));
      break;
    }
  }
  if (!group.children.length) group.append(item([el("span", { class: "detail" }, "no proxies")]));
}

/** The admins of a channel, as a tree. */
export function tree(channel, admins) {
  const lines = admins.map((admin) => item([
    el("b", {}, `${admin.side === "Consumers" ? "consumers" : "suppliers"} admin ${admin.id}`), `filters by ${admin.operator.toUpperCase()}`,
    el("span", { class: "detail" }, admin.name ?? ""),
  ], (inner) => proxies(channel, admin, inner)));
  if (lines[0]) lines[0].tabIndex = 0;
  const all = el("ul", { role: "tree", "aria-label": "Admins and proxies" });
  show(all, ...lines);
  return all;
}
