// Transactions: those of the coordinators, and those in the logs that nothing will end.
import { get, post } from "/api.js";
import { ago, count, fill, h, link, moment } from "/dom.js";
import { badge, button, cell, empty, failure, filterBox, formDialog, heading, table, toast } from "/widgets.js";

const STATES = { Ongoing: "accent", PrepareCommit: "warn", PrepareAbort: "warn", PrepareEpochFence: "warn", CompleteCommit: "good", CompleteAbort: "" };
const EVERY_MS = 2000;

export async function transactions({ session, params }) {
  let find = params.get("find") || "", timer = 0, isShown = true;
  const note = h("div"), found = h("div");
  const shown = table("Transactions", [{ title: "Transactional ID" }, { title: "State" }, { title: "Open since" }, { title: "Partitions" }, { title: "Producer", kind: "number" }, { title: "Coordinator", kind: "number" }, ...(session.allow_changes ? [{ title: "" }] : [])]);
  shown.element.querySelector("table").classList.add("stack");
  async function load() {
    clearTimeout(timer);
    try {
      const data = await get("transactions", { find });
      fill(note, data.total ? null : empty(find ? "No transactional ID has this in its name." : "No coordinator knows a transaction."));
      shown.element.hidden = !data.total;
      fill(shown.body, data.rows.map((row) => h("tr", cell(h("span.mono", row.id), "name"), cell(badge(row.state, STATES[row.state] ?? ""), "", "State"), cell(row.open && row.since > 0 ? `${ago(row.since)}` : "–", "", "Open since"),
        cell(row.partitions && row.partitions.length ? h("span.mono", row.partitions.slice(0, 6).join(", ") + (row.partitions.length > 6 ? " …" : "")) : "–", "", "Partitions"), cell(String(row.producer_id), "number", "Producer"), cell(String(row.coordinator), "number", "Coordinator"),
        session.allow_changes ? cell(row.open ? button("Abort", { kind: "quiet-danger", label: `Abort ${row.id}`, onclick: () => end(row) }) : null, "number") : null)));
    } catch (error) {
      fill(note, failure(error));
    }
    if (isShown) timer = setTimeout(load, EVERY_MS);
  }
  const end = (row) => formDialog("Abort transaction", [h("p", `The transaction of ${row.id} is aborted, and its producer is fenced, as if a new one had started.`)], {
    action: "Abort", danger: true, typed: row.id, send: async () => { await post("transactions/abort", { id: row.id, confirm: row.id }); toast(`The transaction of ${row.id} is aborted.`); load(); },
  });
  async function search() {
    fill(found, h("p.loading", "Asking the leaders of all partitions…"));
    try {
      const { rows } = await get("transactions/hanging", { minutes: 0 });
      fill(found, rows.length ? hangingTable(rows, session, search) : empty("No log has an open transaction."));
    } catch (error) {
      fill(found, failure(error));
    }
  }
  await load();
  return {
    title: "Transactions", stop: () => { isShown = false; clearTimeout(timer); },
    root: h("div", heading("Transactions"), h("div.toolbar", {}, filterBox("Filter transactional IDs", find, (text) => { find = text; load(); })), note, shown.element,
      h("section.card", h("div.card-head", h("h2", "Open in the logs"), button("Look", { image: "search", label: "Look for open transactions", onclick: search })), h("p.hint", "An open transaction that no coordinator knows hangs: nothing ends it, and consumers that read committed records wait for it."), found)),
  };
}

function hangingTable(rows, session, again) {
  const abort = (row) => formDialog("Abort transaction", [h("p", `An abort marker is written to ${row.topic}-${row.partition} for producer ${row.producer_id}.`)], {
    action: "Abort", danger: true, typed: row.topic, send: async () => { await post("transactions/abort", { topic: row.topic, partition: row.partition, start_offset: row.start_offset, confirm: row.topic }); toast("The transaction is aborted."); again(); },
  });
  return h("div.table-box", h("table.stack", h("caption.hidden", "Open transactions in the logs"), h("thead", h("tr", ["Partition", "From offset", "Last record", "Producer", "Transactional ID", ""].map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", rows.map((row) => h("tr", cell(h("a", { href: link("topic", row.topic) }, `${row.topic}-${row.partition}`), "name"), cell(count(row.start_offset), "", "From offset"), cell(h("span", { title: moment(row.last) }, ago(row.last)), "", "Last record"), cell(`${row.producer_id}, epoch ${row.producer_epoch}`, "", "Producer"),
      cell(row.transactional_id === null ? badge(row.hangs ? "hangs" : "unknown to coordinators", "bad") : h("span.mono", row.transactional_id), "", "Transactional ID"), cell(session.allow_changes && row.transactional_id === null ? button("Abort", { kind: "quiet-danger", onclick: () => abort(row) }) : null, "number"))))));
}
