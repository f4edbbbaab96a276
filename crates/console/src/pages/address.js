// The address of what is shown, #view/part/part?name=value: filters, sorting and what is open are in it, so that it can be kept and sent to others.

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

export function read() {
  const [path, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const [view, ...parts] = path.split("/").map(decoded);
  return { view, parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

export function address(view, parts = [], query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== 0);
  const path = [view, ...parts].map(encodeURIComponent).join("/");
  return `#${path}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
}

/** Shows something else. */
export function go(view, parts, query) { location.hash = address(view, parts, query); }

/** Notes a change of what is shown: with `entry`, the browser's way back leads to what was shown before. */
export function set(query, entry = false) {
  const { view, parts } = read();
  const to = address(view, parts, query);
  if (to === location.hash) return;
  if (entry) history.pushState(null, "", to); else history.replaceState(null, "", to);
}

const anchor = (text, to) => Object.assign(document.createElement("a"), { href: to, textContent: text });

export const consumerLink = (of) => anchor(of.name ?? `proxy ${of.proxy} of channel ${of.channel}`, address("consumer", [of.channel, of.proxy]));
export const supplierLink = (of) => anchor(of.name || `proxy ${of.proxy} of channel ${of.channel}`, address("supplier", [of.channel, of.proxy]));
export const channelLink = (id, name) => anchor(name ? `${id}  ${name}` : String(id), address("channel", [id]));
export const typeLink = (type) => anchor(type || "(no name)", address("type", [type]));
/** An event type in one word, as the service writes it. */
export const typeText = (domain, name) => (domain ? `${domain}/${name}` : name);
