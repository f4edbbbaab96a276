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

  /** Begins with what the service has kept, before what was added meanwhile; or goes on with it, with `more`. */
  begin(atMs, series, more = false) {
    const times = atMs.map((at) => at / 1000);
    const known = this.data;
    const since = more ? 0 : known[0].findIndex((at, index) => index > 0 && at > (times.at(-1) ?? 0));
    const kept = [times, ...series].map((values, at) => (more ? known[at].concat(values) : values.concat(since < 0 ? [] : known[at].slice(since))));
    const first = Math.max(0, kept[0].findIndex((at) => at >= kept[0].at(-1) - HOUR));
    this.data = kept.map((values) => values.slice(first));
    this.values.forEach((value, at) => this.tell(value, this.data[at + 1].at(-1)));
    this.redraw();
  }

  tell(element, value) { element.textContent = value === undefined || value === null ? "–" : `${this.isAbout && value >= 8 ? "≈ " : ""}${this.shown(value)}`; }

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

/** Plots of the last hour that the service has kept of something, and that goes on while they are shown: { title, names, shown }, by the API's names. */
function lastHour(of, plots) {
  const all = plots.map(({ title, names, called, shown }) => ({ names, plot: new Plot(title, called ?? names, shown, 10) }));
  // The service keeps these within a sixteenth.
  all.forEach(({ plot }) => { plot.isAbout = true; });
  const none = el("p", { class: "quiet" });
  const element = el("div", { class: "plots", "aria-live": "off" }, ...all.map(({ plot }) => plot.element), none);
  let [from, loading] = [0, false];
  const load = async () => {
    if (loading) return;
    loading = true;
    try {
      const kept = await get("figures", { ...of, since_ms: from });
      for (const { names, plot } of all) plot.begin(kept.at_ms, names.map((name) => kept[name]), from > 0);
      // The last points may be of a time that is not over.
      if (kept.at_ms.length) from = kept.at_ms.at(-1);
      none.textContent = from ? "" : "There are no figures of it yet.";
    } catch (error) { none.textContent = error.status === 404 ? "No figures are kept of it." : error.message; } finally { loading = false; }
  };
  load();
  const timer = setInterval(() => {
    if (element.isConnected) { if (!document.hidden) load(); return; }
    clearInterval(timer);
    all.forEach(({ plot }) => plot.end());
  }, 2_000);
  return element;
}

const waits = { title: "Events that wait", names: ["backlog_events"], called: ["events"], shown: events };

export const hourOfChannel = (channel) => lastHour({ channel },
  [{ title: "Events a second", names: ["events_in", "delivered", "dropped"], called: ["in", "delivered", "dropped"], shown: rate }, waits]);
export const hourOfConsumer = (channel, proxy) => lastHour({ channel, proxy }, [{ title: "Events a second", names: ["delivered", "dropped"], shown: rate }, waits]);
export const hourOfSupplier = (channel, proxy) => lastHour({ channel, proxy, side: "suppliers" }, [{ title: "Events a second", names: ["events"], called: ["sent"], shown: rate }]);
export const hourOfType = (type) => lastHour({ type }, [{ title: "Events a second", names: ["events"], called: ["in"], shown: rate }]);

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => all.forEach((plot) => plot.plot && plot.draw()));
