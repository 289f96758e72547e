// The shell: which page is shown, what every page shows at its top, keys, theme.
import { Refusal, get, live, setToken, takeToken, whenUnauthorized } from "/api.js";
import { count, fill, h, icon, setText } from "/dom.js";
import { button, dialog, failure, heading, whyButton } from "/widgets.js";
import { overview, broker } from "/page_cluster.js";
import { topics } from "/page_topics.js";
import { topic } from "/page_topic.js";
import { groups, group } from "/page_groups.js";
import { transactions } from "/page_transactions.js";
import { moves } from "/page_moves.js";
import { acls, quotas, users } from "/page_access.js";

const PAGES = { overview, topics, topic, groups, group, broker, transactions, moves, quotas, users, acls };
const ENTRIES = [
  ["overview", "Overview", "o"], ["topics", "Topics", "t"], ["groups", "Groups", "g"],
  ["transactions", "Transactions", "x"], ["moves", "Moves", "m"], ["quotas", "Quotas", "q"], ["users", "Users", "u"], ["acls", "ACLs", "a"],
];
const byId = (id) => document.getElementById(id);
let session = null, shown = null, endLive = null, number = 0;

// Theme: the system's, unless the person has chosen.
function applyTheme() {
  const chosen = localStorage.getItem("tidelog-console-theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
}
applyTheme();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
byId("theme").append(icon("theme"));
byId("theme").addEventListener("click", () => {
  localStorage.setItem("tidelog-console-theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  applyTheme();
});

// Navigation.
const counts = {};
fill(byId("nav"), ENTRIES.map(([key, text]) => {
  counts[key] = h("span.count");
  return h("a", { href: `#/${key}`, "data-page": key }, icon(key), h("span", text), counts[key]);
}), h("p.keys", {}, h("kbd", "?"), " keys"));
byId("menu").append(icon("menu"));
const openMenu = (open) => {
  byId("nav").classList.toggle("open", open);
  byId("menu").setAttribute("aria-expanded", String(open));
};
byId("menu").addEventListener("click", () => openMenu(!byId("nav").classList.contains("open")));

const SECTION = { topic: "topics", group: "groups", broker: "overview" };
function mark(page) {
  for (const anchor of byId("nav").querySelectorAll("a")) {
    if (anchor.dataset.page === (SECTION[page] || page)) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
}

// The header, live.
const health = { pill: h("span.pill.quiet", "Connecting…"), why: whyButton("cluster") };
health.why.hidden = true;
fill(byId("health"), health.pill, health.why);

function sentence(header) {
  if (!header.known) return header.refusal ? "No connection" : "Connecting…";
  if (header.down.length === header.brokers && header.brokers) return "No broker answers";
  const parts = [];
  if (header.down.length) parts.push(header.down.length === 1 ? `Broker ${header.down[0]} is down` : `${header.down.length} brokers down`);
  if (header.offline) parts.push(`${count(header.offline)} offline`);
  else if (header.under_replicated && !header.down.length) parts.push(`${count(header.under_replicated)} under-replicated`);
  if (header.broken) parts.push("some answers are unreadable");
  return parts.join(", ") || "Healthy";
}

function onHeader(header) {
  session.header = header;
  health.pill.className = `pill ${header.known ? header.level : header.refusal ? "error" : "quiet"}`;
  setText(health.pill, sentence(header));
  health.pill.title = header.broken || "";
  health.why.hidden = !header.known || header.level === "ok";
  health.why.style.setProperty("color", header.level === "error" ? "var(--bad)" : "var(--warn)");
  setText(counts.topics, header.topics ? count(header.topics) : "");
  fill(byId("cluster"), h("b", header.known ? (header.is_tidelog ? "Tidelog" : "Apache Kafka") : ""), " ", session.bootstrap);
  byId("cluster").title = header.cluster_id ? `Cluster ${header.cluster_id}` : "";
  if (shown && shown.header) shown.header(header);
}

function watch(values) {
  if (endLive) endLive();
  endLive = live(values, {
    header: onHeader,
    page: (data) => shown && shown.update && data !== null && shown.update(data),
    refused: (refusal) => shown && shown.refused && shown.refused(refusal),
    lost: () => {
      health.pill.className = "pill error";
      setText(health.pill, "Console does not answer");
      health.why.hidden = true;
    },
  });
}

// Pages.
async function show() {
  const mine = ++number;
  openMenu(false);
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const segments = rest.map(decodeURIComponent);
  if (shown && shown.stop) shown.stop();
  shown = null;
  const make = PAGES[name] || overview;
  const context = {
    segments, session, params: new URLSearchParams(search || ""), watch,
    // Keeps what is chosen on a page in its address, without a new entry in the history.
    remember(values) {
      const kept = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== false && value !== undefined).map(([key, value]) => [key, String(value)]));
      history.replaceState(null, "", `#/${path}${[...kept].length ? `?${kept}` : ""}`);
    },
  };
  let page;
  try {
    page = await make(context);
  } catch (error) {
    page = { title: "Error", root: h("div", heading("This page cannot be shown"), failure(error)) };
  }
  if (mine !== number) {
    if (page.stop) page.stop();
    return;
  }
  shown = page;
  document.title = `${page.title} – Tidelog console`;
  fill(byId("main"), page.root);
  mark(PAGES[name] ? name : "overview");
  watch(page.watch || { watch: "nothing" });
  window.scrollTo(0, 0);
}

// Keys.
const KEYS = [["/", "Filter the list"], ...ENTRIES.map(([, text, key]) => [`g ${key}`, text]), ["↑ ↓", "Rows of a table"], ["d", "Dark or light"], ["?", "These keys"], ["Esc", "Close"]];
let prefix = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
  if (prefix) {
    prefix = false;
    const entry = ENTRIES.find(([, , key]) => key === event.key);
    if (entry) location.hash = `#/${entry[0]}`;
    return;
  }
  if (event.key === "g") prefix = true;
  else if (event.key === "d") byId("theme").click();
  else if (event.key === "?") dialog("Keys", h("dl.facts", KEYS.map(([key, text]) => [h("dt", {}, key.split(" ").map((each) => h("kbd", each))), h("dd", text)])));
  else if (event.key === "/") {
    const filter = byId("main").querySelector(".filter");
    if (filter) filter.focus();
    event.preventDefault();
  }
});

