// Consumer groups: the list with lags, and one group.
import { post } from "/api.js";
import { count, fill, h, keyed, link, plural, setText } from "/dom.js";
import { badge, button, card, cell, chart, empty, failure, field, filterBox, formDialog, heading, pager, select, sparkline, table, toast, whyButton } from "/widgets.js";

const SIZE = 50;
const STATES = { Stable: "good", Empty: "", Dead: "", PreparingRebalance: "warn", CompletingRebalance: "warn", Assigning: "warn", Reconciling: "warn" };

export async function groups({ params, watch, remember }) {
  const state = { find: params.get("find") || "", sort: params.get("sort") || "name", descending: params.get("descending") === "true", page: 0, size: SIZE };
  const box = h("div"), note = h("div");
  const pages = pager(state, (page) => { state.page = page; again(); });
  let shown = null;
  const makeTable = () => {
    shown = table("Consumer groups", [{ title: "Group", sort: "name" }, { title: "State", sort: "state" }, { title: "Type" }, { title: "Topics" }, { title: "Lag", sort: "lag", kind: "number" }, { title: "Lag over time" }],
      { sort: state.sort, descending: state.descending, onsort: (sort, descending) => { Object.assign(state, { sort, descending, page: 0 }); makeTable(); again(); } });
    shown.element.querySelector("table").classList.add("stack");
    fill(box, shown.element);
  };
  const asked = () => ({ watch: "groups", find: state.find, sort: state.sort, descending: state.descending, page: state.page, size: state.size });
  const again = () => {
    remember({ find: state.find, sort: state.sort === "name" ? "" : state.sort, descending: state.descending });
    watch(asked());
  };
  makeTable();
  return {
    title: "Groups", watch: asked(),
    root: h("div", heading("Groups"), h("div.toolbar", {}, filterBox("Filter groups", state.find, (find) => { Object.assign(state, { find, page: 0 }); again(); }), h("span.right", pages.element)), note, box),
    update(data) {
      pages.update(data.total);
      box.hidden = !data.total;
      fill(note, data.total ? null : empty(data.known ? (state.find ? "No group has this in its name." : "There are no groups.") : "Reading groups…"));
      keyed(shown.body, data.rows, (row) => row.name, newGroup, updateGroup);
    },
  };
}

function newGroup(row) {
  const spark = sparkline(row.lags, `Lag of ${row.name} over time`);
  const made = h("tr", cell(h("a", { href: link("group", row.name) }, row.name || "(empty name)"), "name"), cell("", "", "State"), cell(row.type, "", "Type"), cell("", "", "Topics"), cell("", "number", "Lag"), cell(spark.element, "", "Over time"));
  made.spark = spark;
  return made;
}

function updateGroup(element, row) {
  const cells = element.children;
  if (element.dataset.state !== row.state) {
    element.dataset.state = row.state;
    fill(cells[1], badge(row.state || "?", STATES[row.state] ?? ""));
  }
  setText(cells[3], row.topics.join(", ") || "–");
  setText(cells[4], count(row.lag));
  element.spark.update(row.lags);
}

export async function group({ segments, session }) {
  const [name] = segments;
  const facts = h("div.stats"), note = h("div"), members = h("div");
  const lag = chart("Records behind", { unit: (value) => count(value) });
  const shown = table(`Offsets of ${name}`, [{ title: "Partition" }, { title: "Committed", kind: "number" }, { title: "End", kind: "number" }, { title: "Lag", kind: "number" }, { title: "Member" }]);
  shown.element.querySelector("table").classList.add("stack");
  let last = null;
  const actions = [whyButton("group", name), session.allow_changes ? [button("Reset offsets", { image: "refresh", onclick: () => last && resetDialog(name, last) }), button("Delete", { kind: "quiet-danger", image: "trash", onclick: () => remove(name) })]
    : button("Plan a reset", { image: "refresh", onclick: () => last && resetDialog(name, last, true) })];
  const offsets = h("section.card", h("h2", "Offsets"), shown.element);
  return {
    title: name, watch: { watch: "group", group: name },
    root: h("div", h("p.crumbs", {}, h("a", { href: "#/groups" }, "Groups")), heading(name || "(empty name)", actions), note, facts, h("div.grid", card(null, lag.element)), members, offsets),
    update(data) {
      last = data;
      fill(note);
      const total = data.rows.reduce((sum, row) => sum + (row.lag || 0), 0);
      const box = (label, value, extra = null) => h("div.stat", h("div.label", h("span", label)), h("div.value", value), extra ? h("div.more", extra) : null);
      fill(facts, box("State", data.group.state), box("Type", data.group.type, data.group.epoch === null ? null : `epoch ${data.group.epoch}, assignment ${data.group.target_epoch}`), box("Members", count(data.members.length)), box("Lag", count(total)),
        box("Assignor", data.group.assignor || "–"), box("Coordinator", `broker ${data.group.coordinator}`));
      lag.update(data.lags);
      fill(members, membersCard(data.members));
      keyed(shown.body, data.rows, (row) => `${row.topic}-${row.partition}`, (row) => h("tr", cell([h("a", { href: link("topic", row.topic) }, row.topic), `-${row.partition}`], "name"), cell("", "number", "Committed"), cell("", "number", "End"), cell("", "number", "Lag"), cell("", "mono", "Member")),
        (element, row) => {
          const cells = element.children;
          setText(cells[1], count(row.committed));
          setText(cells[2], count(row.end));
          setText(cells[3], count(row.lag));
          setText(cells[4], row.member || "–");
        });
      offsets.hidden = !data.rows.length;
    },
    refused: (refusal) => fill(note, failure(refusal)),
  };
}

