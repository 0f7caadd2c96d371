// One event through its life: from a journal, or as it passes.
import { ask, clock, count, duration, h } from "./dom.js";

const WORDS = {
  published: "published",
  sequenced: "sequenced",
  delivered: "delivered",
  dropped: "dropped",
  lost: "lost",
  held: "still held",
  reached: "reached",
  waits: "not yet",
};

const LISTED_MAX = 200;

export function follow(main, { about }) {
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const say = (words) => { notice.hidden = !words; notice.textContent = words; };
  main.append(h("h1", {}, "Follow an event"), h("p", { class: "intro" }, "When it was published, when it had its number, what its stamp says, and when each subscriber had it."), notice);
  if (about.journal) journal(main, about, say);
  if (about.place) return passing(main, say);
  if (!about.journal) say("This dashboard reads no journal and watches no system. Start it with --journal DIR or --url nats://…");
  return undefined;
}

function panels(title, search, list, life) {
  const form = h("form", { class: "search" }, search, h("button", { type: "submit" }, "Look"));
  return [form, h("div", { class: "follow" }, h("section", { class: "card" }, h("header", {}, h("h2", {}, title)), form, list), life)];
}

function entry(list, event, at, choose) {
  const button = h("button", { type: "button", "aria-pressed": "false" },
    h("b", {}, `${event.topic}${event.number ? ` ${event.number}` : ""}`), h("small", {}, clock(at)), h("small", {}, event.event));
  button.addEventListener("click", () => {
    for (const other of list.querySelectorAll("[aria-pressed=true]")) other.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-pressed", "true");
    choose(event);
  });
  return button;
}

function journal(main, about, say) {
  const list = h("div", { class: "list", role: "group", "aria-label": "Newest events" });
  const life = h("section", { class: "card", "aria-live": "polite" }, h("p", { class: "empty" }, "Choose an event."));
  const search = h("input", { type: "search", placeholder: "an id, or a topic", "aria-label": "An event's id, or a topic" });

  async function choose({ event }) {
    say("");
    try {
      life.replaceChildren(...show(await ask(`/api/event?${new URLSearchParams({ id: event })}`)));
    } catch (error) { say(error.message); }
  }

  async function look(topic) {
    say("");
    try {
      const { events } = await ask(`/api/events?${new URLSearchParams(topic ? { topic } : {})}`);
      list.replaceChildren(...events.map((event) => entry(list, event, event.at, choose)));
      if (!events.length) list.replaceChildren(h("p", { class: "empty" }, "No events."));
    } catch (error) { say(error.message); }
  }

  const [form, both] = panels(`Journal ${about.journal}`, search, list, life);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (search.value.includes("/")) choose({ event: search.value.trim() });
    else look(search.value.trim());
  });
  main.append(both);
  look("");
}

// Live: listens to a topic as its events pass, and asks who has come to the one that was chosen.
function passing(main, say) {
  const list = h("div", { class: "list", role: "group", "aria-label": "Events that pass" }, h("p", { class: "empty" }, "Name a topic to see its events pass."));
  const life = h("section", { class: "card", "aria-live": "polite" }, h("p", { class: "empty" }, "Choose an event."));
  const search = h("input", { type: "search", placeholder: "a topic", "aria-label": "A topic to listen to" });
  let source = null;
  let timer = 0;
  let waiting = null; // events that pass while somebody points at the list: nothing may move under a pointer

  function add(events) {
    if (waiting && list.querySelector("button")) {
      waiting = [...waiting, ...events].slice(-LISTED_MAX);
      return;
    }
    for (const event of events) list.prepend(entry(list, event, event.published_at, choose));
    while (list.children.length > LISTED_MAX) list.lastChild.remove();
  }

  list.addEventListener("pointerenter", () => { waiting = []; });
  list.addEventListener("pointerleave", () => {
    const late = waiting || [];
    waiting = null;
    add(late);
  });

  function choose(event) {
    clearTimeout(timer);
    const began = event.published_at;
    const steps = [
      { kind: "published", process: event.event.split("/")[0], after_ms: 0, in_order: true },
      { kind: "sequenced", process: "heard by this dashboard", after_ms: (event.heard_at - began) * 1000, in_order: true },
    ];
    const draw = async () => {
      const held = await ask(`/api/reached?${new URLSearchParams({ topic: event.topic, number: event.number })}`).catch(() => []);
      const who = held.map(({ bus, name, reached }) => ({ kind: reached ? "reached" : "waits", process: bus, subscription: name, in_order: true }));
      life.replaceChildren(...show({ ...event, began_at: began, steps: [...steps, ...who] }));
      if (!held.length || who.some((step) => step.kind === "waits")) timer = setTimeout(draw, 1000);
    };
    draw();
  }

  function listen(topic) {
    source?.close();
    say("");
    list.replaceChildren();
    if (waiting) waiting = [];
    source = new EventSource(`/api/tap?${new URLSearchParams({ topic })}`);
    source.addEventListener("passed", (message) => add(JSON.parse(message.data).events));
    source.onerror = async () => {
      if (source.readyState === EventSource.CLOSED) await ask(`/api/tap?${new URLSearchParams({ topic })}`).catch((error) => say(error.message));
    };
  }

  const [form, both] = panels("Live", search, list, life);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (search.value.trim()) listen(search.value.trim());
  });
  main.append(both);
  return () => { source?.close(); clearTimeout(timer); };
}

function show(event) {
  const stamp = Object.entries(event.stamp || {});
  return [
    h("header", {}, h("h2", {}, event.event), h("p", {}, `${event.topic}${event.number ? ` ${count(event.number)}` : ""}, epoch ${event.epoch}, ${clock(event.began_at)}`)),
    stamp.length ? h("div", { class: "stamp", "aria-label": "Its stamp" }, ...stamp.map(([topic, number]) =>
      h("span", { class: "tag", "data-tone": topic === event.topic ? "good" : "" }, `${topic} ${count(number)}`))) : null,
    h("ol", { class: "life" }, ...event.steps.map((step) =>
      h("li", { "data-kind": step.kind, "data-tagged": step.in_order ? null : "yes" },
        h("b", {}, WORDS[step.kind] || step.kind), step.after_ms === undefined ? null : h("span", {}, `${step.after_ms < 0 ? "−" : "+"}${duration(Math.abs(step.after_ms) / 1000)}`),
        h("div", { class: "muted" }, [step.subscription ? `${step.subscription} of ${step.process}` : step.process, step.in_order ? "" : "out of order, tagged", step.reason].filter(Boolean).join("; "))))),
  ].filter(Boolean);
}
