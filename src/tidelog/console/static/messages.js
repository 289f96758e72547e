// Messages of a topic: browse, search, live tail, export, produce.
import { download, get, post, stream } from "/api.js";
import { bytes, count, fill, h, icon, moment, plural, setText } from "/dom.js";
import { badge, button, cell, copy, empty, failure, field, formDialog, meter, select, table, tabs, toast } from "/widgets.js";
import { hexDump, jsonView } from "/content.js";

const MOST_ROWS = 500;
const PLACES = [["newest", "Newest"], ["oldest", "Oldest"], ["offset", "Offset"], ["time", "Time"]];
const WHERE = [["any", "Anywhere"], ["key", "Key"], ["value", "Value"], ["headers", "Headers"]];

export function messages(topic, first, session, params) {
  const state = { partition: params.get("partition") || "", place: "newest", offset: "0", time: "", limit: "50", text: "", where: "any", key: "", regex: false, committed: false };
  let end = null, cursor = null, rows = 0, turn = 0;
  const status = h("div.budget", { role: "status", "aria-live": "polite" }), note = h("div");
  const shown = table(`Messages of ${topic}`, [{ title: "Offset" }, { title: "Partition", kind: "number" }, { title: "Time" }, { title: "Key" }, { title: "Value" }]);
  shown.element.querySelector("table").classList.add("stack", "messages");
  const more = button("More", { onclick: () => browse(true) });
  const moreBox = h("div.toolbar", {}, more);

  const text = (name, label, properties = {}) => h("input", { type: "text", "aria-label": label, autocomplete: "off", spellcheck: "false", ...properties, oninput: (event) => { state[name] = event.target.value; } });
  const offset = field("Offset", text("offset", "Offset", { value: "0", inputmode: "numeric", size: "10" }));
  const time = field("At or after", h("input", { type: "datetime-local", step: "1", "aria-label": "Time", oninput: (event) => { state.time = event.target.value; } }));
  const place = (value) => { state.place = value; offset.hidden = value !== "offset"; time.hidden = value !== "time"; };
  place("newest");
  const numbers = [["", first.more ? `First ${count(first.numbers.length)}` : "All"], ...first.numbers.map((each) => [String(each), String(each)])];
  const search = text("text", "Text to search for", { type: "search", placeholder: "Search in messages  ( / )" });
  search.classList.add("filter");
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") run(); });
  const tail = button("Live", { image: "play", onclick: () => (end && tail.classList.contains("on") ? stop() : follow()) });
  const bar = h("div.toolbar", {},
    field("Partition", select(numbers, state.partition, (value) => { state.partition = value; browse(); }, { "aria-label": "Partition" })),
    field("From", select(PLACES, "newest", (value) => { place(value); if (value === "newest" || value === "oldest") browse(); }, { "aria-label": "From" })), offset, time,
    field("Show", select([["20", "20"], ["50", "50"], ["100", "100"], ["500", "500"]], "50", (value) => { state.limit = value; }, { "aria-label": "Messages to show" })),
    h("span.filter-box", {}, icon("search"), search),
    button("Read", { kind: "primary", onclick: () => run() }), tail,
    select([["", "Export…"], ["jsonl", "as JSON lines"], ["csv", "as CSV"]], "", (value) => { if (value) save(value); bar.querySelector("[aria-label=Export]").value = ""; }, { "aria-label": "Export" }),
    session.allow_changes ? button("Produce", { image: "send", onclick: () => produceDialog(topic, first) }) : null);
  const check = (name, label) => h("label.check", {}, h("input", { type: "checkbox", onchange: (event) => { state[name] = event.target.checked; } }), label);
  const options = h("details", h("summary", "More options"), h("div.toolbar", {},
    field("Search in", select(WHERE, "any", (value) => { state.where = value; }, { "aria-label": "Search in" })), field("Key is exactly", text("key", "Key")),
    check("regex", "Regular expression"), check("committed", "Only committed"),
    field("Search for at most", select([["15", "15 s"], ["60", "1 min"], ["300", "5 min"]], "15", (value) => { state.seconds = value; }, { "aria-label": "Time budget" })),
    field("and", select([["67108864", "64 MB"], ["268435456", "256 MB"], ["1073741824", "1 GB"]], "67108864", (value) => { state.bytes = value; }, { "aria-label": "Byte budget" }))));
  const element = h("div", bar, options, status, note, shown.element, moreBox);

  const asked = () => ({ topic, partition: state.partition, from: state.place, offset: state.place === "offset" ? state.offset : "", time: state.place === "time" && state.time ? new Date(state.time).getTime() : "",
    limit: state.limit, committed: state.committed, text: state.text, where: state.where, key: state.key, regex: state.regex, seconds: state.seconds, bytes: state.bytes });
  const isSearch = () => Boolean(state.text || state.key);

  function stop() {
    if (end) end();
    end = null;
    tail.classList.remove("on");
    setText(tail.lastElementChild, "Live");
  }

  function clear() {
    stop();
    turn += 1;  // what an earlier request still answers is not for this list
    rows = 0;
    fill(shown.body);
    fill(note);
    moreBox.hidden = true;
  }

  const run = () => (isSearch() ? find() : browse());

  async function browse(isMore = false) {
    const kept = isMore ? cursor : null;
    if (!isMore) clear();
    fill(status, "Reading…");
    const mine = turn;
    try {
      const { text: _text, where: _where, key: _key, ...rest } = asked();
      const answer = await get("messages", { ...rest, cursor: kept ? JSON.stringify(kept) : "" });
      if (mine !== turn) return;
      cursor = answer.cursor;
      addRows(answer.rows, false);
      moreBox.hidden = !cursor || rows >= MOST_ROWS;
      fill(status, h("span", `${plural(rows, "message")} of ${count(answer.total)}`), h("span", `${bytes(answer.bytes)} read in ${count(answer.ms)} ms`), answer.stopped_by ? badge(`stopped: budget of ${answer.stopped_by}`, "warn") : null);
      fill(note, rows ? null : empty("There are no messages here."));
    } catch (error) {
      if (mine !== turn) return;
      fill(status);
      fill(note, failure(error));
    }
  }

  function find() {
    clear();
    const cancel = button("Stop", { image: "stop", onclick: () => { stop(); fill(status, h("span", "Stopped.")); } });
    const progress = (found, done) => fill(status, h("span", `${plural(found.found, "match").replace("matchs", "matches")} in ${plural(found.records, "message")}`),
      meter(found.ms, found.most_ms, `time: ${(found.ms / 1000).toFixed(1)} of ${found.most_ms / 1000} s`), h("span", `${(found.ms / 1000).toFixed(1)} of ${found.most_ms / 1000} s`),
      meter(found.bytes, found.most_bytes, "bytes of the budget"), h("span", `${bytes(found.bytes)} of ${bytes(found.most_bytes)}`),
      done ? (found.stopped_by ? badge({ time: "stopped: time budget", bytes: "stopped: byte budget", found: `stopped at ${MOST_ROWS} matches` }[found.stopped_by] || found.stopped_by, "warn") : badge("all read", "good")) : cancel);
    end = stream("messages/search", { ...asked(), from: state.place === "newest" ? "oldest" : state.place }, {
      progress: (found) => progress(found, false), found: (found) => addRows(found, false),
      done: (found) => { progress(found, true); if (!rows) fill(note, empty("Nothing found.")); }, refused: (refusal) => fill(note, failure(refusal)),
    });
  }

  function follow() {
    clear();
    tail.classList.add("on");
    setText(tail.lastElementChild, "Stop");
    let seen = 0;
    fill(status, h("span", "Finding the end…"));
    end = stream("messages/tail", asked(), {
      found: (found) => { seen += found.length; addRows(found.reverse(), true); },
      progress: (found) => fill(status, badge("live", "good"), h("span", seen ? `${plural(seen, "message")} shown` : "Waiting for messages…"), found.skipped ? badge(`${count(found.skipped)} skipped: too many to show`, "warn") : null),
      refused: (refusal) => fill(note, failure(refusal)), ended: () => stop(),
    });
  }

  function addRows(found, first_) {
    const made = found.map((each) => messageRow(topic, each, session, first));
    if (first_) shown.body.prepend(...made.reverse().reverse());
    else shown.body.append(...made);
    for (const each of first_ ? made : []) each.classList.add("fresh");
    rows += made.length;
    while (rows > MOST_ROWS) {
      const last = shown.body.lastElementChild;
      if (!last.classList.contains("detail")) rows -= 1;
      last.remove();
    }
  }

  async function save(format) {
    toast("The export is being read…");
    try {
      await download("messages/export", { ...asked(), format, limit: isSearch() ? 100000 : 10000, from: state.place }, `${topic}.${format}`);
    } catch (error) {
      toast(error.message, "bad");
    }
  }

  moreBox.hidden = true;
  browse();
  return { element, stop };
}

