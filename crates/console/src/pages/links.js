// Links to other services: which way events go, whether they flow, what waits, and what was lost.

import { age, bytes, count, el, show, table } from "/dom.js";
import { addLink, pauseLink, removeLink } from "/dialogs.js";
import { canChange, get } from "/service.js";

const EVERY_MS = 2_000;
const LEVELS = { up: "good", connecting: "warn", stalled: "warn", paused: "warn", down: "bad", refused: "bad" };
const losses = (link) => ["lost", "forgotten", "dropped"].filter((kind) => link[kind]).map((kind) => `${count(link[kind])} ${kind}`).join(", ");
const level = (link) => (losses(link) ? "bad" : LEVELS[link.state]);

/** Why it is not up; and which side is the slower one, where something waits. */
function reason(link) {
  if (link.state !== "up") return `${link.reason || "not connected"}, for ${age(link.since_ms)}`;
  if (!link.lag_events || link.direction === "in") return "";
  return link.in_flight_octets * 10 >= link.window_octets * 9 ? "The peer or the line is slower: the window is full." : "This service is still sending.";
}

export const view = {
  title: "Links",
  open(main) {
    this.place = el("div");
    show(main, this.place);
    this.load();
    this.timer = setInterval(() => document.hidden || document.querySelector("dialog") || this.load(), EVERY_MS);
  },
  async load() {
    const { place } = this;
    try {
      const [{ links }, { services }] = await Promise.all([get("links"), get("federation")]);
      if (this.place !== place) return;
      const add = canChange() ? el("button", { type: "button", onclick: () => addLink(() => this.load()) }, "Add a link") : "";
      const federation = !services.length ? "" : el("section", {}, el("h2", {}, "Federation"), table({
        rows: services, id: (service) => `${service.address}/${service.name}`, row: (service) => LEVELS[service.state],
        columns: [
          { title: "Service", cell: (service) => service.name || service.address }, { title: "Address", cell: (service) => service.address },
          { title: "State", cell: (service) => (service.is_self ? "this one" : el("span", { class: `state ${LEVELS[service.state] ?? "warn"}` }, service.state)) },
          { title: "Why", wide: true, cell: (service) => service.reason }, { title: "Channels", wide: true, cell: (service) => service.channels.join(", ") },
          { title: "Linked", number: true, cell: (service) => (service.is_self ? "" : count(service.linked.length)) },
        ],
      }));
      show(place, add, federation, table({
        rows: links, id: (link) => `${link.name}/${link.channel}/${link.direction}`, row: level, empty: "There are no links: a configuration has them as [[link]], and some are added here.",
        columns: [
          { title: "Link", cell: (link) => link.name }, { title: "Channel", cell: (link) => link.channel }, { title: "Direction", cell: (link) => link.direction },
          { title: "Peer", cell: (link) => link.peer },
          { title: "State", cell: (link) => el("span", { class: `state ${LEVELS[link.state] ?? "warn"}` }, link.state) },
          { title: "Why", wide: true, cell: reason },
          { title: "Wait", number: true, cell: (link) => count(link.lag_events) },
          { title: "Oldest", number: true, cell: (link) => (link.lag_events ? age(link.lag_ms) : "") },
          { title: "In flight", number: true, cell: (link) => `${bytes(link.in_flight_octets)} of ${bytes(link.window_octets)}` },
          { title: "Crossed", number: true, cell: (link) => count(link.direction === "out" ? link.acknowledged : link.received) },
          { title: "Lost", number: true, cell: (link) => (losses(link) ? el("span", { class: "state bad" }, losses(link)) : "") },
          { title: "Rejected", number: true, cell: (link) => (link.rejected ? count(link.rejected) : "") },
          { title: "Carrier", cell: (link) => link.carrier },
          { title: "Subscribed to", cell: (link) => link.subscriptions },
          { title: "", cell: (link) => (canChange() ? el("div", { class: "acts" },
            el("button", { type: "button", onclick: () => pauseLink(link, () => this.load()) }, link.state === "paused" ? "Resume" : "Pause"),
            link.origin === "added" ? el("button", { type: "button", class: "hurts", onclick: () => removeLink(link, () => this.load()) }, "Remove") : "") : "") },
        ],
      }));
    } catch (error) { if (this.place === place) show(place, el("p", { class: "none" }, error.message)); }
  },
  tell() {},
  close() { clearInterval(this.timer); this.place = null; },
};
