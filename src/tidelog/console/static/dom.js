// Elements, icons and words. Text only ever becomes text: nothing here makes markup of a string.
const SVG = "http://www.w3.org/2000/svg";

function build(made, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) made.style.setProperty(key, text);
    else if (name === "value" || name === "checked" || name === "selected") made[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) if (child !== null && child !== undefined && child !== false) made.append(child);
  return made;
}

// h("div.card#x", {onclick}, "text", element)
export function h(tag, properties, ...children) {
  if (properties instanceof Node || Array.isArray(properties) || (properties !== null && typeof properties !== "object")) {
    children.unshift(properties);
    properties = {};
  }
  const [, name, rest] = /^([\w-]+)(.*)$/.exec(tag);
  const made = document.createElement(name);
  const classes = rest.match(/\.[\w-]+/g), id = rest.match(/#[\w-]+/);
  if (classes) made.className = classes.map((each) => each.slice(1)).join(" ");
  if (id) made.id = id[0].slice(1);
  return build(made, properties, children);
}

export function svg(tag, properties, ...children) {
  return build(document.createElementNS(SVG, tag), properties, children);
}

export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return parent;
}

export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}

// Keeps one element for each item, in order, so that what is focused or read aloud stays while numbers change.
export function keyed(parent, items, keyOf, create, update) {
  const known = parent.keyedChildren || (parent.keyedChildren = new Map());
  const wanted = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const element = known.get(key) || create(item);
    if (update) update(element, item);
    wanted.set(key, element);
  }
  for (const [key, element] of known) if (wanted.get(key) !== element) element.remove();
  let place = parent.firstElementChild;
  for (const element of wanted.values()) {
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  parent.keyedChildren = wanted;
}

const PATHS = {
  overview: "M3 3h6v6H3zM11 3h6v6h-6zM3 11h6v6H3zM11 11h6v6h-6z",
  topics: "M3 5.5l7-3 7 3-7 3zM3 10l7 3 7-3M3 14.2l7 3 7-3",
  groups: "M7 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM1.5 17c0-3 2.5-5 5.5-5s5.5 2 5.5 5M13 4a2.6 2.6 0 0 1 0 5M14.5 12c2.4.4 4 2.2 4 5",
  transactions: "M3 6.5h11M11 3l3.5 3.5L11 10M17 13.5H6M9 10l-3.5 3.5L9 17",
  moves: "M2.5 5h5v10h-5zM12.5 5h5v10h-5zM8.5 10h3M10.2 8l1.8 2-1.8 2",
  quotas: "M3 14a7 7 0 1 1 14 0M10 14l3.5-5M3 17h14",
  users: "M10 9.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM3 17.5c0-3.6 3-5.5 7-5.5s7 1.9 7 5.5",
  acls: "M10 2l6.5 2.5v5c0 4-2.7 6.7-6.5 8.5-3.8-1.8-6.500-4.500-6.500-8.500v-5zM7 10l2.200 2.200 3.800-4",
  menu: "M3 5h14M3 10h14M3 15h14",
  theme: "M10 3a7 7 0 1 0 7 7 5.500 5.500 0 0 1-7-7z",
  search: "M9 15A6 6 0 1 0 9 3a6 6 0 0 0 0 12zM13.500 13.500L17.500 17.500",
  play: "M6 3.500l10 6.500-10 6.500z",
  stop: "M5 5h10v10H5z",
  download: "M10 3v9M6.500 9l3.500 3.500L13.500 9M4 16.500h12",
  plus: "M10 4v12M4 10h12",
  trash: "M4 5.500h12M8 5V3h4v2M5.500 5.500l.8 11.500h7.400l.8-11.500",
  send: "M3 10l14-6.500-4.500 13.500-3-5.500z",
  refresh: "M16 7a6.500 6.500 0 1 0 .5 4.500M16.500 3v4.200h-4.200",
  back: "M12 4l-6 6 6 6",
  close: "M5 5l10 10M15 5L5 15",
  warning: "M10 3l8 14H2zM10 8v4.500M10 14.500v.5",
  story: "M4 3.500h9a3 3 0 0 1 3 3v10H7a3 3 0 0 1-3-3zM8 8l4 2.200L8 12.500z",
  edit: "M4 16l.8-3.500L13 4.300l2.700 2.700-8.200 8.200z",
};

export function icon(name) {
  return svg("svg", { viewBox: "0 0 20 20", class: "icon", "aria-hidden": "true" }, svg("path", { d: PATHS[name] || "" }));
}

// Words for numbers.
const LOCALE = "en-US";
export const count = (value) => (value === null || value === undefined ? "–" : Number(value).toLocaleString(LOCALE));

export function bytes(value) {
  if (value === null || value === undefined || value < 0) return "–";
  let rest = Number(value);
  for (const unit of ["B", "kB", "MB", "GB", "TB"]) {
    if (Math.abs(rest) < 1000 || unit === "TB") return `${unit === "B" ? rest.toFixed(0) : rest.toFixed(rest < 10 ? 2 : 1)} ${unit}`;
    rest /= 1000;
  }
  return "";
}

export function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size < 10 && value % 1) return Number(value).toFixed(1);
  if (size < 10000) return count(Math.round(value));
  if (size < 1e6) return `${(value / 1e3).toFixed(size < 1e5 ? 1 : 0)}k`;
  if (size < 1e9) return `${(value / 1e6).toFixed(size < 1e8 ? 1 : 0)}M`;
  return `${(value / 1e9).toFixed(1)}G`;
}

const two = (number) => String(number).padStart(2, "0");
export function clock(ms) {
  const date = new Date(ms);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
export function moment(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${clock(ms)}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}
export function ago(ms) {
  const seconds = Math.max(0, Math.round((Date.now() - ms) / 1000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min ago`;
  return seconds < 129600 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} days ago`;
}
export const plural = (number, word) => `${count(number)} ${word}${Number(number) === 1 ? "" : "s"}`;
export const link = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
