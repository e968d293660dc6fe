// Error along the run on a logarithmic scale: both sides and what rounding explains. Drawn on a canvas: two points a record.

const chart = { scale: SCALES[0], places: { left: 76, right: 12, top: 14, bottom: 46 }, hover: -1, drag: null, colours: {} };
const CROWDED = [1, 5]; // records a pixel of width from which on points are smaller, and small squares

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  for (const name of VERDICTS) chart.colours[name] = read("--v-" + name);
  for (const name of ["ink", "soft", "line", "edge", "accent"]) chart.colours[name] = read("--" + name);
}

/** Smallest and largest positive finite value of the shown rows, as powers of ten with some room. */
function decades(lists, rows) {
  let low = Infinity;
  let high = 0;
  for (const values of lists) {
    for (const row of rows) {
      const x = values[row];
      if (x > 0 && x < Infinity) {
        if (x < low) low = x;
        if (x > high) high = x;
      }
    }
  }
  if (chart.scale.line) {
    low = Math.min(low, chart.scale.line / 10);
    high = Math.max(high, chart.scale.line * 3);
  }
  if (!high) return [-8, 0];
  const from = Math.floor(Math.log10(low));
  return [from, Math.max(from + 1, Math.ceil(Math.log10(high)))];
}

function layOut() {
  const canvas = $("canvas");
  const box = $("chart");
  const { left, right, top, bottom } = chart.places;
  chart.width = Math.max(200, box.clientWidth);
  chart.height = box.clientHeight;
  const dots = window.devicePixelRatio || 1;
  canvas.width = Math.round(chart.width * dots);
  canvas.height = Math.round(chart.height * dots);
  chart.pen = canvas.getContext("2d");
  chart.pen.setTransform(dots, 0, 0, dots, 0, 0);
  const [from, to] = state.range || [0, Math.max(1, D.total - 1)];
  const inner = chart.width - left - right - 16;
  chart.x = (position) => left + 8 + (inner * (position - from)) / Math.max(1, to - from);
  chart.position = (x) => from + ((x - left - 8) / inner) * (to - from);
  chart.rows = state.shown.filter((row) => positions[row] >= from && positions[row] <= to);
  chart.paddle = series(chart.scale.paddle);
  chart.torch = chart.scale.torch ? series(chart.scale.torch) : null;
  chart.marks = chart.scale.marks ? series(chart.scale.marks) : null;
  const lists = [chart.paddle, chart.torch, chart.marks].filter(Boolean);
  const [low, high] = decades(lists, chart.rows);
  const has = (test) => lists.some((values) => chart.rows.some((row) => test(values[row])));
  chart.zeroLane = has((x) => x === 0) ? 18 : 0;
  chart.infiniteLane = has((x) => x === Infinity) ? 18 : 0;
  const up = top + chart.infiniteLane;
  const down = chart.height - bottom - chart.zeroLane;
  Object.assign(chart, { low, high, up, down });
  chart.y = (value) => {
    if (value === Infinity) return top + 4;
    if (value === 0) return chart.height - bottom - 5;
    return down - ((Math.log10(value) - low) / (high - low)) * (down - up);
  };
}

