// Which view is shown, and the stream that all of them live on.

import { go, read } from "/address.js";
import { view as channels } from "/channels.js";
import { view as consumers } from "/consumers.js";
import { askToken, tellToken } from "/dialogs.js";
import { toast } from "/dom.js";
import { view as events } from "/events.js";
import { view as graph } from "/graph.js";
import { view as past } from "/history.js";
import { dropsView, logView } from "/journal.js";
import { view as links } from "/links.js";
import { lanesView, note as noteLanes } from "/lanes.js";
import * as overview from "/overview.js";
import { view as protocols } from "/protocols.js";
import { view as search } from "/search.js";
import { canChange, get, setCanChange, setRuled, setToken, stream, token } from "/service.js";
import { suppliersView, typesView } from "/suppliers.js";
import { channel, consumer, supplier, type } from "/things.js";

const views = {
  overview: overview.view, consumers, suppliers: suppliersView, channels, types: typesView, events, drops: dropsView, lanes: lanesView, log: logView, links, graph, protocols,
  history: past, search, channel, consumer, supplier, type,
};
/** Under which entry of the navigation one of them stands that has none. */
const within = { channel: "channels", consumer: "consumers", supplier: "suppliers", type: "types", history: "events", search: "" };
const main = document.getElementById("main");
const link = document.getElementById("link");
let shown = null;

function route() {
  const { view: name, parts, query } = read();
  const known = Object.hasOwn(views, name) ? name : "overview";
  shown?.close();
  shown = views[known];
  document.title = `${shown.title} – Campanile`;
  for (const entry of document.querySelectorAll("nav a")) {
    const isCurrent = entry.hash === `#${within[known] ?? known}`;
    if (isCurrent) entry.setAttribute("aria-current", "page"); else entry.removeAttribute("aria-current");
    if (isCurrent) entry.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  shown.open(main, parts, query);
}

function tellLink(kind, text) {
  link.className = `link ${kind}`;
  link.textContent = text;
}

async function live() {
  for (let [pause, isFirst] = [500, true]; ; [pause, isFirst] = [Math.min(10_000, pause * 2), false]) {
    let isNew = !isFirst;
    try {
      await stream("live", {}, undefined, (kind, now) => {
        if (kind !== "standing") { tellLink("lost", now.error); return; }
        // It may be another process than before, with a past and rights of its own.
        if (isNew) { isNew = false; introduce(); }
        pause = 500;
        tellLink("live", "live");
        overview.note(now);
        noteLanes(now);
        if (!document.hidden && !document.querySelector("dialog")) shown?.tell(now);
      });
      tellLink("lost", "the service has ended this; trying again");
    } catch (error) { tellLink("lost", `not reached (${error.message}); trying again`); }
    await new Promise((done) => setTimeout(done, pause));
  }
}

async function introduce() {
  overview.begin().catch((error) => toast(error.message, true));
  try {
    const service = await get("service");
    setRuled(service.has_rules);
    document.getElementById("where").textContent = `${service.address}  version ${service.version}`;
    document.getElementById("read-only").hidden = service.can_change;
    document.getElementById("token").hidden = !service.can_change && !service.needs_token;
    const could = canChange();
    setCanChange(service.can_change);
    // What was drawn without buttons gets them.
    if (could !== service.can_change) route();
  } catch (error) { toast(error.message, true); }
}

document.getElementById("token").addEventListener("click", () => {
  if (token()) { setToken(null); tellToken(); } else askToken("To change something");
});
document.getElementById("searching").addEventListener("submit", (event) => {
  event.preventDefault();
  go("search", [], { find: document.getElementById("search").value.trim() });
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && document.activeElement?.id === "search") { document.activeElement.blur(); return; }
  if (event.target.closest("input, select, textarea, dialog")) return;
  if (event.key === "/") { document.getElementById("search").focus(); event.preventDefault(); return; }
  const entry = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
  if (entry) { location.hash = entry.hash; return; }
  // Back from what was opened.
  if (event.key === "Escape" && ["channel", "consumer", "supplier", "type", "history", "search"].includes(read().view)) { history.back(); return; }
  if (event.key === "ArrowDown" && !main.contains(document.activeElement)) main.querySelector("tbody tr, [role=treeitem]")?.focus();
  else if (!event.target.closest("tr, [role=tree]")) shown?.press?.(event.key);
});
addEventListener("hashchange", route);
tellToken();
route();
introduce();
live();
