// What each figure of a record means, in words and with its unit.

const OF_A_SIDE = {
  rho_max: [tr("largest error"), tr("rounding units"), tr("error against the oracle, divided by the op's own rounding bound for one accumulation step")],
  rho_rms: [tr("root mean square error"), tr("rounding units"), tr("the same over the random part of the sample")],
  prob: [tr("error / probabilistic bound"), "", tr("above 1: unlikely to be rounding whose errors are independent")],
  det: [tr("error / bound of any order of summation"), "", tr("above 1: no order of summation explains it")],
  error_max: [tr("largest error"), tr("units of the result"), tr("against the oracle, over the sample")],
  nan: ["NaN", tr("elements"), ""],
  inf: ["Inf", tr("elements"), ""],
};

const BETWEEN = {
  count: [tr("elements"), "", tr("in the tensor")],
  different: [tr("elements that differ"), "", tr("bitwise, between the two results")],
  max_abs: [tr("largest difference"), tr("units of the result"), tr("max |paddle − torch|")],
  mean_abs: [tr("mean difference"), tr("units of the result"), tr("mean |paddle − torch|")],
  rel_fro: [tr("relative difference"), "", tr("Frobenius norm of the difference over that of torch's result")],
  ulp_max: [tr("largest distance"), "ULP", tr("representable numbers between the two results, an upper estimate within a factor of 2")],
  first_bad: [tr("first element to look at"), "", tr("its index, counted from 0")],
};

const JUDGED = {
  k: [tr("length of the summation"), tr("terms"), tr("per element of the result")],
  lambda: [tr("confidence factor λ"), "", tr("the bound is exceeded by chance in at most one tensor in a million")],
  oracle: [tr("oracle"), "", tr("the higher precision in which the sample was computed")],
  sampled: [tr("elements checked"), "", tr("against the oracle: where the results differ most, and at random")],
  allowed: [tr("two right kernels may differ by"), "", tr("twice the largest bound of the sample: the atol that fails no right kernel")],
  kappa: [tr("condition"), "", tr("median of the rounding bound over u·|y|; large means that cancellation magnifies rounding")],
};

const STREAM = {
  incoming: [tr("incoming"), tr("units of the operand"), tr("largest difference already in this call's operands: Paddle's stream against torch's")],
  propagated: [tr("propagated"), tr("units of the result"), tr("what the call makes of the incoming difference")],
  amplification: [tr("amplification"), "", tr("propagated over incoming")],
};

const MODIFIERS = {
  ill_conditioned: tr("ill-conditioned: the bound itself exceeds a tenth of the value, the operands cancel"),
  negligible: tr("negligible: outside the bound by component, but below the unit roundoff of the whole result's norm"),
  "no-native-kernel": tr("native kernel missing: Paddle has none in this dtype here; its kernel in float32 stands for it, rounded"),
};

const COUNTS = new Set(["count", "different", "k", "sampled", "nan", "inf"]); // whole numbers, shown with all their digits

/** A figure of a row as text. */
function figureText(name, row) {
  const value = figureOf(name, row);
  if (Array.isArray(value)) return shape(value);
  return COUNTS.has(name.split(".").pop()) && Number.isInteger(value) ? grouped(value) : figure(value);
}

const SAID = new Set(["bound", "error", "tolerance.atol", "tolerance.rtol"]);

/** Figures of a row that no table above knows, so that nothing in the log is left out. */
function furtherFigures(row) {
  const known = (name) => {
    const [side, inner] = name.split(".");
    if (side === "paddle" || side === "torch") return inner in OF_A_SIDE;
    return name in BETWEEN || name in JUDGED || name in STREAM || SAID.has(name);
  };
  return Object.keys(F).filter((name) => !known(name) && F[name](row) !== null);
}

/** How the chart can show the errors: two series, and the line or the marks of what rounding explains. */
const SCALES = [
  {
    id: "share",
    title: tr("error ÷ predicted bound"),
    paddle: "paddle.prob",
    torch: "torch.prob",
    line: 1,
    bound: tr("the predicted (probabilistic) rounding bound"),
    note: tr("Each side's error against the oracle as a share of the bound predicted for this call. Above the line: not explained by rounding."),
  },
  {
    id: "absolute",
    title: tr("absolute error and bound"),
    paddle: "paddle.error_max",
    torch: "torch.error_max",
    marks: "bound",
    bound: tr("the predicted bound of each call"),
    note: tr("Largest absolute error of each side against the oracle, in units of the result, with the bound predicted for that call."),
  },
  {
    id: "units",
    title: tr("rounding units (ρ)"),
    paddle: "paddle.rho_max",
    torch: "torch.rho_max",
    line: 1,
    bound: tr("one rounding unit"),
    note: tr("Error in units of the op's own rounding bound: independent of the scale of the data."),
  },
  {
    id: "difference",
    title: tr("difference paddle − torch"),
    paddle: "max_abs",
    marks: "incoming",
    single: tr("largest difference of the two results"),
    bound: tr("incoming difference, where a shadow stream is kept"),
    note: tr("Largest absolute difference of the two kernels on the same inputs, in units of the result. It cannot tell which side is off."),
  },
];
