// The embedded data: columns of figures, and tables of what repeats.

const D = JSON.parse($("data").textContent);
const ROWS = D.rows;
const SEVERITY = D.severity; // verdict -> 0 (EQUAL) to 10 (WRONG)
const VERDICTS = Object.keys(SEVERITY).sort((a, b) => SEVERITY[b] - SEVERITY[a]);
const isUsual = (verdict) => verdict === "EQUAL" || verdict === "ROUNDING";

/** A column as a function row -> value. A column of one value is written once. */
function reader(column) {
  if (!column) return () => null;
  return Array.isArray(column) ? (row) => column[row] : () => column.all;
}

const T = {};
for (const name of ["position", "index", "call", "step", "kind", "outcome", "reason"]) T[name] = reader(D.table[name]);
const F = {};
for (const [name, column] of Object.entries(D.figures)) F[name] = reader(column);

const kind = (row) => D.kinds[T.kind(row)];
const outcome = (row) => D.outcomes[T.outcome(row)];
const reason = (row) => D.reasons[T.reason(row)];
const figureOf = (name, row) => (F[name] ? F[name](row) : null);

const cached = {};
/**
 * A figure of all rows as a Float64Array; NaN where there is none, Infinity for NaN and the infinities in the log. A side that
 * made a NaN or Inf of its own has no error that could be measured; it counts as infinite.
 */
function series(name) {
  if (cached[name]) return cached[name];
  const found = new Float64Array(ROWS).fill(NaN);
  const read = F[name] || (() => null);
  const side = name.split(".")[0];
  for (let row = 0; row < ROWS; row++) {
    const x = number(read(row));
    if (x !== undefined) found[row] = Number.isNaN(x) ? Infinity : Math.abs(x);
    else if (outcome(row).verdict === "NONFINITE" && (outcome(row).side === side || (outcome(row).side === "both" && name.includes(".")))) found[row] = Infinity;
  }
  return (cached[name] = found);
}

/** The larger of two series, row by row; a missing figure does not count. */
function larger(a, b) {
  return a.map((x, row) => (x > b[row] || Number.isNaN(b[row]) ? x : b[row]));
}

const severity = Uint8Array.from({ length: ROWS }, (_, row) => SEVERITY[outcome(row).verdict]);
const excess = larger(series("paddle.prob"), series("torch.prob"));
const APART = { muted: tr("muted"), known: tr("known"), negligible: tr("negligible") };
/** Why a row comes after all others and is not to be looked at first: "muted", "known", "negligible"; "" for most. */
function apart(row) {
  const o = outcome(row);
  return o.muted ? "muted" : o.quirk ? "known" : (o.modifiers || []).includes("negligible") ? "negligible" : "";
}
const positions = Float64Array.from({ length: ROWS }, (_, row) => T.position(row));

/** The row at a place of run.calls; undefined if it was not kept. */
function rowAt(position) {
  let low = 0;
  let high = ROWS;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (positions[middle] < position) low = middle + 1;
    else high = middle;
  }
  return low < ROWS && positions[low] === position ? low : undefined;
}

/** Other records of the same call: its result and its gradients. */
function siblings(row) {
  const found = [];
  const call = T.call(row);
  const here = kind(row);
  if (call === null || call === undefined) return found;
  for (let other = 0; other < ROWS; other++) {
    if (other === row || T.call(other) !== call || T.step(other) !== T.step(row)) continue;
    const there = kind(other);
    if (there.op === here.op && there.site === here.site) found.push(other);
  }
  return found;
}

const state = {
  filter: { text: "", verdicts: new Set(), op: "", side: "", phase: "", layer: "", exact: false, muted: true },
  shown: new Uint32Array(0), // rows that pass the filter, in order of happening
  selected: -1,
  range: null, // places of run.calls that the chart shows
};

function select(row, from) {
  state.selected = row;
  tell("selected", from);
}
