// Requests to the console's server. The token lives where only pages of this address can read it, and is no cookie.
const KEY = "tidelog-console-token";
const RETRY_MS = 1000;

export function takeToken() {
  const given = /^#token=([\w-]+)$/.exec(location.hash);
  if (given) {
    localStorage.setItem(KEY, given[1]);
    history.replaceState(null, "", "#/overview");
  }
  return localStorage.getItem(KEY) || "";
}

export function setToken(text) {
  localStorage.setItem(KEY, text.trim().replace(/^.*token=/, ""));
}

export class Refusal extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

let onUnauthorized = () => {};
export function whenUnauthorized(call) {
  onUnauthorized = call;
}

async function ask(path, settings = {}) {
  const headers = { authorization: `Bearer ${localStorage.getItem(KEY) || ""}`, ...(settings.headers || {}) };
  let response;
  try {
    response = await fetch(`/api/${path}`, { ...settings, headers, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The console's server does not answer.");
  }
  if (response.ok) return response;
  if (response.status === 401) onUnauthorized();
  const text = await response.text();
  let sentence = text;
  try {
    sentence = JSON.parse(text).sentence || text;
  } catch { /* a sentence as plain text */ }
  throw new Refusal(response.status, sentence);
}

export function query(path, values = {}) {
  const chosen = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return `${path}?${new URLSearchParams(chosen.map(([name, value]) => [name, String(value)]))}`;
}

export const get = async (path, values, signal) => (await ask(query(path, values), { signal })).json();
export const post = async (path, values) =>
  (await ask(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(values) })).json();

export async function download(path, values, name) {
  const response = await ask(query(path, values));
  const place = URL.createObjectURL(await response.blob());
  const anchor = document.createElement("a");
  anchor.href = place;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(place), 10000);
}

// Reads server-sent events until the server ends them or `signal` is aborted.
async function readEvents(response, handlers) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      let kind = "message", data = "";
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) kind = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data && handlers[kind]) handlers[kind](JSON.parse(data));
    }
  }
}

// Events of one request, once. Returns a function that ends it.
export function stream(path, values, handlers) {
  const stop = new AbortController();
  (async () => {
    try {
      await readEvents(await ask(query(path, values), { signal: stop.signal }), handlers);
      if (handlers.ended) handlers.ended();
    } catch (error) {
      if (stop.signal.aborted) return;
      if (handlers.refused) handlers.refused({ sentence: error.message });
      if (handlers.ended) handlers.ended();
    }
  })();
  return () => stop.abort();
}

// Events for as long as the page is shown: asks again when the connection is lost.
export function live(values, handlers) {
  let stop = null, ended = false, timer = 0;
  const begin = () => {
    if (ended) return;
    stop = stream("live", values, {
      ...handlers,
      refused: (refusal) => {
        if (handlers.refused) handlers.refused(refusal);
      },
      ended: () => {
        if (handlers.lost) handlers.lost();
        timer = setTimeout(begin, RETRY_MS);
      },
    });
  };
  begin();
  return () => {
    ended = true;
    clearTimeout(timer);
    if (stop) stop();
  };
}