function drawAxes() {
  const { pen, colours } = chart;
  const { left, right, bottom } = chart.places;
  const base = chart.height - bottom;
  pen.font = "12px system-ui, sans-serif";
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const every = Math.max(1, Math.ceil((chart.high - chart.low) / Math.max(2, Math.floor((chart.down - chart.up) / 26))));
  for (let power = chart.low; power <= chart.high; power += every) {
    const y = Math.round(chart.y(10 ** power)) + 0.5;
    line(left, y, chart.width - right, y, colours.line);
    pen.fillStyle = colours.soft;
    pen.fillText(power === 0 ? "1" : `1e${power}`, left - 8, y);
  }
  pen.fillStyle = colours.soft;
  if (chart.zeroLane) pen.fillText("0", left - 8, chart.y(0));
  if (chart.infiniteLane) pen.fillText("∞, NaN", left - 8, chart.y(Infinity));
  pen.textBaseline = "top";
  const [from, to] = state.range || [0, Math.max(1, D.total - 1)];
  const wanted = Math.max(2, Math.floor((chart.width - left - right) / 90));
  const raw = Math.max(1, (to - from) / wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(1, [1, 2, 5, 10].find((factor) => factor * power >= raw) * power);
  for (let position = Math.ceil(from / step) * step; position <= to; position += step) {
    const x = chart.x(position);
    line(Math.round(x) + 0.5, base, Math.round(x) + 0.5, base + 4, colours.soft);
    pen.textAlign = x > chart.width - 40 ? "right" : "center";
    pen.fillText(grouped(position), Math.min(x, chart.width - 2), base + 8);
  }
  titles(base);
}

/** What the axes are. */
function titles(base) {
  const { pen, colours } = chart;
  const { left, right, top } = chart.places;
  pen.save();
  pen.fillStyle = colours.soft;
  pen.textAlign = "center";
  pen.textBaseline = "top";
  pen.fillText(tr("record (its place in run.calls)"), (left + chart.width - right) / 2, base + 26);
  pen.translate(2, (top + base) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(chart.scale.title, 0, 0);
  pen.restore();
}

function line(x1, y1, x2, y2, colour, dash) {
  const { pen } = chart;
  pen.strokeStyle = colour;
  pen.setLineDash(dash || []);
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

/** Steps of the program as faint upright lines, where there are not too many. */
function drawSteps() {
  const starts = [];
  let before;
  for (const row of chart.rows) {
    const step = T.step(row);
    if (before !== undefined && step !== before && step !== null) starts.push([row, step]);
    before = step;
  }
  chart.stepsDrawn = starts.length > 0 && starts.length <= 40;
  if (!chart.stepsDrawn) return;
  for (const [row] of starts) {
    const x = Math.round(chart.x(positions[row] - 0.5)) + 0.5;
    line(x, chart.up, x, chart.height - chart.places.bottom, chart.colours.line, [2, 3]);
  }
}

/** A point: paddle's is a filled disc, torch's an open triangle. */
function point(x, y, colour, torch, size) {
  const { pen } = chart;
  if (size < 2.5) {
    pen.fillStyle = colour;
    if (torch) pen.fillRect(x - 0.5, y - 2, 1, 4);
    else pen.fillRect(x - 1.5, y - 1.5, 3, 3);
    return;
  }
  pen.beginPath();
  if (torch) {
    pen.moveTo(x, y - size - 1);
    pen.lineTo(x + size, y + size - 1);
    pen.lineTo(x - size, y + size - 1);
    pen.closePath();
    pen.strokeStyle = colour;
    pen.stroke();
  } else {
    pen.arc(x, y, size, 0, 7);
    pen.fillStyle = colour;
    pen.fill();
  }
}

function drawPoints() {
  const { pen, colours } = chart;
  const crowd = chart.rows.length / chart.width;
  const size = crowd > CROWDED[1] ? 1.5 : crowd > CROWDED[0] ? 2.5 : 3.5;
  pen.setLineDash([]);
  pen.lineWidth = 1.4;
  // The serious ones last, so that nothing covers them.
  const order = chart.rows.slice().sort((a, b) => severity[a] - severity[b] || a - b);
  if (chart.marks) {
    pen.fillStyle = colours.ink;
    for (const row of order) if (!Number.isNaN(chart.marks[row])) pen.fillRect(chart.x(positions[row]) - 3, chart.y(chart.marks[row]) - 0.75, 6, 1.5);
  }
  for (const row of order) {
    const x = chart.x(positions[row]);
    const { verdict, side, muted } = outcome(row);
    const plain = muted ? colours.soft : colours[verdict];
    const extra = severity[row] >= SEVERITY.LOW_ACCURACY && size < 3.5 ? 1.5 : 0;
    // A verdict is of the side it names; the other side's point is grey.
    const drawSide = (name, values) => {
      if (!values || Number.isNaN(values[row])) return;
      const other = chart.torch && side !== name && (side === "paddle" || side === "torch");
      point(x, chart.y(values[row]), other ? colours.edge : plain, name === "torch", other ? size : size + extra);
    };
    drawSide("torch", chart.torch);
    drawSide("paddle", chart.paddle);
  }
}

function drawChosen(row, colour) {
  if (row < 0 || !chart.rows.includes(row)) return;
  const { pen } = chart;
  const x = chart.x(positions[row]);
  pen.lineWidth = 1;
  line(Math.round(x) + 0.5, chart.places.top, Math.round(x) + 0.5, chart.height - chart.places.bottom, colour);
  pen.lineWidth = 2;
  pen.strokeStyle = colour;
  for (const values of [chart.paddle, chart.torch]) {
    if (!values || Number.isNaN(values[row])) continue;
    pen.beginPath();
    pen.arc(x, chart.y(values[row]), 7, 0, 7);
    pen.stroke();
  }
}

function drawChart() {
  layOut();
  const { pen, colours } = chart;
  pen.clearRect(0, 0, chart.width, chart.height);
  drawAxes();
  drawSteps();
  if (chart.scale.line) {
    const y = Math.round(chart.y(chart.scale.line)) + 0.5;
    pen.lineWidth = 1.5;
    line(chart.places.left, y, chart.width - chart.places.right, y, colours.ink, [6, 4]);
  }
  drawPoints();
  drawChosen(state.selected, colours.accent);
  if (chart.hover !== state.selected) drawChosen(chart.hover, colours.soft);
  if (chart.drag && chart.drag.moved) {
    pen.fillStyle = colours.accent;
    pen.globalAlpha = 0.15;
    pen.fillRect(Math.min(chart.drag.from, chart.drag.to), chart.places.top, Math.abs(chart.drag.to - chart.drag.from), chart.height - chart.places.top - chart.places.bottom);
    pen.globalAlpha = 1;
  }
  if (!chart.rows.length) {
    pen.fillStyle = colours.soft;
    pen.textAlign = "center";
    pen.fillText(tr("No records to draw."), chart.width / 2, chart.height / 2 - 20);
  }
  tell("charted");
}
