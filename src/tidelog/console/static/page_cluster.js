// The overview, and one broker.
import { ago, bytes, count, fill, h, icon, link, plural, setText, short } from "/dom.js";
import { badge, card, chart, empty, failure, heading, meter, timelineList, whyButton } from "/widgets.js";
import { optionsCard } from "/options.js";

function stat(label, extra = null) {
  const value = h("div.value", "–"), more = h("div.more"), side = h("span", {}, extra);
  const element = h("div.stat", {}, h("div.label", {}, h("span", label), side), value, more);
  return {
    element, side,
    set(text, note = "", kind = "") {
      setText(value, text);
      setText(more, note);
      element.className = `stat ${kind}`;
    },
  };
}

export async function overview() {
  const stats = { brokers: stat("Brokers"), controller: stat("Controller"), topics: stat("Topics"), partitions: stat("Partitions"), under: stat("Under-replicated"), offline: stat("Offline") };
  const records = chart("Records in per second"), traffic = chart("Bytes in per second", { unit: (value) => `${bytes(value)}` }), troubled = chart("Partitions with trouble", { unit: (value) => count(value), kind: "bad" });
  const brokers = h("div"), troubles = h("div"), events = timelineList("Events of the cluster");
  const story = h("a.button", { href: "/story.html", target: "_blank", rel: "noopener" }, icon("story"), h("span", "Play the last election as a story"));
  const root = h("div", heading("Overview"),
    h("div.stats", Object.values(stats).map((each) => each.element)),
    h("div.grid", card(null, records.element), card(null, traffic.element), card(null, troubled.element)),
    h("div.grid.wide", h("div", troubles, h("section.card", h("div.card-head", h("h2", "What happened"), story), events.element)), card("Brokers", brokers)));
  let header = null;
  return {
    title: "Overview", root, watch: { watch: "overview" },
    header(found) {
      header = found;
      stats.topics.set(count(found.topics));
      stats.partitions.set(count(found.partitions));
      stats.under.set(count(found.under_replicated), "", found.under_replicated ? "warn" : "");
      stats.offline.set(count(found.offline), "", found.offline ? "bad" : "");
      const bad = found.under_replicated || found.offline;
      fill(stats.under.side, bad ? whyButton("cluster") : null);
      const alive = found.brokers - found.down.length;
      stats.brokers.set(found.down.length ? `${alive} of ${found.brokers}` : count(found.brokers), found.down.length ? `down: ${found.down.join(", ")}` : "all answer", found.down.length ? "bad" : "");
    },
    update(data) {
      stats.controller.set(data.controller >= 0 ? `broker ${data.controller}` : header && header.is_tidelog ? "none" : "quorum", data.controller >= 0 ? "" : header && header.is_tidelog ? "" : "KRaft", data.controller < 0 && header && header.is_tidelog ? "bad" : "");
      stats.partitions.set(count(header ? header.partitions : 0), plural(data.replicas, "replica"));
      records.update(data.points.map((point) => [point[0], point[1]]));
      traffic.update(data.points.map((point) => [point[0], point[2]]));
      troubled.update(data.points.map((point) => [point[0], point[3]]));
      fill(brokers, data.brokers.length ? data.brokers.map(brokerRow) : empty("No broker answers."));
      fill(troubles, data.troubles.length ? troubleCard(data.troubles) : null);
      events.update(data.timeline);
    },
  };
}

function brokerRow(broker) {
  const used = broker.folders.reduce((sum, folder) => sum + folder.used, 0);
  const total = broker.folders.find((folder) => folder.total > 0), failed = broker.folders.filter((folder) => folder.error);
  const isDown = !broker.answers;
  return h(`div.broker${isDown ? ".gone" : ""}`, { "data-broker": broker.id }, h("span.id", { "aria-hidden": "true" }, broker.id),
    h("div", {}, h("div.title", {}, h("a", { href: link("broker", broker.id) }, `Broker ${broker.id}`),
      broker.controller ? badge("controller", "accent") : null, isDown ? badge("down", "bad") : null, failed.length ? badge("log directory failed", "bad") : null,
      isDown || failed.length ? whyButton("broker", String(broker.id)) : null),
    h("div.sub", isDown ? `${broker.registered ? "does not answer" : "not registered"}${broker.since_ms ? `, ${ago(broker.since_ms)}` : ""}` : `${broker.address}${broker.rack ? `, rack ${broker.rack}` : ""}`),
    h("div.sub", `leads ${count(broker.leaders)} of ${plural(broker.replicas, "replica")}`)),
    h("div.side", {}, h("span", `${bytes(used)} in logs`), total ? [meter(total.total - total.usable, total.total, `disk: ${bytes(total.usable)} of ${bytes(total.total)} free`), h("span", `${bytes(total.usable)} free`)] : null));
}

function troubleCard(troubles) {
  return h("section.card", h("div.card-head", h("h2", `Partitions with trouble (${count(troubles.length)}${troubles.length >= 200 ? " or more" : ""})`), whyButton("cluster")),
    h("div.table-box", h("table.stack", h("caption.hidden", "Partitions with trouble"), h("thead", h("tr", ["Partition", "Trouble", ""].map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", troubles.slice(0, 8).map((trouble) => h("tr", h("td.name", {}, h("a", { href: link("topic", trouble.topic) }, `${trouble.topic}-${trouble.partition}`)),
        h("td", {}, trouble.offline ? badge("no leader", "bad") : badge("under-replicated", "warn"), trouble.missing.length ? ` missing ${trouble.missing.join(", ")}` : ""),
        h("td.number", {}, whyButton("partition", `${trouble.topic}-${trouble.partition}`))))))));
}

export async function broker({ segments, session }) {
  const [id] = segments;
  const facts = h("div.stats"), folders = h("div");
  const options = await optionsCard("broker", id, session).catch((error) => ({ element: failure(error) }));
  const root = h("div", h("p.crumbs", {}, h("a", { href: "#/overview" }, "Overview")), heading(`Broker ${id}`, whyButton("broker", id)), facts, folders, options.element);
  return {
    title: `Broker ${id}`, root, watch: { watch: "overview" },
    update(data) {
      const found = data.brokers.find((each) => String(each.id) === id);
      if (!found) return fill(facts, empty(`There is no broker ${id}.`));
      const box = (label, text, kind = "") => h(`div.stat${kind}`, h("div.label", h("span", label)), h("div.value", text));
      fill(facts, box("State", found.answers ? "up" : "down", found.answers ? "" : ".bad"), box("Answers in", found.answers ? `${found.latency_ms} ms` : "–"), box("Leads", short(found.leaders)), box("Replicas", short(found.replicas)));
      fill(folders, found.folders.length ? card("Log directories", found.folders.map((folder) => h("div.broker", h("span", {}, folder.error ? badge(folder.error, "bad") : badge("online", "good")), h("div", h("div.title.mono", folder.path), h("div.sub", `${bytes(folder.used)} in logs`)),
        h("div.side", folder.total > 0 ? [meter(folder.total - folder.usable, folder.total, "disk used"), h("span", `${bytes(folder.usable)} of ${bytes(folder.total)} free`)] : "")))) : null);
    },
  };
}
