// All consumers, a page at a time, the slowest first.

import { age, badge, bar, bytes, count, el, level, reason, show, table, toast, took } from "/dom.js";
import { actions, openConsumer, press } from "/dialogs.js";
import { get } from "/service.js";

const PAGE = 100;
const EVERY_MS = 2_000;
const before = new Map();

/** How many events a second a consumer got since it was last looked at. */
function speed(consumer, at) {
  const key = `${consumer.channel}/${consumer.proxy}`;
  const known = before.get(key);
  before.set(key, { at, delivered: consumer.delivered });
  if (before.size > 20_000) before.clear();
  return known && at > known.at ? Math.max(0, (consumer.delivered - known.delivered) / ((at - known.at) / 1000)) : undefined;
}

export const view = {
  title: "Consumers",
  state: "", sort: "", channel: "", offset: 0,
  open(main) {
    const again = () => { this.offset = 0; this.load(); };
    const option = (value, text) => el("option", { value, selected: value === this.state }, text);
    const state = el("select", { id: "state", onchange: (event) => { this.state = event.target.value; again(); } },
      option("", "all"), option("slow", "that do not keep up"), option("holding", "that block suppliers"), option("retrying", "that fail"),
      option("behind", "behind"), option("suspended", "suspended"), option("socket_full", "with a full socket"), option("keeping_up", "that keep up"));
    const channel = el("input", { id: "of-channel", inputmode: "numeric", size: 6, value: this.channel, onchange: (event) => { this.channel = event.target.value.trim(); again(); } });
    this.pages = el("span", { class: "quiet", id: "pages" });
    const turn = (by) => { this.offset = Math.max(0, this.offset + by * PAGE); this.load(); };
    this.back = el("button", { type: "button", onclick: () => turn(-1) }, "‹ before");
    this.on = el("button", { type: "button", onclick: () => turn(1) }, "next ›");
    this.list = el("div");
    show(main, el("div", { class: "tools" }, el("label", {}, "Consumers", state), el("label", {}, "of channel", channel), this.pages, this.back, this.on), this.list);
    this.load();
    this.timer = setInterval(() => document.querySelector("dialog") || this.load(), EVERY_MS);
  },
  async load() {
    if (this.loading) return;
    this.loading = true;
    try {
      const found = await get("consumers", { state: this.state, sort: this.sort, channel: this.channel, offset: this.offset, limit: PAGE });
      this.draw(found);
    } catch (error) { show(this.list, el("p", { class: "none" }, error.message)); } finally { this.loading = false; }
  },
  draw({ total, offset, entries }) {
    const at = performance.now();
    this.pages.textContent = total ? `${count(offset + 1)} to ${count(offset + entries.length)} of ${count(total)}` : "none";
    this.back.disabled = offset === 0;
    this.on.disabled = offset + entries.length >= total;
    const most = Math.max(0, ...entries.map((consumer) => consumer.backlog_events));
    const again = () => this.load();
    show(this.list, table({
      rows: entries, id: (consumer) => `${consumer.channel}/${consumer.proxy}`, row: level, onopen: openConsumer,
      onkey: (key, consumer) => press(key, consumer, again), sorted: this.sort, onsort: (sort) => { this.sort = sort; this.offset = 0; this.load(); },
      empty: "No such consumers.",
      columns: [
        { title: "Consumer", wide: true, sort: "number", cell: (consumer) => consumer.name ?? `proxy ${consumer.proxy}` },
        { title: "State", sort: "", cell: (consumer) => badge(consumer.state) },
        { title: "Wait", number: true, cell: (consumer) => el("span", {}, count(consumer.backlog_events), bar(consumer.backlog_events, most)) },
        { title: "Octets", number: true, cell: (consumer) => bytes(consumer.backlog_bytes) },
        { title: "Oldest", number: true, sort: "oldest", cell: (consumer) => age(consumer.oldest_ms) },
        { title: "Delivered", number: true, sort: "delivered", cell: (consumer) => count(consumer.delivered) },
        { title: "a second", number: true, cell: (consumer) => { const now = speed(consumer, at); return now === undefined ? "" : now.toFixed(now < 10 ? 1 : 0); } },
        { title: "99 % within", number: true, cell: (consumer) => took(consumer.latency.p99_below_ns) },
        { title: "Dropped", number: true, sort: "dropped", cell: (consumer) => count(consumer.dropped) },
        { title: "Why, and what is being done", wide: true, cell: reason },
        // Those that keep up are opened for that.
        { title: "", cell: (consumer) => (consumer.state === "keeping_up" ? "" : actions(consumer, again)) },
      ],
    }));
  },
  tell() {},
  close() { clearInterval(this.timer); },
};
