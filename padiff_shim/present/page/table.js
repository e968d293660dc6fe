// The calls as a table of which only the visible rows exist, so that a hundred thousand are no burden.

const COLUMNS = [
  { id: "position", title: "#", kind: "n", text: (row) => String(positions[row]), value: (row) => positions[row] },
  { id: "verdict", title: tr("Verdict"), cell: (row) => [badge(outcome(row).verdict), under(kind(row).site)], value: (row) => (severity[row] > SEVERITY.UNVERIFIED && !apart(row) ? 1e8 : 0) + severity[row] * 1e6 + Math.min(excess[row] || 0, 9e5) },
  { id: "side", title: tr("Side"), text: (row) => (outcome(row).side === "none" ? "" : outcome(row).side) },
  { id: "op", title: tr("Op"), text: (row) => kind(row).op || "", cell: (row) => [kind(row).op || "", under(kind(row).layer)] },
  { id: "tensor", title: tr("Tensor"), text: (row) => kind(row).tensor || "" },
  { id: "ratio", title: tr("Error ÷ bound"), kind: "n", text: (row) => (Number.isNaN(excess[row]) ? "–" : capped(excess[row])), value: (row) => excess[row] },
  { id: "diff", title: tr("Max |p − t|"), kind: "n", text: (row) => figure(figureOf("max_abs", row)), value: (row) => series("max_abs")[row] },
  { id: "layer", title: tr("Layer"), text: (row) => kind(row).layer || "", cell: (row) => layerPath(kind(row).layer || "") },
  { id: "site", title: tr("Site"), text: (row) => kind(row).site || "", cell: (row) => h("bdi", { dir: "ltr" }, kind(row).site || "") },
  { id: "step", title: tr("Step"), kind: "n", text: (row) => valueText(T.step(row)), value: (row) => number(T.step(row)) },
];

const grid = { order: new Uint32Array(0), sort: "verdict", down: true, cursor: -1, rowHeight: 34 };

const NARROW = matchMedia("(max-width: 620px)");

/** On a narrow screen line and layer stand below verdict and op; of a long one the end is seen. */
function under(text) {
  return h("span", { class: "under" }, h("bdi", { dir: "ltr" }, text || ""));
}

/** A layer's path, of which beginning and end are seen: where it lies, and which layer it is. */
function layerPath(path) {
  const at = path.split(".").slice(0, -2).join(".").length;
  return h("span", { class: "cut" }, h("span", {}, path.slice(0, at)), h("span", {}, path.slice(at)));
}

/** As high as whole rows are. */
function snap() {
  const box = $("table");
  const head = grid.head.offsetHeight;
  const limit = Math.min(544, 0.75 * innerHeight);
  const rows = Math.max(3, Math.floor((limit - head) / grid.rowHeight));
  const height = `${head + rows * grid.rowHeight + box.offsetHeight - box.clientHeight}px`;
  if (box.style.height !== height) box.style.height = height;
}

function rankedText(column) {
  const texts = new Array(ROWS);
  for (let row = 0; row < ROWS; row++) texts[row] = column.text(row);
  const ranks = new Map([...new Set(texts)].sort().map((text, rank) => [text, rank]));
  return Float64Array.from(texts, (text) => ranks.get(text));
}

/** What a column is sorted by, computed once. */
function sortKeys(column) {
  if (!column.keys) column.keys = column.value ? Float64Array.from({ length: ROWS }, (_, row) => { const x = column.value(row); return x === undefined ? NaN : x; }) : rankedText(column);
  return column.keys;
}

function sortRows() {
  const keys = sortKeys(COLUMNS.find((column) => column.id === grid.sort));
  const sign = grid.down ? -1 : 1;
  // Rows without the figure come last in either direction; equal ones stay in order of happening.
  grid.order = state.shown.slice().sort((a, b) => {
    const x = keys[a];
    const y = keys[b];
    if (x === y) return a - b;
    if (Number.isNaN(x)) return Number.isNaN(y) ? a - b : 1;
    return Number.isNaN(y) ? -1 : sign * (x - y);
  });
  grid.cursor = grid.order.indexOf(state.selected);
}

function sortBy(id) {
  const column = COLUMNS.find((item) => item.id === id);
  const natural = column.kind === "n" && id !== "position" && id !== "step";
  grid.down = grid.sort === id ? !grid.down : natural || id === "verdict";
  grid.sort = id;
  sortRows();
  $("table").scrollTop = 0;
  drawHead();
  drawRows();
}

function drawHead() {
  for (const column of COLUMNS) {
    const sorted = grid.sort === column.id;
    column.head.setAttribute("aria-sort", sorted ? (grid.down ? "descending" : "ascending") : "none");
    column.arrow.textContent = sorted ? (grid.down ? " ▼" : " ▲") : "";
  }
}

