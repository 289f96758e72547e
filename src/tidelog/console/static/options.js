// Options of a topic, broker or group, with where each value comes from.
import { get, post } from "/api.js";
import { count, fill, h } from "/dom.js";
import { badge, button, cell, failure, field, filterBox, formDialog, loading, table, toast } from "/widgets.js";

const SOURCES = {
  DYNAMIC_TOPIC_CONFIG: ["set on the topic", "accent"], DYNAMIC_BROKER_CONFIG: ["set on the broker", "accent"], DYNAMIC_DEFAULT_BROKER_CONFIG: ["set for all brokers", "accent"],
  DYNAMIC_GROUP_CONFIG: ["set on the group", "accent"], STATIC_BROKER_CONFIG: ["broker's file", "info"], DEFAULT_CONFIG: ["default", ""], UNKNOWN: ["unknown", ""],
};
const OWN = { topic: "DYNAMIC_TOPIC_CONFIG", broker: "DYNAMIC_BROKER_CONFIG", group: "DYNAMIC_GROUP_CONFIG" };

export async function optionsCard(kind, name, session) {
  const box = h("div", loading());
  let options = [], find = "", onlySet = false;
  const count_ = h("span.badge");
  const shown = table(`Options of ${kind} ${name}`, [{ title: "Option" }, { title: "Value" }, { title: "Source" }, ...(session.allow_changes ? [{ title: "" }] : [])]);
  shown.element.querySelector("table").classList.add("stack");
  const draw = () => {
    const words = find.toLowerCase();
    const chosen = options.filter((each) => (!words || each.name.includes(words)) && (!onlySet || each.source !== "DEFAULT_CONFIG"));
    count_.textContent = `${count(chosen.length)} of ${count(options.length)}`;
    fill(shown.body, chosen.map((each) => {
      const [text, badgeKind] = SOURCES[each.source] || [each.source, ""];
      const value = each.sensitive ? "hidden" : each.value === null ? "null" : each.value;
      const others = each.synonyms.map((one) => `${one.name}=${one.value} (${one.source})`).join("\n");
      return h("tr", cell(h("span.mono", each.name), "name"), cell(h("span.mono", value === "" ? "(empty)" : value), each.value === null || each.value === "" ? "none" : "", "Value"),
        cell(badge(text, badgeKind, others || null), "", "Source"),
        session.allow_changes ? cell(each.read_only ? null : button("Change", { image: "edit", label: `Change ${each.name}`, onclick: () => change(each) }), "number") : null);
    }));
  };
  const load = async () => {
    options = (await get("configs", { kind, name })).options;
    draw();
  };
  function change(option) {
    const input = h("input", { type: "text", value: option.value === null ? "" : option.value, "aria-label": "Value", spellcheck: "false" });
    const remove = h("input", { type: "checkbox" });
    formDialog(`${option.name}`, [h("p", option.documentation || ""), field("Value", input), option.source === OWN[kind] ? h("label.check", {}, remove, "Remove it: use the value of the level above") : null], {
      typed: name, send: async () => {
        await post("configs/alter", { kind, name, confirm: name, options: { [option.name]: remove.checked ? null : input.value } });
        toast(`${option.name} is changed.`);
        setTimeout(load, 300);
      },
    });
  }
  fill(box, h("div.toolbar", {}, filterBox("Filter options", "", (text) => { find = text; draw(); }), h("label.check", {}, h("input", { type: "checkbox", onchange: (event) => { onlySet = event.target.checked; draw(); } }), "Only what is set"), count_), shown.element);
  try {
    await load();
  } catch (error) {
    fill(box, failure(error));
  }
  return { element: box };
}
