// Which rows are shown: the controls, and one pass over all rows.

const controls = {};

function picker(label, name, values) {
  const element = h("select", { id: "filter-" + name }, h("option", { value: "" }, tr("all")));
  for (const [value, text] of values) element.append(h("option", { value }, text));
  element.addEventListener("change", () => {
    if (name === "verdict") setVerdicts(element.value ? [element.value] : []);
    else setFilter({ [name]: element.value });
  });
  controls[name] = element;
  return h("label", {}, label, element);
}

function typed(label, name, hint) {
  const element = h("input", { type: "search", id: "filter-" + name, placeholder: hint, autocomplete: "off", spellcheck: "false" });
  let waiting = 0;
  element.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => setFilter({ [name]: element.value, ...(name === "layer" ? { exact: false } : {}) }), 120);
  });
  controls[name] = element;
  return h("label", {}, label, element);
}

function buildFilters() {
  const ops = Object.keys(D.ops).sort();
  const muted = h("input", { type: "checkbox", id: "filter-muted", checked: true });
  muted.addEventListener("change", () => setFilter({ muted: muted.checked }));
  controls.muted = muted;
  fill(
    $("filters"),
    typed(tr("Text"), "text", tr("site, layer, entry, reason…")),
    picker(tr("Verdict"), "verdict", VERDICTS.filter((name) => D.verdicts[name]).map((name) => [name, name])),
    picker(tr("Op"), "op", ops.map((name) => [name, name])),
    typed(tr("Layer"), "layer", tr("a part of its path")),
    picker(tr("Side"), "side", ["paddle", "torch", "both", "none"].map((name) => [name, name])),
    picker(tr("Phase"), "phase", [["forward", tr("forward")], ["backward", tr("backward")]]),
    D.muted ? h("label", { class: "check" }, muted, tr`muted known differences (${grouped(D.muted)})`) : null,
    h("button", { type: "button", id: "reset", onclick: resetFilter }, tr("Clear"))
  );
  $("filters").addEventListener("submit", (event) => event.preventDefault());
}

function setFilter(change) {
  Object.assign(state.filter, change);
  applyFilter();
}

function setVerdicts(names) {
  state.filter.verdicts = new Set(names);
  applyFilter();
}

function toggleVerdict(name) {
  const chosen = new Set(state.filter.verdicts);
  if (!chosen.delete(name)) chosen.add(name);
  setVerdicts(chosen);
}

function resetFilter() {
  setFilter({ text: "", verdicts: new Set(), op: "", side: "", phase: "", layer: "", exact: false, muted: true });
}

function isFiltered() {
  const f = state.filter;
  return Boolean(f.text || f.verdicts.size || f.op || f.side || f.phase || f.layer || f.exact || !f.muted);
}

const haystacks = {};
/** Searchable text of the tables of what repeats, in lower case, made at the first search. */
function haystack(name) {
  if (haystacks[name]) return haystacks[name];
  const words = (value) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
  return (haystacks[name] = D[name].map((item) =>
    (typeof item === "string" ? item : Object.values(item).map(words).join("\n")).toLowerCase()
  ));
}

/** A layer passes if it is the wanted one or below it; typed text may stand anywhere in its path. */
function layerTest(wanted, exact) {
  if (exact) return (layer) => layer === wanted || (wanted !== "" && layer.startsWith(wanted + "."));
  const part = wanted.toLowerCase();
  return (layer) => layer.toLowerCase().includes(part);
}

function passing() {
  const f = state.filter;
  const inLayer = layerTest(f.layer, f.exact);
  const kinds = D.kinds.map((item) => (!f.op || item.op === f.op) && (!f.phase || item.phase === f.phase) && inLayer(item.layer || ""));
  const outcomes = D.outcomes.map(
    (item) => (!f.verdicts.size || f.verdicts.has(item.verdict)) && (!f.side || item.side === f.side) && (f.muted || !item.muted)
  );
  const words = f.text.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = words.map((word) => ({
    kinds: haystack("kinds").map((text) => text.includes(word)),
    outcomes: haystack("outcomes").map((text) => text.includes(word)),
    reasons: haystack("reasons").map((text) => text.includes(word)),
  }));
  const found = [];
  for (let row = 0; row < ROWS; row++) {
    const k = T.kind(row);
    const o = T.outcome(row);
    if (kinds[k] && outcomes[o] && hits.every((hit) => hit.kinds[k] || hit.outcomes[o] || hit.reasons[T.reason(row)])) found.push(row);
  }
  return Uint32Array.from(found);
}

function applyFilter() {
  const f = state.filter;
  state.shown = passing();
  for (const name of ["text", "layer"]) if (document.activeElement !== controls[name]) controls[name].value = f[name];
  for (const name of ["op", "side", "phase"]) controls[name].value = f[name];
  controls.verdict.value = f.verdicts.size === 1 ? [...f.verdicts][0] : "";
  controls.muted.checked = f.muted;
  $("reset").hidden = !isFiltered();
  const several = f.verdicts.size > 1 ? tr` Verdicts: ${[...f.verdicts].join(", ")}.` : "";
  $("shown").textContent = isFiltered()
    ? tr`${grouped(state.shown.length)} of ${count(ROWS, "record")} shown.${several}`
    : tr`${count(ROWS, "record")}, all shown.`;
  tell("filtered");
}
