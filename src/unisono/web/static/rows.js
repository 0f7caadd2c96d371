// A table of very many rows: only those in sight exist.
import { h, set, write } from "./dom.js";

const HEIGHT = 30;

export class Rows {
  // columns: {name, title, class, text(row) or fill(cell, row), sort(row)}
  constructor(label, columns, { sort = 0, down = false } = {}) {
    this.columns = columns;
    this.rows = [];
    this.order = [];
    this.sort = sort;
    this.down = down;
    this.filter = "";
    this.pool = [];
    this.heads = columns.map((column, i) =>
      h("th", { scope: "col", class: column.class || "" },
        h("button", { type: "button", onclick: () => this.sortBy(i) }, column.title)));
    this.above = h("tr", { class: "space", "aria-hidden": "true" }, h("td"));
    this.below = h("tr", { class: "space", "aria-hidden": "true" }, h("td"));
    this.body = h("tbody", {}, this.above, this.below);
    this.table = h("table", {}, h("caption", { class: "hidden" }, label), h("thead", {}, h("tr", {}, ...this.heads)), this.body);
    this.element = h("div", { class: "rows", tabindex: "0", role: "region", "aria-label": label }, this.table);
    this.element.addEventListener("scroll", () => this.draw(), { passive: true });
    this.size = new ResizeObserver(() => this.draw());
    this.size.observe(this.element);
    this.mark();
  }

  mark() {
    this.heads.forEach((head, i) => {
      if (i === this.sort) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  }

  sortBy(i) {
    this.down = i === this.sort ? !this.down : Boolean(this.columns[i].down);
    this.sort = i;
    this.mark();
    this.arrange();
  }

  take(rows) {
    this.rows = rows;
    this.arrange();
  }

  search(words) {
    this.filter = words.trim().toLowerCase();
    this.element.scrollTop = 0;
    this.arrange();
  }

  arrange() {
    const { filter, columns, sort, down } = this;
    const some = filter ? this.rows.filter((row) => row.words.includes(filter)) : this.rows.slice();
    const by = columns[sort].sort;
    const sign = down ? -1 : 1;
    some.sort((a, b) => { const x = by(a), y = by(b); return x < y ? -sign : x > y ? sign : a.place - b.place; });
    this.order = some;
    this.table.setAttribute("aria-rowcount", String(some.length + 1));
    this.element.style.maxHeight = `${Math.max(this.rows.length, 3) * HEIGHT + 36}px`;
    this.draw();
  }

  get isOrdered() { return this.columns[this.sort].moves; }

  draw() {
    const { order, pool, element } = this;
    const tall = element.clientHeight || 420;
    const fits = Math.ceil(tall / HEIGHT) + 4;
    const first = Math.max(0, Math.min(order.length - fits, Math.floor(element.scrollTop / HEIGHT) - 2));
    const shown = Math.min(fits, order.length - Math.max(0, first));
    while (pool.length < shown) {
      const cells = this.columns.map((column) => h("td", { class: column.class || "" }));
      pool.push({ element: h("tr", {}, ...cells), cells });
    }
    const from = Math.max(0, first);
    this.space(this.above, from);
    this.space(this.below, order.length - from - shown);
    for (let i = 0; i < pool.length; i++) {
      const { element: line, cells } = pool[i];
      if (i >= shown) { if (line.parentNode) line.remove(); continue; }
      if (!line.parentNode) this.body.insertBefore(line, this.below);
      const row = order[from + i];
      set(line, "aria-rowindex", String(from + i + 2));
      this.columns.forEach((column, c) => (column.fill ? column.fill(cells[c], row) : write(cells[c], column.text(row))));
    }
  }

  space(line, rows) {
    const height = `${rows * HEIGHT}px`;
    if (line.firstChild.style.height !== height) line.firstChild.style.height = height;
  }

  end() { this.size.disconnect(); }
}
