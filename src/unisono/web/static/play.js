// See the problem: one simulated run, heard without ordering and with it, side by side.
import { ask, h, many, s } from "./dom.js";

const ROW = 28;
const TOPICS = ["orders", "payments", "stock"];
const NAMES = ["anna", "bruno"];
const SLIDERS = [
  ["delay_ms", "Delay of messages", 0, 600, 10, 240, (v) => `up to ${v} ms`],
  ["loss", "Lost on the way", 0, 40, 1, 0, (v) => `${v} %`],
  ["every_ms", "Time between events", 20, 300, 10, 80, (v) => `${v} ms`],
  ["buffer", "Buffer before tagging", 0, 32, 1, 0, (v) => many(Number(v), "event")],
];
const ORDERS = [
  ["fifo", "fifo", "each publisher's events of a topic in order"],
  ["total", "total", "everybody hears one order, across topics"],
  ["total_causal", "total_causal", "that, and causes before effects"],
];
const GAPS = [
  ["wait", "wait", "hold until it is here"],
  ["tag", "tag", "deliver at once, say so where the order breaks"],
  ["skip", "skip", "go on without it"],
];

export function play(main) {
  const page = new Playground(main);
  return () => page.end();
}

class Playground {
  constructor(main) {
    this.seed = 1;
    this.asked = 0;
    this.build(main);
    this.run();
  }

  end() { cancelAnimationFrame(this.frame); clearTimeout(this.soon); }

  // Asking for a run.

  knobs() {
    const values = Object.fromEntries(this.form.map(([name, input]) => [name, Number(input.value)]));
    const chosen = (name) => this.card.querySelector(`input[name="${name}"]:checked`).value;
    return { ...values, loss: values.loss / 100, events: 70, seed: this.seed, guarantee: chosen("guarantee"), on_gap: chosen("on_gap") };
  }

  turned() {
    for (const [, input, output, words] of this.form) output.textContent = words(input.value);
    const waits = this.card.querySelector('input[name="on_gap"]:checked').value === "wait";
    this.buffer.disabled = waits;
    this.buffer.closest("div").setAttribute("aria-disabled", String(waits));
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.run(), 120);
  }

  async run() {
    const mine = ++this.asked;
    try {
      const told = await ask(`/api/play?${new URLSearchParams(this.knobs())}`);
      if (mine === this.asked) this.start(told);
    } catch (error) {
      this.notice.hidden = false;
      this.notice.textContent = error.message;
    }
  }

  start(told) {
    this.notice.hidden = true;
    this.sides[0].take(told.without, told.published);
    this.sides[1].take(told.ordered, told.published);
    this.sides[1].title.textContent = `With unisono: order="${told.knobs.guarantee}", on_gap="${told.knobs.on_gap}"`;
    this.length = Math.max(...this.sides.map((side) => side.length)) + 400;
    this.at = matchMedia("(prefers-reduced-motion: reduce)").matches ? this.length : 0;
    this.paused = false;
    this.pause.textContent = "Pause";
    this.before = performance.now();
    cancelAnimationFrame(this.frame);
    this.step(this.before);
  }

  // Showing it, at the pace of its own clock.

  step(now) {
    if (!this.paused) this.at += now - this.before;
    this.before = now;
    for (const side of this.sides) side.show(this.at);
    if (this.at < this.length && !this.paused) this.frame = requestAnimationFrame((t) => this.step(t));
    else if (this.at >= this.length) this.pause.textContent = "Play again";
  }

  press() {
    if (this.at >= this.length) {
      this.at = 0;
      for (const side of this.sides) side.clear();
      this.paused = false;
    } else this.paused = !this.paused;
    this.pause.textContent = this.paused ? "Go on" : "Pause";
    this.before = performance.now();
    if (!this.paused) this.step(this.before);
  }

  skip() {
    this.at = this.length;
    this.paused = false;
    cancelAnimationFrame(this.frame);
    this.step(performance.now());
  }

  build(main) {
    this.form = SLIDERS.map(([name, title, min, max, step, value, words]) => {
      const input = h("input", { type: "range", id: name, min: String(min), max: String(max), step: String(step), value: String(value) });
      input.addEventListener("input", () => this.turned());
      const output = h("output", { for: name }, words(value));
      return [name, input, output, words, h("div", {}, h("label", { for: name }, title), output, input)];
    });
    this.buffer = this.form[3][1];
    const radios = (name, title, choices, chosen) =>
      h("fieldset", {}, h("legend", {}, title), ...choices.map(([value, label, meaning]) =>
        h("label", {}, h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => this.turned() }),
          h("span", {}, h("code", {}, label), h("small", {}, meaning)))));
    this.pause = h("button", { type: "button", class: "main", onclick: () => this.press() }, "Pause");
    this.notice = h("p", { class: "notice", role: "alert", hidden: true });
    this.card = h("section", { class: "card knobs", "aria-label": "What may be turned" },
      ...this.form.map(([, , , , box]) => box),
      radios("guarantee", "Order", ORDERS, "total"),
      radios("on_gap", "While an earlier event is missing", GAPS, "wait"),
      h("div", { class: "buttons" }, this.pause,
        h("button", { type: "button", onclick: () => this.skip() }, "To the end"),
        h("button", { type: "button", onclick: () => { this.seed += 1; this.run(); } }, "Another run")));
    this.sides = [new Side("Without ordering: as the network brings them"), new Side("With unisono")];
    main.append(
      h("h1", {}, "See the problem"),
      h("p", { class: "intro" }, "A shop and a bank publish on three topics; Anna and Bruno subscribe to all of them. Lines join the same event on both sides: where lines cross, the two heard different stories. Simulated, with the engines that real buses use, and both panels show one and the same run."),
      this.notice,
      h("div", { class: "play" }, this.card, h("div", { class: "sides" }, ...this.sides.map((side) => side.element))),
    );
    this.turned();
    clearTimeout(this.soon);
  }
}

