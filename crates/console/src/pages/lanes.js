// The threads that carry events; and what was dropped, of which type, for whom and why.

import { count, el, rate, show, table, took } from "/dom.js";
import { Plot } from "/plots.js";
import { get } from "/service.js";

const rounds = new Plot("Rounds a second", ["all lanes"], rate, 10);
let last = null;
let speeds = new Map();

export function note(now) {
  if (last && now.at_ms > last.at_ms) {
    const seconds = (now.at_ms - last.at_ms) / 1000;
    speeds = new Map(now.lanes.map((lane) => {
      const before = last.lanes.find((other) => other.id === lane.id && other.name === lane.name) ?? lane;
      const per = (name) => Math.max(0, (lane[name] - before[name]) / seconds);
      return [lane.id, { rounds: per("rounds"), in: per("events_in"), delivered: per("delivered"), allocations: per("allocations"), calls: per("system_calls") }];
    }));
    rounds.add(now.at_ms / 1000, [[...speeds.values()].reduce((sum, speed) => sum + speed.rounds, 0)]);
  }
  if (!last || now.at_ms > last.at_ms) last = now;
}

const per = (what, events) => (events > 0 ? (what / events).toFixed(2) : "–");

export const lanesView = {
  title: "Lanes",
  open(main) {
    this.list = el("div");
    show(main, el("div", { class: "plots" }, rounds.element), this.list);
    if (last) this.tell(last);
  },
  tell(now) {
    const speed = (lane) => speeds.get(lane.id) ?? {};
    show(this.list, table({
      rows: now.lanes, id: (lane) => `lane-${lane.id}`, row: (lane) => (lane.saturated ? "warn" : ""),
      columns: [
        { title: "Lane", cell: (lane) => lane.name }, { title: "Priority", number: true, cell: (lane) => (lane.priority === null ? "–" : String(lane.priority)) },
        { title: "Events in", number: true, cell: (lane) => rate(speed(lane).in) }, { title: "Delivered", number: true, cell: (lane) => rate(speed(lane).delivered) },
        { title: "Dropped", number: true, cell: (lane) => count(lane.dropped) }, { title: "Rounds", number: true, cell: (lane) => rate(speed(lane).rounds) },
        { title: "Longest round", number: true, cell: (lane) => took(lane.longest_ns) }, { title: "Saturated", number: true, cell: (lane) => count(lane.saturated) },
        { title: "Allocations an event", number: true, cell: (lane) => per(speed(lane).allocations, speed(lane).in) },
        { title: "System calls an event", number: true, cell: (lane) => per(speed(lane).calls, speed(lane).in) },
      ],
    }));
  },
  close() {},
};

export const dropsView = {
  title: "Drops",
  open(main) {
    this.list = el("div");
    this.more = el("p", { class: "quiet" });
    show(main, this.more, this.list);
    this.load();
    this.timer = setInterval(() => this.load(), 5_000);
  },
  async load() {
    try {
      const { entries, others } = await get("drops");
      this.more.textContent = others ? `${count(others)} more events were dropped than there is room here to list one by one.` : "";
      show(this.list, table({
        rows: entries, id: (drop) => `${drop.channel}/${drop.proxy}/${drop.domain}/${drop.type}/${drop.reason}`, empty: "Nothing was dropped.",
        columns: [
          { title: "Consumer", wide: true, cell: (drop) => drop.name }, { title: "Event type", wide: true, cell: (drop) => `${drop.domain}/${drop.type}` },
          { title: "Reason", cell: (drop) => drop.reason }, { title: "Events", number: true, cell: (drop) => count(drop.events) },
        ],
      }));
    } catch (error) { show(this.list, el("p", { class: "none" }, error.message)); }
  },
  tell() {},
  close() { clearInterval(this.timer); },
};
