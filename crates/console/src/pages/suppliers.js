// All suppliers, and all event types that came.

import { channelLink, go, supplierLink, typeLink } from "/address.js";
import { count, heard } from "/dom.js";
import { Speeds, list } from "/lists.js";

const speeds = new Speeds();
const id = (supplier) => `${supplier.channel}/${supplier.proxy}`;

export const suppliersView = list({
  title: "Suppliers", path: "suppliers",
  sorts: [["", "number"], ["events", "events"], ["idle", "when it was heard of"]],
  filters: [{ name: "channel", text: "of channel" }],
  id, empty: "No such suppliers.",
  onopen: (supplier) => go("supplier", [supplier.channel, supplier.proxy]),
  columns: ({ at }) => [
    { title: "Supplier", wide: true, sort: "", cell: supplierLink },
    { title: "Events", number: true, sort: "events", cell: (supplier) => count(supplier.events) },
    { title: "a second", number: true, cell: (supplier) => speeds.text(id(supplier), supplier.events, at) },
    { title: "Heard of", number: true, sort: "idle", cell: (supplier) => heard(supplier.idle_ms) },
    { title: "Channel", number: true, cell: (supplier) => channelLink(supplier.channel) },
    { title: "From", cell: (supplier) => supplier.client ?? "" },
    { title: "Kind", line: true, cell: (supplier) => [supplier.pulled ? "is asked for events" : "pushes", supplier.connection_open ? "" : "connection closed"].filter(Boolean).join(", ") },
  ],
});

export const typesView = list({
  title: "Types", path: "types", hint: "domain or name",
  sorts: [["", "events"], ["name", "name"]],
  id: (type) => type.type, empty: "No event has come, and no type is declared.",
  onopen: (type) => go("type", [type.type]),
  columns: ({ at }) => [
    { title: "Event type", wide: true, sort: "name", cell: (type) => typeLink(type.type) },
    { title: "Events", number: true, sort: "", cell: (type) => count(type.events) },
    { title: "a second", number: true, cell: (type) => speeds.text(`type ${type.type}`, type.events, at) },
    { title: "Declared for", cell: (type) => type.declared.map((of) => `${of.protocol}, channel ${of.channel}`).join("; ") },
  ],
});
