// All consumers, the slowest first.

import { channelLink, consumerLink, go } from "/address.js";
import { age, badge, bar, bytes, count, el, level, reason, within } from "/dom.js";
import { actions, press } from "/dialogs.js";
import { Speeds, list } from "/lists.js";

const speeds = new Speeds();
const id = (consumer) => `${consumer.channel}/${consumer.proxy}`;

export const view = list({
  title: "Consumers", path: "consumers",
  sorts: [["", "slowness"], ["oldest", "age"], ["delivered", "deliveries"], ["dropped", "drops"], ["number", "number"]],
  filters: [
    { name: "state", text: "Consumers", options: [["", "all"], ["slow", "that do not keep up"], ["holding", "that block suppliers"], ["retrying", "that fail"],
      ["behind", "behind"], ["suspended", "suspended"], ["socket_full", "with a full socket"], ["keeping_up", "that keep up"]] },
    { name: "channel", text: "of channel" },
  ],
  id, row: level, empty: "No such consumers.",
  onopen: (consumer) => go("consumer", [consumer.channel, consumer.proxy]),
  onkey: (key, consumer) => press(key, consumer, () => view.load()),
  columns({ again, entries, at }) {
    const most = Math.max(0, ...entries.map((consumer) => consumer.backlog_events));
    return [
      { title: "Consumer", wide: true, sort: "number", cell: consumerLink },
      { title: "State", sort: "", cell: (consumer) => badge(consumer.state) },
      { title: "Why, and what is being done", wide: true, cell: reason },
      { title: "Wait", number: true, cell: (consumer) => el("span", {}, count(consumer.backlog_events), bar(consumer.backlog_events, most)) },
      { title: "Oldest", number: true, sort: "oldest", cell: (consumer) => age(consumer.oldest_ms) },
      { title: "Delivered", number: true, sort: "delivered", cell: (consumer) => count(consumer.delivered) },
      { title: "a second", number: true, cell: (consumer) => speeds.text(id(consumer), consumer.delivered, at) },
      { title: "99 % within", number: true, cell: (consumer) => within(consumer.latency, consumer.latency.p99_below_ns) },
      { title: "Dropped", number: true, sort: "dropped", cell: (consumer) => count(consumer.dropped) },
      { title: "Octets", number: true, cell: (consumer) => bytes(consumer.backlog_bytes) },
      { title: "Channel", number: true, cell: (consumer) => channelLink(consumer.channel) },
      // Those that keep up are opened for that.
      { title: "", cell: (consumer) => (consumer.state === "keeping_up" ? "" : actions(consumer, again)) },
    ];
  },
});
