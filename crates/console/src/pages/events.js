// Events as a table whose columns are their fields: as they come, with a constraint that is checked as it is typed.

import { read, set, typeLink } from "/address.js";
import { count, el, show, toast, utc } from "/dom.js";
import { members } from "/json.js";
import { get, stream } from "/service.js";

const SHOWN = 200;
/** Columns of fields; what else an event has is seen when it is opened. */
const FIELDS = 24;
const CELL = 160;
const REDRAW_MS = 100;

/** A value's text as people read it: JSON in the digits in which it came, a string without quotes. */
function plain(text) {
  const shown = text.startsWith('"') ? JSON.parse(text) : text;
  return shown.length > CELL ? `${shown.slice(0, CELL)}…` : shown;
}

/** A table of events, the newest first or last, of so many at most. */
export class EventTable {
  constructor(label, newestFirst) {
    this.newestFirst = newestFirst;
    this.head = el("tr");
    this.body = el("tbody");
    this.element = el("div", { class: "scroll events" }, el("table", { id: "events", "aria-label": label }, el("thead", {}, this.head), this.body));
    this.clear();
  }

  clear() {
    this.fields = [];
    this.body.replaceChildren();
    this.heads();
  }

  heads() {
    this.head.replaceChildren(...["Came", "Type", ...this.fields.map((field) => `$${field}`), "More"].map((title) => el("th", { scope: "col" }, title)));
  }

  /** Adds events, each the text of its members as an object. */
  add(texts) {
    const events = texts.map((text) => Object.fromEntries(members(text)));
    const before = this.fields.length;
    for (const event of events) {
      event.values = members(event.fields ?? "{}");
      for (const [name] of event.values) if (this.fields.length < FIELDS && !this.fields.includes(name)) this.fields.push(name);
    }
    if (this.fields.length > before) {
      this.heads();
      for (const row of this.body.rows) {
        if (row.dataset.detail) row.cells[0].colSpan = this.fields.length + 3;
        else row.lastElementChild.before(...this.fields.slice(before).map((field) => el("td", { "data-label": field })));
      }
    }
    const rows = events.map((event) => this.row(event));
    if (this.newestFirst) this.body.prepend(...rows.reverse()); else this.body.append(...rows);
    while (this.body.rows.length > SHOWN) this.body.lastElementChild.remove();
  }

  row(event) {
    const values = new Map(event.values);
    const [type, name] = [event.type, event.name].map((text) => (text ? JSON.parse(text) : ""));
    const more = [name, event.header && `header ${event.header}`, event.body && event.body !== "null" && plain(event.body), event.bytes && `${count(event.bytes)} octets, too long to show`,
      event.values.length > FIELDS && `${event.values.length} fields`].filter(Boolean).join("  ");
    // Of those that come now the day is known.
    const came = utc(JSON.parse(event.came ?? event.received ?? '""')).slice(event.received ? 11 : 0);
    const number = event.number?.trim();
    const row = el("tr", { tabindex: "0", "aria-expanded": "false" },
      el("td", { "data-label": "Came" }, number && number !== "0" ? `${number}  ` : "", el("time", {}, came)), el("td", { "data-label": "Type" }, type ? typeLink(type) : ""),
      ...this.fields.map((field) => el("td", { "data-label": `$${field}` }, values.has(field) ? plain(values.get(field)) : "")), el("td", { "data-label": "More" }, more));
    const open = () => {
      const detail = row.nextElementSibling?.dataset.detail ? row.nextElementSibling : null;
      row.setAttribute("aria-expanded", detail ? "false" : "true");
      if (detail) { detail.remove(); return; }
      // Each member on a line, in the digits and in the order in which they came.
      const lines = Object.entries(event).filter(([key]) => !["values", "at_ms", "left_out", "fields"].includes(key)).map(([key, text]) => `${key}: ${text.trim()}`);
      const fields = event.values.map(([key, text]) => `  ${JSON.stringify(key)}: ${text}`);
      row.after(el("tr", { "data-detail": "yes" }, el("td", { colspan: String(this.fields.length + 3) }, el("pre", {}, [...lines, `fields: {\n${fields.join(",\n")}\n}`].join("\n")))));
    };
    row.addEventListener("click", (happened) => { if (!happened.target.closest("a") && !getSelection().toString()) open(); });
    row.addEventListener("keydown", (happened) => {
      if (happened.target !== row) return;
      if (happened.key === "Enter") open();
      const to = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[happened.key];
      if (to) { to.focus(); happened.preventDefault(); }
    });
    return row;
  }
}

