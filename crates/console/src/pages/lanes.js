// The threads that carry events.

import { count, el, rate, show, table, took } from "/dom.js";
import { Plot } from "/plots.js";

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
