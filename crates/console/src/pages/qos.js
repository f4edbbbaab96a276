// Quality of service: what is set where, within which range, and what it does. Names, ranges and texts are those of the engine's own table.

import { el } from "/dom.js";
import { setQos } from "/dialogs.js";
import { PROPERTIES } from "/properties.js";
import { canChange } from "/service.js";

const CHOICES = {
  FullOutbox: [["Hold", "Hold"], ["Discard", "Discard"], ["Reject", "Reject"], ["Disconnect", "Disconnect"]],
  AcknowledgeAfter: [["Accepted", "Accepted"], ["Stored", "Stored"], ["Delivered", "Delivered"]],
  Reliability: [["0", "BestEffort"], ["1", "Persistent"]],
  OrderPolicy: [["0", "AnyOrder"], ["1", "FifoOrder"], ["2", "PriorityOrder"], ["3", "DeadlineOrder"]],
  DiscardPolicy: [["0", "AnyOrder"], ["1", "FifoOrder"], ["2", "PriorityOrder"], ["3", "DeadlineOrder"], ["4", "LifoOrder"]],
  bool: [["true", "true"], ["false", "false"]],
};
const ENDS = {
  MILLISECOND: "1 ms", HOUR: "1 h", WEEK: "7 d", YEAR: "365 d", CENTURY: "100 years", MAXIMUM: "2,147,483,647",
  HIGHEST_PRIORITY: "32,767", "-HIGHEST_PRIORITY": "-32,767", "- HIGHEST_PRIORITY": "-32,767",
};

/** What a property may be, in words. */
export function range({ kind, range: ends }) {
  if (CHOICES[kind]) return CHOICES[kind].map(([, text]) => text).join(", ");
  if (!ends.length) return "a text";
  const end = (text) => ENDS[text] ?? (text.includes("PUSH_WINDOW_MAX") ? "1,024" : text.replaceAll("_", ","));
  return ends.map(end).join(" to ");
}

/** What it can be set to by choice: [value, text]. */
export const choices = (property) => CHOICES[property.kind];

function time(ns) {
  for (const [unit, size] of [["d", 86_400e9], ["h", 3_600e9], ["min", 60e9], ["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    if (ns >= size && Number.isInteger(ns / size)) return `${ns / size} ${unit}`;
  }
  return `${ns} ns`;
}

function shown({ key, kind }, value) {
  if (key.endsWith("_ns")) return value ? time(value) : "0";
  const choice = CHOICES[kind]?.find(([, text]) => text === value || text === `${value}Order`);
  return choice ? choice[1] : String(value);
}

/**
 * A table of the properties: `levels` as [what it is called, its settings], the nearest first, of a `side` ("consumers", "suppliers", or
 * both without one); `on` says what is set, of the name `called`.
 */
export function qosTable(levels, side, on, called, done) {
  const rows = PROPERTIES.filter((property) => !side || property.side === "both" || property.side === side).map((property) => {
    const [level, settings] = levels.find(([, settings]) => settings?.[property.key] !== undefined) ?? [];
    const value = settings ? shown(property, settings[property.key]) : "";
    const set = canChange() ? el("button", { type: "button", "aria-label": `Set ${property.name}`, onclick: async () => { if (await setQos(on, called, property.name)) done?.(); } }, "Set") : "";
    return el("tr", { class: settings ? "set" : "" },
      el("td", { "data-label": "Property" }, el("details", {}, el("summary", {}, property.name), el("p", { class: "help" }, property.help))),
      el("td", { "data-label": "Value" }, settings ? el("b", {}, value) : el("span", { class: "quiet" }, "default")),
      el("td", { "data-label": "Set by" }, level ?? ""), el("td", { "data-label": "Range" }, range(property)), el("td", { "data-label": "" }, set));
  });
  const head = el("tr", {}, ...["Property", "Value", "Set by", "Range", ""].map((title) => el("th", { scope: "col" }, title)));
  return el("div", { class: "scroll qos" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
}
