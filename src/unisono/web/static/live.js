// The live view: what the nodes of a running system tell, many times a second.
import { ask, clock, count, duration, h, many, rate, s, set, write } from "./dom.js";
import { Rows } from "./rows.js";
import { arcs } from "./arcs.js";

const PHASES = {
  sequence: "from publish to its number",
  store: "from its number to the lane's confirmation",
  travel: "from publish to a subscription",
  hold: "held back for earlier events, if it was",
  deliver: "waiting for the application",
};
const COUNTS = {
  held: "waited for an earlier event",
  tagged: "delivered with in_order=False",
  dropped: "too late, or the application too slow",
  voided: "numbers that have no event",
  lost: "nobody could repair them",
  repaired: "asked for again, and sent again",
  rejected: "frames that made no sense",
};
const TONES = { tagged: "warn", dropped: "warn", lost: "bad", rejected: "warn" };
const LOG_MAX = 100;
const PAST = 120;
const SORT_MS = 1000;
const LOST_MS = 8000;

export function live(main, { about, tell }) {
  const page = new Page(main, about, tell);
  return () => page.end();
}

class Page {
  constructor(main, about, tell) {
    this.about = about;
    this.tell = tell;
    this.topics = [];
    this.past = [];
    this.ticks = 0;
    this.group = 0;
    this.drawing = false;
    this.sortedAt = 0;
    this.build(main);
    if (about.place) this.listen();
    else this.say("This dashboard watches no system. Start it with --url nats://… to see one live.");
  }

  // The stream. A browser connects again by itself unless it was refused; then we try again.

  listen() {
    this.tell("wait", "connecting");
    this.heardAt = performance.now();
    const source = (this.source = new EventSource("/api/live"));
    const on = (name, take) => source.addEventListener(name, (event) => {
      this.heardAt = performance.now();
      take.call(this, JSON.parse(event.data));
    });
    on("whole", this.whole);
    on("tick", this.tick);
    on("happened", this.happened);
    source.onerror = () => {
      this.tell("lost", "connection lost, trying again");
      if (source.readyState === EventSource.CLOSED) this.again();
    };
    clearInterval(this.watch);
    this.watch = setInterval(() => {
      if (performance.now() - this.heardAt > LOST_MS) this.again();
    }, 1000);
  }

  again() {
    this.source.close();
    clearInterval(this.watch);
    this.retry = setTimeout(() => this.listen(), 1000);
  }

  end() {
    this.source?.close();
    clearInterval(this.watch);
    clearTimeout(this.retry);
    this.rows.end();
    this.sizes.disconnect();
  }

  // What is told.

  whole(told) {
    const before = new Map(this.topics.map((t) => [t.topic, t]));
    this.topics = told.topics.map((t, place) => {
      const known = before.get(t.topic);
      return { ...t, place, words: `${t.topic} ${t.owner}`.toLowerCase(), number: known?.number ?? 0, rate: known?.rate ?? 0, subscribers: known?.subscribers ?? 0 };
    });
    this.fastest = 1;
    this.rows.take(this.topics);
    this.told = told;
    write(this.epoch, told.epoch === null ? "–" : count(told.epoch));
    write(this.epochNote, told.state === "sealing" ? "changing" : "");
    write(this.facts, told.epoch === null ? "" : `${many(told.topics.length, "topic")}, durability ${told.durability}, sequencer ${told.sequencer}`);
    this.choose(told.groups);
  }

  tick(told) {
    this.ticks += 1;
    document.documentElement.dataset.ticks = this.ticks;
    this.say(told.trouble ? `${this.about.place}: ${told.trouble}` : "");
    if (told.trouble) {
      this.tell("lost", "no system");
      return;
    }
    this.tell("well", this.about.place);
    for (const [place, number, perSecond, subscribers] of told.topics) {
      const topic = this.topics[place];
      if (!topic) continue;
      topic.number = number;
      topic.rate = perSecond;
      topic.subscribers = subscribers;
      if (perSecond > this.fastest) this.fastest = perSecond;
    }
    this.last = told;
    this.past.push(told.rate);
    if (this.past.length > PAST) this.past.shift();
    if (!this.drawing) {
      this.drawing = true;
      requestAnimationFrame(() => this.draw());
    }
  }

