// A page for each channel, consumer, supplier and event type, with an address and graphs of its own.

import { address, channelLink, consumerLink, typeLink, typeText } from "/address.js";
import { KINDS, tree } from "/channels.js";
import { actions, disconnectSupplier, press, publish, setQos } from "/dialogs.js";
import { age, badge, bytes, count, el, facts, heard, moment, reason, reasons, show, table, took, within } from "/dom.js";
import { hourOfChannel, hourOfConsumer, hourOfSupplier, hourOfType } from "/plots.js";
import { qosTable } from "/qos.js";
import { canChange, get } from "/service.js";

const EVERY_MS = 2_000;
const latency = (of) => (of.count ? `half within ${within(of, of.p50_below_ns)}, 99 % within ${within(of, of.p99_below_ns)}, mean ${took(of.sum_ns / of.count)}` : "");
const number = (text) => (/^[0-9]{1,10}$/.test(text ?? "") ? Number(text) : undefined);
const section = (title, ...content) => el("section", { class: "panel thing" }, el("h2", {}, title), ...content);
const link = (text, to) => el("a", { class: "button", href: to }, text);
const types = (all) => el("ul", { class: "plain" }, ...all.map((type) => el("li", {}, /[*?[\]%]/.test(type.domain + type.name) ? typeText(type.domain, type.name) : typeLink(typeText(type.domain, type.name)))));

/** A view of one thing: `find` asks for it, again and again, and `draw` shows that; `rest` what is shown once, also from what is found first. */
function thing({ title, find, draw, rest, ...others }) {
  return {
    title, ...others,
    open(main, parts) {
      [this.parts, this.is, this.told] = [parts, el("div", { "aria-live": "off" }), null];
      this.gone = el("p", { class: "verdict warn", hidden: true, role: "status" });
      const more = el("div", { class: "things" });
      show(main, this.gone, this.is, more);
      rest(parts, this.load()).then((all) => { if (this.parts === parts) show(more, ...all); })
        .catch((error) => { if (this.parts === parts) show(more, el("p", { class: "none" }, error.message)); });
      this.timer = setInterval(() => document.hidden || document.querySelector("dialog") || this.load(), EVERY_MS);
    },
    async load() {
      const { parts } = this;
      try {
        const told = await find(parts);
        if (this.parts !== parts) return null;
        this.told = told;
        this.gone.hidden = true;
        show(this.is, ...draw.call(this, told, parts));
        return told;
      } catch (error) {
        if (this.parts !== parts) return null;
        this.gone.hidden = false;
        this.gone.textContent = error.status === 404 ? "There is no such thing, or it is gone. What is shown is how it was last." : error.message;
        return null;
      }
    },
    tell() {},
    close() { clearInterval(this.timer); this.parts = null; },
  };
}

/** The proxy and what is above it, as configured. */
async function configured(channel, proxy, side) {
  const is = (one) => one.id === proxy;
  const { configured: whole } = await get(`channels/${channel}`);
  // Of very many proxies it is not on the first page.
  const found = whole.proxies.find(is) ?? (await get(`channels/${channel}`, { behind: Math.max(0, proxy - 1) })).configured.proxies.find(is);
  const admin = whole.admins.find((one) => one.id === found?.admin && one.side === side);
  return { whole, found, admin };
}

const filterText = (filter) => (filter.constraints ?? []).map((constraint) => constraint.text ?? constraint.expression ?? JSON.stringify(constraint)).join("; ");

/** Subscription or offer, filters, and quality of service of a proxy. */
async function proxySections(channel, proxy, side, called) {
  const { whole, found, admin } = await configured(channel, proxy, side === "consumers" ? "Consumers" : "Suppliers");
  if (!found) return [];
  const names = [["this proxy", found.settings], [`admin ${found.admin}`, admin?.settings], ["the channel", whole.settings]];
  const filters = [...(found.attached ?? []), ...(admin?.attached ?? [])].map((attached) => {
    const own = whole.filters.find((filter) => filter.id === attached.filter);
    return el("li", {}, own ? filterText(own) : attached.reference ?? `filter ${attached.filter}`);
  });
  return [
    section("How it is connected", facts(
      ["Admin", `${found.admin}${admin?.name ? `  ${admin.name}` : ""}`], ["Events", `${KINDS[found.events] ?? found.events}, ${found.pull ? "pull" : "push"}`],
      ["Client", found.client ? (found.client.suspended ? "suspended" : "connected") : "not connected"],
      [side === "consumers" ? "Subscribes to" : "Offers", found.types ? types(found.types) : admin?.types ? types(admin.types) : "all types"],
      ["Filters", filters.length ? el("ul", { class: "plain" }, ...filters) : "none"],
    )),
    section("Quality of service", qosTable(names, side, { channel, proxy }, called, undefined)),
  ];
}

