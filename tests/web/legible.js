// WCAG 1.4.3 by computed colours: every visible text against what is behind it; and texts that are cut off.
() => {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return text.startsWith("color(srgb") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const ground = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const seen = (element) => {
    let share = 1;
    for (let e = element; e; e = e.parentElement) share *= Number(getComputedStyle(e).opacity);
    return share;
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const element = walker.currentNode.parentElement;
    if (!text || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (element.closest(".hidden, .skip, noscript, script, option, [aria-disabled=true]")) continue;
    const style = getComputedStyle(element);
    const behind = ground(element);
    const [r, g, b, a] = parse(element instanceof SVGElement ? style.fill : style.color);
    const ink = over([r, g, b, a * seen(element)], behind);
    const [one, other] = [light(ink), light(behind)];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (contrast < (large ? 3 : 4.5)) found.push(`${contrast.toFixed(2)}: ${text.slice(0, 40)}`);
    const box = element.closest("td, th, button, a, dd, dt, h1, h2, h3, p, legend, label");
    if (box && !box.closest(".list") && box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX === "hidden") {
      found.push(`cut: ${text.slice(0, 40)}`);
    }
  }
  return found;
};
