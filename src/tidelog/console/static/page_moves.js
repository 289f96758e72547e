// Moves of replicas: in progress, and a plan as before and after.
import { get, post } from "/api.js";
import { bytes, count, fill, h, keyed, link, plural, setText } from "/dom.js";
import { badge, button, card, cell, empty, failure, field, formDialog, heading, meter, select, table, toast } from "/widgets.js";

export async function moves({ session }) {
  const running = h("div"), none = h("div"), planned = h("div");
  const shown = table("Moves in progress", [{ title: "Partition" }, { title: "Replicas" }, { title: "Still to copy", kind: "number" }, { title: "Progress" }]);
  shown.element.querySelector("table").classList.add("stack");
  const most = new Map();
  const stopAll = session.allow_changes ? button("Cancel all moves", { kind: "quiet-danger", image: "stop", onclick: () => cancel() }) : null;
  const kind = select([["even", "Balance the brokers"], ["hand", "Choose the replicas"]], "even", (value) => { hand.hidden = value !== "hand"; even.hidden = value === "hand"; }, { "aria-label": "Plan" });
  const topic = h("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "all topics" }), brokers = h("input", { type: "text", placeholder: "all brokers, or 0,1,2" });
  const named = h("input", { type: "text", autocomplete: "off", spellcheck: "false" }), number = h("input", { type: "number", min: "0", placeholder: "all" }), replicas = h("input", { type: "text", placeholder: "0,1,2" });
  const even = h("div.toolbar", field("Topics (regular expression)", topic), field("On brokers", brokers)), hand = h("div.toolbar", field("Topic", named), field("Partition", number), field("Replicas, the leader first", replicas));
  hand.hidden = true;
  async function makePlan() {
    fill(planned, h("p.loading", "Reading sizes and replicas…"));
    try {
      const values = kind.value === "even" ? { topic: topic.value, brokers: brokers.value } : { topic: named.value.trim(), partition: number.value, replicas: replicas.value };
      drawPlan(planned, await get("moves/plan", values), session);
    } catch (error) {
      fill(planned, failure(error));
    }
  }
  const cancel = () => formDialog("Cancel all moves", [h("p", "Partitions return to the replicas that they had. Limits for copying are lifted.")], {
    action: "Cancel the moves", danger: true, typed: "move", send: async () => { await post("moves/cancel", { confirm: "move" }); toast("The moves are cancelled."); },
  });
  fill(running, h("section.card", h("div.card-head", h("h2", "In progress"), stopAll), none, shown.element));
  return {
    title: "Moves", watch: { watch: "moves" },
    root: h("div", heading("Moves"), running, card("Plan", h("div.toolbar", field("Plan", kind), even, hand, button("Make a plan", { kind: "primary", onclick: makePlan })), planned)),
    update(data) {
      fill(none, data.rows.length ? null : h("p.hint", "No replica is moving."));
      shown.element.hidden = !data.rows.length;
      if (stopAll) stopAll.hidden = !data.rows.length;
      keyed(shown.body, data.rows, (row) => `${row.topic}-${row.partition}`, (row) => h("tr", cell(h("a", { href: link("topic", row.topic) }, `${row.topic}-${row.partition}`), "name"), cell(chips(row), "", "Replicas"), cell("", "number", "Still to copy"), cell("", "", "Progress")),
        (element, row) => {
          const key = `${row.topic}-${row.partition}`;
          most.set(key, Math.max(most.get(key) || 0, row.left));
          setText(element.children[2], bytes(row.left));
          const all = most.get(key);
          fill(element.children[3], meter(all - row.left, all || 1, all ? `${Math.round((100 * (all - row.left)) / all)} % since this page was opened` : "caught up"));
        });
    },
    refused: (refusal) => fill(none, failure(refusal)),
  };
}

const chips = (row) => h("span.before-after", row.replicas.map((broker) => h(`span.chip${row.adding.includes(broker) ? ".add" : row.removing.includes(broker) ? ".drop" : ""}`, {}, broker)));
const list = (brokers, others) => h("span.before-after", brokers.map((broker) => h(`span.chip${others.includes(broker) ? "" : others === brokers ? "" : ".add"}`, {}, broker)));

function drawPlan(box, plan, session) {
  if (!plan.rows.length) return fill(box, empty("Nothing would move: the replicas are where they should be."));
  const copied = plan.rows.reduce((sum, row) => sum + row.bytes, 0);
  const change = (before, after, form) => [form(before), " → ", h("b", form(after))];
  const go = () => {
    const limit = h("input", { type: "number", min: "1", placeholder: "no limit" });
    formDialog("Start the moves", [h("p", `${plural(plan.rows.length, "partition")} move, ${bytes(copied)} are copied.`), field("Limit for copying, in bytes/s", limit, "Cancel the moves, or verify them with tidelog reassign-partitions, to lift it.")], {
      action: "Start", typed: "move", send: async () => { await post("moves/start", { confirm: "move", throttle: limit.value, rows: plan.rows }); toast("The moves have started."); fill(box); },
    });
  };
  return fill(box, h("p.budget", h("b", `${plural(plan.rows.length, "partition")} would move, ${bytes(copied)} would be copied.`), plan.more ? badge(`${count(plan.more)} more are left out`, "warn") : null, session.allow_changes ? button("Start these moves", { kind: "primary", image: "moves", onclick: go }) : null),
    h("div.grid", plan.brokers.map((broker) => h("div.stat", h("div.label", h("span", `Broker ${broker.id}`)), h("div", change(broker.before[0], broker.after[0], (value) => plural(value, "replica"))), h("div.more", change(broker.before[1], broker.after[1], (value) => plural(value, "leader"))), h("div.more", change(broker.before[2], broker.after[2], bytes))))),
    h("div.table-box", h("table.stack", h("caption.hidden", "Planned moves"), h("thead", h("tr", ["Partition", "Before", "After", "Copies"].map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", plan.rows.slice(0, 200).map((row) => h("tr", cell(`${row.topic}-${row.partition}`, "name"), cell(list(row.before, row.before), "", "Before"), cell(list(row.after, row.before), "", "After"), cell(row.bytes ? bytes(row.bytes) : "order only", "", "Copies")))))));
}
