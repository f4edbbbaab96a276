// What is joined to DDS, and what Tempo has: as the configuration says, with what was counted.

import { address, typeLink } from "/address.js";
import { count, el, facts, show, table } from "/dom.js";
import { get } from "/service.js";

const EVERY_MS = 5_000;
const counters = (all) => {
  const some = Object.entries(all).filter(([, value]) => value > 0).map(([name, value]) => [name, count(value)]);
  return some.length ? facts(...some) : el("p", { class: "quiet" }, "Nothing was counted.");
};
/** Channels stand in the configuration by number or by name. */
const channel = (of) => (/^[0-9]+$/.test(of) ? el("a", { href: address("channel", [of]) }, of) : el("a", { href: address("channels", [], { find: of }) }, of));

/** What does not match a join. */
const mismatches = (join) => el("div", {},
  ...join.incompatible.map((found) => el("p", {}, el("span", { class: "state warn" }, found.policy),
    ` ${join.name}, ${found.topic}: ${found.peer}. Offered: ${found.offered}; requested: ${found.requested}. To do: ${found.advice}.`)),
  join.incompatible_beyond ? el("p", { class: "quiet" }, `${count(join.incompatible_beyond)} more did not match`) : null);

export const view = {
  title: "DDS and Tempo",
  open(main) {
    this.place = el("div", { class: "things" });
    show(main, this.place);
    this.load();
    this.timer = setInterval(() => document.hidden || this.load(), EVERY_MS);
  },
  async load() {
    const { place } = this;
    try {
      const [{ dds, tempo }, { joins }] = await Promise.all([get("protocols"), get("dds")]);
      if (this.place !== place) return;
      show(place,
        el("section", { class: "panel" }, el("h2", {}, "Joined to DDS"), table({
          rows: dds.joins, id: (join) => `${join.channel}/${join.domain}/${join.partition}`, empty: "No channel is joined to DDS (dds.joins).",
          columns: [
            { title: "Channel", cell: (join) => channel(join.channel) }, { title: "Domain", number: true, cell: (join) => String(join.domain) },
            { title: "Partition", cell: (join) => join.partition ?? (join.preset === "ros2" ? "(none)" : join.channel) }, { title: "Direction", cell: (join) => join.direction.replaceAll("_", " ") },
            { title: "Names", cell: (join) => join.preset }, { title: "Reads topics", wide: true, cell: (join) => join.read.join(", ") },
            { title: "Topics", wide: true, cell: (join) => Object.entries(join.topics).map(([type, topic]) => `${type} is ${topic}`).join(", ") },
            { title: "Quality", wide: true, cell: (join) => [join.reliable ? "reliable" : "best effort", join.late_joiners ? `${join.late_joiners} for late joiners` : "volatile"].join(", ") },
            { title: "Only", wide: true, cell: (join) => join.constraint },
          ],
        }), ...joins.map(mismatches), counters(dds.counters)),
        el("section", { class: "panel" }, el("h2", {}, tempo.address ? `Tempo, at ${tempo.address}` : "Tempo is not listened to (tempo.listen)"), table({
          rows: tempo.types, id: (type) => `${type.channel}/${type.topic}`, empty: "No topic has a type of its own (tempo.types): messages are octets.",
          columns: [
            { title: "Topic", wide: true, cell: (type) => typeLink(type.topic) }, { title: "Channel", cell: (type) => channel(String(type.channel)) },
            { title: "Type", wide: true, cell: (type) => el("pre", {}, type.type) },
          ],
        }), counters(tempo.counters)));
    } catch (error) { if (this.place === place) show(place, el("p", { class: "none" }, error.message)); }
  },
  tell() {},
  close() { clearInterval(this.timer); this.place = null; },
};
