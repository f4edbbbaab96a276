// Questions before what hurts, the token, and what can be done to a consumer.

import { count, el, toast } from "/dom.js";
import { PROPERTIES } from "/properties.js";
import { choices, range } from "/qos.js";
import { canChange, onTokenNeeded, post, setToken, token } from "/service.js";

/** Shows a dialog, and promises what it ends with. The way out that changes nothing has the focus. */
function ask(title, content, ends) {
  return new Promise((done) => {
    const dialog = el("dialog", { "aria-label": title });
    const form = el("form", { method: "dialog" }, el("h2", {}, title), ...content,
      el("div", { class: "ends" }, ...ends.map(({ text, value, hurts, first }) =>
        el("button", { value, class: hurts ? "hurts" : "", autofocus: first, formnovalidate: !value }, text))));
    dialog.append(form);
    dialog.addEventListener("close", () => { const how = dialog.returnValue; dialog.remove(); done(how); });
    document.body.append(dialog);
    dialog.showModal();
  });
}

async function confirm(title, text, act) {
  return await ask(title, [el("p", {}, text)], [{ text: "Cancel", value: "", first: true }, { text: act, value: "yes", hurts: true }]) === "yes";
}

let asking = null;

/** Asks for the token, once however many want it. */
export function askToken(why) {
  asking ??= (async () => {
    const input = el("input", { type: "password", autocomplete: "off", name: "token", autofocus: true });
    const how = await ask("Token", [
      el("p", {}, `${why}, show a token: the first line of the file that http.token_file names, or another one that the service knows. It is stored until this tab is closed.`),
      el("label", {}, "Token", input),
    ], [{ text: "Use it", value: "yes" }, { text: "Cancel", value: "" }]);
    const given = input.value.trim();
    if (how === "yes" && given) setToken(given);
    asking = null;
    tellToken();
    return how === "yes" && given !== "";
  })();
  return asking;
}

export function tellToken() {
  document.getElementById("token").textContent = token() ? "Forget token" : "Token";
}

onTokenNeeded(askToken);

const which = (consumer) => ({ channel: consumer.channel, proxy: consumer.proxy });
const called = (consumer) => consumer.name ?? `proxy ${consumer.proxy} of channel ${consumer.channel}`;

async function attempt(work, done) {
  try {
    await work();
    toast(done);
    return true;
  } catch (error) {
    toast(error.message, true);
    return false;
  }
}

export async function disconnect(consumer) {
  const loses = consumer.backlog_events ? `It loses the ${count(consumer.backlog_events)} events that wait for it. ` : "";
  const text = `${called(consumer)} is disconnected and its proxy is gone. ${loses}Its program is notified, where it gave a reference, and has to connect anew.`;
  if (!await confirm("Disconnect?", text, "Disconnect")) return false;
  return attempt(() => post("disconnect", which(consumer)), `Disconnected: ${called(consumer)}`);
}

async function suspend(consumer) {
  if (consumer.state === "suspended") return attempt(() => post("resume", which(consumer)), `Goes on: ${called(consumer)}`);
  const text = `${called(consumer)} gets nothing until it goes on; its events wait meanwhile, and fill its outbox.`;
  if (!await confirm("Suspend?", text, "Suspend")) return false;
  return attempt(() => post("suspend", which(consumer)), `Suspended: ${called(consumer)}`);
}

function value(text) {
  if (text === "true" || text === "false") return text === "true";
  return /^-?[0-9]+$/.test(text) ? Number(text) : text;
}

/** Sets a property of a channel ({channel}), an admin ({channel, admin, side}) or a proxy ({channel, proxy}). */
export async function setQos(on, name, first = "") {
  const property = el("input", { name: "property", list: "properties", required: true, autofocus: !first, value: first });
  const text = el("input", { name: "value", required: true, autofocus: Boolean(first) });
  const options = el("datalist", { id: "values" });
  text.setAttribute("list", "values");
  const help = el("p", { class: "help" });
  const tell = () => {
    const known = PROPERTIES.find((option) => option.name === property.value.trim());
    options.replaceChildren(...(choices(known ?? {}) ?? []).map(([value, label]) => el("option", { value, label })));
    const byNumber = choices(known ?? {})?.filter(([value, label]) => value !== label).map(([value, label]) => `${value} is ${label}`).join(", ");
    help.textContent = known ? `${range(known)}. ${byNumber ? `${byNumber}. ` : ""}${known.help}` : "A number, true or false, a choice, or a time with its unit (us, ms, s, min, h, d).";
  };
  property.addEventListener("input", tell);
  tell();
  const how = await ask("Quality of service", [
    el("p", {}, `Of ${name}.`),
    el("datalist", { id: "properties" }, ...PROPERTIES.map((option) => el("option", { value: option.name })),
      ...["MaxQueueLength", "MaxConsumers", "MaxSuppliers", "RejectNewEvents"].map((value) => el("option", { value }))),
    el("label", {}, "Property", property), el("label", {}, "Value", text), options, help,
  ], [{ text: "Set", value: "yes" }, { text: "Cancel", value: "" }]);
  if (how !== "yes" || !property.value) return false;
  const set = { [property.value.trim()]: value(text.value.trim()) };
  if (!await confirm("Set it?", `${name}: ${property.value.trim()} = ${text.value.trim()}, from now on.`, "Set")) return false;
  return attempt(() => post("qos", { ...on, properties: set }), `Set: ${property.value.trim()} of ${name}`);
}

