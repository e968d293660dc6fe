// The chart's pointer, keys, legend and tip.

const redrawChart = eachFrame(drawChart);

/** The row whose point is nearest to a pixel, among those within reach; the more serious one where several are. */
function nearest(x, y, reach) {
  let best = -1;
  let least = Infinity;
  const rows = chart.rows;
  let low = 0;
  let high = rows.length;
  const from = chart.position(x - reach);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (positions[rows[middle]] < from) low = middle + 1;
    else high = middle;
  }
  for (let place = low; place < rows.length; place++) {
    const row = rows[place];
    const dx = chart.x(positions[row]) - x;
    if (dx > reach) break;
    for (const values of [chart.paddle, chart.torch]) {
      if (!values || Number.isNaN(values[row])) continue;
      const far = Math.hypot(dx, chart.y(values[row]) - y) - 0.3 * severity[row];
      if (far < least && far <= reach) {
        least = far;
        best = row;
      }
    }
  }
  return best;
}

function showTip(row, at) {
  const tip = $("tip");
  chart.hover = row;
  tip.hidden = row < 0;
  if (row < 0) return;
  const here = kind(row);
  const bound = figureOf("bound", row);
  fill(
    tip,
    h("p", {}, badge(outcome(row).verdict), outcome(row).side === "none" ? null : ` ${outcome(row).side}`),
    h("p", {}, h("b", {}, `${here.op} `), tr`${here.tensor} · record ${positions[row]} · step ${valueText(T.step(row))}`),
    here.layer ? h("p", { class: "path" }, here.layer) : null,
    h("p", { class: "path" }, here.site || ""),
    h("p", {}, `${chart.scale.single ? tr("difference") : "paddle"} ${figure(figureOf(chart.scale.paddle, row))}`, chart.torch ? `, torch ${figure(figureOf(chart.scale.torch, row))}` : "", chart.scale.marks && bound !== null && chart.scale.marks === "bound" ? tr`, bound ${figure(bound)}` : "")
  );
  const x = at ? at[0] : chart.x(positions[row]);
  const y = at ? at[1] : chart.y(chart.paddle[row] >= 0 ? chart.paddle[row] : 1);
  tip.style.left = `${Math.max(4, Math.min(x + 14, chart.width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${y > chart.height / 2 ? Math.max(4, y - tip.offsetHeight - 14) : y + 14}px`;
}

function zoom(from, to) {
  const most = Math.max(1, D.total - 1);
  const range = [Math.max(0, from), Math.min(most, to)];
  state.range = range[1] - range[0] >= most - 0.5 || range[1] - range[0] < 1 ? null : range;
  $("whole").hidden = !state.range;
  redrawChart();
}

function zoomBy(factor) {
  const [from, to] = state.range || [0, Math.max(1, D.total - 1)];
  const middle = state.selected >= 0 ? positions[state.selected] : (from + to) / 2;
  const half = ((to - from) * factor) / 2;
  zoom(middle - half, middle + half);
}

function chartKey(event) {
  const rows = chart.rows;
  if (!rows.length) return;
  const now = chart.hover >= 0 ? chart.hover : state.selected;
  const at = rows.indexOf(now);
  const go = (place) => {
    showTip(rows[Math.max(0, Math.min(rows.length - 1, place))]);
    redrawChart();
  };
  const moves = {
    ArrowRight: () => go(at + 1),
    ArrowLeft: () => go(at < 0 ? rows.length - 1 : at - 1),
    PageDown: () => go(at + 50),
    PageUp: () => go(at - 50),
    Home: () => go(0),
    End: () => go(rows.length - 1),
    Enter: () => chart.hover >= 0 && select(chart.hover, "chart"),
    " ": () => chart.hover >= 0 && select(chart.hover, "chart"),
    "+": () => zoomBy(0.5),
    "-": () => zoomBy(2),
    Escape: () => { showTip(-1); redrawChart(); },
  };
  if (!moves[event.key]) return;
  event.preventDefault();
  moves[event.key]();
}

