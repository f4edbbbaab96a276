// Elements, and numbers as people read them. What comes from clients is only ever text: nothing here makes markup of it.

/** An element with attributes and children; text is text. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An element of a drawing. */
export function svg(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Puts children in the place of those that there are, and the focus where it was. */
export function show(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.id : undefined;
  parent.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  if (focused) parent.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

export const count = (number) => Number(number ?? 0).toLocaleString("en");

export function rate(number) {
  if (number === undefined || Number.isNaN(number)) return "–";
  if (number >= 10_000) return `${(number / 1000).toFixed(1)} k/s`;
  return `${number >= 100 || Number.isInteger(number) ? Math.round(number) : number.toFixed(1)}/s`;
}

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (number >= 1024 && at < units.length - 1) { number /= 1024; at += 1; }
  return `${Number.isInteger(number) ? number : number.toFixed(1)} ${units[at]}`;
}

/** A time that has passed, in milliseconds. */
export function age(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 1000) return `${ms} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** A time that something took, in nanoseconds. */
export function took(ns) {
  if (ns === null || ns === undefined) return "–";
  if (ns < 1e6) return `${Math.round(ns / 1e3)} µs`;
  if (ns < 1e9) return `${ns / 1e6 < 10 ? (ns / 1e6).toFixed(1) : Math.round(ns / 1e6)} ms`;
  return `${(ns / 1e9).toFixed(1)} s`;
}

/** Below which time a share of what a latency counts lies; the last of its bounds is 50 s. */
export const within = ({ count: counted }, ns) => (counted && ns === null ? "> 50 s" : took(ns));

// The words are those of the API and of the metrics.
const LEVELS = { keeping_up: "good", behind: "warn", socket_full: "warn", retrying: "bad", suspended: "warn", holding: "bad", disconnected: "bad" };

export const level = (consumer) => LEVELS[consumer.state] ?? "good";

export const badge = (state) => el("span", { class: `state ${LEVELS[state] ?? "good"}` }, String(state).replaceAll("_", " "));

/** Why a consumer is slow, and what is being done about it. */
export function reason(consumer) {
  const lost = Object.entries(consumer.dropped_by_reason ?? {}).map(([why, events]) => `${count(events)} ${why}`).join(", ");
  const loses = lost ? ` Dropped: ${lost}.` : "";
  switch (consumer.state) {
    case "holding": {
      const until = consumer.holds_for_ms === null ? "its connection is persistent: it is not disconnected for that"
        : `it is disconnected in ${age(consumer.holds_for_ms)} unless it takes something`;
      return `Suppliers wait for it since ${age(consumer.holds_suppliers_ms)}; ${until}.${loses}`;
    }
    case "retrying": {
      const end = consumer.given_up_in_ms === null ? "it stays and its events wait, until an operator disconnects it"
        : `it is disconnected in ${age(consumer.given_up_in_ms)} unless it takes something`;
      return `${count(consumer.failures)} deliveries in a row failed; tried again with a growing pause; ${end}.${loses}`;
    }
    case "suspended": return `Suspended by its client or an operator: events wait for it.${loses}`;
    case "socket_full": return `It does not read its connection; sent again when there is room.${loses}`;
    case "disconnected": return `The service has disconnected it.${loses}`;
    case "behind": return consumer.unanswered > 0
      ? `It has not answered ${count(consumer.unanswered)} that were sent; the rest waits${consumer.overflow_events ? `, ${count(consumer.overflow_events)} on disk` : ""}.${loses}`
      : `It has not fetched what waits for it.${loses}`;
    default: return loses.trim();
  }
}

/** A number beside a bar that says how much of the most it is. */
export function bar(value, most) {
  if (!value) return "";
  const width = `${most > 0 ? Math.max(1, (100 * value) / most) : 0}%`;
  return svg("svg", { class: "bar", "aria-hidden": "true" }, svg("rect", { width, height: "100%" }));
}

export function toast(text, bad = false) {
  const line = el("p", { class: bad ? "bad" : "" }, text);
  const lines = document.getElementById("toasts");
  lines.append(line);
  while (lines.children.length > 5) lines.firstElementChild.remove();
  setTimeout(() => line.remove(), bad ? 12_000 : 5_000);
}

/** A table: columns are { title, number, sort, wide, line, cell }, rows have an id. On a phone each row is a card, in which `line` has one of its own. */
export function table({ columns, rows, id, onopen, onkey, sorted, onsort, row: kind, empty }) {
  if (!rows.length) return el("p", { class: "none" }, empty ?? "Nothing.");
  const head = el("tr", {}, ...columns.map((column) => el("th", {
    scope: "col", class: column.number ? "n" : "", "aria-sort": column.sort !== undefined && column.sort === sorted ? "descending" : null,
  }, column.sort !== undefined && onsort ? el("button", { type: "button", onclick: () => onsort(column.sort), "data-id": `sort-${column.sort}` }, column.title) : column.title)));
  const lines = rows.map((row, at) => el("tr", {
    tabindex: at === 0 ? "0" : "-1", "data-id": id(row), class: kind?.(row) ?? "",
    onclick: (event) => { if (onopen && !event.target.closest("button, a")) onopen(row); },
    onkeydown: (event) => {
      if (event.target !== event.currentTarget) return;
      const line = event.currentTarget;
      const to = { ArrowDown: line.nextElementSibling, ArrowUp: line.previousElementSibling, j: line.nextElementSibling, k: line.previousElementSibling }[event.key];
      if (to) { to.tabIndex = 0; line.tabIndex = -1; to.focus(); event.preventDefault(); }
      else if (event.key === "Enter" && onopen) onopen(row);
      else onkey?.(event.key, row);
    },
  }, ...columns.map((column) => el("td", { class: column.number ? "n" : column.wide ? "wide" : column.line ? "line" : "", "data-label": column.title }, column.cell(row)))));
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...lines)));
}

/** Names and values, those that there are. */
export function facts(...lines) {
  const there = lines.filter((line) => line && line[1] !== null && line[1] !== undefined && line[1] !== "");
  return el("dl", {}, ...there.flatMap(([name, ...values]) => [el("dt", {}, name), el("dd", {}, ...values)]));
}

/** When something was, in milliseconds since 1970. */
export function moment(ms) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return "–";
  const pad = (number, digits = 2) => String(number).padStart(digits, "0");
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** When something was, from a time as RFC 3339 has it, in UTC. */
export const utc = (text) => text.replace("T", " ").slice(0, 23);

/** When something was heard of. */
export const heard = (idleMs) => (idleMs < 1_000 ? "now" : `${age(idleMs)} ago`);

/** Reasons with how often. */
export const reasons = (by) => Object.entries(by ?? {}).map(([why, events]) => `${why} ${count(events)}`).join(", ");
