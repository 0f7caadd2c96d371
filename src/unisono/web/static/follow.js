// One event through its life, from a journal.
import { ask, clock, count, duration, h } from "./dom.js";

const WORDS = {
  published: "published",
  sequenced: "sequenced",
  delivered: "delivered",
  dropped: "dropped",
  lost: "lost",
  held: "still held",
};

export function follow(main, { about }) {
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  main.append(h("h1", {}, "Follow an event"), h("p", { class: "intro" }, "When it was published, when it had its number, what its stamp says, and when each subscriber had it."), notice);
  if (!about.journal) {
    notice.hidden = false;
    notice.textContent = "This dashboard reads no journal. Record one (connect(journal=…), or unisono demo --journal DIR), then: unisono dashboard --journal DIR";
    return undefined;
  }
  const list = h("div", { class: "list", role: "group", "aria-label": "Newest events" });
  const life = h("section", { class: "card", "aria-live": "polite" }, h("p", { class: "empty" }, "Choose an event."));
  const search = h("input", { type: "search", placeholder: "an id, or a topic", "aria-label": "An event's id, or a topic" });
  const fail = (error) => { notice.hidden = false; notice.textContent = error.message; };

  async function choose(id, button) {
    notice.hidden = true;
    for (const other of list.querySelectorAll("[aria-pressed=true]")) other.setAttribute("aria-pressed", "false");
    button?.setAttribute("aria-pressed", "true");
    try {
      life.replaceChildren(...show(await ask(`/api/event?${new URLSearchParams({ id })}`)));
    } catch (error) { fail(error); }
  }

  async function look(topic) {
    notice.hidden = true;
    try {
      const { events } = await ask(`/api/events?${new URLSearchParams(topic ? { topic } : {})}`);
      list.replaceChildren(...events.map((event) => {
        const button = h("button", { type: "button", "aria-pressed": "false" },
          h("b", {}, `${event.topic}${event.number ? ` ${event.number}` : ""}`), h("small", {}, clock(event.at)), h("small", {}, event.event));
        button.addEventListener("click", () => choose(event.event, button));
        return button;
      }));
      if (!events.length) list.replaceChildren(h("p", { class: "empty" }, "No events."));
    } catch (error) { fail(error); }
  }

  const form = h("form", { class: "search" }, search, h("button", { type: "submit" }, "Look"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (search.value.includes("/")) choose(search.value.trim());
    else look(search.value.trim());
  });
  main.append(h("div", { class: "follow" }, h("section", { class: "card" }, h("header", {}, h("h2", {}, `Journal ${about.journal}`)), form, list), life));
  look("");
  return undefined;
}

function show(event) {
  const stamp = Object.entries(event.stamp || {});
  return [
    h("header", {}, h("h2", {}, event.event), h("p", {}, `${event.topic}${event.number ? ` ${count(event.number)}` : ""}, epoch ${event.epoch}, ${clock(event.began_at)}`)),
    stamp.length ? h("div", { class: "stamp", "aria-label": "Its stamp" }, ...stamp.map(([topic, number]) =>
      h("span", { class: "tag", "data-tone": topic === event.topic ? "good" : "" }, `${topic} ${count(number)}`))) : null,
    h("ol", { class: "life" }, ...event.steps.map((step) =>
      h("li", { "data-kind": step.kind, "data-tagged": step.in_order ? null : "yes" },
        h("b", {}, WORDS[step.kind] || step.kind), h("span", {}, `${step.after_ms < 0 ? "−" : "+"}${duration(Math.abs(step.after_ms) / 1000)}`),
        h("div", { class: "muted" }, [step.subscription ? `${step.subscription} of ${step.process}` : step.process, step.in_order ? "" : "out of order, tagged", step.reason].filter(Boolean).join("; "))))),
  ].filter(Boolean);
}