/** What was dropped lately of these. */
export function episodes(all, empty) {
  return table({
    rows: all, id: (drop) => `${drop.channel}/${drop.proxy}/${drop.domain}/${drop.type}/${drop.reason}/${drop.first_ms}`, empty,
    columns: [
      { title: "When", line: true, cell: (drop) => (drop.last_ms - drop.first_ms < 2_500 ? moment(drop.last_ms) : `${moment(drop.first_ms)} to ${moment(drop.last_ms).slice(11)}`) },
      { title: "Events", number: true, cell: (drop) => count(drop.events) }, { title: "Reason", cell: (drop) => drop.reason.replaceAll("_", " ") },
      { title: "Event type", line: true, cell: (drop) => typeLink(typeText(drop.domain, drop.type)) }, { title: "Consumer", wide: true, cell: consumerLink },
    ],
  });
}

async function lately(title, is) {
  const { lately: all } = await get("drops");
  return section(title, episodes(all.filter(is), "Nothing lately."));
}

export const consumer = thing({
  title: "Consumer",
  find: ([channel, proxy]) => get(`consumers/${number(channel)}/${number(proxy)}`),
  draw(told, [channel, proxy]) {
    document.title = `${told.name ?? `proxy ${proxy}`} – Campanile`;
    const again = () => this.load();
    return [
      el("h2", { class: "name" }, told.name ?? `proxy ${proxy} of channel ${channel}`), el("p", {}, badge(told.state), " ", reason(told)), actions(told, again),
      section("Now", facts(
        ["Channel", channelLink(told.channel)],
        ["Waiting", `${count(told.backlog_events)} events, ${bytes(told.backlog_bytes)}${told.overflow_events ? `; ${count(told.overflow_events)} on disk` : ""}`],
        ["Oldest", told.oldest_ms === null ? "–" : `${age(told.oldest_ms)} ago`], ["Unanswered", count(told.unanswered)], ["Waiting for their time", count(told.delayed)],
        ["Delivered", `${count(told.delivered)} events, ${bytes(told.delivered_bytes)}`], ["Dropped", [count(told.dropped), reasons(told.dropped_by_reason)].filter(Boolean).join(": ")],
        ["Failures in a row", count(told.failures)], ["Latency", latency(told.latency) || "–"],
      )),
    ];
  },
  async rest([channel, proxy]) {
    const [of, at] = [number(channel), number(proxy)];
    const plots = hourOfConsumer(of, at);
    const is = (drop) => drop.channel === of && drop.proxy === at;
    const others = await Promise.all([proxySections(of, at, "consumers", `proxy ${at} of channel ${of}`), lately("Dropped lately", is)]).catch((error) => [[el("p", { class: "none" }, error.message)]]);
    return [plots, ...others.flat()];
  },
  press(key) { if (this.told) press(key, this.told, () => this.load()); },
});

export const supplier = thing({
  title: "Supplier",
  find: ([channel, proxy]) => get(`suppliers/${number(channel)}/${number(proxy)}`),
  draw(told) {
    document.title = `${told.name} – Campanile`;
    const set = () => setQos({ channel: told.channel, proxy: told.proxy }, told.name);
    return [
      el("h2", { class: "name" }, told.name),
      canChange() ? el("div", { class: "acts" }, el("button", { type: "button", onclick: set }, "QoS"),
        el("button", { type: "button", class: "hurts", onclick: async () => { if (await disconnectSupplier(told)) this.load(); } }, "Disconnect")) : null,
      section("Now", facts(
        ["Channel", channelLink(told.channel)], ["Events", count(told.events)], ["Heard of", heard(told.idle_ms)], ["From", told.client],
        ["Kind", told.pulled ? "is asked for its events" : "pushes"], ["Connection", told.connection_open ? "open" : "closed"],
        ["Can be asked whether it lives", told.has_reference ? "yes" : "no"],
      )),
    ];
  },
  async rest([channel, proxy]) {
    const [of, at] = [number(channel), number(proxy)];
    const plots = hourOfSupplier(of, at);
    return [plots, ...await proxySections(of, at, "suppliers", `proxy ${at} of channel ${of}`).catch((error) => [el("p", { class: "none" }, error.message)])];
  },
});