// The start.
function login(message) {
  number++;
  if (endLive) endLive();
  const input = h("input", { type: "password", autocomplete: "off", "aria-label": "Token" });
  const form = h("form.card.login", { onsubmit: (event) => { event.preventDefault(); setToken(input.value); start(); } },
    h("h2", "This console needs its token"), h("p", "The command `tidelog console` prints an address that ends with it. The token is new at each start."),
    h("label.field", {}, h("span.label", "Token"), input), message ? failure({ message }) : "", h("p", {}, button("Open", { kind: "primary", onclick: () => form.requestSubmit() })));
  fill(byId("main"), form);
  input.focus();
}

async function start() {
  try {
    session = await get("session");
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) return;
    fill(byId("main"), failure(error));
    setTimeout(start, 1000);
    return;
  }
  fill(byId("mode"), h(`span.badge${session.allow_changes ? ".warn" : ""}`, { title: session.allow_changes ? "Started with --allow-changes" : "Start it with --allow-changes to change the cluster" }, session.allow_changes ? "changes allowed" : "read-only"));
  onHeader(session.header);
  show();
}

whenUnauthorized(() => login(localStorage.getItem("tidelog-console-token") ? "The token is wrong or of an earlier start." : ""));
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) {
    takeToken();
    start();
  } else if (location.hash === "#main") {
    byId("main").focus();
  } else if (session) show();
});
takeToken();
start();
