// What happened: which events were dropped, for which consumer, when and why; and the last lines of the log.

import { consumerLink, read, set, typeLink, typeText } from "/address.js";
import { count, el, moment, show, table } from "/dom.js";
import { get } from "/service.js";
import { episodes } from "/things.js";

const EVERY_MS = 5_000;

/** A view that is asked for again and again. */
function looked(title, load, tools) {
  return {
    title,
    open(main, parts, query) {
      this.place = el("div");
      show(main, tools?.call(this, query), this.place);
      this.again();
      this.timer = setInterval(() => document.hidden || this.again(), EVERY_MS);
    },
    async again() {
      const { place } = this;
      try {
        const shown = await load.call(this);
        if (this.place === place) show(place, ...shown);
      } catch (error) { if (this.place === place) show(place, el("p", { class: "none" }, error.message)); }
    },
    tell() {},
    close() { clearInterval(this.timer); this.place = null; },
  };
}

export const dropsView = looked("Drops", async () => {
  const { entries, others, lately } = await get("drops");
  const more = others ? el("p", { class: "quiet" }, `${count(others)} more events were dropped than there is room here to list one by one.`) : null;
  return [
    el("h2", {}, "Lately"), episodes(lately, "Nothing was dropped since the service began."), el("h2", {}, "In all"), more,
    table({
      rows: entries, id: (drop) => `${drop.channel}/${drop.proxy}/${drop.domain}/${drop.type}/${drop.reason}`, empty: "Nothing was dropped.",
      columns: [
        { title: "Consumer", wide: true, cell: consumerLink }, { title: "Event type", wide: true, cell: (drop) => typeLink(typeText(drop.domain, drop.type)) },
        { title: "Reason", cell: (drop) => drop.reason.replaceAll("_", " ") }, { title: "Events", number: true, cell: (drop) => count(drop.events) },
      ],
    }),
  ];
});

export const logView = looked("Log", async function load() {
  const { entries, kept_max: most } = await get("log");
  const shown = entries.filter((line) => !this.kind || (this.kind === "bad" ? ["warn", "error"].includes(line.level) : line.kind === this.kind));
  return [
    el("p", { class: "quiet" }, `The last ${count(most)} lines of the log and as many audit lines, the last first.`),
    table({
      rows: shown, id: (line) => `line-${line.number}`, row: (line) => ({ error: "bad", warn: "warn" }[line.level] ?? ""),
      empty: "No lines yet: what log.level leaves out is not here either.",
      columns: [
        { title: "When", line: true, cell: (line) => moment(line.at_ms) }, { title: "Level", cell: (line) => (line.kind === "audit" ? "audit" : line.level) },
        { title: "Line", wide: true, cell: (line) => line.text },
      ],
    }),
  ];
}, function tools({ kind = "" }) {
  this.kind = kind;
  const options = [["", "all"], ["log", "log"], ["audit", "audit"], ["bad", "warnings and errors"]];
  return el("div", { class: "tools" }, el("label", {}, "Lines", el("select", {
    id: "kind", onchange: (event) => { this.kind = event.target.value; if (read().view === "log") set({ kind: this.kind }, true); this.again(); },
  }, ...options.map(([value, text]) => el("option", { value, selected: value === kind }, text)))));
});