function membersCard(members) {
  if (!members.length) return h("section.card", h("h2", "Members"), empty("The group has no members now."));
  return h("section.card", h("h2", "Members"), h("div.table-box", h("table.stack", h("caption.hidden", "Members"), h("thead", h("tr", ["Member", "Client", "Host", "Assignment"].map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", members.map((member) => h("tr", cell([h("span.mono", member.id), member.instance_id ? [" ", badge(`static: ${member.instance_id}`, "info")] : null], "name"), cell(member.client_id, "", "Client"), cell(member.host, "", "Host"),
      cell([h("span.mono", member.assigned || "nothing"), member.target !== null && member.target !== member.assigned ? [" → ", h("span.mono", member.target || "nothing"), " ", badge(`epoch ${member.epoch}`, "warn")] : null], "", "Assignment")))))));
}

const SCENARIOS = [["to_earliest", "To the earliest record"], ["to_latest", "To the end"], ["to_offset", "To an offset"], ["shift_by", "Forwards or back by"], ["to_datetime", "To a time"], ["by_duration", "Back by a duration"], ["to_current", "To where it is"]];
const UNITS = [["60000", "minutes"], ["3600000", "hours"], ["86400000", "days"]];

function resetDialog(name, last, onlyPlan = false) {
  let plan = null;
  const number = h("input", { type: "number", value: "0" }), time = h("input", { type: "datetime-local", step: "1" }), unit = select(UNITS, "3600000", null, { "aria-label": "Unit" });
  const numberField = field("Number", number), timeField = field("Time", time), unitField = field("Unit", unit), box = h("div");
  const scenario = select(SCENARIOS, "to_earliest", () => draw(), { "aria-label": "Scenario" });
  const names = [...new Set(last.rows.map((row) => row.topic))];
  const topic = select([["", "All topics of the group"], ...names.map((each) => [each, each])], "", null, { "aria-label": "Topics" });
  const draw = () => {
    const chosen = scenario.value;
    numberField.hidden = !["to_offset", "shift_by", "by_duration"].includes(chosen);
    unitField.hidden = chosen !== "by_duration";
    timeField.hidden = chosen !== "to_datetime";
  };
  const value = () => ({ to_datetime: new Date(time.value).getTime(), by_duration: Number(number.value) * Number(unit.value) }[scenario.value] ?? Number(number.value));
  const look = button("Show what would change", { onclick: async () => {
    try {
      plan = (await post("groups/plan-reset", { group: name, scenario: scenario.value, value: value(), topics: topic.value ? [topic.value] : null })).rows;
      fill(box, plan.length ? h("div.table-box", h("table", h("caption.hidden", "Dry run"), h("thead", h("tr", ["Partition", "Committed now", "Then", "Change"].map((each, index) => h(`th${index ? ".number" : ""}`, { scope: "col" }, each)))),
        h("tbody", plan.map((row) => h("tr", cell(`${row.topic}-${row.partition}`), cell(count(row.before), "number"), cell(count(row.after), "number"), cell(row.before === null ? "new" : row.after === row.before ? "–" : `${row.after > row.before ? "+" : ""}${count(row.after - row.before)}`, "number")))))) : empty("The group has no committed offsets."));
    } catch (error) {
      plan = null;
      fill(box, failure(error));
    }
  } });
  const content = [h("div.form", field("Reset", scenario), field("Topics", topic), numberField, unitField, timeField), last.group.inactive ? null : h("div.notice.warn", "The group has members: stop them first, offsets can only be reset while it has none."), h("div", look), box];
  draw();
  formDialog(`Reset offsets of ${name}`, content, {
    action: onlyPlan ? "Close" : "Reset", typed: onlyPlan ? null : name, send: async () => {
      if (onlyPlan) return;
      if (!plan) throw new Error("Look at what would change first.");
      await post("groups/reset", { group: name, confirm: name, rows: plan });
      toast(`${plural(plan.length, "offset")} of ${name} are reset.`);
    },
  });
}

function remove(name) {
  formDialog("Delete group", [h("p", "Its committed offsets are deleted. The group must have no members.")], {
    action: "Delete group", danger: true, typed: name, send: async () => { await post("groups/delete", { group: name, confirm: name }); toast(`Group ${name} is deleted.`); location.hash = "#/groups"; },
  });
}
