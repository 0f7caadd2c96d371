// Reports of audits and of the lab: found in folders, shown as they are.
import { ask, h } from "./dom.js";

const TONES = { held: "good", violated: "bad", unknown: "warn" };
const JSON_MAX = 400000;

export function reports(main) {
  const notice = h("p", { class: "notice", role: "alert", hidden: true });
  const list = h("div", { class: "list", role: "group", "aria-label": "Reports" });
  const shown = h("section", { class: "card", "aria-live": "polite" }, h("p", { class: "empty" }, "Choose a report."));
  main.append(h("h1", {}, "Reports"),
    h("p", { class: "intro" }, "Audits and lab reports in the folders that this dashboard was given (--reports DIR; out/ by default)."),
    notice, h("div", { class: "reports" }, h("section", { class: "card" }, list), shown));

  async function open(report, button) {
    for (const other of list.querySelectorAll("[aria-pressed=true]")) other.setAttribute("aria-pressed", "false");
    button.setAttribute("aria-pressed", "true");
    const address = `/api/reports/${report.n}`;
    const head = h("header", {}, h("h2", {}, report.name), h("p", {}, size(report.bytes)));
    if (report.kind === "html") {
      shown.replaceChildren(head, h("iframe", { src: address, title: report.name, sandbox: "allow-scripts" }));
    } else if (report.kind === "png" || report.kind === "svg") {
      shown.replaceChildren(head, h("img", { class: "picture", src: address, alt: report.name }));
    } else {
      const answer = await fetch(address).catch(() => null);
      if (!answer || !answer.ok) {
        notice.hidden = false;
        notice.textContent = `${report.name} cannot be read any more`;
        return;
      }
      const text = await answer.text();
      shown.replaceChildren(head, h("pre", { tabindex: "0" }, pretty(report.kind, text)));
    }
  }

  ask("/api/reports").then((found) => {
    if (!found.length) list.replaceChildren(h("p", { class: "empty" }, "None yet. make demo leaves an audit and a report in out/demo."));
    else list.replaceChildren(...found.map((report) => {
      const button = h("button", { type: "button", "aria-pressed": "false" },
        h("b", {}, report.name), report.verdict ? h("span", { class: "tag", "data-tone": TONES[report.verdict] || "" }, report.verdict) : h("span", {}),
        h("small", {}, `${report.folder}, ${new Date(report.changed_at * 1000).toLocaleString("en-GB")}`));
      button.addEventListener("click", () => open(report, button));
      return button;
    }));
  }, (error) => { notice.hidden = false; notice.textContent = error.message; });
  return undefined;
}

const size = (bytes) => (bytes < 10240 ? `${bytes} bytes` : bytes < 1e7 ? `${Math.round(bytes / 1024)} KiB` : `${Math.round(bytes / 1048576)} MiB`);

function pretty(kind, text) {
  if (kind !== "json" || text.length > JSON_MAX) return text.slice(0, JSON_MAX);
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}
