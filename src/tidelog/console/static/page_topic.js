// One topic: its partitions with every replica live, its messages, its options.
import { get, post } from "/api.js";
import { bytes, count, fill, h, keyed, plural, setText, short } from "/dom.js";
import { badge, button, cell, field, formDialog, heading, legend, pager, replicaBars, table, tabs, toast, whyButton } from "/widgets.js";
import { messages } from "/messages.js";
import { optionsCard } from "/options.js";

const SIZE = 25;

export async function topic({ session, segments, params, watch, remember }) {
  const [name] = segments;
  const first = await get("topic", { topic: name });
  const state = { tab: params.get("tab") || "partitions", page: 0, size: SIZE, trouble: false };
  const facts = factsOf(first.topic), content = h("div");
  const partitions = partitionsTab(name, state, () => watch(asked()));
  let ended = null;
  const asked = () => (state.tab === "partitions" ? { watch: "topic", topic: name, page: state.page, size: state.size, trouble: state.trouble } : { watch: "topic", topic: name, page: 0, size: 1 });
  async function showTab(tab) {
    if (ended) ended();
    ended = null;
    state.tab = tab;
    if (tab === "partitions") fill(content, partitions.element);
    else if (tab === "messages") {
      const shown = messages(name, first, session, params);
      ended = shown.stop;
      fill(content, shown.element);
    } else fill(content, (await optionsCard("topic", name, session)).element);
  }
  await showTab(state.tab);
  const root = h("div", h("p.crumbs", {}, h("a", { href: "#/topics" }, "Topics")), heading(name, session.allow_changes ? changes(name, first) : null), facts.element,
    tabs("Parts of the topic", [["partitions", "Partitions"], ["messages", "Messages"], ["options", "Options"]], state.tab, (tab) => { remember({ tab: tab === "partitions" ? "" : tab }); showTab(tab).then(() => watch(asked())); }), content);
  return {
    title: name, root, watch: asked(),
    update(data) {
      facts.update(data.topic);
      if (state.tab === "partitions") partitions.update(data);
    },
    refused: (refusal) => toast(refusal.sentence, "bad"),
    stop: () => ended && ended(),
  };
}

function factsOf(row) {
  const values = {};
  const side = h("span");
  const box = (key, label, extra = null) => h("div.stat", h("div.label", h("span", label), extra), (values[key] = h("div.value", "–")));
  const state = box("state", "State", side);
  const element = h("div.stats", box("partitions", "Partitions"), box("replication", "Replicas of each"), box("records", "Records"), box("bytes", "Size of one copy"), box("rate", "Records/s"), state);
  const update = (found) => {
    setText(values.partitions, count(found.partitions));
    setText(values.replication, count(found.replication));
    setText(values.records, short(found.records));
    setText(values.bytes, bytes(found.bytes));
    setText(values.rate, short(found.rate));
    setText(values.state, found.trouble ? `${count(found.trouble)} in trouble` : "healthy");
    state.className = found.trouble ? "stat bad" : "stat";
    if (side.dataset.on !== String(Boolean(found.trouble))) {
      side.dataset.on = String(Boolean(found.trouble));
      fill(side, found.trouble ? whyButton("topic", found.name) : null);
    }
  };
  update(row);
  return { element, update };
}

function partitionsTab(name, state, again) {
  const shown = table(`Partitions of ${name}`, [{ title: "Partition" }, { title: "Leader", kind: "number" }, { title: "Epoch", kind: "number" }, { title: "In sync" }, { title: "Replicas: log end offset and lag" }]);
  shown.element.querySelector("table").classList.add("stack", "partitions");
  const pages = pager(state, (page) => { state.page = page; again(); });
  const only = h("input", { type: "checkbox", onchange: (event) => { Object.assign(state, { trouble: event.target.checked, page: 0 }); again(); } });
  const element = h("div", h("div.toolbar", legend(), h("span.right", {}, h("label.check", only, "Only with trouble")), pages.element), shown.element);
  return {
    element,
    update(data) {
      pages.update(data.total);
      keyed(shown.body, data.rows, (row) => row.index, (row) => newPartition(name, row), updatePartition);
    },
  };
}

function newPartition(name, row) {
  const bars = replicaBars();
  const element = h("tr", cell([`${row.index}`, h("span")], "name"), cell("", "number", "Leader"), cell("", "number", "Epoch"), cell("", "", "In sync"), cell(bars.element, "full"));
  element.bars = bars;
  element.why = whyButton("partition", `${name}-${row.index}`);
  return element;
}

function updatePartition(element, row) {
  const [head, leader, epoch, isr] = element.children;
  const missing = row.replicas.filter((replica) => !row.isr.includes(replica.broker));
  const isBad = row.leader < 0 || missing.length > 0;
  element.className = isBad ? "partition-trouble" : "";
  if (element.dataset.bad !== String(isBad)) {
    element.dataset.bad = String(isBad);
    fill(head.lastElementChild, isBad ? [" ", element.why] : null);
  }
  setText(leader, row.leader < 0 ? "none" : row.leader);
  setText(epoch, row.epoch);
  const key = `${row.isr.join(",")}|${missing.length}|${row.leader}|${row.eligible.join(",")}|${row.last_known.join(",")}`;
  if (isr.dataset.key !== key) {
    isr.dataset.key = key;
    fill(isr, h("span.before-after", row.isr.map((broker) => h("span.chip", broker)), missing.map((replica) => outOfSync(replica.broker, row)), row.leader < 0 ? badge("no leader", "bad") : null));
  }
  element.bars.update(row);
}

function outOfSync(broker, row) {
  if (row.eligible.includes(broker)) return h("span.chip.eligible", { title: `broker ${broker} is out of sync; it has everything committed and may lead (ELR)` }, `${broker} ELR`);
  if (row.last_known.includes(broker)) return h("span.chip.drop", { title: `broker ${broker} is out of sync; it led last` }, `${broker} led last`);
  return h("span.chip.drop", { title: `broker ${broker} is out of sync` }, broker);
}

function changes(name, first) {
  const grow = () => {
    const wanted = h("input", { type: "number", min: String(first.topic.partitions + 1), value: String(first.topic.partitions + 1) });
    formDialog("Add partitions", [h("p", `${name} has ${plural(first.topic.partitions, "partition")}. Records with keys may go to other partitions afterwards, and partitions cannot be removed.`), field("Partitions in all", wanted)], {
      typed: name, send: async () => { await post("topics/partitions", { topic: name, confirm: name, partitions: Number(wanted.value) }); toast("The partitions are added."); },
    });
  };
  const remove = () => formDialog("Delete topic", [h("p", `All records of ${name} are deleted, on every broker. This cannot be undone.`)], {
    action: "Delete topic", danger: true, typed: name, send: async () => { await post("topics/delete", { topic: name, confirm: name }); toast(`Topic ${name} is deleted.`); location.hash = "#/topics"; },
  });
  return [button("Add partitions", { image: "plus", onclick: grow }), button("Delete", { kind: "quiet-danger", image: "trash", onclick: remove })];
}