function preview(part, kind) {
  if (part === null) return h("span.badge", "null");
  if (part.base64 !== undefined) return h("span", badge(`${bytes(part.size)} binary`), h("code", ` ${part.base64.slice(0, 60)}`));
  if (part.text === "") return h("span.badge", "empty");
  return h(`span.mono.${kind}`, part.text + (part.cut ? "…" : ""));
}

function messageRow(topic, message, session, first) {
  const expand = h("button.expand", { type: "button", "aria-expanded": "false", onclick: (event) => { event.stopPropagation(); open(); } }, count(message.offset));
  const value = message.control ? badge(`${message.control} marker`, "info")
    : message.decoded ? h("span.mono", JSON.stringify(message.decoded.value === null ? null : message.decoded.value.data)) : preview(message.value, "value");
  const key = message.decoded ? h("span.mono", JSON.stringify(message.decoded.key.data)) : message.control ? "" : preview(message.key, "key");
  const size = message.value && message.value.cut ? [" ", badge(bytes(message.value.size))] : null;
  const row = h("tr", { onclick: (event) => { if (!event.target.closest("button, a") && !String(getSelection())) open(); } }, cell(expand, "name"), cell(String(message.partition), "number", "Partition"), cell(h("span.mono", moment(message.timestamp)), "", "Time"),
    cell(key, "cut", "Key"), cell([value, size], "cut", "Value"));
  row.children[3].classList.add("key");
  row.children[4].classList.add("value");
  function open() {
    if (row.nextElementSibling && row.nextElementSibling.classList.contains("detail")) {
      row.nextElementSibling.remove();
      row.classList.remove("open");
      expand.setAttribute("aria-expanded", "false");
      return;
    }
    row.classList.add("open");
    expand.setAttribute("aria-expanded", "true");
    const box = h("td", { colspan: "5" }, h("div.detail-box", "Reading…"));
    row.after(h("tr.detail", box));
    detail(box.firstElementChild, topic, message, session, first);
  }
  return row;
}

