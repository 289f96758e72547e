// The content of a message: JSON with colours, without changing a digit of it, and bytes as hex.
import { h } from "/dom.js";

const MOST_TOKENS = 20000;
const TOKEN = /\s+|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:]/gy;

// An element, or null if the text is not JSON. Numbers are shown as they are written: parsing would round large ones.
export function jsonView(text) {
  const start = text.trimStart()[0];
  if (start !== "{" && start !== "[") return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const tokens = text.match(TOKEN) || [];
  const words = tokens.filter((token) => token.trim() !== "");
  if (words.length > MOST_TOKENS) return h("pre.content", text);
  const pre = h("pre.content");
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  words.forEach((token, index) => {
    const next = words[index + 1], last = words[index - 1];
    if (token === "{" || token === "[") {
      depth += 1;
      pre.append(token + (next === "}" || next === "]" ? "" : line()));
    } else if (token === "}" || token === "]") {
      depth -= 1;
      pre.append((last === "{" || last === "[" ? "" : line()) + token);
    } else if (token === ",") pre.append(`,${line()}`);
    else if (token === ":") pre.append(": ");
    else pre.append(h(`span.${kindOf(token, next)}`, token));
  });
  return pre;
}

function kindOf(token, next) {
  if (token[0] === '"') return next === ":" ? "json-key" : "json-text";
  return /^[-\d]/.test(token) ? "json-number" : "json-word";
}

const MOST_HEX = 4096;
export function hexDump(part) {
  const data = part.base64 !== undefined ? Uint8Array.from(atob(part.base64), (each) => each.charCodeAt(0)) : new TextEncoder().encode(part.text.slice(0, MOST_HEX));
  const lines = [];
  for (let at = 0; at < Math.min(data.length, MOST_HEX); at += 16) {
    const row = [...data.slice(at, at + 16)];
    const hex = row.map((each) => each.toString(16).padStart(2, "0")).join(" ");
    const text = row.map((each) => (each >= 32 && each < 127 ? String.fromCharCode(each) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return h("pre.content.hex", lines.join("\n") + (part.size > MOST_HEX ? `\n… ${part.size} bytes` : ""));
}
