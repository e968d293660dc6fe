// All that is known of one record, in words.

function facts(title, pairs) {
  const kept = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return kept.length ? h("section", {}, h("h3", {}, title), definitions(kept)) : null;
}

function operandText(input) {
  if ("number" in input) return tr`the number ${valueText(input.number)}`;
  const layout = input.strides && input.strides !== "contiguous" ? `, ${input.strides}` : "";
  return `${input.dtype || ""} ${shape(input.shape)}${layout}`.trim();
}

/** A table of both sides' figures beside each other. */
function sides(row) {
  const names = Object.keys(OF_A_SIDE).filter((name) => ["paddle", "torch"].some((side) => figureOf(`${side}.${name}`, row) !== null));
  if (!names.length) return null;
  const cell = (side, name) => {
    const value = figureOf(`${side}.${name}`, row);
    const over = (name === "prob" || name === "det") && !(number(value) <= 1) && value !== null;
    return h("td", { class: over ? "n over" : "n" }, figureText(`${side}.${name}`, row), over ? h("span", { class: "offscreen" }, tr(" above the bound")) : null);
  };
  return h(
    "section",
    {},
    h("h3", {}, tr("Against the oracle")),
    h(
      "table",
      { class: "sides" },
      h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "paddle"), h("th", { scope: "col" }, "torch"))),
      h("tbody", {}, names.map((name) => {
        const [title, unit, meaning] = OF_A_SIDE[name];
        return h("tr", {}, h("th", { scope: "row", title: meaning }, title, unit ? h("small", {}, ` ${unit}`) : null), cell("paddle", name), cell("torch", name));
      }))
    )
  );
}

function described(table, row) {
  return Object.entries(table)
    .filter(([name]) => figureOf(name, row) !== null)
    .map(([name, [title, unit, meaning]]) => [title, [`${figureText(name, row)} ${unit}`.trim(), meaning ? h("small", {}, ` (${meaning})`) : null]]);
}

/** The observed error beside the predicted bound, as a sentence. */
function boundLine(row) {
  const bound = figureOf("bound", row);
  const error = figureOf("error", row);
  if (bound === null && error === null) return null;
  const ratio = number(error) / number(bound);
  const words = Number.isFinite(ratio) ? (ratio <= 1 ? tr`, ${figure(ratio)} of the bound` : tr`, ${capped(ratio)} times the bound`) : "";
  return h("p", { class: "boundline" }, tr("Predicted bound "), h("b", {}, figure(bound)), tr(", observed error "), h("b", {}, figure(error)), words, ".");
}

function toleranceLine(row) {
  const atol = figureOf("tolerance.atol", row);
  const rtol = figureOf("tolerance.rtol", row);
  if (atol === null && rtol === null) return null;
  return h("p", {}, tr`A check with a tolerance would have needed atol = ${figure(atol)} alone, or rtol = ${figure(rtol)} alone.`);
}

/** Whether the difference was made here or came in. */
function streamLine(row) {
  const times = number(figureOf("amplification", row));
  if (times === undefined || Number.isNaN(times)) return null;
  const local = Math.max(number(figureOf("paddle.rho_max", row)) || 0, number(figureOf("torch.rho_max", row)) || 0);
  return h("p", {}, tr`An incoming difference of ${figure(figureOf("incoming", row))} leaves this call as ${figure(figureOf("propagated", row))}: amplification × ${capped(times)}. The call's own error is ${figure(local)} rounding units.`);
}

function reproduce(row) {
  const place = positions[row];
  const lines = [`run.repro(run.calls[${place}], "repro.py")`, `padiff-shim log LOG --repro ${place} -o repro.py && python repro.py`];
  const codes = lines.map((line) => {
    const button = h("button", { type: "button", class: "copy" }, tr("Copy"));
    button.addEventListener("click", () => copyText(line, button));
    return h("div", { class: "code" }, h("code", { tabindex: "0" }, line), button);
  });
  return h("section", {}, h("h3", {}, tr("Show it alone")), codes);
}

function related(row) {
  const others = siblings(row).slice(0, 12);
  if (!others.length) return null;
  return h("section", {}, h("h3", {}, tr("Of the same call")), h("div", { class: "chips" }, others.map((other) =>
    h("button", { type: "button", class: "chip", onclick: () => select(other, "details") }, mark(outcome(other).verdict), h("span", {}, kind(other).tensor), h("span", { class: "soft" }, outcome(other).verdict))
  )));
}

