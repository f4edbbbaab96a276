// Everything in whose name a text is.

import { channelLink, consumerLink, supplierLink, typeLink } from "/address.js";
import { badge, count, el, show } from "/dom.js";
import { get } from "/service.js";

const KINDS = [
  ["channels", "Channels", (found) => [channelLink(found.id, found.name)]],
  ["consumers", "Consumers", (found) => [consumerLink(found), " ", badge(found.state)]],
  ["suppliers", "Suppliers", (found) => [supplierLink(found)]],
  ["types", "Event types", (found) => [typeLink(found.type), el("span", { class: "quiet" }, `  ${count(found.events)} events`)]],
];

export const view = {
  title: "Search",
  async open(main, parts, { find = "" }) {
    document.getElementById("search").value = find;
    const found = el("div", { class: "found" }, el("p", { class: "none" }, "Looking…"));
    show(main, el("h2", {}, `“${find}”`), found);
    this.asked = find;
    if (!find.trim()) { show(found, el("p", { class: "none" }, "Write a part of a name, a number, or CHANNEL/PROXY.")); return; }
    try {
      const told = await get("search", { find });
      if (this.asked !== find) return;
      const some = KINDS.filter(([kind]) => told[kind].total);
      show(found, ...some.map(([kind, title, shown]) => {
        const { total, entries } = told[kind];
        const more = total > entries.length ? el("p", { class: "quiet" }, `${count(total - entries.length)} more`) : null;
        return el("section", { class: "panel" }, el("h2", {}, `${title}: ${count(total)}`), el("ul", { class: "plain" }, ...entries.map((entry) => el("li", {}, ...shown(entry)))), more);
      }), some.length ? null : el("p", { class: "none" }, "Nothing is called so."));
      if (told.consumers_without_name) found.append(el("p", { class: "quiet" }, `${count(told.consumers_without_name)} consumers were not looked at.`));
    } catch (error) { show(found, el("p", { class: "none" }, error.message)); }
  },
  tell() {},
  close() { this.asked = undefined; },
};
