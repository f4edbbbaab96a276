// A channel's stored events, from a number or a time on, a page at a time.

import { address, read } from "/address.js";
import { bytes, count, el, show, utc } from "/dom.js";
import { Condition, EventTable } from "/events.js";
import { elements, members } from "/json.js";
import { text } from "/service.js";

const PAGE = 100;
const FROM = [["last", "the last"], ["number", "number"], ["time", "time"], ["since", "so long ago"], ["first", "the first"]];

/** TimeBase::TimeT counts 100 ns since 15 October 1582: so many until 1970. */
const TICKS_TO_1970 = 122_192_928_000_000_000n;
/** What it counts, of a moment of this browser's clock. */
const counted = (local) => String(BigInt(new Date(local).getTime()) * 10_000n + TICKS_TO_1970);

function local(text) {
  const ms = Number((BigInt(text) - TICKS_TO_1970) / 10_000n);
  const at = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000);
  return Number.isNaN(at.getTime()) ? "" : at.toISOString().slice(0, 19);
}

export const view = {
  title: "History",
  open(main, [channel], { from = `last:${PAGE}`, constraint = "" }) {
    const [, kind = "first", at = ""] = from.match(/^([a-z]+):(.*)$/s) ?? [];
    this.channel = el("input", { id: "channel", size: 10, value: channel ?? "0" });
    this.kind = el("select", { id: "from", onchange: () => this.field("") }, ...FROM.map(([value, title]) => el("option", { value, selected: value === (kind === "after" ? "number" : kind) }, title)));
    this.at = el("span");
    this.field(kind === "after" && /^[0-9]+$/.test(at) ? String(BigInt(at) + 1n) : at);
    this.button = el("button", { type: "submit", id: "read" }, "Read");
    this.condition = new Condition(constraint, (fine) => { this.button.disabled = !fine; });
    this.stored = el("p", { class: "quiet", id: "stored", role: "status" });
    this.gone = el("p", { class: "verdict warn", id: "gone", hidden: true, role: "status" });
    this.events = new EventTable("Stored events, the oldest first", false);
    this.next = el("a", { class: "button", id: "on", hidden: true }, "next ›");
    const form = el("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); this.go(); } },
      el("label", {}, "Channel", this.channel), el("label", {}, "from", this.kind), this.at, el("label", { class: "grow" }, "where", this.condition.input), this.button, this.next);
    show(main, form, this.condition.wrong, this.gone, this.stored, this.events.element);
    this.condition.check();
    this.load(channel ?? "0", from, constraint);
  },
  /** The field for where to begin: a number, a time, or so many. */
  field(value) {
    const kind = this.kind.value;
    const input = kind === "time" ? el("input", { type: "datetime-local", step: "1", value: /^[0-9]+$/.test(value) ? local(value) : "" })
      : kind === "since" ? el("input", { size: 6, value: value || "10m", title: "with its unit: s, m, h, d" })
        : el("input", { inputmode: "numeric", size: 8, value: value || (kind === "last" ? String(PAGE) : "1") });
    input.id = "at";
    input.setAttribute("aria-label", "from where");
    this.at.replaceChildren(kind === "first" ? "" : input);
  },
  go() {
    const [kind, at] = [this.kind.value, document.getElementById("at")?.value.trim() ?? ""];
    const from = kind === "first" ? "first" : `${kind}:${kind === "time" && at ? counted(at) : at}`;
    const to = address("history", [this.channel.value.trim() || "0"], { from, constraint: this.condition.text });
    if (to === location.hash) this.load(this.channel.value, from, this.condition.text); else location.hash = to;
  },
  async load(channel, from, constraint) {
    const at = location.hash;
    this.stored.textContent = "Reading…";
    try {
      const told = await text("history", { channel, from, constraint, limit: PAGE });
      if (read().view !== "history" || location.hash !== at) return;
      this.tellAll(Object.fromEntries(members(told)), { channel, constraint });
    } catch (error) { this.stored.textContent = error.message; }
  },
  tellAll(told, of) {
    const [first, last, next] = [told.first, told.last, told.next].map((one) => JSON.parse(one));
    const entries = elements(told.entries);
    const place = (one) => `event ${count(one.number)} of ${utc(one.came)} UTC`;
    this.gone.hidden = told.gone !== "true";
    if (first) this.gone.textContent = `What was asked for is not stored any more: the first that is, is ${place(first)}.`;
    this.stored.textContent = first && last ? `Stored: ${place(first)} to ${place(last)}; ${count(told.events)} events, ${bytes(Number(told.bytes))}. ${
      entries.length ? `Shown: ${count(entries.length)}.` : told.ended === "true" ? "None of them from there on meets the condition." : "None was found within the time for it."}` : "Nothing is stored.";
    this.next.hidden = !next || told.ended === "true";
    if (next) this.next.href = address("history", [of.channel], { from: next, constraint: of.constraint });
    this.events.clear();
    this.events.add(entries);
  },
  tell() {},
  close() {},
};
