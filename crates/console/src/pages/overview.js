// What an operator sees at first: whether all keep up, and if not, who does not, why, and what is being done.

import { age, badge, bar, bytes, count, el, level, rate, reason, show, table, took } from "/dom.js";
import { consumerLink, go } from "/address.js";
import { channelTable } from "/channels.js";
import { actions, press } from "/dialogs.js";
import { Plot, events } from "/plots.js";
import { get } from "/service.js";

const rates = new Plot("Events a second", ["in", "delivered", "dropped", "refused"], rate, 10);
const waiting = new Plot("Events that wait", ["all consumers"], events, 10);
const latencies = new Plot("From arrival until taken", ["half within", "99 % within"], took, 1e6);
const lanes = new Plot("Octets in a second", ["in"], (number) => bytes(Math.round(number)), 1024, Array.from({ length: 40 }, (_, power) => 2 ** power));
let last = null;
let perSecond = {};

/** What the service has kept of the last hour. */
export async function begin() {
  const kept = await get("figures");
  rates.begin(kept.at_ms, [kept.events_in, kept.delivered, kept.dropped, kept.events_refused]);
  waiting.begin(kept.at_ms, [kept.backlog_events]);
  latencies.begin(kept.at_ms, [kept.p50_below_ns, kept.p99_below_ns]);
  lanes.begin(kept.at_ms, [kept.event_bytes_in]);
  // Shown until two moments have come.
  const latest = { lane_events_in: kept.events_in, lane_delivered: kept.delivered, lane_dropped: kept.dropped, lane_events_refused: kept.events_refused };
  perSecond = { ...Object.fromEntries(Object.entries(latest).map(([name, values]) => [name, values.at(-1) ?? undefined])), ...perSecond };
}

/** Takes in a moment, whatever is shown. */
export function note(now) {
  if (last && now.at_ms > last.at_ms) {
    const seconds = (now.at_ms - last.at_ms) / 1000;
    perSecond = Object.fromEntries(Object.entries(now.counters).map(([name, value]) => [name, Math.max(0, (value - last.counters[name]) / seconds)]));
    const at = now.at_ms / 1000;
    rates.add(at, [perSecond.lane_events_in, perSecond.lane_delivered, perSecond.lane_dropped, perSecond.lane_events_refused]);
    waiting.add(at, [now.backlog_events]);
    latencies.add(at, [now.p50_below_ns, now.p99_below_ns]);
    lanes.add(at, [perSecond.lane_event_bytes_in]);
  }
  if (!last || now.at_ms > last.at_ms) last = now;
}

function verdict(now) {
  const slow = now.consumers_total - now.states.keeping_up;
  const bad = now.states.holding + now.states.retrying + now.states.disconnected;
  const [first] = now.slowest;
  if (!slow || !first) {
    return el("div", { class: "verdict", id: "verdict" }, el("strong", {}, now.consumers_total
      ? `All ${count(now.consumers_total)} consumers keep up.` : "No consumer is connected."));
  }
  const what = `${count(slow)} of ${count(now.consumers_total)} consumers ${slow === 1 ? "does" : "do"} not keep up. `;
  return el("div", { class: `verdict ${bad ? "bad" : "warn"}`, id: "verdict" },
    el("strong", {}, what, "Slowest: ", consumerLink(first)),
    el("p", {}, badge(first.state), ` ${count(first.backlog_events)} events wait, the oldest for ${age(first.oldest_ms) || "no time"}. ${reason(first)}`));
}

const figure = (name, text, bad) => el("div", { class: `figure${bad ? " bad" : ""}` }, el("b", {}, text), el("span", { class: "quiet" }, name));

export const view = {
  title: "Overview",
  open(main) {
    this.verdict = el("div");
    this.figures = el("div", { class: "figures" });
    this.slowest = el("div");
    this.busiest = el("div");
    show(main, this.verdict, this.figures, el("div", { class: "plots" }, rates.element, waiting.element, latencies.element, lanes.element),
      el("h2", {}, "Slowest consumers"), this.slowest, el("h2", {}, "Channels"), this.busiest);
    if (last) this.tell(last);
  },
  tell(now) {
    show(this.verdict, verdict(now));
    show(this.figures,
      figure("events in", rate(perSecond.lane_events_in)), figure("delivered", rate(perSecond.lane_delivered)),
      figure("dropped", rate(perSecond.lane_dropped), perSecond.lane_dropped > 0),
      figure("refused", rate(perSecond.lane_events_refused), perSecond.lane_events_refused > 0),
      figure("wait", count(now.backlog_events)), figure("consumers", count(now.consumers_total)), figure("channels", count(now.channels_total)),
      now.links_total ? figure("links in trouble", `${count(now.links_in_trouble)} of ${count(now.links_total)}`, now.links_in_trouble > 0) : null,
      figure("on disk", count(now.counters.overflow_events)), figure("store failures", count(now.counters.store_failures), now.counters.store_failures > 0),
      figure("store's disk", now.counters.store_full > 0 ? "full" : "has room", now.counters.store_full > 0));
    const most = Math.max(0, ...now.slowest.map((consumer) => consumer.backlog_events));
    const again = () => {};
    show(this.slowest, table({
      rows: now.slowest, id: (consumer) => `${consumer.channel}/${consumer.proxy}`, row: level, onopen: (consumer) => go("consumer", [consumer.channel, consumer.proxy]),
      onkey: (key, consumer) => press(key, consumer, again), empty: "No consumer is behind.",
      columns: [
        { title: "Consumer", wide: true, cell: consumerLink }, { title: "State", cell: (consumer) => badge(consumer.state) },
        { title: "Why, and what is being done", wide: true, cell: reason },
        { title: "Wait", number: true, cell: (consumer) => el("span", {}, count(consumer.backlog_events), bar(consumer.backlog_events, most)) },
        { title: "Oldest", number: true, cell: (consumer) => age(consumer.oldest_ms) },
        { title: "Dropped", number: true, cell: (consumer) => count(consumer.dropped) },
        { title: "", cell: (consumer) => actions(consumer, again) },
      ],
    }));
    show(this.busiest, table({
      rows: now.channels, ...channelTable,
    }));
  },
  close() {},
};