/** A field for a constraint, which is checked as it is typed. */
export class Condition {
  constructor(value, onfine) {
    this.onfine = onfine;
    this.input = el("input", { id: "constraint", placeholder: "$celsius > 30 and $site == 'north'", spellcheck: "false", autocomplete: "off", value, oninput: () => this.check() });
    this.wrong = el("div", { class: "wrong", id: "wrong", role: "status" });
  }

  get text() { return this.input.value.trim(); }

  async check() {
    const text = this.input.value;
    if (!text.trim()) { this.tell("", true); return; }
    try {
      const found = await get("constraint", { text });
      // More was typed meanwhile.
      if (this.input.value !== text) return;
      if (found.valid) this.tell(found.reads.length ? `reads ${found.reads.join(", ")}` : "", true);
      else this.tell(`${text}\n${" ".repeat(Math.max(0, found.column - 1))}^ column ${found.column}: ${found.reason}`, false);
    } catch (error) { this.tell(error.message, false); }
  }

  tell(text, fine) {
    this.wrong.textContent = text;
    this.wrong.classList.toggle("fine", fine);
    this.input.setAttribute("aria-invalid", String(!fine));
    this.onfine(fine);
  }
}

export const view = {
  title: "Events",
  async open(main, [channel], { constraint = "", watch }) {
    [this.reading, this.held, this.waiting] = [null, false, []];
    this.channel = el("input", { id: "channel", size: 10, value: channel ?? "0" });
    this.button = el("button", { type: "submit", id: "watch" }, "Watch");
    this.condition = new Condition(constraint, (fine) => { this.button.disabled = !fine && !this.reading; });
    this.pause = el("button", { type: "button", id: "pause", "aria-pressed": "false", disabled: true, onclick: () => this.hold(!this.held) }, "Pause");
    this.events = new EventTable("Events, the newest first", true);
    this.counted = el("span", { class: "quiet", id: "seen" });
    const form = el("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); if (this.reading) this.stop(); else this.start(); } },
      el("label", {}, "Channel", this.channel), el("label", { class: "grow" }, "where", this.condition.input), this.button, this.pause,
      el("button", { type: "button", onclick: () => { location.hash = `#history/${encodeURIComponent(this.channel.value.trim() || "0")}`; } }, "History"), this.counted);
    show(main, form, this.condition.wrong, this.events.element);
    this.condition.check();
    if (watch) this.start();
  },
  hold(held) {
    this.held = held;
    this.pause.textContent = held ? "Go on" : "Pause";
    this.pause.setAttribute("aria-pressed", String(held));
    if (!held) this.draw();
  },
  /** The address of what is watched. */
  note(watch) {
    if (read().view !== "events") return;
    history.replaceState(null, "", `#events/${encodeURIComponent(this.channel.value.trim() || "0")}`);
    set({ constraint: this.condition.text, watch });
  },
  draw() {
    clearTimeout(this.drawing);
    this.drawing = null;
    if (this.held) return;
    this.events.add(this.waiting.splice(0));
  },
  tellCount() {
    const { seen, left } = this;
    this.counted.textContent = `${count(seen)} seen${left ? `, ${count(left)} left out: too many to show` : ""}${this.held ? "; paused: the last of what comes is shown then" : ""}`;
  },
  async start() {
    const reading = new AbortController();
    this.reading = reading;
    this.button.textContent = "Stop";
    this.pause.disabled = false;
    [this.seen, this.left, this.waiting] = [0, 0, []];
    this.hold(false);
    this.events.clear();
    this.note(1);
    try {
      const parameters = { channel: this.channel.value.trim() || "0" };
      if (this.condition.text) parameters.constraint = this.condition.text;
      await stream("events", parameters, reading.signal, (kind, event, data) => {
        if (kind === "ended") throw new Error(event.error ?? "the service has ended this");
        if (kind !== "event" || this.reading !== reading) return;
        this.seen += 1; this.left += event.left_out;
        this.waiting.push(data);
        // What would be gone from the table is not put there first.
        if (this.waiting.length > SHOWN) this.waiting.shift();
        this.tellCount();
        this.drawing ??= setTimeout(() => this.draw(), REDRAW_MS);
      });
    } catch (error) { if (error.name !== "AbortError") toast(error.message, true); }
    if (this.reading === reading) this.stop();
  },
  stop() {
    this.reading?.abort();
    this.reading = null;
    this.hold(false);
    this.button.textContent = "Watch";
    this.pause.disabled = true;
    this.note(undefined);
    this.condition.check();
  },
  tell() {},
  close() { this.reading?.abort(); this.reading = null; clearTimeout(this.drawing); this.drawing = null; },
};