  happened({ at, kind, words }) {
    this.log.prepend(h("li", { "data-kind": kind }, h("time", {}, clock(at)), h("span", {}, words)));
    while (this.log.children.length > LOG_MAX) this.log.lastChild.remove();
  }

  say(words) {
    this.notice.hidden = !words;
    write(this.notice, words);
  }

  // What is shown.

  draw() {
    this.drawing = false;
    const { last } = this;
    write(this.rate, rate(last.rate));
    this.spark();
    const alive = last.nodes.filter((n) => n.state === "alive").length;
    write(this.nodes, `${alive}`);
    write(this.nodesNote, alive === last.nodes.length ? "" : `of ${last.nodes.length}`);
    write(this.subscribed, count(last.subscribed));
    write(this.subscribedNote, many(last.buses, "bus").replace("buss", "buses"));
    write(this.events, count(last.events));
    for (const [name, place] of Object.entries(this.counts)) {
      write(place.value, count(last.counts[name] || 0));
      set(place.box, "data-tone", last.counts[name] ? TONES[name] || "" : "");
    }
    const now = performance.now();
    if (this.rows.isOrdered && now - this.sortedAt > SORT_MS) {
      this.sortedAt = now;
      this.rows.arrange();
    } else this.rows.draw();
    this.drawNodes(last.nodes);
    this.drawPhases(last.phases);
    this.drawSubscriptions(last);
  }

  spark() {
    const most = Math.max(1, ...this.past);
    const points = this.past.map((r, i) => `${((i / (PAST - 1)) * 100).toFixed(1)},${(30 - (28 * r) / most).toFixed(1)}`).join(" ");
    this.line.setAttribute("points", points);
    this.area.setAttribute("points", `0,30 ${points} ${(((this.past.length - 1) / (PAST - 1)) * 100).toFixed(1)},30`);
  }

  drawNodes(nodes) {
    fit(this.nodeRows, nodes.length, 6, ["name", "", "number", "number wide", "number", "number wide"]);
    nodes.forEach((node, i) => {
      const cells = this.nodeRows.children[i].children;
      write(cells[0], node.leader ? `${node.node} (leads)` : node.node);
      if (!cells[1].firstChild) cells[1].append(h("span", { class: "dot" }));
      set(cells[1].firstChild, "data-state", node.state);
      write(cells[1].firstChild, node.state);
      write(cells[2], count(node.topics));
      write(cells[3], count(node.epoch));
      write(cells[4], node.beat_s === null ? "–" : `${node.beat_s.toFixed(1)} s`);
      write(cells[5], count(node.takeovers));
    });
  }

  drawPhases(phases) {
    const scale = (seconds) => Math.max(0, Math.min(1, Math.log10(Math.max(seconds, 5e-5) / 5e-5) / Math.log10(10 / 5e-5)));
    for (const [name, place] of Object.entries(this.phases)) {
      const told = phases[name];
      write(place.times, told ? `${duration(told.p50)} / ${duration(told.p99)}` : "–");
      const from = told ? scale(told.p50) : 0, to = told ? scale(told.p99) : 0;
      place.bar.style.left = `${from * 100}%`;
      place.bar.style.width = `${Math.max(0, to - from) * 100}%`;
      place.bar.style.visibility = told ? "visible" : "hidden";
    }
  }

  drawSubscriptions({ subscriptions, away }) {
    const rows = [...subscriptions, ...away.map((a) => ({ ...a, away: true }))].slice(0, 60);
    this.noSubscriptions.hidden = rows.length > 0;
    this.subscriptionTable.hidden = rows.length === 0;
    fit(this.subscriptionRows, rows.length, 8, ["name", "name wide", "", "number", "number", "number wide", "number wide", "number wide"]);
    rows.forEach((row, i) => {
      const cells = this.subscriptionRows.children[i].children;
      write(cells[0], row.name);
      write(cells[1], row.away ? "–" : row.bus);
      write(cells[2], row.away ? "away, place kept" : row.on_gap && row.on_gap !== "wait" ? `${row.order}, ${row.on_gap}` : row.order);
      write(cells[3], count(row.behind));
      write(cells[4], row.away ? "–" : count(row.waiting));
      write(cells[5], row.away ? "–" : count(row.held));
      write(cells[6], count(row.away ? row.acknowledged : row.delivered));
      write(cells[7], row.away ? "–" : `${count(row.tagged)} / ${count(row.dropped)}`);
    });
  }

