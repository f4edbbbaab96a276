// The hierarchy as a tree: channels, their admins, their proxies; and what is configured of a channel beside it.

import { age, bytes, count, el, show, toast, took } from "/dom.js";
import { confirm, setQos } from "/dialogs.js";
import { lastHour } from "/plots.js";
import { get, post } from "/service.js";

const AT_ONCE = 1_000;

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
function item(parts, load, onselect) {
  const line = el("div", { class: "row" }, ...parts);
  const self = el("li", { role: "treeitem", tabindex: "-1", "aria-expanded": load ? "false" : null }, line);
  self.addEventListener("keydown", (event) => { if (event.target === self && event.key === "Enter") onselect?.(); move(event, self); });
  self.toggle = async () => {
    if (!load) return;
    const opened = self.getAttribute("aria-expanded") === "true";
    self.setAttribute("aria-expanded", opened ? "false" : "true");
    self.querySelector(":scope > [role=group]")?.remove();
    if (opened) return;
    const group = el("ul", { role: "group" });
    self.append(group);
    try { await load(group); } catch (error) { group.append(item([error.message])); }
  };
  line.addEventListener("click", () => { self.focus(); onselect?.(); self.toggle(); });
  return self;
}

const KINDS = { Any: "Any", Structured: "structured", Sequence: "sequences", Plain: "Event Service" };

function proxyLine(channel, proxy, view) {
  const gone = proxy.client ? (proxy.client.suspended ? "suspended" : "connected") : "not connected";
  const line = item([
    el("b", {}, `proxy ${proxy.id}`), `${KINDS[proxy.events] ?? proxy.events}, ${proxy.pull ? "pull" : "push"}`,
    el("span", { class: "detail" }, [proxy.name, gone].filter(Boolean).join("  ")),
  ], null, () => view.showProxy(channel, proxy));
  return line;
}

async function proxies(channel, admin, group, view) {
  let behind;
  for (;;) {
    const { configured } = await get(`channels/${channel}`, { behind });
    const found = configured.proxies;
    if (!found.length) break;
    group.append(...found.filter((proxy) => proxy.side === admin.side && proxy.admin === admin.id).map((proxy) => proxyLine(channel, proxy, view)));
    behind = found.at(-1).id;
    if (found.length < 256 || group.children.length >= 1_000) break;
  }
  if (!group.children.length) group.append(item([el("span", { class: "detail" }, "no proxies")]));
}

async function admins(channel, group, view) {
  const { configured } = await get(`channels/${channel}`);
  for (const admin of configured.admins) {
    const side = admin.side === "Consumers" ? "consumers" : "suppliers";
    group.append(item([el("b", {}, `${side} admin ${admin.id}`), `filters by ${admin.operator.toUpperCase()}`, el("span", { class: "detail" }, admin.name ?? "")],
      (inner) => proxies(channel, admin, inner, view)));
  }
}

const line = (name, text) => [el("dt", {}, name), el("dd", {}, text)];

function settings(values) {
  const shown = Object.entries(values ?? {}).map(([name, value]) => line(name, typeof value === "object" ? JSON.stringify(value) : String(value)));
  return shown.length ? el("dl", {}, ...shown.flat()) : el("p", { class: "quiet" }, "nothing of its own");
}

