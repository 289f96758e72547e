// Quotas, users and ACLs.
import { get, post } from "/api.js";
import { count, fill, h } from "/dom.js";
import { badge, button, cell, empty, failure, field, filterBox, formDialog, heading, select, table, toast } from "/widgets.js";

// A page with one list that is read again after each change.
async function listPage(title, columns, { path, row, add = null, filter = false, session, none }) {
  let find = "";
  const note = h("div"), shown = table(title, [...columns.map((text) => ({ title: text })), ...(session.allow_changes ? [{ title: "" }] : [])]);
  shown.element.querySelector("table").classList.add("stack");
  const actions = h("span");
  async function load() {
    try {
      const data = await get(path, { find });
      const words = find.toLowerCase();
      const rows = data.rows.filter((each) => JSON.stringify(each).toLowerCase().includes(words));
      fill(actions, add && session.allow_changes && data.supported !== false ? button(`Add ${title.toLowerCase().replace(/s$/, "").replace("acl", "ACL")}`, { kind: "primary", image: "plus", onclick: () => add(data, load) }) : null);
      shown.element.hidden = !rows.length;
      fill(note, data.supported === false ? h("div.notice", data.why) : rows.length ? null : empty(find ? "Nothing matches." : none));
      fill(shown.body, rows.map((each) => row(each, load, data)));
    } catch (error) {
      shown.element.hidden = true;
      fill(note, failure(error));
    }
  }
  await load();
  return { title, root: h("div", heading(title, actions), filter ? h("div.toolbar", {}, filterBox(`Filter ${title.toLowerCase()}`, "", (text) => { find = text; load(); })) : null, note, shown.element) };
}

const KINDS = { users: "user", clients: "client ID", ips: "address" };
const entityText = (entity) => entity.map((part) => part.name || "<default>").join(", ");

export const quotas = ({ session }) => listPage("Quotas", ["Who", "Quotas"], {
  path: "quotas", session, filter: true, none: "No quotas are set: clients are not limited.",
  row: (row, load, data) => h("tr", cell(row.entity.map((part, index) => [index ? ", " : "", `${KINDS[part.kind] || part.kind} `, part.name === null ? badge("default") : h("b", part.name)]), "name"),
    cell(Object.entries(row.values).map(([name, value]) => h("div", {}, h("span.mono", `${name} = `), count(value))), "", "Quotas"),
    session.allow_changes ? cell(button("Change", { image: "edit", onclick: () => quotaDialog(row.entity, row.values, data, load) }), "number") : null),
  add: (data, load) => newQuota(data, load),
});

function quotaDialog(entity, values, data, load) {
  const names = entity[0].kind === "ips" ? data.ip_quotas : data.client_quotas;
  const inputs = names.map((name) => [name, h("input", { type: "number", min: "0", step: "any", value: values[name] ?? "" })]);
  formDialog("Quotas", [h("p", "An empty field removes the quota."), ...inputs.map(([name, input]) => field(name, input))], {
    typed: entityText(entity), send: async () => {
      const changed = inputs.filter(([name, input]) => input.value !== String(values[name] ?? "")).map(([name, input]) => [name, input.value === "" ? null : Number(input.value)]);
      await post("quotas/set", { entity, values: Object.fromEntries(changed), confirm: entityText(entity) });
      toast("The quotas are changed.");
      setTimeout(load, 300);
    },
  });
}

function newQuota(data, load) {
  const kind = select(Object.entries(KINDS), "users", null, { "aria-label": "Kind" }), name = h("input", { type: "text", autocomplete: "off", placeholder: "empty: the default of all" });
  formDialog("Add quota", [field("For", kind), field("Name", name)], {
    action: "Next", send: async () => { setTimeout(() => quotaDialog([{ kind: kind.value, name: name.value || null }], {}, data, load)); },
  });
}

export const users = ({ session }) => listPage("Users", ["User", "Mechanisms"], {
  path: "users", session, filter: true, none: "There are no SCRAM users.",
  row: (row, load, data) => h("tr", cell(row.name, "name"), cell(row.credentials.map((each) => [badge(`${each.mechanism}, ${count(each.iterations)} iterations`), " "]), "", "Mechanisms"),
    session.allow_changes ? cell([button("Password", { image: "edit", label: `Change the password of ${row.name}`, onclick: () => userDialog(data, load, row) }), " ", button("Remove", { kind: "quiet-danger", image: "trash", label: `Remove ${row.name}`, onclick: () => removeUser(row, load) })], "number") : null),
  add: (data, load) => userDialog(data, load),
});