function tableRow(place) {
  const row = grid.order[place];
  const muted = apart(row) ? " muted" : "";
  return h(
    "tr",
    { id: "row-" + row, class: (place % 2 ? "odd" : "even") + muted, role: "row", "aria-rowindex": place + 2, "aria-selected": String(row === state.selected), "data-row": row },
    COLUMNS.map((column) => {
      const text = column.text ? column.text(row) : null;
      return h("td", { class: `c-${column.id}${column.kind ? " n" : ""}`, role: "gridcell", title: text && text.length > 12 ? text : null }, column.cell ? column.cell(row) : text);
    })
  );
}

function drawRows() {
  const box = $("table");
  const height = (grid.rowHeight = NARROW.matches ? 54 : 34);
  snap();
  const first = Math.max(0, Math.floor(box.scrollTop / height) - 8);
  const last = Math.min(grid.order.length, first + Math.ceil(box.clientHeight / height) + 17);
  const rows = [];
  for (let place = first; place < last; place++) rows.push(tableRow(place));
  grid.above.firstChild.style.height = `${first * height}px`;
  grid.below.firstChild.style.height = `${(grid.order.length - last) * height}px`;
  fill(grid.body, grid.above, rows, grid.below);
  grid.empty.hidden = grid.order.length > 0;
  box.setAttribute("aria-rowcount", grid.order.length + 1);
  const active = grid.cursor >= first && grid.cursor < last ? "row-" + grid.order[grid.cursor] : null;
  if (active) box.setAttribute("aria-activedescendant", active);
  else box.removeAttribute("aria-activedescendant");
  for (const line of rows) line.classList.toggle("cursor", line.id === active);
}

/** Scroll so that a place of the order is visible below the head. */
function reveal(place) {
  const box = $("table");
  const top = place * grid.rowHeight;
  const room = box.clientHeight - grid.head.offsetHeight;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + grid.rowHeight > box.scrollTop + room) box.scrollTop = top + grid.rowHeight - room;
}

function moveCursor(place) {
  if (!grid.order.length) return;
  grid.cursor = Math.max(0, Math.min(grid.order.length - 1, place));
  reveal(grid.cursor);
  drawRows();
}

function tableKey(event) {
  if (event.target !== $("table")) return;
  const page = Math.max(1, Math.floor($("table").clientHeight / grid.rowHeight) - 2);
  const moves = {
    ArrowDown: () => moveCursor(grid.cursor + 1),
    ArrowUp: () => moveCursor(grid.cursor - 1),
    PageDown: () => moveCursor(grid.cursor + page),
    PageUp: () => moveCursor(grid.cursor - page),
    Home: () => moveCursor(0),
    End: () => moveCursor(grid.order.length - 1),
    Enter: () => grid.cursor >= 0 && select(grid.order[grid.cursor], "table"),
    " ": () => grid.cursor >= 0 && select(grid.order[grid.cursor], "table"),
  };
  if (!moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
}

function buildTable() {
  for (const column of COLUMNS) {
    column.arrow = h("span", { "aria-hidden": "true" });
    column.head = h("th", { class: `c-${column.id}${column.kind ? " n" : ""}`, role: "columnheader", scope: "col" }, h("button", { type: "button", onclick: () => sortBy(column.id) }, column.title, column.arrow));
  }
  grid.head = h("thead", { role: "rowgroup" }, h("tr", { role: "row", "aria-rowindex": 1 }, COLUMNS.map((column) => column.head)));
  grid.above = h("tr", { class: "gap", "aria-hidden": "true" }, h("td"));
  grid.below = h("tr", { class: "gap", "aria-hidden": "true" }, h("td"));
  grid.body = h("tbody", { role: "rowgroup" });
  grid.empty = h("p", { class: "empty", hidden: true }, tr("No record passes the filter."));
  const box = fill($("table"), h("table", { role: "presentation" }, grid.head, grid.body), grid.empty);
  box.setAttribute("aria-colcount", COLUMNS.length);
  const redraw = eachFrame(drawRows);
  box.addEventListener("scroll", redraw, { passive: true });
  box.addEventListener("keydown", tableKey);
  grid.body.addEventListener("click", (event) => {
    const line = event.target.closest("tr[data-row]");
    if (line) select(Number(line.dataset.row), "table");
  });
  new ResizeObserver(redraw).observe(box);
  drawHead();
  on("filtered", () => {
    sortRows();
    box.scrollTop = 0;
    drawRows();
  });
  on("selected", (from) => {
    grid.cursor = grid.order.indexOf(state.selected);
    if (grid.cursor >= 0 && from !== "table") reveal(grid.cursor);
    drawRows();
  });
}