function verdictPart(row) {
  const o = outcome(row);
  const named = o.hypothesis ? h("p", {}, tr("Explained by "), h("b", {}, o.hypothesis), (o.alternatives || []).length ? tr`; fits as well: ${o.alternatives.join(", ")}` : "", ".") : null;
  return [
    h("p", { class: "verdict" }, badge(o.verdict), o.side === "none" ? null : h("b", {}, tr` side: ${o.side}`)),
    h("p", { class: "soft" }, MEANING[o.verdict]),
    reason(row) ? h("p", { class: "reason" }, reason(row)) : null,
    named,
    (o.modifiers || []).map((name) => h("p", {}, MODIFIERS[name] || name)),
    o.quirk ? h("p", {}, tr("Known difference: "), h("b", {}, tr(o.quirk)), o.muted ? tr(" (muted)") : "", ".") : null,
  ];
}

const PLACED = new Set(["op", "entry", "site", "file", "line", "layer", "phase", "tensor", "inputs", "attributes", "shape", "dtype", "device", "amp", "train"]);

/** The page gets narrower when the panel opens; what was clicked stays where it was on the screen. */
function keepInPlace(from, change) {
  const anchor = from === "finding" ? document.activeElement : from === "chart" ? $("chart") : $("table");
  const before = anchor.getBoundingClientRect().top;
  change();
  window.scrollBy(0, anchor.getBoundingClientRect().top - before);
}

function showDetails(from) {
  const panel = $("details");
  const row = state.selected;
  keepInPlace(from, () => {
    $("layout").classList.toggle("open", row >= 0);
    panel.hidden = row < 0;
  });
  if (row < 0) return;
  const k = kind(row);
  const file = k.file ? `${k.file}:${k.line}` : null;
  const title = h("h2", { tabindex: "-1", id: "details-title" }, `${k.op} ${k.tensor === "out" ? "" : k.tensor || ""}`.trim());
  const shut = h("button", { type: "button", class: "close", "aria-label": tr("Close the details"), onclick: closeDetails }, "×");
  fill(
    panel,
    h("div", { class: "bar" }, title, shut),
    h("p", { class: "soft" }, tr`record ${positions[row]} · call ${valueText(T.call(row))} · step ${valueText(T.step(row))} · ${k.phase ? tr(k.phase) : ""}`),
    verdictPart(row),
    boundLine(row),
    toleranceLine(row),
    streamLine(row),
    reproduce(row),
    facts(tr("Where"), [[tr("site"), k.site], [tr("file"), file], [tr("layer"), k.layer || tr("outside of any layer")], [tr("written as"), k.entry]]),
    facts(tr("What"), [
      ...(k.inputs || []).map((input) => [input.name || tr("input"), operandText(input)]),
      ...Object.entries(k.attributes || {}).map(([name, value]) => [name, valueText(value)]),
      [k.tensor === "out" || !k.tensor ? tr("result") : k.tensor, `${k.dtype || ""} ${shape(k.shape)}`.trim()],
      [tr("device"), k.device],
      [tr("autocast"), k.amp],
      [tr("mode"), k.train === true ? tr("training") : k.train === false ? tr("evaluation") : null],
      ...Object.entries(k).filter(([name]) => !PLACED.has(name)).map(([name, value]) => [name, valueText(value)]),
    ]),
    sides(row),
    facts(tr("Paddle against torch"), described(BETWEEN, row)),
    facts(tr("How it was judged"), described(JUDGED, row)),
    facts(tr("Along the stream"), described(STREAM, row)),
    facts(tr("Further figures"), furtherFigures(row).map((name) => [name, figureText(name, row)])),
    related(row)
  );
  panel.scrollTop = 0;
  if (from !== "start") title.focus({ preventScroll: true });
}

let opener = null;
function closeDetails() {
  select(-1, "details");
  if (opener && opener.isConnected) opener.focus({ preventScroll: true });
}

function buildDetails() {
  on("selected", (from) => {
    if (from !== "details") opener = document.activeElement;
    showDetails(from);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.selected >= 0) closeDetails();
  });
}
