// Small helpers: elements, numbers and times as people read them.

export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list" && typeof value !== "string") element[name] = value;
    else element.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function s(tag, props = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Writes text only where it has changed: most of what is told ten times a second is what was told before.
export function write(element, text) {
  const words = String(text);
  if (element.lastText !== words) {
    element.lastText = words;
    element.textContent = words;
  }
}

export function set(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (n) => (n === null || n === undefined ? "–" : n < 1e8 ? whole.format(n) : short.format(n));
export const rate = (n) => (n === 0 ? "0" : n < 10 ? n.toFixed(1) : count(Math.round(n)));
export const many = (n, what) => `${count(n)} ${what}${n === 1 ? "" : "s"}`;

export function duration(seconds) {
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 0.01) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
  return `${seconds.toFixed(1)} s`;
}

export const clock = (at) => new Date(at * 1000).toTimeString().slice(0, 8);

export async function ask(address) {
  let answer;
  try {
    answer = await fetch(address, { headers: { accept: "application/json" } });
  } catch {
    throw new Error("the dashboard does not answer; is it still running?");
  }
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(told.error || `the dashboard answered ${answer.status}`);
  return told;
}
