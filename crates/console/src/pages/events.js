// A channel's events as they come, with a constraint that is checked as it is typed.

import { count, el, show, toast } from "/dom.js";
import { members } from "/json.js";
import { get, stream } from "/service.js";

const SHOWN = 200;

/** An event's fields, header and body in the digits and in the order in which they came. */
export function shown(data) {
  const { fields, header, body } = Object.fromEntries(members(data));
  const inner = (fields ?? "{}").trim().slice(1, -1).trim();
  return `{${[inner, header && `"header":${header}`, body && body !== "null" && `"body":${body}`].filter(Boolean).join(",")}}`;
}

export const view = {
  title: "Events",
  async open(main, chosen) {
    this.channel = el("input", { id: "channel", inputmode: "numeric", size: 6, value: chosen ?? "0" });
    this.constraint = el("input", { id: "constraint", placeholder: "$celsius > 30 and $site == 'north'", spellcheck: "false", autocomplete: "off", oninput: () => this.check() });
    this.wrong = el("div", { class: "wrong", id: "wrong", role: "status" });
    this.button = el("button", { type: "submit", id: "watch" }, "Watch");
    this.list = el("ol", { class: "events", id: "events", "aria-label": "Events, the newest first" });
    this.counted = el("span", { class: "quiet", id: "seen" });
    const form = el("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); if (this.reading) this.stop(); else this.start(); } },
      el("label", {}, "Channel", this.channel), el("label", { class: "grow" }, "where", this.constraint), this.button, this.counted);
    show(main, form, this.wrong, this.list);
    this.check();
  },
  async check() {
    const text = this.constraint.value;
    if (!text.trim()) { this.tellWrong("", true); return; }
    try {
      const found = await get("constraint", { text });
      // Somebody types on meanwhile.
      if (this.constraint.value !== text) return;
      if (found.valid) this.tellWrong(found.reads.length ? `reads ${found.reads.join(", ")}` : "", true);
      else this.tellWrong(`${text}\n${" ".repeat(Math.max(0, found.column - 1))}^ column ${found.column}: ${found.reason}`, false);
    } catch (error) { this.tellWrong(error.message, false); }
  },
  tellWrong(text, fine) {
    this.wrong.textContent = text;
    this.wrong.classList.toggle("fine", fine);
    this.constraint.setAttribute("aria-invalid", String(!fine));
    this.button.disabled = !fine && !this.reading;
  },
  async start() {
    this.reading = new AbortController();
    this.button.textContent = "Stop";
    this.list.replaceChildren();
    let [seen, left] = [0, 0];
    const parameters = { channel: this.channel.value.trim() || "0" };
    if (this.constraint.value.trim()) parameters.constraint = this.constraint.value;
    try {
      await stream("events", parameters, this.reading.signal, (kind, event, data) => {
        if (kind === "ended") throw new Error(event.error ?? "the service has ended this");
        if (kind !== "event") return;
        seen += 1; left += event.left_out;
        this.counted.textContent = `${count(seen)} seen${left ? `, ${count(left)} left out: too many to show` : ""}`;
        const { at_ms, type, name, bytes } = event;
        const text = bytes ? `${count(bytes)} octets, too long to show` : shown(data);
        this.list.prepend(el("li", {}, el("time", {}, new Date(at_ms).toISOString().slice(11, 23)), el("b", {}, type ?? "event"), name ? `${name}  ` : "", text));
        while (this.list.children.length > SHOWN) this.list.lastElementChild.remove();
      });
    } catch (error) { if (error.name !== "AbortError") toast(error.message, true); }
    this.stop();
  },
  stop() {
    this.reading?.abort();
    this.reading = null;
    this.button.textContent = "Watch";
    this.check();
  },
  tell() {},
  close() { this.reading?.abort(); this.reading = null; },
};