async function detail(box, topic, message, session, first) {
  const place = { topic, partition: message.partition, offset: message.offset };
  let whole;
  try {
    whole = await get("message", place);
  } catch (error) {
    fill(box, failure(error));
    return;
  }
  const content = h("div");
  const part = { value: whole.value, key: whole.key };
  let chosen = "value";
  const show = (form) => fill(content, contentOf(part[chosen], form), part[chosen] && part[chosen].cut ? h("p.hint", `The first part of ${bytes(part[chosen].size)}. `, saveButton("All of it", place, chosen)) : null);
  const forms = tabs("Form", [["auto", "Best"], ["text", "Text"], ["hex", "Hex"]], "auto", (form) => { current = form; show(form); });
  let current = "auto";
  const which = select([["value", "Value"], ["key", "Key"]], "value", (name) => { chosen = name; show(current); }, { "aria-label": "Part of the message" });
  const headers = whole.headers.length ? h("div", h("h3", "Headers"), h("dl.facts", whole.headers.map(([name, value]) => [h("dt.mono", name), h("dd", preview(value, "value"))]))) : null;
  const batch = whole.batch;
  const facts = [["Partition", whole.partition], ["Offset", count(whole.offset)], [batch.timestamp_type, moment(whole.timestamp)], ["Key", whole.key ? bytes(whole.key.size) : "null"], ["Value", whole.value ? bytes(whole.value.size) : "null"],
    ["Leader epoch", batch.epoch], ["Compression", batch.compression], ["Batch", `${plural(batch.records, "record")}, ${bytes(batch.bytes)}`], ...(batch.producer_id >= 0 ? [["Producer", `${batch.producer_id}, epoch ${batch.producer_epoch}`], ["Sequence", count(batch.base_sequence)]] : []), ...(batch.transactional ? [["Transaction", "yes"]] : [])];
  fill(box, h("div.detail-grid", h("div", h("div.toolbar", {}, which, forms), content, headers),
    h("div", h("dl.facts", facts.map(([name, value]) => [h("dt", name), h("dd", String(value))])),
      h("p.toolbar", {}, button("Copy", { onclick: () => copy(textOf(part[chosen])) }), saveButton("Download", place, "value"),
        session.allow_changes && !whole.control ? button("Send again", { image: "send", onclick: () => againDialog(place, first) }) : null))));
  if (whole.decoded) fill(content, jsonView(JSON.stringify(whole.decoded)));
  else show("auto");
}