export const view = {
  title: "Channels",
  async open(main, chosen) {
    this.tree = el("ul", { role: "tree", "aria-label": "Channels" });
    this.detail = el("section", { class: "panel", "aria-live": "polite" }, el("p", { class: "quiet" }, "Choose a channel or a proxy."));
    this.find = el("input", { id: "find", type: "search", placeholder: "number or name", oninput: () => this.filter() });
    this.counted = el("span", { class: "quiet" });
    show(main, el("div", { class: "tools" }, el("label", {}, "Find", this.find), this.counted), el("div", { class: "split" }, el("div", { class: "panel" }, this.tree), this.detail));
    try {
      let all = [];
      for (;;) {
        const found = await get("channels", { offset: all.length, limit: AT_ONCE });
        all = all.concat(found.entries);
        if (all.length >= found.total || !found.entries.length) break;
      }
      this.counted.textContent = `${count(all.length)} channels`;
      const lines = all.map((channel) => {
        const slow = channel.consumers_behind ? `${count(channel.consumers_behind)} behind, oldest ${age(channel.oldest_ms)}` : "";
        const self = item([
          el("b", {}, `channel ${channel.id}`), channel.name ?? "",
          el("span", { class: "detail" }, `${count(channel.consumers)} consumers, ${count(channel.events_in)} in, ${count(channel.delivered)} delivered`),
          slow ? el("span", { class: `state ${channel.held_suppliers ? "bad" : "warn"}` }, slow) : null,
        ], (group) => admins(channel.id, group, this), () => this.showChannel(channel.id));
        self.dataset.find = `${channel.id} ${channel.name ?? ""}`.toLowerCase();
        self.dataset.id = `channel-${channel.id}`;
        return self;
      });
      this.tree.replaceChildren(...lines);
      const first = lines.find((entry) => entry.dataset.id === `channel-${chosen}`) ?? lines[0];
      if (first) first.tabIndex = 0;
      if (chosen !== undefined && first) { first.scrollIntoView({ block: "nearest" }); first.toggle(); this.showChannel(Number(chosen)); }
    } catch (error) { toast(error.message, true); }
  },
  filter() {
    const text = this.find.value.trim().toLowerCase();
    for (const entry of this.tree.children) entry.hidden = !entry.dataset.find.includes(text);
  },
  async showChannel(id) {
    try {
      const { configured, standing } = await get(`channels/${id}`);
      const { limits, settings: own, filters, profile } = configured;
      show(this.detail, el("h2", {}, configured.name ? `Channel ${id}: ${configured.name}` : `Channel ${id}`),
        standing ? el("dl", {}, ...[
          line("Events in", `${count(standing.events_in)}, ${bytes(standing.event_bytes_in)}`), line("Delivered", `${count(standing.delivered)}, ${bytes(standing.delivered_bytes)}`),
          line("Refused", count(standing.events_refused)), line("Dropped", `${count(standing.dropped)} ${Object.entries(standing.dropped_by_reason).map(([why, events]) => `${why} ${count(events)}`).join(", ")}`),
          line("Wait", `${count(standing.backlog_events)}, ${bytes(standing.backlog_bytes)}, oldest ${age(standing.oldest_ms) || "–"}`),
          line("Blocked suppliers", count(standing.held_suppliers)), line("Memory", bytes(standing.memory_bytes)),
          line("Latency", `half within ${took(standing.latency.p50_below_ns)}, 99 % within ${took(standing.latency.p99_below_ns)}`),
          line("Profile", profile),
        ].flat()) : null,
        lastHour({ channel: id }),
        el("h2", {}, "Settings"), settings(own), el("h2", {}, "Limits"), settings(limits),
        ...filters.slice(0, 50).map((filter) => el("p", { class: "detail" }, `filter ${filter.id}: ${(filter.constraints ?? []).map((constraint) => constraint.text ?? JSON.stringify(constraint)).join("; ")}`)),
        el("h2", {}, "What can be done"), el("div", { class: "acts" },
          el("button", { type: "button", onclick: () => setQos({ channel: id }, `channel ${id}`) }, "Set QoS"),
          el("button", { type: "button", onclick: () => { location.hash = `#events/${id}`; } }, "Watch its events")));
    } catch (error) { toast(error.message, true); }
  },
  showProxy(channel, proxy) {
    const side = proxy.side === "Consumers" ? "consumer" : "supplier";
    const disconnects = async () => {
      const text = `The client of proxy ${proxy.id} of channel ${channel} is disconnected, and the proxy is gone.`;
      if (!await confirm("Disconnect?", text, "Disconnect")) return;
      try { await post("disconnect", { channel, proxy: proxy.id }); toast(`Disconnected: proxy ${proxy.id}`); } catch (error) { toast(error.message, true); }
    };
    show(this.detail, el("h2", {}, `Proxy ${proxy.id} of channel ${channel}: a ${side}'s`),
      el("dl", {}, ...[
        line("Name", proxy.name ?? "–"), line("Events", `${KINDS[proxy.events] ?? proxy.events}, ${proxy.pull ? "pull" : "push"}`),
        line("Client", proxy.client ? (proxy.client.suspended ? "suspended" : "connected") : "not connected"),
        line("Types", proxy.types ? proxy.types.map((type) => `${type.domain}/${type.name}`).join(", ") : "all"),
      ].flat()),
      el("h2", {}, "Settings"), settings(proxy.settings), el("h2", {}, "What can be done"),
      el("div", { class: "acts" },
        el("button", { type: "button", onclick: () => setQos({ channel, proxy: proxy.id }, `proxy ${proxy.id} of channel ${channel}`) }, "Set QoS"),
        el("button", { type: "button", class: "hurts", onclick: disconnects }, "Disconnect")));
  },
  tell() {},
  close() {},
};