function pointing(canvas) {
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    const [x] = place(event);
    chart.drag = { from: x, to: x, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (chart.drag && event.buttons) {
      chart.drag.to = x;
      chart.drag.moved = chart.drag.moved || Math.abs(x - chart.drag.from) > 6;
      if (chart.drag.moved) canvas.setPointerCapture(event.pointerId);
    } else {
      showTip(nearest(x, y, 14), [x, y]);
    }
    redrawChart();
  });
  canvas.addEventListener("pointerup", (event) => {
    const [x, y] = place(event);
    const drag = chart.drag;
    chart.drag = null;
    if (drag && drag.moved) {
      const ends = [chart.position(drag.from), chart.position(x)].sort((a, b) => a - b);
      zoom(...ends);
      return;
    }
    const row = nearest(x, y, event.pointerType === "mouse" ? 14 : 26);
    showTip(row, [x, y]);
    if (row >= 0) select(row, "chart");
  });
  canvas.addEventListener("pointercancel", () => { chart.drag = null; redrawChart(); });
  canvas.addEventListener("pointerleave", () => { if (!chart.drag) showTip(-1); redrawChart(); });
}

/** The legend's own signs are small drawings, so that they look as the points do. */
function sign(name) {
  const canvas = h("canvas", { width: 32, height: 32, class: "sign", "aria-hidden": "true" });
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  const kept = chart.pen;
  chart.pen = pen;
  pen.lineWidth = 1.4;
  if (name === "bound" && chart.scale.line) line(0, 8, 16, 8, chart.colours.ink, [6, 4]);
  else if (name === "bound") line(4, 8, 12, 8, chart.colours.ink);
  else point(8, 8, chart.colours.ink, name === "torch", 3.5);
  chart.pen = kept;
  return canvas;
}

function drawLegend() {
  const scale = chart.scale;
  const item = (name, text) => h("span", {}, sign(name), text);
  const drawn = new Set();
  for (let row = 0; row < ROWS; row++) if (hasPoint(row)) drawn.add(outcome(row).verdict);
  fill(
    $("legend"),
    item("paddle", scale.single || tr("paddle's error")),
    scale.torch ? item("torch", tr("torch's error")) : null,
    item("bound", scale.bound),
    VERDICTS.filter((name) => drawn.has(name)).map((name) => h("span", {}, mark(name), name))
  );
}

/** Whether the chart's figure is known of either side. */
function hasPoint(row) {
  return !Number.isNaN(chart.paddle[row]) || Boolean(chart.torch && !Number.isNaN(chart.torch[row]));
}

function describeChart() {
  const bare = chart.rows.reduce((sum, row) => sum + (hasPoint(row) ? 0 : 1), 0);
  const absent = bare ? tr` ${count(bare, "record")} without such a figure (equal results that were not audited, or no bound) not drawn.` : "";
  const steps = chart.stepsDrawn ? tr(" Dotted upright lines: a new step.") : "";
  const place = state.range ? tr` Records ${grouped(Math.ceil(state.range[0]))} to ${grouped(Math.floor(state.range[1]))}.` : "";
  $("chart-note").textContent = tr`${chart.scale.note}${absent}${steps}${place} A verdict colours the side it names. Drag to enlarge a part; a point opens its details.`;
  $("canvas").setAttribute(
    "aria-label",
    tr`${chart.scale.title} against the place in run.calls, ${count(chart.rows.length, "record")}, logarithmic from 1e${chart.low} to 1e${chart.high}. ` +
      tr("Arrow keys move along the records, Enter opens the details, plus and minus enlarge and reduce. The table below holds the same records.")
  );
}

function buildChart() {
  const known = SCALES.filter((scale) => F[scale.paddle]);
  const picker = $("scale");
  fill(picker, (known.length ? known : SCALES.slice(0, 1)).map((scale) => h("option", { value: scale.id }, scale.title)));
  const choose = () => {
    chart.scale = SCALES.find((scale) => scale.id === picker.value);
    drawChart();
    drawLegend();
  };
  picker.addEventListener("change", choose);
  pointing($("canvas"));
  $("canvas").addEventListener("keydown", chartKey);
  $("canvas").addEventListener("blur", () => { showTip(-1); redrawChart(); });
  $("whole").addEventListener("click", () => zoom(0, Infinity));
  on("charted", describeChart);
  on("filtered", redrawChart);
  on("selected", redrawChart);
  on("themed", () => { readColours(); drawLegend(); redrawChart(); });
  new ResizeObserver(redrawChart).observe($("chart"));
  readColours();
  choose();
}
