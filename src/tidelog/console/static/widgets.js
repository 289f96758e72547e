// Parts that pages share: tables, pagers, dialogs, charts, bars, "Why?".
import { get } from "/api.js";
import { ago, clock, count, fill, h, icon, setText, short, svg } from "/dom.js";

export function toast(text, kind = "") {
  const box = h(`div.toast.${kind || "plain"}`, {}, h("span", text), h("button.icon-button", { "aria-label": "Close", onclick: () => box.remove() }, icon("close")));
  document.getElementById("toasts").append(box);
  setTimeout(() => box.remove(), kind === "bad" ? 15000 : 6000);
}

export const badge = (text, kind = "", title = null) => h(`span.badge${kind ? `.${kind}` : ""}`, { title }, text);

export function button(text, { kind = "", image = null, title = null, onclick, disabled = false, label = null } = {}) {
  return h(`button.button${kind ? `.${kind}` : ""}`, { type: "button", title, disabled, onclick, "aria-label": label }, image ? icon(image) : null, h("span", text));
}

export function field(text, control, hint = null) {
  return h("label.field", {}, h("span.label", text), control, hint ? h("span.hint", hint) : null);
}

export function select(options, value, onchange, properties = {}) {
  return h("select", { ...properties, onchange: (event) => onchange && onchange(event.target.value) },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
}

export function heading(title, ...rest) {
  return h("div.page-head", {}, h("h1", title), h("div.actions", {}, rest));
}

export function card(title, ...content) {
  return h("section.card", {}, title ? h("h2", title) : null, content);
}

export function empty(text, ...more) {
  return h("div.empty", {}, h("p", text), more);
}

export function loading() {
  return h("p.loading", "Loading…");
}

export function failure(error) {
  return h("div.notice.bad", { role: "alert" }, icon("warning"), h("span", error.message || error.sentence || String(error)));
}

// A table whose header cells sort; `columns`: [{key, title, kind, sort}].
export function table(caption, columns, { sort = null, descending = false, onsort = null } = {}) {
  const head = h("tr", {}, columns.map((column) => {
    const isOn = column.sort && column.sort === sort;
    const title = column.sort && onsort
      ? h("button.sort", { type: "button", onclick: () => onsort(column.sort, isOn ? !descending : column.kind === "number") }, column.title, h("span.arrow", { "aria-hidden": "true" }, isOn ? (descending ? "↓" : "↑") : ""))
      : column.title;
    return h(`th${column.kind ? `.${column.kind}` : ""}`, { scope: "col", "aria-sort": isOn ? (descending ? "descending" : "ascending") : null }, title);
  }));
  const body = h("tbody");
  const element = h("div.table-box", { tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption.hidden", caption), h("thead", {}, head), body));
  element.addEventListener("keydown", (event) => moveInTable(event, body));
  return { element, body };
}

function moveInTable(event, body) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  if (event.target.matches("input, select, textarea")) return;
  const links = [...body.querySelectorAll("tr > :first-child a, tr > :first-child button")];
  const at = links.indexOf(document.activeElement);
  const next = links[at + (event.key === "ArrowDown" ? 1 : -1)] || (at < 0 ? links[0] : null);
  if (next) {
    event.preventDefault();
    next.focus();
  }
}

export const cell = (content, kind = "", label = null) => h(`td${kind ? `.${kind}` : ""}`, { "data-label": label }, content);

export function pager(state, onchange) {
  const place = h("span.place");
  const back = h("button.icon-button", { type: "button", "aria-label": "Page back", onclick: () => onchange(state.page - 1) }, "‹");
  const forward = h("button.icon-button", { type: "button", "aria-label": "Page on", onclick: () => onchange(state.page + 1) }, "›");
  const element = h("div.pager", { role: "group", "aria-label": "Pages of the list" }, place, back, forward);
  return {
    element,
    update(total) {
      const first = total ? state.page * state.size + 1 : 0, last = Math.min(total, (state.page + 1) * state.size);
      setText(place, `${count(first)}–${count(last)} of ${count(total)}`);
      back.disabled = state.page === 0;
      forward.disabled = last >= total;
      element.hidden = total <= state.size && state.page === 0;
    },
  };
}

export function filterBox(label, value, onchange) {
  let timer = 0;
  const input = h("input.filter", { type: "search", value, placeholder: `${label}  ( / )`, "aria-label": label, autocomplete: "off", spellcheck: "false",
    oninput: () => { clearTimeout(timer); timer = setTimeout(() => onchange(input.value), 150); } });
  return h("span.filter-box", {}, icon("search"), input);
}

export function tabs(label, items, current, onchange) {
  const element = h("div.tabs", { role: "tablist", "aria-label": label });
  const draw = (chosen) => fill(element, items.map(([key, text]) => h("button", {
    type: "button", role: "tab", "aria-selected": key === chosen ? "true" : "false", tabindex: key === chosen ? "0" : "-1",
    onclick: () => { draw(key); onchange(key); },
    onkeydown: (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = items[(items.findIndex(([each]) => each === key) + step + items.length) % items.length][0];
      draw(next);
      onchange(next);
      element.querySelector("[aria-selected=true]").focus();
    },
  }, text)));
  draw(current);
  return element;
}

// Dialogs. The browser's own element keeps the focus inside, and Escape closes it.
export function dialog(title, content, actions = []) {
  const box = h("dialog", { "aria-label": title });
  const close = () => { box.close(); box.remove(); };
  box.append(h("div.dialog-head", {}, h("h2", title), h("button.icon-button", { type: "button", "aria-label": "Close", onclick: close }, icon("close"))),
    h("div.dialog-body", {}, content), actions.length ? h("div.dialog-actions", {}, actions) : "");
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => { if (event.target === box) close(); });
  document.body.append(box);
  box.showModal();
  return { box, close };
}

// A form in a dialog; `send` gets nothing and may throw. With `typed`, the person must type that name.
export function formDialog(title, content, { action = "Save", danger = false, typed = null, send }) {
  const problem = h("div", { "aria-live": "assertive" });
  const input = typed === null ? null : h("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": `Type ${typed} to confirm`, oninput: () => check() });
  const done = button(action, { kind: danger ? "danger" : "primary", onclick: () => submit() });
  const check = () => { done.disabled = input !== null && input.value !== typed; };
  const opened = dialog(title, [content, input ? h("label.field.confirm", {}, h("span.label", "Type ", h("code", typed), " to confirm"), input) : "", problem],
    [button("Cancel", { onclick: () => opened.close() }), done]);
  check();
  opened.box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !done.disabled && event.target.matches("input")) { event.preventDefault(); submit(); }
  });
  async function submit() {
    done.disabled = true;
    fill(problem);
    try {
      await send();
      opened.close();
    } catch (error) {
      fill(problem, failure(error));
      check();
    }
  }
  return opened;
}