const LIMITS = {
  memory_budget_bytes: "MemoryBudget", overflow_budget_bytes: "OverflowBudget", history_events: "HistoryEvents", history_age_ns: "HistoryAge", history_bytes: "HistoryBytes",
  max_consumers: "MaxConsumers", max_suppliers: "MaxSuppliers", max_queue_length: "MaxQueueLength", reject_new_events: "RejectNewEvents", dead_letters: "DeadLetterChannel",
  constraint_bytes_max: "MaxConstraintLength", constraint_nodes_max: "MaxConstraintNodes", constraints_per_filter_max: "MaxConstraintsPerFilter",
  filters_per_object_max: "MaxFiltersPerObject", filters_max: "filters", filter_steps_max: "FilterSteps",
};

export const channel = thing({
  title: "Channel",
  find: ([id]) => get(`channels/${number(id)}`),
  draw({ configured: whole, standing }, [id]) {
    document.title = `${whole.name ?? `channel ${id}`} – Campanile`;
    return [
      el("h2", { class: "name" }, whole.name ? `Channel ${id}: ${whole.name}` : `Channel ${id}`),
      el("div", { class: "acts" }, link("Its consumers", address("consumers", [], { channel: id })), link("Its suppliers", address("suppliers", [], { channel: id })),
        link("Watch its events", address("events", [id])), link("Its history", address("history", [id])),
        canChange() ? el("button", { type: "button", onclick: () => setQos({ channel: number(id) }, `channel ${id}`) }, "Set QoS") : null,
        canChange() ? el("button", { type: "button", "data-act": "publish", onclick: () => publish(number(id), `channel ${id}`) }, "Publish") : null),
      standing ? section("Now", facts(
        ["Events in", `${count(standing.events_in)}, ${bytes(standing.event_bytes_in)}`], ["Delivered", `${count(standing.delivered)}, ${bytes(standing.delivered_bytes)}`],
        ["Refused", count(standing.events_refused)], ["Dropped", [count(standing.dropped), reasons(standing.dropped_by_reason)].filter(Boolean).join(": ")],
        ["Waiting", `${count(standing.backlog_events)}, ${bytes(standing.backlog_bytes)}, oldest ${age(standing.oldest_ms) || "–"}`],
        ["Consumers", `${count(standing.consumers)}, ${count(standing.consumers_behind)} behind`], ["Blocked suppliers", count(standing.held_suppliers)],
        ["Memory", bytes(standing.memory_bytes)], ["Latency", latency(standing.latency) || "–"], ["Profile", whole.profile],
      )) : null,
    ];
  },
  async rest([id], told) {
    const of = number(id);
    const plots = hourOfChannel(of);
    const whole = (await told)?.configured;
    if (!whole) return [];
    const limits = Object.entries(whole.limits ?? {}).map(([key, value]) => [LIMITS[key] ?? key, typeof value === "number" ? count(value) : String(value)]);
    const filters = whole.filters.slice(0, 50).map((filter) => el("li", {}, `filter ${filter.id}: ${filterText(filter)}`));
    return [
      plots, section("Admins and proxies", tree(of, whole.admins)), await lately("Dropped lately", (drop) => drop.channel === of),
      section("Quality of service", qosTable([["the channel", whole.settings]], null, { channel: of }, `channel ${of}`)),
      section("Limits", facts(...limits)), filters.length ? section("Filters", el("ul", { class: "plain" }, ...filters)) : null,
    ];
  },
});

export const type = thing({
  title: "Event type",
  async find([name]) {
    const [told] = (await get("types", { type: name })).entries;
    if (!told) throw Object.assign(new Error("no such type"), { status: 404 });
    return told;
  },
  draw(told, [name]) {
    document.title = `${name} – Campanile`;
    // What has no sign that the condition would read otherwise.
    const plain = /^[\w .:-]*$/.test(told.domain + told.name);
    const constraint = plain ? `$type_name == '${told.name}'${told.domain ? ` and $domain_name == '${told.domain}'` : ""}` : "";
    return [
      el("h2", { class: "name" }, name),
      el("div", { class: "acts" }, plain ? link("Watch its events", address("events", [told.declared[0]?.channel ?? 0], { constraint })) : null),
      section("Now", facts(["Events", count(told.events)], ["Domain", told.domain || "none"], ["Name", told.name])),
    ];
  },
  async rest([name], first) {
    const plots = hourOfType(name);
    const idl = (await first)?.declared.map((of) => section(`Declared for ${of.protocol}, channel ${of.channel}`, el("pre", {}, of.idl))) ?? [];
    const unknown = idl.length ? null : section("Definition", el("p", { class: "quiet" }, "The configuration declares none (tempo.types, dds.joins.types). What its events carry is seen where they are watched, and by campanile types."));
    return [plots, ...idl, unknown, await lately("Dropped lately", (drop) => typeText(drop.domain, drop.type) === name)];
  },
});
