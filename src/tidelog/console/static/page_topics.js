// The list of topics, filtered, sorted and paged by the server.
import { post } from "/api.js";
import { bytes, count, h, keyed, link, setText, short } from "/dom.js";
import { badge, button, cell, empty, field, filterBox, formDialog, heading, pager, table, toast, whyButton } from "/widgets.js";

const SIZE = 50;
const COLUMNS = [
  { title: "Topic", sort: "name" }, { title: "Partitions", sort: "partitions", kind: "number" }, { title: "Replicas", sort: "replication", kind: "number" },
  { title: "Records", sort: "records", kind: "number" }, { title: "Size", sort: "bytes", kind: "number" }, { title: "Records/s", sort: "rate", kind: "number" }, { title: "State", sort: "trouble" },
];

export async function topics({ session, params, watch, remember }) {
  const state = { find: params.get("find") || "", sort: params.get("sort") || "name", descending: params.get("descending") === "true", page: Number(params.get("page")) || 0, size: SIZE, internal: params.get("internal") === "true" };
  const box = h("div"), note = h("div"), hidden = h("span.badge");
  const pages = pager(state, (page) => { state.page = page; again(); });
  let shown = null;
  const makeTable = () => {
    shown = table("Topics", COLUMNS, { sort: state.sort, descending: state.descending, onsort: (sort, descending) => { Object.assign(state, { sort, descending, page: 0 }); makeTable(); again(); } });
    shown.element.querySelector("table").classList.add("stack");
    box.replaceChildren(shown.element);
  };
  const asked = () => ({ watch: "topics", find: state.find, sort: state.sort, descending: state.descending, page: state.page, size: state.size, internal: state.internal });
  const again = () => {
    remember({ find: state.find, sort: state.sort === "name" ? "" : state.sort, descending: state.descending, page: state.page || "", internal: state.internal });
    watch(asked());
  };
  makeTable();
  const root = h("div", heading("Topics", session.allow_changes ? button("New topic", { kind: "primary", image: "plus", onclick: create }) : null),
    h("div.toolbar", {}, filterBox("Filter topics", state.find, (find) => { Object.assign(state, { find, page: 0 }); again(); }),
      h("label.check", {}, h("input", { type: "checkbox", checked: state.internal, onchange: (event) => { Object.assign(state, { internal: event.target.checked, page: 0 }); again(); } }), "Internal topics"), hidden, h("span.right", pages.element)),
    note, box);
  return {
    title: "Topics", root, watch: asked(),
    update(data) {
      pages.update(data.total);
      setText(hidden, data.hidden ? `${count(data.hidden)} internal hidden` : "");
      hidden.hidden = !data.hidden;
      note.replaceChildren(data.total ? "" : empty(state.find ? "No topic has this in its name." : "There are no topics."));
      box.hidden = !data.total;
      keyed(shown.body, data.rows, (row) => row.name, newRow, updateRow);
    },
  };
}

function newRow(row) {
  return h("tr", cell([h("a", { href: link("topic", row.name) }, row.name), row.internal ? [" ", badge("internal")] : null], "name"),
    cell("", "number", "Partitions"), cell("", "number", "Replicas"), cell("", "number", "Records"), cell("", "number", "Size"), cell("", "number", "Records/s"), cell("", "", "State"));
}

function updateRow(element, row) {
  const cells = element.children;
  setText(cells[1], count(row.partitions));
  setText(cells[2], count(row.replication));
  setText(cells[3], count(row.records));
  setText(cells[4], bytes(row.bytes));
  setText(cells[5], row.rate ? short(row.rate) : "0");
  const key = String(row.trouble);
  if (element.dataset.trouble === key) return;
  element.dataset.trouble = key;
  cells[6].replaceChildren(...(row.trouble ? [badge(`${count(row.trouble)} of ${count(row.partitions)} in trouble`, "bad"), " ", whyButton("topic", row.name)] : [badge("healthy", "good")]));
}

function create() {
  const name = h("input", { type: "text", autocomplete: "off", spellcheck: "false" }), partitions = h("input", { type: "number", min: "1", placeholder: "the cluster's default" }), replication = h("input", { type: "number", min: "1", placeholder: "the cluster's default" });
  const options = h("textarea", { placeholder: "retention.ms=604800000\ncleanup.policy=compact", spellcheck: "false" });
  formDialog("New topic", h("div.form", h("div.whole", field("Name", name)), field("Partitions", partitions), field("Replicas of each", replication), h("div.whole", field("Options", options, "One NAME=VALUE a line; may stay empty."))), {
    action: "Create", send: async () => {
      const lines = options.value.split("\n").map((line) => line.trim()).filter(Boolean);
      const pairs = lines.map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()]);
      if (lines.some((line) => !line.includes("="))) throw new Error("Options: expected NAME=VALUE in each line.");
      await post("topics/create", { topic: name.value.trim(), partitions: Number(partitions.value) || -1, replication: Number(replication.value) || -1, options: Object.fromEntries(pairs) });
      toast(`Topic ${name.value.trim()} is created.`);
      location.hash = link("topic", name.value.trim());
    },
  });
}