/** What is wrong with the text of an event's fields; nothing if it is an object. */
function mistake(fields) {
  try {
    return /^\{/.test(fields) && JSON.parse(fields) ? "" : "The fields are an object: {\"speed\": 12.5}.";
  } catch (error) {
    return `The fields are no JSON: ${error.message}`;
  }
}

/** Publishes an event in a channel. What was written stays until it is taken; numbers go in all digits. */
export async function publish(channel, name) {
  const type = el("input", { name: "type", required: true, autofocus: true, placeholder: "Weather/Wind" });
  const fields = el("textarea", { name: "fields", rows: "6", spellcheck: "false" });
  fields.value = "{}";
  for (let wrong = null; ; ) {
    const how = await ask("Publish an event", [
      el("p", {}, `In ${name}: its consumers get it as any other.`), el("label", {}, "Type (DOMAIN/NAME, or NAME)", type), el("label", {}, "Fields, as JSON", fields), wrong,
    ], [{ text: "Publish", value: "yes" }, { text: "Cancel", value: "" }]);
    if (how !== "yes") return false;
    try {
      const why = mistake(fields.value.trim());
      if (why) throw new Error(why);
      await post("publish", `{"channel":${channel},"type":${JSON.stringify(type.value.trim())},"fields":${fields.value.trim()}}`);
      toast(`Published: ${type.value.trim()}`);
      return true;
    } catch (error) {
      wrong = el("p", { class: "wrong", role: "alert" }, error.message);
    }
  }
}

/** Pauses a link, or has it go on. */
export async function pauseLink(link, done) {
  const act = link.state === "paused" ? "resume" : "pause";
  const text = `No event crosses the link ${link.name} until it is resumed, in any channel or direction. Events wait meanwhile, in memory and then on disk, up to its bound.`;
  if (act === "pause" && !await confirm("Pause?", text, "Pause")) return;
  if (await attempt(() => post(`links/${encodeURIComponent(link.name)}/${act}`, {}), `${act === "pause" ? "Paused" : "Resumed"}: ${link.name}`)) done?.();
}

/** Adds a link to another service. What was written stays until it is taken. */
export async function addLink(done) {
  const input = (name, placeholder, required = true) => el("input", { name, placeholder, required });
  const [name, to, channels] = [input("name", "lab"), input("to", "lab.obs:2816"), input("channels", "Weather, Site")];
  const tls = el("input", { name: "tls", type: "checkbox" });
  for (let wrong = null; ; ) {
    const how = await ask("Add a link", [
      el("label", {}, "Name", name), el("label", {}, "Host and port of the other service's links.listen", to), el("label", {}, "Channels, with commas between", channels),
      el("label", {}, "Over TLS", tls), wrong,
    ], [{ text: "Add", value: "yes" }, { text: "Cancel", value: "" }]);
    if (how !== "yes") return;
    try {
      const entry = { name: name.value.trim(), to: to.value.trim(), channels: channels.value.split(",").map((channel) => channel.trim()), tls: tls.checked };
      const { stored } = await post("links", entry);
      toast(`Added: ${entry.name}${stored ? "" : ", until the service's process ends: it has no store"}`);
      return done?.();
    } catch (error) {
      wrong = el("p", { class: "wrong", role: "alert" }, error.message);
    }
  }
}

/** Removes a link that was added. */
export async function removeLink(link, done) {
  const text = `The link ${link.name} is removed, in all its channels, with the events that wait for it.`;
  if (!await confirm("Remove?", text, "Remove")) return;
  if (await attempt(() => post(`links/${encodeURIComponent(link.name)}/remove`, { drop_backlog: true }), `Removed: ${link.name}`)) done?.();
}

/** Disconnects a supplier. */
export async function disconnectSupplier(supplier) {
  const text = `${called(supplier)} is disconnected and its proxy is gone. Its program is notified, where it gave a reference, and has to connect anew.`;
  if (!await confirm("Disconnect?", text, "Disconnect")) return false;
  return attempt(() => post("disconnect", which(supplier)), `Disconnected: ${called(supplier)}`);
}

/** What can be done to a consumer; nothing where nothing can. */
export const actions = (consumer, done) => !canChange() ? null : el("div", { class: "acts" },
  el("button", { type: "button", "data-act": "suspend", onclick: async () => { if (await suspend(consumer)) done?.(); } }, consumer.state === "suspended" ? "Resume" : "Suspend"),
  el("button", { type: "button", "data-act": "qos", onclick: async () => { if (await setQos(which(consumer), called(consumer))) done?.(); } }, "QoS"),
  el("button", { type: "button", "data-act": "disconnect", class: "hurts", onclick: async () => { if (await disconnect(consumer)) done?.(); } }, "Disconnect"));

/** What a key does to a consumer. */
export async function press(key, consumer, done) {
  if (!canChange()) return;
  const act = { s: suspend, d: disconnect, q: (consumer) => setQos(which(consumer), called(consumer)) }[key];
  if (act && await act(consumer)) done?.();
}