class Side {
  constructor(title) {
    this.title = h("h2", {}, title);
    this.verdict = h("p", { class: "verdict", role: "status" });
    this.why = h("p", { class: "why" });
    this.lists = NAMES.map((name) => h("ol", { class: "lane", "aria-label": `What ${name} heard` }));
    this.lines = s("svg", { "aria-hidden": "true", preserveAspectRatio: "none" });
    this.lanes = h("div", { class: "lanes", tabindex: "0", role: "region", "aria-label": title },
      h("div", { class: "lanes-in" }, this.lists[0], this.lines, this.lists[1]));
    this.element = h("section", { class: "card" },
      h("header", {}, this.title), this.verdict, this.why,
      h("div", { class: "lanes-head", "aria-hidden": "true" }, h("span", {}, "anna"), h("span", {}), h("span", {}, "bruno")),
      this.lanes);
  }

  take(side, published) {
    this.side = side;
    this.heard = NAMES.map((name) => side.heard[name]);
    this.length = Math.max(0, ...this.heard.map((some) => some.at(-1)?.at_ms ?? 0));
    const { disagreements, tagged, missed, delay_ms } = side;
    this.verdict.dataset.tone = disagreements ? "bad" : "good";
    this.verdict.textContent = disagreements
      ? `✕ ${many(disagreements, "pair")} of events in opposite orders`
      : "✓ both heard one order";
    const more = [`${Math.round(delay_ms)} ms on average`];
    if (tagged) more.push(`${tagged} tagged`);
    if (missed) more.push(`${missed} of ${2 * published} never heard`);
    this.why.textContent = `${more.join(", ")}. ${side.words ? `${side.words}.` : ""}`;
    this.clear();
  }

  clear() {
    this.shown = [0, 0];
    this.places = [new Map(), new Map()];
    for (const list of this.lists) list.replaceChildren();
    this.lines.replaceChildren();
    this.lanes.scrollTop = 0;
  }

  show(at) {
    let grew = false;
    const wide = this.lines.clientWidth || 80;
    this.heard.forEach((some, who) => {
      while (this.shown[who] < some.length && some[this.shown[who]].at_ms <= at) {
        const place = this.shown[who]++;
        const event = some[place];
        this.places[who].set(event.event, place);
        this.lists[who].append(chip(event));
        const other = this.places[1 - who].get(event.event);
        if (other !== undefined) this.join(event, who === 0 ? place : other, who === 0 ? other : place, wide, this.heard[1 - who][other]);
        grew = true;
      }
    });
    if (grew) {
      this.lines.setAttribute("height", Math.max(...this.shown) * ROW);
      this.lanes.scrollTop = this.lanes.scrollHeight;
    }
  }

  join(event, left, right, wide, same) {
    const kind = event.disagrees || same.disagrees ? "bad" : event.in_order && same.in_order ? "" : "tagged";
    this.lines.append(s("line", { x1: "2", x2: wide - 2, y1: left * ROW + ROW / 2, y2: right * ROW + ROW / 2, class: kind }));
  }
}

function chip(event) {
  const words = `${event.topic} ${event.number}`;
  const kind = event.disagrees ? "bad" : event.in_order ? "" : "tagged";
  const mark = event.disagrees ? "≠" : event.in_order ? null : "late";
  return h("li", {}, h("span", { class: kind, "data-topic": String(TOPICS.indexOf(event.topic)) }, h("b", {}, words), mark && h("i", {}, mark)));
}
