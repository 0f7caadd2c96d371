// The page: which view is shown, dark or light, and whether the dashboard is heard.
import { ask, h } from "./dom.js";
import { live } from "./live.js";
import { play } from "./play.js";
import { follow } from "./follow.js";
import { reports } from "./reports.js";

const views = { live, play, follow, reports };
const titles = { live: "Live", play: "See the problem", follow: "Follow an event", reports: "Reports" };
const main = document.getElementById("main");
const status = document.getElementById("status");
let leave = () => {};
let shown = "";
let about = null;

function tell(state, words) {
  if (status.dataset.state !== state) status.dataset.state = state;
  if (status.textContent !== words) status.textContent = words;
}

function show() {
  const name = location.hash.slice(1).split("?")[0];
  const wanted = name in views ? name : about.place ? "live" : about.journal ? "follow" : "play";
  if (wanted === shown) return;
  leave();
  const first = shown === "";
  shown = wanted;
  document.title = `${titles[wanted]} · unisono`;
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.hash === `#${wanted}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren();
  leave = views[wanted](main, { about, tell }) || (() => {});
  main.dataset.view = wanted;
  if (!first) main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function theme() {
  const kept = localStorage.getItem("theme");
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  document.getElementById("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme;
    const dark = now ? now === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", dark ? "light" : "dark");
  });
}

// The token stands behind the '#', which is not sent; it is exchanged for a cookie and leaves the address.
async function knock() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  history.replaceState(null, "", location.pathname + "#");
  await fetch("/login", { method: "POST", body: JSON.stringify({ token: given }) });
}

async function begin() {
  theme();
  await knock();
  for (;;) {
    try {
      about = await ask("/api/about");
      break;
    } catch (error) {
      tell("lost", "not connected");
      main.replaceChildren(h("p", { class: "notice", role: "alert" }, error.message));
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
  tell("well", `unisono ${about.version}`);
  window.addEventListener("hashchange", show);
  show();
  document.documentElement.dataset.ready = "yes";
  performance.mark("ready");
}

begin();
