// Which view is shown, and the stream that all of them live on.

import { el, show, toast } from "/dom.js";
import { askToken, tellToken } from "/dialogs.js";
import { get, setRuled, setToken, stream, token } from "/service.js";
import * as overview from "/overview.js";
import { view as consumers } from "/consumers.js";
import { view as channels } from "/channels.js";
import { dropsView, lanesView, note as noteLanes } from "/lanes.js";
import { view as events } from "/events.js";

const views = { overview: overview.view, consumers, channels, lanes: lanesView, drops: dropsView, events };
const main = document.getElementById("main");
const link = document.getElementById("link");
let shown = null;

function route() {
  const [name, chosen] = location.hash.slice(1).split("/");
  const view = views[name] ?? views.overview;
  shown?.close();
  shown = view;
  document.title = `${view.title} – Campanile`;
  for (const entry of document.querySelectorAll("nav a")) {
    if (entry.hash === `#${views[name] ? name : "overview"}`) entry.setAttribute("aria-current", "page"); else entry.removeAttribute("aria-current");
  }
  view.open(main, chosen);
}

function tellLink(kind, text) {
  link.className = `link ${kind}`;
  link.textContent = text;
}

async function live() {
  for (let pause = 500; ; pause = Math.min(10_000, pause * 2)) {
    try {
      await stream("live", {}, undefined, (kind, now) => {
        if (kind !== "standing") { tellLink("lost", now.error); return; }
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
  try {
    const service = await get("service");
    setRuled(service.has_rules);
    document.getElementById("where").textContent = `${service.address}  version ${service.version}`;
    if (!service.can_change) {
      const button = document.getElementById("token");
      button.disabled = true;
      button.textContent = "read only";
      button.title = "http.token_file is not configured";
    }
  } catch (error) { toast(error.message, true); }
}

document.getElementById("token").addEventListener("click", () => {
  if (token()) { setToken(null); tellToken(); } else askToken("To change something");
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  const entry = document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`);
  if (entry) { location.hash = entry.hash; return; }
  if (event.key === "ArrowDown" && !main.contains(document.activeElement)) main.querySelector("tbody tr, [role=treeitem]")?.focus();
});
addEventListener("hashchange", route);
tellToken();
route();
introduce();
overview.begin().catch((error) => toast(error.message, true));
live();