// "Why?": what `tidelog explain` finds.
const ABOUT = { cluster: () => "the cluster", topic: (name) => `topic ${name}`, partition: (name) => `partition ${name}`, broker: (name) => `broker ${name}`, group: (name) => `group ${name}` };
export function whyButton(kind, name = "") {
  const about = ABOUT[kind](name);
  return h("button.why", { type: "button", "aria-label": `Why? Explain ${about}`, onclick: (event) => { event.stopPropagation(); why(kind, name, about); } }, "Why?");
}

async function why(kind, name, about) {
  const box = h("div.findings", loading());
  dialog(`Why? ${about}`, box);
  try {
    const { findings, unanswered } = await get("why", { kind, name });
    fill(box, findings.length ? findings.map(finding) : empty(`No problems found in ${about}.`), unanswered.map((each) => h("p.hint", `Not known: ${each}`)));
  } catch (error) {
    fill(box, failure(error));
  }
}

export function finding(found) {
  return h(`article.finding.${found.severity}`, {}, h("h3", badge(found.severity, { error: "bad", warning: "warn" }[found.severity] || "info"), " ", found.about),
    h("p.says", found.says), found.because.length ? h("ul", {}, found.because.map((each) => h("li", each))) : null,
    found.helps.map((each) => h("div.help", {}, h("code", each), h("button.icon-button", { type: "button", "aria-label": "Copy", title: "Copy", onclick: () => copy(each) }, "⧉"))));
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    toast("The browser does not allow copying here.", "bad");
  }
}

