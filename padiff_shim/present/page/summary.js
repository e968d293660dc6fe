// The top of the page: warnings, versions, flags, verdicts, coverage, and what to look at first.

const MEANING = D.meaning;

function definitions(pairs) {
  return h("dl", { class: "pairs" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function valueText(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function buildHeader() {
  const header = D.header;
  const environment = header.environment || {};
  const carried = header.carry === "torch" ? tr("the program went on with torch's results") : tr("the program went on with Paddle's results");
  const [word, tone] = D.status;
  fill($("headline"), h("span", { class: `status ${tone}` }, word), " ", D.headline);
  const parts = [tr("Compare report"), header.command ? tr`command: ${header.command}` : null, header.created, tr`Paddle against ${header.backend || "torch"}`, header.carry ? carried : null];
  if (header.rank !== undefined && header.rank !== null) parts.push(tr`rank ${header.rank}`);
  fill($("subtitle"), parts.filter(Boolean).join(" · "));
  document.title = tr`Compare report: ${count(D.total, "record")}`;
  const warnings = D.warnings.map((text) => h("li", {}, text));
  if (warnings.length) {
    fill($("warnings"), h("div", { class: "box warning" }, h("h2", {}, tr("Before a kernel is blamed")), h("ul", {}, warnings)));
  }
  const versions = Object.entries(environment).map(([name, value]) => h("span", { class: "fact" }, h("b", {}, name), " ", valueText(value)));
  const tables = [
    [tr("Flags and switches of both frameworks"), header.flags],
    [tr("Options of the run"), header.options],
  ].filter(([, values]) => values && Object.keys(values).length);
  fill(
    $("run"),
    h("p", { class: "facts" }, versions),
    tables.map(([title, values]) =>
      h("details", {}, h("summary", {}, `${title} (${Object.keys(values).length})`), definitions(Object.entries(values).map(([n, v]) => [n, valueText(v)])))
    )
  );
}

function buildVerdicts() {
  const chips = VERDICTS.filter((name) => D.verdicts[name]).map((name) =>
    h(
      "button",
      { type: "button", class: "chip", "data-verdict": name, "aria-pressed": "false", title: MEANING[name], onclick: () => toggleVerdict(name) },
      mark(name),
      h("span", {}, name),
      h("b", {}, grouped(D.verdicts[name]))
    )
  );
  fill($("verdicts"), chips.length ? chips : h("p", {}, tr("No call was compared in this run.")));
  on("filtered", () => {
    for (const chip of chips) chip.setAttribute("aria-pressed", String(state.filter.verdicts.has(chip.dataset.verdict)));
  });
}

function meter(part, whole, label) {
  const share = whole ? part / whole : 0;
  const bar = h("span", { class: "meter", "aria-hidden": "true" }, h("span", {}));
  bar.firstChild.style.width = `${100 * share}%`;
  return h("p", { class: "covered" }, bar, h("span", {}, h("b", {}, percent(part, whole)), tr` of ${label}: ${grouped(part)} of ${grouped(whole)}`));
}

/** How many calls were left out for a reason, and of which ops, where the log says so. */
function uncheckedText(coverage, why, calls) {
  const ops = Object.entries(coverage.unchecked_ops || {}).filter(([, reasons]) => reasons[why]);
  ops.sort((a, b) => b[1][why] - a[1][why]);
  const named = ops.slice(0, 12).map(([op, reasons]) => `${op} (${grouped(reasons[why])})`);
  const more = ops.length > 12 ? tr`, and ${ops.length - 12} more ops` : "";
  return count(calls, "call") + (named.length ? `${tr(": ")}${named.join(", ")}${more}` : "");
}

function buildCoverage() {
  const c = D.coverage || {};
  const lines = [];
  if (c.float_calls) lines.push(meter(c.checked_calls || 0, c.float_calls, tr("float calls checked")));
  if (c.float_elements) lines.push(meter(c.checked_elements || 0, c.float_elements, tr("float elements checked")));
  if (!lines.length) lines.push(h("p", { class: "soft" }, tr("No float call was seen, so nothing could be checked.")));
  const reasons = Object.entries(c.unchecked || {}).sort((a, b) => b[1] - a[1]);
  if (reasons.length) {
    const total = reasons.reduce((sum, [, calls]) => sum + calls, 0);
    lines.push(
      h("details", {}, h("summary", {}, tr`Not checked, and why (${count(total, "call")})`), definitions(reasons.map(([why, calls]) => [why, uncheckedText(c, why, calls)])))
    );
  }
  if (D.muted) lines.push(h("p", { class: "soft" }, tr`${count(D.muted, "record")} of known differences are muted: counted and listed, but not among what to look at.`));
  const others = ["known", "negligible"].filter((why) => D.apart[why]).map((why) => `${grouped(D.apart[why])} ${APART[why]}`);
  if (others.length) lines.push(h("p", { class: "soft" }, tr`${others.join(tr(" and "))}: differences that come after all others, and are not counted as anything to look at.`));
  fill($("coverage"), lines);
}

function finding(item) {
  const places = item.layers.filter(Boolean);
  const where = places.length > 1 ? places.length >= 100 ? tr("100 or more layers") : count(places.length, "layer") : places[0] || tr("outside of any layer");
  const ratio = number(item.excess);
  const kept = rowAt(item.worst) !== undefined ? item.worst : item.first;
  const row = rowAt(kept);
  return h(
    "li",
    {},
    h(
      "button",
      { type: "button", class: "finding", disabled: row === undefined, onclick: () => select(row, "finding") },
      h("span", { class: "what" }, badge(item.verdict), " ", h("b", {}, item.op), " ", item.tensor === "out" ? null : h("span", {}, item.tensor)),
      h("span", { class: "who" }, h("span", {}, item.side === "none" ? "" : tr`side: ${item.side}`), item.hypothesis ? [" ", h("em", {}, item.hypothesis)] : null, item.apart ? ` (${APART[item.apart]})` : null),
      h("span", { class: "where" }, `${item.site || tr("site unknown")} · ${where}`),
      h("span", { class: "much" }, count(item.records, "record"), ratio > 0 && ratio < Infinity ? ratio > 1e6 ? tr` · ${capped(ratio)} × the bound` : tr` · up to ${capped(ratio)} × the bound` : "")
    )
  );
}

/** Where NaN and infinities begin, each with a way to its record. */
function births() {
  return D.births.map((birth) => {
    const row = rowAt(birth.at);
    const way = row === undefined ? null : [" ", h("button", { type: "button", class: "link", onclick: () => select(row, "finding") }, tr`record ${birth.at}`)];
    return h("p", { class: "birth" }, birth.text, way);
  });
}

function buildFindings() {
  const all = D.findings;
  const body = $("findings-body");
  const ties = D.ties ? h("p", { class: "soft" }, D.ties) : null;
  if (!all.length) {
    const why = D.total ? tr("Nothing: every compared result is equal, explained by rounding or a tie, without a verdict, or a muted known difference.") : tr("Nothing was compared.");
    fill(body, births(), D.births.length ? null : h("p", {}, why), ties);
    return;
  }
  const foremost = all.some((item) => !item.apart) ? all.filter((item) => !item.apart) : all;
  const first = foremost.reduce((least, item) => Math.min(least, item.first), Infinity);
  const row = rowAt(first);
  const list = h("ol", { class: "findings" }, all.slice(0, 6).map(finding));
  const more = h("button", { type: "button", onclick: () => { list.append(...all.slice(6, 200).map(finding)); more.remove(); } }, tr`Show all ${grouped(Math.min(all.length, 200))}`);
  fill(
    body,
    births(),
    row === undefined ? null : h("p", {}, tr("The first divergence is "), h("button", { type: "button", class: "link", onclick: () => select(row, "finding") }, tr`record ${first}`), tr`: ${kind(row).op}${kind(row).tensor === "out" ? "" : " " + kind(row).tensor} at ${kind(row).site}.`),
    list,
    all.length > 6 ? more : null,
    D.advice.map((line) => h("p", {}, line)),
    ties,
    D.further ? h("p", { class: "soft" }, tr`${count(D.further, "further record")} of other kinds are not listed here.`) : null
  );
}

function buildSampled() {
  if (ROWS === D.total) return;
  const dropped = {};
  for (const [name, total] of Object.entries(D.verdicts)) dropped[name] = total;
  for (let row = 0; row < ROWS; row++) dropped[outcome(row).verdict]--;
  const serious = Object.entries(dropped).filter(([name, left]) => left > 0 && !isUsual(name));
  $("sampled").hidden = false;
  $("sampled").textContent =
    tr`This page lists ${grouped(ROWS)} of ${count(D.total, "record")}. ` +
    (serious.length
      ? tr`There were too many even with a verdict other than EQUAL and ROUNDING: a uniform sample is listed of ${serious.map(([name]) => name).join(", ")}, and of EQUAL and ROUNDING.`
      : tr("All with a verdict other than EQUAL and ROUNDING are listed, and a uniform sample of those two.")) +
    tr(" All counts above and in the layers and ops are over the whole run.");
}