function userDialog(data, load, row = null) {
  const name = h("input", { type: "text", autocomplete: "off", value: row ? row.name : "", disabled: Boolean(row) }), password = h("input", { type: "password", autocomplete: "new-password" });
  const mechanism = select((row ? row.credentials.map((each) => each.mechanism) : data.mechanisms).map((each) => [each, each]), row ? row.credentials[0].mechanism : "SCRAM-SHA-512", null, { "aria-label": "Mechanism" });
  formDialog(row ? `Password of ${row.name}` : "Add user", [field("Name", name), field("Mechanism", mechanism), field("Password", password)], {
    send: async () => { await post("users/set", { name: name.value, mechanism: mechanism.value, password: password.value }); toast(`${name.value} can log in.`); setTimeout(load, 300); },
  });
}

function removeUser(row, load) {
  formDialog("Remove user", [h("p", `${row.name} can no longer log in.`)], {
    action: "Remove", danger: true, typed: row.name, send: async () => {
      for (const each of row.credentials) await post("users/remove", { name: row.name, mechanism: each.mechanism, confirm: row.name });
      toast(`${row.name} is removed.`);
      setTimeout(load, 300);
    },
  });
}

export const acls = ({ session }) => listPage("ACLs", ["Principal", "May", "Resource", "From host"], {
  path: "acls", session, filter: true, none: "There are no ACLs.",
  row: (row, load) => h("tr", cell(row.principal, "name"), cell([badge(row.permission === "ALLOW" ? "allow" : "deny", row.permission === "ALLOW" ? "good" : "bad"), " ", row.operation.toLowerCase().replaceAll("_", " ")], "", "May"),
    cell([badge(row.resource.toLowerCase().replaceAll("_", " ")), " ", h("span.mono", row.name), row.pattern === "PREFIXED" ? [" ", badge("prefix", "info")] : null], "", "Resource"), cell(h("span.mono", row.host), "", "From host"),
    session.allow_changes ? cell(button("Remove", { kind: "quiet-danger", image: "trash", label: `Remove the ACL of ${row.principal}`, onclick: () => removeAcl(row, load) }), "number") : null),
  add: (data, load) => addAcl(data, load),
});

function addAcl(data, load) {
  const kinds = Object.keys(data.operations), operations = h("div");
  const text = (value) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", value });
  const principal = text("User:"), host = text("*"), name = text("");
  let operation = null;
  const draw = (kind) => { operation = select(["ALL", ...data.operations[kind]].map((each) => [each, each]), "ALL", null, { "aria-label": "Operation" }); fill(operations, field("Operation", operation)); if (kind === "CLUSTER") name.value = "kafka-cluster"; };
  const resource = select(kinds.map((each) => [each, each]), kinds[0], draw, { "aria-label": "Resource" }), pattern = select([["LITERAL", "this name"], ["PREFIXED", "names that begin so"]], "LITERAL", null, { "aria-label": "Pattern" }), permission = select([["ALLOW", "allow"], ["DENY", "deny"]], "ALLOW", null, { "aria-label": "Permission" });
  draw(kinds[0]);
  formDialog("Add ACL", h("div.form", field("Principal", principal), field("Permission", permission), field("Resource", resource), operations, field("Name", name), field("Pattern", pattern), field("From host", host)), {
    action: "Add", send: async () => {
      await post("acls/add", { principal: principal.value.trim(), host: host.value.trim(), permission: permission.value, operation: operation.value, resource: resource.value, name: name.value, pattern: pattern.value });
      toast("The ACL is added.");
      setTimeout(load, 300);
    },
  });
}

function removeAcl(row, load) {
  formDialog("Remove ACL", [h("p", `${row.principal}: ${row.permission.toLowerCase()} ${row.operation} on ${row.resource} ${row.name}.`)], {
    action: "Remove", danger: true, typed: row.principal, send: async () => { await post("acls/remove", { ...row, confirm: row.principal }); toast("The ACL is removed."); setTimeout(load, 300); },
  });
}
