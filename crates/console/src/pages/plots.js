// Plots of the last hour.

import { count, el, rate } from "/dom.js";
import { get } from "/service.js";

/** Seconds that are shown at most. */
const HOUR = 3_600;
/** Seconds that are shown at least. */
const SPAN = 60;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const all = new Set();

/** A plot of some series, of which the axis reaches `least` at least, in steps of one of the `increments`; `add(seconds, values)` draws the next point of each. */
export class Plot {
  constructor(title, names, shown, least = 1, increments) {
    this.least = least;
    this.increments = increments;
    this.names = names;
    this.shown = shown;
    this.data = [[], ...names.map(() => [])];
    this.box = el("div", { class: "plot" });
    this.values = names.map(() => el("b"));
    const legend = names.map((name, at) => el("span", { class: "abcd"[at] }, el("i"), `${name} `, this.values[at]));
    this.element = el("section", { class: "panel", "aria-label": title }, el("h2", {}, title), this.box, el("div", { class: "legend" }, ...legend));
    this.sizes = new ResizeObserver(() => this.fit());
    this.sizes.observe(this.box);
    all.add(this);
  }

  draw() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.data[0].length || !this.box.clientWidth) return;
    const axis = { stroke: colour("quiet"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: "11px system-ui" };
    this.plot = new uPlot({
      width: Math.max(200, this.box.clientWidth), height: 170, legend: { show: false }, cursor: { y: false, points: { size: 5 } },
      scales: {
        y: { range: (_, low, high) => [0, Math.max(this.least, (high ?? 0) * 1.1)] },
      },
      axes: [{ ...axis, values: "{HH}:{mm}:{ss}", space: 75 }, { ...axis, size: 66, ...(this.increments ? { incrs: this.increments } : {}), values: (_, marks) => marks.map(this.shown) }],
      series: [{}, ...this.names.map((name, at) => ({ label: name, stroke: colour("abcd"[at]), width: 1.5, points: { show: false } }))],
    }, this.data, this.box);
  }

  fit() {
    if (!this.plot) return this.draw();
    this.plot.setSize({ width: Math.max(200, this.box.clientWidth), height: 170 });
  }

  /** Begins with what the service has kept, before what was added meanwhile. */
  begin(times, series) {
    const since = this.data[0].findIndex((at, index) => index > 0 && at > (times.at(-1) ?? 0));
    const later = this.data.map((values) => (since < 0 ? [] : values.slice(since)));
    this.data = [times, ...series].map((values, at) => values.concat(later[at]));
    this.values.forEach((value, at) => this.tell(value, this.data[at + 1].at(-1)));
    this.redraw();
  }

  tell(element, value) { element.textContent = value === undefined || value === null ? "–" : this.shown(value); }

  redraw() {
    this.element.dataset.points = this.data[0].length;
    if (this.box.isConnected) { if (this.plot) this.plot.setData(this.data); else this.draw(); }
  }

  end() {
    all.delete(this);
    this.sizes.disconnect();
    this.plot?.destroy();
  }

  add(seconds, values) {
    // Nothing is known of the time before.
    if (!this.data[0].length) { this.data[0].push(seconds - SPAN); this.data.slice(1).forEach((series) => series.push(null)); }
    this.data[0].push(seconds);
    values.forEach((value, at) => {
      this.data[at + 1].push(value ?? null);
      this.tell(this.values[at], value);
    });
    while (this.data[0][0] < seconds - HOUR) this.data.forEach((series) => series.shift());
    this.redraw();
  }
}

export const events = (number) => (number >= 1e6 ? `${(number / 1e6).toFixed(1)} M` : count(Math.round(number)));

/** The last hour of a channel ({channel}) or a consumer ({channel, proxy}), which goes on while it is shown. */
export function lastHour(of) {
  const names = of.proxy === undefined ? ["events_in", "delivered", "dropped"] : ["delivered", "dropped"];
  const rates = new Plot("Events a second", names.map((name) => (name === "events_in" ? "in" : name)), rate, 10);
  const waiting = new Plot("Events that wait", ["events"], events, 10);
  const element = el("div", { class: "plots", "aria-live": "off" }, rates.element, waiting.element);
  const load = async () => {
    const kept = await get("figures", of).catch(() => null);
    if (!kept?.at_ms.length) return;
    const times = kept.at_ms.map((at) => at / 1000);
    rates.begin(times, names.map((name) => kept[name]));
    waiting.begin(times, [kept.backlog_events]);
  };
  load();
  const timer = setInterval(() => {
    if (element.isConnected) { load(); return; }
    clearInterval(timer);
    rates.end();
    waiting.end();
  }, 2_000);
  return element;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all.forEach((plot) => plot.plot && plot.draw()));
