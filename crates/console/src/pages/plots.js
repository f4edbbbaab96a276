// Plots of the last minutes.

import { el } from "/dom.js";

const KEPT = 300;
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

  add(seconds, values) {
    // Nothing is known of the time before.
    if (!this.data[0].length) { this.data[0].push(seconds - SPAN); this.data.slice(1).forEach((series) => series.push(null)); }
    this.data[0].push(seconds);
    values.forEach((value, at) => {
      this.data[at + 1].push(value ?? null);
      this.values[at].textContent = value === undefined || value === null ? "–" : this.shown(value);
    });
    if (this.data[0].length > KEPT) this.data.forEach((series) => series.shift());
    this.element.dataset.points = this.data[0].length;
    if (this.box.isConnected) { if (this.plot) this.plot.setData(this.data); else this.draw(); }
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all.forEach((plot) => plot.plot && plot.draw()));