  // Groups.

  choose(groups) {
    const some = groups.slice(0, 200);
    const signature = some.map((g) => `${g.first}/${g.size}/${g.owners}`).join();
    if (signature !== this.groupsKnown) {
      this.groupsKnown = signature;
      this.group = Math.min(this.group, Math.max(0, some.length - 1));
      this.choice.replaceChildren(...some.map((g, i) =>
        h("option", { value: String(i), selected: i === this.group }, g.size === 1 ? g.first : `${g.first} and ${many(g.size - 1, "other")}`)));
    }
    this.choice.disabled = some.length === 0;
    write(this.groupNote, groups.length ? `${many(groups.length, "group")}; topics of different groups never wait for each other` : "no topics yet");
    this.drawGroup();
  }

  async drawGroup() {
    if (!this.told?.groups.length) {
      this.arcs.replaceChildren(h("p", { class: "empty" }, "Topics that share subscribers are ordered together. None yet."));
      return;
    }
    try {
      this.overlaps = await ask(`/api/overlaps/${this.group}`);
    } catch {
      return; // the groups have just changed, and will be told anew
    }
    this.drawArcs();
  }

  drawArcs() {
    const width = Math.floor(this.arcs.clientWidth) - 4;
    if (this.overlaps && width > 100) this.arcs.replaceChildren(arcs(this.overlaps, width));
  }

  // The page.

