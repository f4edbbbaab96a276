// Clients and channels as a graph: what each client publishes into which channel, what each consumer gets, and which consumer is slow.

import { address, set } from "/address.js";
import { badge, count, el, level, rate, reason, show, svg } from "/dom.js";
import { Speeds } from "/lists.js";
import { get } from "/service.js";

const EVERY_MS = 2_000;
/** Suppliers and consumers that are drawn: the busiest ones, and the slowest ones. */
const SHOWN_MAX = 100;
const LEVELS = ["good", "warn", "bad"];
const [WIDTH, PER_ARROW, PADDING, BETWEEN, GAP, BEND] = [190, 17, 13, 120, 12, 56];
const TEXT_MAX = 26;
const speeds = new Speeds();

const cut = (text) => (text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX - 1)}…` : text);
const worse = (one, other) => (LEVELS.indexOf(one) > LEVELS.indexOf(other) ? one : other);

/** Nodes by identity, and an arrow for each pair of client and channel: several proxies of a client in a channel are one arrow. */
function graphOf(suppliers, consumers, channels) {
  const [nodes, arrows] = [new Map(), new Map()];
  const at = performance.now();
  const add = (proxy, kind, events, state, why) => {
    const channel = `channel ${proxy.channel}`;
    const client = proxy.client_name ? `client ${proxy.client_name}` : `${kind} ${proxy.channel}/${proxy.proxy}`;
    if (!nodes.has(channel)) {
      const text = channels.get(proxy.channel) ?? channel;
      nodes.set(channel, { id: channel, text, title: text, kind: "channel", to: address("channel", [proxy.channel]), level: "good" });
    }
    const known = nodes.get(client);
    const own = { id: client, text: proxy.client_name ?? `proxy ${proxy.proxy}`, title: proxy.name, kind: "client", to: address(kind, [proxy.channel, proxy.proxy]), level: state };
    // A client of several proxies leads to all of them.
    nodes.set(client, known ? { ...known, title: proxy.client_name, to: address("search", [], { find: proxy.client_name }), level: worse(known.level, state) } : own);
    const [from, to] = kind === "supplier" ? [client, channel] : [channel, client];
    const arrow = arrows.get(`${from}\n${to}`) ?? { from, to, kind, speed: undefined, level: "good", why: "" };
    const speed = speeds.of(`${kind} ${proxy.channel}/${proxy.proxy}`, events, at);
    arrow.speed = speed === undefined ? arrow.speed : (arrow.speed ?? 0) + speed;
    arrow.level = worse(arrow.level, state);
    arrow.why ||= why;
    arrows.set(`${from}\n${to}`, arrow);
  };
  for (const supplier of suppliers) add(supplier, "supplier", supplier.events, "good", "");
  for (const consumer of consumers) add(consumer, "consumer", consumer.delivered, level(consumer), reason(consumer));
  return { nodes, arrows: [...arrows.values()] };
}

/** Gives each node its column: one more than that of what leads to it. What leads back does not count. */
function setColumns(nodes, arrows) {
  const before = new Map([...nodes.keys()].map((id) => [id, []]));
  for (const { from, to } of arrows) before.get(to).push(from);
  const open = new Set();
  const columnOf = (id) => {
    const node = nodes.get(id);
    if (node.column !== undefined) return node.column;
    if (open.has(id)) return -1;
    open.add(id);
    const column = Math.max(-1, ...before.get(id).map(columnOf)) + 1;
    open.delete(id);
    node.column = column;
    return column;
  };
  for (const id of nodes.keys()) columnOf(id);
}

/** Gives each node its place, and each arrow its ends. Answers the size of all. */
function place(nodes, arrows) {
  for (const node of nodes.values()) [node.in, node.out] = [[], []];
  for (const arrow of arrows) { nodes.get(arrow.from).out.push(arrow); nodes.get(arrow.to).in.push(arrow); }
  const columns = [];
  for (const arrow of arrows) arrow.isBack = nodes.get(arrow.from).column >= nodes.get(arrow.to).column;
  // Room for arrows that lead back, which go around.
  const around = arrows.some((arrow) => arrow.isBack) ? BEND : GAP;
  for (const node of nodes.values()) (columns[node.column] ??= []).push(node);
  let height = 0;
  for (const [column, all] of columns.entries()) {
    // Beside what leads to it, then by name.
    for (const node of all) node.rank = node.in.length ? node.in.reduce((sum, { from }) => sum + (nodes.get(from).y ?? 0), 0) / node.in.length : 0;
    all.sort((one, other) => one.rank - other.rank || one.text.localeCompare(other.text));
    let y = GAP;
    for (const node of all) {
      node.height = PADDING * 2 + PER_ARROW * Math.max(0, node.in.length - 1, node.out.length - 1);
      [node.x, node.y] = [around + column * (WIDTH + BETWEEN), y];
      y += node.height + GAP;
    }
    height = Math.max(height, y);
  }
  for (const node of nodes.values()) {
    const by = (end) => (one, other) => nodes.get(one[end]).y - nodes.get(other[end]).y;
    node.in.sort(by("from")).forEach((arrow, at) => { arrow.end = [node.x, node.y + PADDING + PER_ARROW * at]; });
    node.out.sort(by("to")).forEach((arrow, at) => { arrow.begin = [node.x + WIDTH, node.y + PADDING + PER_ARROW * at]; });
  }
  for (const arrow of arrows) arrow.below = height + BEND;
  return [columns.length * (WIDTH + BETWEEN) - BETWEEN + 2 * around, height + around - GAP];
}

function drawArrow(arrow) {
  const [[x, y], [toX, toY]] = [arrow.begin, arrow.end];
  const bend = arrow.isBack ? BEND * 1.3 : (toX - x) / 2;
  const [leave, arrive] = arrow.isBack ? [arrow.below, arrow.below] : [y, toY];
  const text = rate(arrow.speed);
  // Beside the client, where arrows do not meet.
  const label = arrow.kind === "supplier" || arrow.isBack ? { x: x + 6, y: y - 3 } : { x: toX - 10, y: toY - 3, "text-anchor": "end" };
  return svg("g", { class: `arrow ${arrow.level}` },
    svg("path", { d: `M${x},${y} C${x + bend},${leave} ${toX - bend},${arrive} ${toX - 8},${toY}` }),
    svg("polygon", { points: `${toX},${toY} ${toX - 9},${toY - 4} ${toX - 9},${toY + 4}` }),
    svg("text", label, text), svg("title", {}, `${arrow.from} → ${arrow.to}: ${text} ${arrow.why}`.trim()));
}

const drawNode = (node) => svg("a", { href: node.to, class: `node ${node.kind} ${node.level}`, "data-id": node.id },
  svg("rect", { x: node.x, y: node.y, width: WIDTH, height: node.height, rx: node.kind === "channel" ? 13 : 4 }),
  svg("text", { x: node.x + WIDTH / 2, y: node.y + node.height / 2 + 4, "text-anchor": "middle" }, cut(node.text)), svg("title", {}, node.title));

export const view = {
  title: "Graph",
  open(main, parts, query) {
    this.query = query;
    const of = el("input", { id: "of-channel", inputmode: "numeric", size: 6, value: query.channel ?? "", onchange: (event) => {
      this.query = { channel: event.target.value.trim() };
      set(this.query, true);
      this.load();
    } });
    this.rest = el("span", { class: "quiet", id: "rest" });
    this.place = el("div", { class: "scroll graph" });
    show(main, el("div", { class: "tools" }, el("label", {}, "of channel", of), badge("behind"), badge("retrying"), this.rest), this.place);
    this.load();
    this.timer = setInterval(() => document.hidden || this.load(), EVERY_MS);
  },
  async load() {
    const { place: to, query } = this;
    const isShown = () => this.place === to && this.query === query;
    try {
      const of = { channel: query.channel, limit: SHOWN_MAX };
      const [suppliers, consumers, channels] = await Promise.all([get("suppliers", { ...of, sort: "events" }), get("consumers", of), get("channels", { limit: 1_000 })]);
      if (!isShown()) return;
      const { nodes, arrows } = graphOf(suppliers.entries, consumers.entries, new Map(channels.entries.map(({ id, name }) => [id, name])));
      const left = [[suppliers, "suppliers"], [consumers, "consumers"]].filter(([page]) => page.total > page.entries.length)
        .map(([page, kind]) => `${count(page.total - page.entries.length)} more ${kind}`);
      this.rest.textContent = left.length ? `${left.join(" and ")} are not drawn: choose a channel.` : "";
      if (!nodes.size) { show(to, el("p", { class: "none" }, "No client is connected.")); return; }
      setColumns(nodes, arrows);
      const [width, height] = place(nodes, arrows);
      show(to, svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Clients and channels" },
        ...arrows.map(drawArrow), ...[...nodes.values()].map(drawNode)));
    } catch (error) { if (isShown()) show(to, el("p", { class: "none" }, error.message)); }
  },
  tell() {},
  close() { clearInterval(this.timer); this.place = null; },
};
