// Which topics are ordered with which: topics one below the other by rank, an arc for each overlap.
import { s } from "./dom.js";

const STEP = 24;
const SHOWN_MAX = 120;

export function arcs({ topics, edges, parents }, width) {
  const shown = topics.slice(0, SHOWN_MAX);
  const label = Math.min(Math.max(...shown.map((t) => t.topic.length)) * 7.6 + 34, width * 0.62);
  const from = label + 12;
  const room = Math.max(40, width - from - 16);
  const height = shown.length * STEP + 12;
  const y = (i) => 6 + i * STEP + STEP / 2;
  const tallest = Math.max(1, ...edges.filter(([, b]) => b < shown.length).map(([a, b]) => b - a));
  const drawing = s("svg", { width, height, role: "img", "aria-label": words(topics, edges) });
  const arc = (a, b) => {
    const high = (y(b) - y(a)) / 2;
    const wide = tallest * STEP > room ? 16 + ((room - 16) * (b - a)) / tallest : 12 + high * 1.3;
    return `M${from} ${y(a)}A${wide} ${high} 0 0 1 ${from} ${y(b)}`;
  };
  for (const [a, b] of edges) {
    if (b < shown.length && parents[b] !== a) drawing.append(s("path", { d: arc(a, b) }));
  }
  parents.forEach((parent, i) => {
    if (parent >= 0 && i < shown.length && parent < shown.length) {
      drawing.append(s("path", { d: arc(Math.min(parent, i), Math.max(parent, i)), class: "up" }));
    }
  });
  const fits = Math.floor((label - 34) / 7.6);
  shown.forEach((topic, i) => {
    const name = topic.topic.length > fits ? `${topic.topic.slice(0, fits - 1)}…` : topic.topic;
    drawing.append(
      s("text", { class: "owner", x: 0, y: y(i) + 4 }, topic.owner.slice(0, 5)),
      s("text", { x: 34, y: y(i) + 4.5 }, name),
      s("circle", { cx: from, cy: y(i), r: 4 }),
    );
  });
  return drawing;
}

function words(topics, edges) {
  const some = edges.slice(0, 20).map(([a, b]) => `${topics[a].topic} with ${topics[b].topic}`);
  return `${topics.length} topics by rank; ordered together: ${some.join(", ") || "none"}${edges.length > 20 ? " and more" : ""}`;
}
