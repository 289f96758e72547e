"use strict";
// Draws playbacks (see lab/playback.py): all that happens is drawn anew for each step from the data in this page.
(() => {
  const playbacks = JSON.parse(document.getElementById("playbacks").textContent);
  const EPOCHS = ["#9ecae9", "#ffcf8a", "#b6dba0", "#e3b5d8", "#f2a59b", "#cbb9a8", "#c4c4f0", "#f0e68c"];
  const CELL = 58, MIN_CELL = 44, TIGHT_CELL = 30, ROW = 124, STACKED_ROW = 226, TOP = 14, PARTY = 164, LANE = 25, PACE_MS = 1800;
  const count = Math.max(...playbacks.map((telling) => telling.steps.length));
  const byId = (id) => document.getElementById(id);
  let at = 0, timer = null;

  // A style goes through its own property: the console's policy allows no style attributes.
  const setAll = (made, attributes) => {
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "style") made.style.cssText = value;
      else made.setAttribute(name, value);
    }
  };
  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    setAll(made, attributes);
    made.append(...children);
    return made;
  };
  const svg = (tag, attributes = {}, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    setAll(made, attributes);
    made.append(...children);
    return made;
  };
  const text = (x, y, content, kind = "") => svg("text", { x, y, class: kind }, content);
  // About how wide a label is, in heights of its font: capitals are wider.
  const emsOf = (label) => [...label].reduce((sum, letter) => sum + (/[A-Z]/.test(letter) ? 0.8 : 0.62), 0);
  const colour = (epoch) => EPOCHS[((epoch % EPOCHS.length) + EPOCHS.length) % EPOCHS.length];
  const stepOf = (telling, number) => telling.steps[Math.min(number, telling.steps.length - 1)];

  // What stays the same from step to step: who is there, and how wide the longest log is.
  // A message that is sent again and again in one step is one arrow.
  for (const telling of playbacks)
    for (const step of telling.steps) {
      const kinds = new Map();
      for (const message of step.messages) {
        const key = JSON.stringify([message.source, message.target, message.kind, message.text, message.delivered]);
        const first = kinds.get(key);
        if (first) first.times += 1;
        else kinds.set(key, { ...message, times: 1 });
      }
      step.messages = [...kinds.values()];
    }

  const isOfVoters = playbacks.some((telling) => telling.steps.some((step) => step.replicas.some((replica) => (replica.voters || []).length)));

  const layouts = playbacks.map((telling) => {
    const brokers = [], others = [];
    let longest = 1, lanes = 0;
    for (const step of telling.steps) {
      for (const replica of step.replicas) {
        if (!brokers.includes(replica.broker)) brokers.push(replica.broker);
        longest = Math.max(longest, replica.leo, ...replica.records.map((record) => record.offset + 1));
      }
      lanes = Math.max(lanes, step.messages.length);
    }
    for (const step of telling.steps)
      for (const message of step.messages)
        for (const party of [message.source, message.target])
          if (!brokers.includes(party) && !others.includes(party)) others.push(party);
    brokers.sort();
    for (const record of telling.verdict.lost) longest = Math.max(longest, record.offset + 1);
    return { brokers, others, longest, lanes: Math.min(lanes, 12), base: telling.base || 0 };
  });

  // Logs are beside the brokers where there is room, and below them where there is not. Records shrink until all fit.
  function fit(layout, room) {
    const edge = 14 + 4 * `LEO ${layout.longest + layout.base}`.length; // half of the widest mark
    const beside = PARTY + 40 + layout.lanes * LANE, records = layout.longest + 0.5;
    const cell = Math.min(CELL, (room - beside - edge) / records);
    layout.stacked = cell < MIN_CELL;
    layout.left = layout.stacked ? edge : beside;
    layout.cell = layout.stacked ? Math.max(TIGHT_CELL, Math.min(CELL, (room - 2 * edge) / records)) : cell;
    layout.row = layout.stacked ? STACKED_ROW : ROW;
    layout.lane = layout.stacked ? Math.max(14, Math.min(LANE, (room - PARTY - 40) / Math.max(1, layout.lanes))) : LANE;
    const arrows = PARTY + 40 + layout.lanes * layout.lane;
    layout.width = Math.max(layout.left + records * layout.cell + edge, layout.stacked ? arrows : 0);
  }

  const placeOf = (layout, party) => {
    const other = layout.others.indexOf(party);
    if (other >= 0) return TOP + other * 44 + 17;
    return TOP + layout.others.length * 44 + layout.brokers.indexOf(party) * layout.row + 50;
  };
  const logAt = (layout, broker) => placeOf(layout, broker) + (layout.stacked ? 102 : 0);

  function drawParty(layout, name, replica) {
    const y = placeOf(layout, name);
    if (!replica) {
      return svg("g", { class: "party" }, svg("rect", { x: 2, y: y - 15, width: PARTY, height: 30, rx: 15 }),
        svg("text", { x: 14, y: y + 5, class: "name" }, name));
    }
    const kind = replica.alive ? replica.role : "down";
    const group = svg("g", { class: `party ${kind}` }, svg("rect", { x: 2, y: y - 46, width: PARTY, height: 100, rx: 9 }));
    group.append(text(12, y - 27, name, "name"));
    group.append(text(12, y - 9, `${replica.alive ? replica.role : "down"}, epoch ${replica.leader_epoch}`, "role"));
    if (replica.voted) group.append(text(12, y + 9, `voted for ${replica.voted}`, "soft"));
    if (replica.isr.length) group.append(text(12, y + 9, `ISR ${replica.isr.map((one) => one.replace("broker-", "")).join(" ")}`, "soft"));
    const remote = Object.entries(replica.remote).map(([other, leo]) => `${other} ${leo < 0 ? "?" : leo}`).join("  ");
    if (remote) group.append(text(12, y + 27, `${isOfVoters ? "synced" : "remote LEO"} ${remote}`, "soft"));
    const cache = replica.epochs.map(([epoch, start]) => `${epoch}→${start}`).join("  ");
    const below = replica.voters && replica.voters.length ? `voters ${replica.voters.join(" ")}` : cache && `cache ${cache}`;
    group.append(text(12, y + 45, below, "soft"));
    return group;
  }

  function drawRecord(layout, y, record, kinds) {
    const cell = layout.cell, x = layout.left + record.offset * cell;
    const group = svg("g", { class: `record ${kinds.join(" ")}` });
    group.append(svg("title", {}, `offset ${record.offset + layout.base}, epoch ${record.epoch}${record.synced ? "" : ", not synced to disk"}`));
    group.append(svg("rect", { x: x + 2, y: y - 19, width: cell - 4, height: 38, rx: 5, fill: colour(record.epoch) }));
    const label = text(x + cell / 2, y + 5, record.label);
    label.style.fontSize = `${Math.min(13, (cell - 6) / Math.max(0.62, emsOf(record.label)))}px`;
    group.append(label, text(x + cell / 2, y + 33, record.offset + layout.base, "offset"));
    return group;
  }

  function drawMark(layout, y, offset, kind, word) {
    const x = layout.left + offset * layout.cell, up = kind === "hw";
    return svg("g", { class: `mark ${kind}` }, svg("line", { x1: x, x2: x, y1: y - (up ? 26 : 20), y2: y + (up ? 20 : 40) }),
      text(x, up ? y - 30 : y + 52, `${word} ${offset + layout.base}`));
  }

  function differing(step) {
    const seen = new Map(), found = new Set();
    for (const replica of step.replicas)
      for (const record of replica.records) {
        const what = `${record.epoch} ${record.label}`;
        if (seen.has(record.offset) && seen.get(record.offset) !== what) found.add(record.offset);
        seen.set(record.offset, what);
      }
    return found;
  }

  function drawLog(layout, replica, before, differs, lost) {
    const y = logAt(layout, replica.broker);
    const group = svg("g", { class: replica.alive ? "" : "dead" });
    const end = layout.left + (layout.longest + 0.5) * layout.cell;
    group.append(svg("line", { class: "lane", x1: layout.left, x2: end, y1: y + 21, y2: y + 21 }));
    const known = new Set((before ? before.records : []).map((record) => `${record.offset} ${record.epoch} ${record.label}`));
    const held = new Set();
    for (const record of replica.records) {
      const kinds = [];
      if (!record.synced) kinds.push("unsynced");
      if (before && !known.has(`${record.offset} ${record.epoch} ${record.label}`)) kinds.push("fresh");
      if (differs.has(record.offset)) kinds.push("differs");
      held.add(`${record.offset} ${record.label}`);
      group.append(drawRecord(layout, y, record, kinds));
    }
    for (const record of lost)
      if (!held.has(`${record.offset} ${record.label}`) && !replica.records.some((own) => own.offset === record.offset))
        group.append(drawRecord(layout, y, record, ["lost"]));
    group.append(drawMark(layout, y, replica.leo, "leo", "LEO"), drawMark(layout, y, replica.hw, "hw", "HW"));
    return group;
  }

  // Arrows of one step leave and arrive a little below each other, so that each can be followed.
  function drawArrow(layout, message, number, marker) {
    const shift = ((number % 6) - 2.5) * 7;
    const at = (party) => placeOf(layout, party) + (layout.brokers.includes(party) ? shift : shift / 3);
    const from = at(message.source), to = at(message.target), x = PARTY + 18 + (number % 12) * layout.lane;
    const down = to > from ? 1 : -1, stop = message.delivered ? to - down * 4 : from + (to - from) * 0.62;
    const group = svg("g", { class: `arrow ${message.delivered ? "" : "held"}` });
    group.append(svg("title", {}, `${message.kind} ${message.text}${message.times > 1 ? `, ${message.times} times` : ""}`));
    const turn = `M ${PARTY + 3} ${from} H ${x - 5} Q ${x} ${from} ${x} ${from + down * 5} V ${stop - down * 4}`;
    const arrive = message.delivered ? ` Q ${x} ${stop} ${x - 5} ${to} H ${PARTY + 9}` : "";
    group.append(svg("path", { d: turn + arrive, "marker-end": `url(#${marker})` }));
    const middle = from + (stop - from) / 2;
    group.append(svg("circle", { cx: x, cy: middle, r: 9 }), text(x, middle + 4, number + 1));
    if (!message.delivered) group.append(svg("path", { d: `M ${x - 5} ${stop - 5} l 10 10 m 0 -10 l -10 10` }));
    return group;
  }

  function drawStage(index) {
    const telling = playbacks[index], layout = layouts[index], step = stepOf(telling, at);
    const before = at > 0 ? telling.steps[Math.min(at, telling.steps.length) - 1] : null;
    const isLast = at >= telling.steps.length - 1;
    const height = TOP + layout.others.length * 44 + layout.brokers.length * layout.row + 8;
    const width = layout.width;
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": step.says });
    const marker = (id, fill) => svg("marker", { id, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 5.5, markerHeight: 5.5, orient: "auto" },
      svg("path", { d: "M0 0 L8 4 L0 8 z", style: `fill:${fill};stroke:none` }));
    picture.append(svg("defs", {}, marker(`tip-${index}`, "#2f6fd0"), marker(`none-${index}`, "none")));
    const differs = differing(step), lost = isLast ? telling.verdict.lost : [];
    for (const replica of step.replicas)
      picture.append(drawLog(layout, replica, before && before.replicas.find((one) => one.broker === replica.broker), differs, lost));
    for (const name of layout.others) picture.append(drawParty(layout, name, null));
    for (const replica of step.replicas) picture.append(drawParty(layout, replica.broker, replica));
    step.messages.forEach((message, number) =>
      picture.append(drawArrow(layout, message, number, message.delivered ? `tip-${index}` : `none-${index}`)));

    const stage = element("section", { class: "stage" });
    if (playbacks.length > 1) stage.append(element("h2", {}, nameOf(telling)));
    stage.append(knobsOf(telling));
    if (!isShared()) stage.append(element("div", { class: "own" }, ...told(step)));
    stage.append(element("div", { class: "scroll" }, picture), messagesOf(step));
    if (isLast) stage.append(verdictOf(telling));
    return stage;
  }

  const differentKnobs = new Set(Object.keys(playbacks[0].knobs).filter((knob) =>
    playbacks.some((telling) => telling.knobs[knob] !== playbacks[0].knobs[knob])));
  const nameOf = (telling) => [...differentKnobs].map((knob) => `${knob} ${telling.knobs[knob]}`).join(", ") || telling.title;

  function knobsOf(telling) {
    return element("ul", { class: "knobs" }, ...Object.entries(telling.knobs).map(([knob, value]) =>
      element("li", differentKnobs.has(knob) ? { class: "differs" } : {}, `${knob} ${value}`)));
  }

  function messagesOf(step) {
    return element("ol", { class: "messages" }, ...step.messages.map((message, number) =>
      element("li", { class: message.delivered ? "" : "held" }, element("span", { class: "number" }, number + 1),
        element("b", {}, `${message.source} → ${message.target} `), `${message.kind} ${message.text}${message.delivered ? "" : " (not delivered)"}${message.times > 1 ? `, ${message.times} times` : ""}`)));
  }

  function verdictOf(telling) {
    const verdict = telling.verdict;
    const word = verdict.word || (verdict.ok ? "Nothing acknowledged is lost, and the replicas agree." : "This ends badly.");
    return element("div", { class: verdict.ok ? "verdict" : "verdict bad" }, element("p", { class: "word" }, word),
      ...verdict.sentences.map((sentence) => element("p", {}, sentence)));
  }

  const told = (step) => [element("p", { class: "says" }, step.says), element("p", { class: "why" }, step.why)];
  const isShared = () => playbacks.every((telling) => {
    const own = stepOf(telling, at), first = stepOf(playbacks[0], at);
    return own.says === first.says && own.why === first.why;
  });

  function drawStages() {
    const style = getComputedStyle(byId("stages")), columns = style.gridTemplateColumns.split(" ").map(parseFloat);
    // A stage's padding and border are 34 px.
    for (const layout of layouts) fit(layout, (columns[0] || byId("stages").clientWidth) - 34);
    byId("stages").replaceChildren(...playbacks.map((_, index) => drawStage(index)));
  }

  function show(number) {
    at = Math.max(0, Math.min(count - 1, number));
    const step = stepOf(playbacks[0], at);
    byId("story").replaceChildren(...(isShared() ? told(step) : []));
    drawStages();
    byId("slider").value = at;
    byId("place").value = `step ${at + 1} of ${count}, ${step.millis.toFixed(0)} ms`;
    byId("first").disabled = byId("back").disabled = at === 0;
    byId("last").disabled = byId("forward").disabled = at === count - 1;
    byId("steps").querySelectorAll("li").forEach((item, index) =>
      index === at ? item.setAttribute("aria-current", "step") : item.removeAttribute("aria-current"));
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    byId("play").textContent = "▶ Play";
  }

  function play() {
    if (timer !== null) return stop();
    if (at === count - 1) show(0);
    byId("play").textContent = "⏸ Pause";
    timer = setInterval(() => {
      show(at + 1);
      if (at === count - 1) stop();
    }, PACE_MS);
  }

  const go = (number) => { stop(); show(number); };
  byId("first").onclick = () => go(0);
  byId("back").onclick = () => go(at - 1);
  byId("forward").onclick = () => go(at + 1);
  byId("last").onclick = () => go(count - 1);
  byId("play").onclick = play;
  byId("slider").max = count - 1;
  byId("slider").oninput = (event) => go(Number(event.target.value));
  const keys = { ArrowLeft: () => go(at - 1), ArrowRight: () => go(at + 1), Home: () => go(0), End: () => go(count - 1), " ": play };
  document.addEventListener("keydown", (event) => {
    const isOwn = event.target.matches("input, summary") || (event.key === " " && event.target.matches("button"));
    if (keys[event.key] && !isOwn && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      keys[event.key]();
    }
  });

  addEventListener("resize", drawStages);
  byId("title").textContent = playbacks[0].title;
  byId("source").textContent = playbacks[0].source;
  for (let number = 0; number < count; number++) {
    const item = element("li", {}, stepOf(playbacks[0], number).says);
    item.onclick = () => go(number);
    byId("steps").append(item);
  }
  const used = [...new Set(playbacks.flatMap((telling) => telling.steps.flatMap((step) =>
    step.replicas.flatMap((replica) => replica.records.map((record) => record.epoch)))))].sort((one, other) => one - other);
  byId("legend").append(...used.map((epoch) => element("span", {}, element("i", { style: `background:${colour(epoch)}` }), `epoch ${epoch}`)),
    element("span", {}, element("i", { style: "border:2px dashed currentColor" }), "not synced to disk"),
    element("span", {}, element("i", { style: "border:3px solid var(--bad)" }), "replicas differ at this offset"),
    element("span", {}, element("b", { style: "color:var(--hw)" }, "HW"), isOfVoters ? "committed below it" : "consumers read below it"),
    element("span", {}, element("b", {}, "LEO"), "the next record's offset"));
  const wished = Number(new URLSearchParams(location.hash.slice(1)).get("step"));
  show(wished ? wished - 1 : 0);
})();