// Charts.
export function chart(label, { unit = short, height = 84, kind = "" } = {}) {
  const area = svg("path", { class: "area" }), line = svg("path", { class: "line" });
  const picture = svg("svg", { viewBox: `0 0 300 ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, area, line);
  const now = h("strong.now", "–"), top = h("span.top"), from = h("span.from"), to = h("span.to");
  const element = h(`figure.chart${kind ? `.${kind}` : ""}`, { role: "img" }, h("figcaption", {}, h("span", label), now), h("div.plot", {}, picture, top), h("div.axis", {}, from, to));
  return {
    element,
    update(points) {
      if (!points.length) return;
      const values = points.map((point) => point[1]), most = Math.max(...values, 1e-9), last = values[values.length - 1];
      const x = (index) => (points.length < 2 ? 300 : (index * 300) / (points.length - 1));
      const y = (value) => height - 3 - ((height - 12) * value) / (most > 1e-9 ? most : 1);
      const d = values.map((value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
      line.setAttribute("d", d);
      area.setAttribute("d", `${d}L300 ${height}L${x(0).toFixed(1)} ${height}Z`);
      setText(now, unit(last));
      setText(top, most > 1e-9 ? unit(most) : "");
      setText(from, clock(points[0][0]));
      setText(to, "now");
      element.setAttribute("aria-label", `${label}: now ${unit(last)}, at most ${unit(most)}`);
    },
  };
}

export function sparkline(values, label) {
  const picture = svg("svg", { viewBox: "0 0 80 22", preserveAspectRatio: "none", class: "spark", role: "img", "aria-label": label });
  const line = svg("path", {});
  picture.append(line);
  const update = (numbers) => {
    const most = Math.max(...numbers, 1);
    const step = 80 / Math.max(1, numbers.length - 1);
    line.setAttribute("d", numbers.length < 2 ? "" : numbers.map((value, index) => `${index ? "L" : "M"}${(index * step).toFixed(1)} ${(20 - (18 * value) / most).toFixed(1)}`).join(""));
  };
  update(values);
  return { element: picture, update };
}

export function meter(used, total, label) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  const kind = share > 0.95 ? "bad" : share > 0.85 ? "warn" : "";
  return h(`div.meter${kind ? `.${kind}` : ""}`, { role: "img", "aria-label": label, title: label }, h("i", { style: { width: `${(share * 100).toFixed(1)}%` } }));
}

// The lab's picture on a real cluster: a bar for each replica, full up to its high watermark, pale up to its log end
// offset. All bars of a partition have one scale: the part of the log where the replicas differ, and some before it.
const LEAST_WINDOW = 40;
export function replicaBars() {
  const element = h("div.replicas");
  return { element, update: (row) => drawBars(element, row) };
}

function drawBars(element, row) {
  const known = row.replicas.filter((replica) => replica.end !== null);
  const most = Math.max(0, ...known.map((replica) => replica.end));
  const least = Math.min(most, ...known.map((replica) => Math.min(replica.end, replica.high_watermark ?? replica.end)));
  const span = Math.max(LEAST_WINDOW, (most - least) * 1.4), base = Math.max(0, most - span);
  const share = (offset) => `${Math.max(0, Math.min(100, ((offset - base) / Math.max(1, most - base)) * 100)).toFixed(2)}%`;
  if (element.childElementCount !== row.replicas.length) fill(element, row.replicas.map(() => newBar()));
  row.replicas.forEach((replica, index) => updateBar(element.children[index], replica, row, share));
}

function newBar() {
  return h("div.replica", {}, h("span.who"), h("span.track", {}, h("i.log"), h("i.committed"), h("i.mark")), h("span.numbers"));
}

function updateBar(bar, replica, row, share) {
  const state = replica.state.replace(" ", "-");
  bar.className = `replica ${state}`;
  const [who, track, numbers] = bar.children;
  setText(who, `${replica.broker}${replica.state === "leader" ? " ★" : ""}`);
  who.title = `broker ${replica.broker}: ${replica.state}`;
  const mark = replica.high_watermark ?? replica.end;
  track.children[0].style.setProperty("width", replica.end === null ? "0%" : share(replica.end));
  track.children[1].style.setProperty("width", replica.end === null ? "0%" : share(Math.min(mark, replica.end)));
  track.children[2].style.setProperty("left", replica.end === null ? "0%" : share(Math.min(mark, replica.end)));
  track.children[2].hidden = replica.end === null;
  const text = replica.end === null ? (replica.state === "down" ? "no answer" : "…")
    : `${count(replica.end)}${replica.lag ? `  lag ${count(replica.lag)}` : ""}`;
  setText(numbers, text);
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", replica.end === null ? `broker ${replica.broker}, ${replica.state}, no answer`
    : `broker ${replica.broker}, ${replica.state}, log end offset ${replica.end}, high watermark ${mark}, lag ${replica.lag ?? "unknown"}`);
  bar.title = replica.end === null ? "" : `LEO ${count(replica.end)}, HW ${count(mark)}, lag ${count(replica.lag)}`;
}

export function legend() {
  return h("p.legend", {}, h("span", {}, h("i.swatch.committed"), "up to the high watermark (HW)"), h("span", {}, h("i.swatch.log"), "up to the log end offset (LEO)"), h("span", {}, h("i.swatch.behind"), "out of sync"), h("span", "★ leader"));
}

export function timelineList(label) {
  const element = h("ol.timeline", { "aria-label": label });
  const KINDS = { "partition.unclean": "bad", "partition.eligible": "warn", "log.truncate": "bad", "log.corrupt": "bad", "folder.failed": "bad", "broker.gone": "warn", "partition.elected": "warn", "isr.change": "warn" };
  return {
    element,
    update(events) {
      const shown = events.slice(-60).reverse();
      fill(element, shown.length ? shown.map((event) => h(`li.${KINDS[event.kind] || "plain"}`, {}, h("time", { title: ago(event.wall_ms), datetime: new Date(event.wall_ms).toISOString() }, clock(event.wall_ms)),
        h("span.what", {}, event.topic !== null && event.partition !== null ? h("b", `${event.topic}-${event.partition} `) : null, event.says),
        h("span.by", event.broker < 0 ? "console" : `broker ${event.broker}`))) : h("li.none", "Nothing has happened since the console started to look."));
    },
  };
}
