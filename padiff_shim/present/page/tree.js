// The layers as a tree and the ops as a list, with their counts and the worst verdict in each.

/** The most serious verdict that is counted; what is set apart is not. */
function worstOf(counts) {
  return VERDICTS.find((name) => counts[name]) || "EQUAL";
}

function addCounts(into, from) {
  for (const [name, n] of Object.entries(from)) into[name] = (into[name] || 0) + n;
}

function totals(counts) {
  let records = 0;
  let remarkable = 0;
  for (const [name, n] of Object.entries(counts)) {
    records += n;
    if (name in SEVERITY && name !== "UNVERIFIED" && name !== "TIE" && !isUsual(name)) remarkable += n;
  }
  return { records, remarkable };
}

/** {path: counts} as a tree; a node with a single child and no records of its own is joined with it. */
function layerTree() {
  const root = { name: "", path: "", counts: {}, own: {}, children: new Map() };
  for (const [path, counts] of Object.entries(D.layers)) {
    let node = root;
    let above = "";
    addCounts(root.counts, counts);
    for (const part of path ? path.split(".") : []) {
      above = above ? `${above}.${part}` : part;
      if (!node.children.has(part)) node.children.set(part, { name: part, path: above, counts: {}, own: {}, children: new Map() });
      node = node.children.get(part);
      addCounts(node.counts, counts);
    }
    addCounts(node.own, counts);
  }
  const join = (node) => {
    while (node.path && node.children.size === 1 && !Object.keys(node.own).length) {
      const [child] = node.children.values();
      Object.assign(node, child, { name: `${node.name}.${child.name}` });
    }
    for (const child of node.children.values()) join(child);
  };
  join(root);
  if (Object.keys(root.own).length) {
    root.children = new Map([["", { name: tr("(outside of any layer)"), path: "", counts: root.own, own: root.own, children: new Map() }], ...root.children]);
  }
  return root;
}

function countsText(counts) {
  const { records, remarkable } = totals(counts);
  return remarkable ? tr`${grouped(remarkable)} of ${grouped(records)}` : grouped(records);
}

function describeNode(name, counts) {
  const { records, remarkable } = totals(counts);
  const rest = remarkable ? tr`, ${grouped(remarkable)} to look at` : "";
  return tr`${name}: worst ${worstOf(counts)}, ${count(records, "record")}${rest}`;
}

function nodeLine(name, counts) {
  const { remarkable } = totals(counts);
  return [
    mark(worstOf(counts)),
    h("span", { class: "name", title: name }, name),
    h("span", { class: remarkable ? "counts some" : "counts" }, countsText(counts)),
  ];
}

/** One node; its children are made when it is first opened, for a model may have very many layers. */
function treeItem(node, level) {
  const inner = node.children.size ? h("ul", { role: "group", hidden: true }) : null;
  const twist = h("span", { class: "twist", "aria-hidden": "true" }, inner ? "▸" : "");
  const line = h("div", { class: "line" }, twist, nodeLine(node.name, node.counts));
  line.style.paddingLeft = `${Math.min(level, 12) * 0.8}rem`;
  const item = h(
    "li",
    { role: "treeitem", tabindex: "-1", "aria-level": level + 1, "aria-label": describeNode(node.name, node.counts), "data-path": node.path, "aria-expanded": inner ? "false" : null },
    line,
    inner
  );
  item.node = node;
  item.expand = (open) => {
    if (!inner) return;
    if (open && !inner.children.length) inner.append(...[...node.children.values()].map((child) => treeItem(child, level + 1)));
    inner.hidden = !open;
    item.setAttribute("aria-expanded", String(open));
    twist.textContent = open ? "▾" : "▸";
  };
  twist.addEventListener("click", (event) => {
    event.stopPropagation();
    item.expand(inner && inner.hidden);
  });
  line.addEventListener("click", () => {
    focusItem(item);
    chooseLayer(node.path);
  });
  return item;
}

function chooseLayer(path) {
  const f = state.filter;
  const again = f.exact && f.layer === path;
  setFilter(again ? { layer: "", exact: false } : { layer: path, exact: true });
}

function focusItem(item) {
  for (const other of $("layers").querySelectorAll('[tabindex="0"]')) other.tabIndex = -1;
  item.tabIndex = 0;
  item.focus({ preventScroll: false });
}

const visibleItems = () => [...$("layers").querySelectorAll('[role="treeitem"]')].filter((item) => !item.parentElement.closest("ul[hidden]"));

function treeKey(event) {
  const item = event.target.closest('[role="treeitem"]');
  if (!item) return;
  const items = visibleItems();
  const at = items.indexOf(item);
  const open = item.getAttribute("aria-expanded");
  const moves = {
    ArrowDown: () => items[at + 1] && focusItem(items[at + 1]),
    ArrowUp: () => items[at - 1] && focusItem(items[at - 1]),
    Home: () => focusItem(items[0]),
    End: () => focusItem(items[items.length - 1]),
    ArrowRight: () => (open === "false" ? item.expand(true) : open && focusItem(items[at + 1])),
    ArrowLeft: () => {
      if (open === "true") return item.expand(false);
      const above = item.parentElement.closest('[role="treeitem"]');
      return above && focusItem(above);
    },
    Enter: () => chooseLayer(item.node.path),
    " ": () => chooseLayer(item.node.path),
  };
  if (!moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
}

/** Open the way to the worst layer below these, and a lone one in any case. */
function openFirst(items) {
  const inner = items.filter((item) => item.node.children.size);
  if (!inner.length) return;
  const severest = (item) => SEVERITY[worstOf(item.node.counts)];
  const worst = inner.reduce((best, item) => (severest(item) > severest(best) ? item : best));
  if (inner.length > 1 && severest(worst) < SEVERITY.LOW_ACCURACY) return;
  worst.expand(true);
  openFirst([...worst.querySelectorAll(':scope > ul > [role="treeitem"]')]);
}

function buildTree() {
  const root = layerTree();
  const items = [...root.children.values()].map((node) => treeItem(node, 0));
  const list = h("ul", { role: "tree", "aria-labelledby": "layers-title" }, items);
  list.addEventListener("keydown", treeKey);
  fill($("layers"), items.length ? list : h("p", { class: "soft" }, tr("No layers.")));
  if (items.length) {
    items[0].tabIndex = 0;
    openFirst(items);
  }
  const byWorst = Object.entries(D.ops).sort(
    (a, b) => SEVERITY[worstOf(b[1])] - SEVERITY[worstOf(a[1])] || totals(b[1]).remarkable - totals(a[1]).remarkable || (a[0] < b[0] ? -1 : 1)
  );
  const ops = byWorst.map(([name, counts]) =>
    h("button", { type: "button", "data-op": name, "aria-pressed": "false", "aria-label": describeNode(name, counts), onclick: () => setFilter({ op: state.filter.op === name ? "" : name }) }, nodeLine(name, counts))
  );
  fill($("ops"), ops.length ? ops : h("p", { class: "soft" }, tr("No ops.")));
  on("filtered", () => {
    const f = state.filter;
    for (const button of ops) button.setAttribute("aria-pressed", String(f.op === button.dataset.op));
    for (const item of $("layers").querySelectorAll('[role="treeitem"]')) item.setAttribute("aria-selected", String(f.exact && f.layer === item.dataset.path));
  });
}