  build(main) {
    const figure = (title, ...parts) => h("div", { class: "figure" }, h("dt", {}, title), h("dd", {}, ...parts));
    const value = () => h("span", {}, "–");
    const note = () => h("small", {});
    [this.rate, this.epoch, this.nodes, this.subscribed, this.events] = [value(), value(), value(), value(), value()];
    [this.epochNote, this.nodesNote, this.subscribedNote] = [note(), note(), note()];
    this.line = s("polyline");
    this.area = s("polygon");
    const first = figure("events sequenced a second", this.rate);
    first.append(s("svg", { viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" }, this.area, this.line));
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.facts = h("p", {});
    this.counts = {};
    const counts = h("dl", { class: "card counts", "aria-label": "What was counted" });
    for (const [name, meaning] of Object.entries(COUNTS)) {
      const box = h("div", { title: meaning }, h("dt", {}, name), h("dd", {}, "0"));
      this.counts[name] = { box, value: box.lastChild };
      counts.append(box);
    }
    main.append(
      h("h1", { class: "hidden" }, "Live"),
      this.notice,
      h("dl", { class: "figures" }, first,
        figure("epoch", this.epoch, this.epochNote), figure("nodes alive", this.nodes, this.nodesNote),
        figure("subscriptions", this.subscribed, this.subscribedNote), figure("events so far", this.events)),
      counts,
      h("div", { class: "live" },
        h("div", {}, this.buildTopics(), this.buildSubscriptions(), this.buildGroups()),
        h("div", {}, this.buildNodes(), this.buildLog(), this.buildPhases())),
    );
    this.sizes = new ResizeObserver(() => this.drawArcs());
    this.sizes.observe(this.arcs);
  }

  buildTopics() {
    const bar = (cell, row) => {
      if (!cell.firstChild) cell.append(h("span", {}), h("i", {}));
      cell.classList.add("rate");
      write(cell.firstChild, rate(row.rate));
      const width = `scaleX(${(row.rate / this.fastest).toFixed(3)})`;
      if (cell.lastChild.style.transform !== width) cell.lastChild.style.transform = width;
    };
    this.rows = new Rows("Topics", [
      { title: "rank", class: "number c-rank", text: (t) => t.place + 1, sort: (t) => t.place },
      { title: "topic", text: (t) => (t.closed ? `${t.topic} (deleted)` : t.topic), sort: (t) => t.topic },
      { title: "owner", class: "c-owner", text: (t) => t.owner, sort: (t) => t.owner },
      { title: "a second", class: "number c-rate", fill: bar, sort: (t) => t.rate, moves: true, down: true },
      { title: "events", class: "number c-events", text: (t) => count(t.number), sort: (t) => t.number, moves: true, down: true },
      { title: "held by", class: "number wide c-holders", text: (t) => count(t.subscribers), sort: (t) => t.subscribers, down: true },
      { title: "ordered with", class: "number wide c-with", text: (t) => (t.with ? count(t.with) : "nobody"), sort: (t) => t.with, down: true },
    ]);
    const search = h("input", { type: "search", placeholder: "filter", "aria-label": "Filter topics by name or owner", class: "end", size: 14 });
    search.addEventListener("input", () => this.rows.search(search.value));
    return h("section", { class: "card" }, h("header", {}, h("h2", {}, "Topics"), this.facts, search), this.rows.element);
  }

  buildSubscriptions() {
    const heads = [["subscription", ""], ["bus", "wide"], ["order", ""], ["behind", "number"], ["waiting", "number"], ["held", "number wide"], ["delivered", "number wide"], ["tagged / dropped", "number wide"]];
    this.subscriptionRows = h("tbody");
    this.subscriptionTable = table("Subscriptions and how far behind they are", heads, this.subscriptionRows);
    this.noSubscriptions = h("p", { class: "empty" }, "No bus tells of a subscription. Try: unisono sub orders payments");
    return h("section", { class: "card" },
      h("header", {}, h("h2", {}, "Subscriptions"), h("p", {}, "behind: sequenced but not reached; waiting: for the application")),
      this.noSubscriptions, this.subscriptionTable);
  }

  buildNodes() {
    const heads = [["node", ""], ["state", ""], ["topics", "number"], ["epoch", "number wide"], ["last sign", "number"], ["takeovers", "number wide"]];
    this.nodeRows = h("tbody");
    return h("section", { class: "card" }, h("header", {}, h("h2", {}, "Nodes")), table("Nodes", heads, this.nodeRows));
  }

  buildLog() {
    this.log = h("ol", { class: "log", role: "log", "aria-label": "What happened", tabindex: "0" });
    return h("section", { class: "card" }, h("header", {}, h("h2", {}, "What happened"), h("p", {}, "epochs, takeovers, who comes and goes")), this.log);
  }

  buildPhases() {
    this.phases = {};
    const rows = h("tbody");
    for (const [name, meaning] of Object.entries(PHASES)) {
      const bar = h("i");
      const times = h("td", { class: "number times" }, "–");
      bar.style.visibility = "hidden";
      rows.append(h("tr", {}, h("td", { title: meaning }, name), h("td", {}, h("div", { class: "span" }, bar)), times));
      this.phases[name] = { bar, times };
    }
    const one = table("Latency by phase", [["phase", ""], ["50 µs to 10 s", ""], ["median / 99 %", "number times"]], rows);
    one.classList.add("phases");
    return h("section", { class: "card" }, h("header", {}, h("h2", {}, "Latency by phase"), h("p", {}, "the last ten seconds")), one);
  }

  buildGroups() {
    this.choice = h("select", { "aria-label": "Sequencing group", class: "end" });
    this.choice.addEventListener("change", () => {
      this.group = Number(this.choice.value);
      this.drawGroup();
    });
    this.groupNote = h("p", {});
    this.arcs = h("div", { class: "arcs", tabindex: "0", role: "region", "aria-label": "Overlaps of the chosen group" });
    return h("section", { class: "card" },
      h("header", {}, h("h2", {}, "Ordered together"), this.choice, this.groupNote), this.arcs,
      h("p", { class: "legend" }, "Arcs join topics that share subscribers, top rank first; the thick ones are the way on which events are sequenced."));
  }
}

function table(label, heads, body) {
  const cells = heads.map(([title, name]) => h("th", { scope: "col", class: name }, title));
  return h("table", {}, h("caption", { class: "hidden" }, label), h("thead", {}, h("tr", {}, ...cells)), body);
}

function fit(body, rows, columns, classes) {
  while (body.children.length > rows) body.lastChild.remove();
  while (body.children.length < rows) {
    body.append(h("tr", {}, ...Array.from({ length: columns }, (_, i) => h("td", { class: classes[i] }))));
  }
}
