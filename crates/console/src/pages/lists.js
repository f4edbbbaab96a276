// A list, a page at a time, of which the address says what is looked for, in which order, and where: consumers, suppliers, channels, types.

import { read, set } from "/address.js";
import { count, el, show, table } from "/dom.js";
import { get } from "/service.js";

const PAGE = 100;
const EVERY_MS = 2_000;

/** Events a second since it was last looked at, by what is counted of each. */
export class Speeds {
  constructor() { this.before = new Map(); }

  of(key, events, at) {
    const known = this.before.get(key);
    // Speed is over some seconds, since what is listed may be a second old: what is drawn again before that has the one from before.
    if (known && at - known.at < 3_000) return known.speed;
    const speed = known ? Math.max(0, (events - known.events) / ((at - known.at) / 1000)) : undefined;
    this.before.delete(key);
    this.before.set(key, { at, events, speed });
    if (this.before.size > 2_000) this.before.delete(this.before.keys().next().value);
    return speed;
  }

  text(key, events, at) {
    const speed = this.of(key, events, at);
    return speed === undefined ? "" : speed.toFixed(speed < 10 ? 1 : 0);
  }
}

/**
 * The view of a list: `path` of the API; `sorts` as [value, text]; `filters` as { name, text, options }, or without options for a number;
 * `columns(again)` and what a table has beside them.
 */
export function list({ title, path, sorts, filters = [], columns, hint, ...others }) {
  return {
    title,
    open(main, parts, query) {
      this.query = { ...query, offset: Number(query.offset) || 0 };
      const change = (name, value, entry = true) => {
        this.query = { ...this.query, offset: 0, [name]: value };
        set(this.query, entry);
        this.load();
      };
      const choice = (name, options) => el("select", { id: name, onchange: (event) => change(name, event.target.value) },
        ...options.map(([value, text]) => el("option", { value, selected: value === (query[name] ?? "") }, text)));
      const fields = filters.map(({ name, text, options }) => el("label", {}, text, options ? choice(name, options)
        : el("input", { id: `of-${name}`, inputmode: "numeric", size: 6, value: query[name] ?? "", onchange: (event) => change(name, event.target.value.trim()) })));
      this.find = el("input", { id: "find", type: "search", value: query.find ?? "", placeholder: hint ?? "name or number", oninput: () => this.typed() });
      this.pages = el("span", { class: "quiet", id: "pages" });
      const turn = (by) => { this.query.offset = Math.max(0, this.query.offset + by * PAGE); set(this.query, true); this.load(); };
      this.back = el("button", { type: "button", onclick: () => turn(-1) }, "‹ before");
      this.on = el("button", { type: "button", onclick: () => turn(1) }, "next ›");
      this.list = el("div");
      this.sort = (value) => { change("sort", value); const field = document.getElementById("sort"); if (field) field.value = value; };
      show(main, el("div", { class: "tools" }, ...fields, el("label", {}, "Find", this.find), el("label", {}, "by", choice("sort", sorts)), this.pages, this.back, this.on), this.list);
      this.load();
      this.timer = setInterval(() => document.hidden || document.querySelector("dialog") || this.load(), EVERY_MS);
    },
    typed() {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => {
        this.query = { ...this.query, offset: 0, find: this.find.value.trim() };
        set(this.query);
        this.load();
      }, 250);
    },
    async load() {
      const asked = JSON.stringify(this.query);
      if (this.loading === asked) return;
      this.loading = asked;
      try {
        const found = await get(path, { ...this.query, limit: PAGE });
        // Something else is wanted, or shown, meanwhile.
        if (JSON.stringify(this.query) === asked && read().view === title.toLowerCase()) this.draw(found);
      } catch (error) {
        if (JSON.stringify(this.query) === asked) show(this.list, el("p", { class: "none" }, error.message));
      } finally { if (this.loading === asked) this.loading = null; }
    },
    draw({ total, offset, entries }) {
      this.pages.textContent = total ? `${count(offset + 1)} to ${count(offset + entries.length)} of ${count(total)}` : "none";
      this.back.disabled = offset === 0;
      this.on.disabled = offset + entries.length >= total;
      // What became shorter meanwhile.
      if (total && offset >= total) { this.query.offset = 0; set(this.query); this.load(); return; }
      const again = () => this.load();
      show(this.list, table({ rows: entries, columns: columns({ again, entries, at: performance.now() }), sorted: this.query.sort ?? "", onsort: this.sort, again, ...others }));
    },
    tell() {},
    close() { clearInterval(this.timer); clearTimeout(this.typing); },
  };
}