const saveButton = (label, place, part) => button(label, { image: "download", onclick: () => download("message/download", { ...place, part }, `${place.topic}-${place.partition}-${place.offset}.${part}`).catch((error) => toast(error.message, "bad")) });
const textOf = (part) => (part === null ? "" : part.text !== undefined ? part.text : part.base64);

function contentOf(part, form) {
  if (part === null) return empty("null");
  if (form === "hex" || (form === "auto" && part.base64 !== undefined)) return hexDump(part);
  if (form === "auto" && !part.cut) {
    const json = jsonView(part.text);
    if (json) return json;
  }
  return h("pre.content", part.text !== undefined ? part.text : part.base64);
}

function produceDialog(topic, first) {
  const key = h("input", { type: "text", autocomplete: "off", spellcheck: "false" }), value = h("textarea", { spellcheck: "false" }), headers = h("textarea", { placeholder: "name: value", spellcheck: "false" });
  const none = h("input", { type: "checkbox" }), tombstone = h("input", { type: "checkbox" }), base64 = h("input", { type: "checkbox" });
  none.checked = true;
  key.addEventListener("input", () => { none.checked = key.value === ""; });
  const partition = select([["", "By key"], ...first.numbers.map((each) => [String(each), String(each)])], "", null, { "aria-label": "Partition" });
  formDialog(`Produce to ${topic}`, [h("div.form", field("Key", key), field("Partition", partition)), h("label.check", none, "No key (null)"), field("Value", value),
    h("div.toolbar", h("label.check", tombstone, "No value (null, a tombstone)"), h("label.check", base64, "Value is base64")), field("Headers", headers, "One NAME: VALUE a line.")], {
    action: "Produce", send: async () => {
      const lines = headers.value.split("\n").filter((line) => line.trim());
      const pairs = lines.map((line) => { const at = line.indexOf(":"); return at < 0 ? [line.trim(), null] : [line.slice(0, at).trim(), { text: line.slice(at + 1).trim() }]; });
      const done = await post("messages/produce", { topic, partition: partition.value, key: none.checked ? null : { text: key.value }, value: tombstone.checked ? null : base64.checked ? { base64: value.value.trim() } : { text: value.value }, headers: pairs });
      toast(`Written to partition ${done.partition} at offset ${count(done.offset)}.`);
    },
  });
}

function againDialog(place, first) {
  const target = h("input", { type: "text", value: place.topic, autocomplete: "off", spellcheck: "false" }), same = h("input", { type: "checkbox" });
  formDialog("Send again", [h("p", `A copy of ${place.topic}-${place.partition} at offset ${count(place.offset)}, byte for byte, with its key and headers.`), field("To topic", target), h("label.check", same, "To the same partition number")], {
    action: "Send", send: async () => {
      const done = await post("messages/send-again", { ...place, target: target.value.trim(), same_partition: same.checked });
      toast(`Written to ${target.value.trim()}, partition ${done.partition} at offset ${count(done.offset)}.`);
    },
  });
  return first;
}
