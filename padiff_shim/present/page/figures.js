// What each figure of a record means, in words and with its unit.

const OF_A_SIDE = {
  rho_max: ["largest error", "rounding units", "error against the oracle, divided by the op's own rounding bound for one accumulation step"],
  rho_rms: ["root mean square error", "rounding units", "the same over the random part of the sample"],
  prob: ["error / probabilistic bound", "", "above 1: unlikely to be rounding whose errors are independent"],
  det: ["error / bound of any order of summation", "", "above 1: no order of summation explains it"],
  error_max: ["largest error", "units of the result", "against the oracle, over the sample"],
  nan: ["NaN", "elements", ""],
  inf: ["Inf", "elements", ""],
};

const BETWEEN = {
  count: ["elements", "", "in the tensor"],
  different: ["elements that differ", "", "bitwise, between the two results"],
  max_abs: ["largest difference", "units of the result", "max |paddle − torch|"],
  mean_abs: ["mean difference", "units of the result", "mean |paddle − torch|"],
  rel_fro: ["relative difference", "", "Frobenius norm of the difference over that of torch's result"],
  ulp_max: ["largest distance", "ULP", "representable numbers between the two results, an upper estimate within a factor of 2"],
  first_bad: ["first element to look at", "", "its index, counted from 0"],
};

const JUDGED = {
  k: ["length of the summation", "terms", "per element of the result"],
  lambda: ["confidence factor λ", "", "the bound is exceeded by chance in at most one tensor in a million"],
  oracle: ["oracle", "", "the higher precision in which the sample was computed"],
  sampled: ["elements checked", "", "against the oracle: where the results differ most, and at random"],
  allowed: ["two right kernels may differ by", "", "twice the largest bound of the sample: the atol that fails no right kernel"],
  kappa: ["condition", "", "median of the rounding bound over u·|y|; large means that cancellation magnifies rounding"],
};

const STREAM = {
  incoming: ["incoming", "units of the operand", "largest difference already in this call's operands: Paddle's stream against torch's"],
  propagated: ["propagated", "units of the result", "what the call makes of the incoming difference"],
  amplification: ["amplification", "", "propagated over incoming"],
};

const MODIFIERS = {
  ill_conditioned: "ill-conditioned: the bound itself exceeds a tenth of the value, the operands cancel",
  negligible: "negligible: outside the bound by component, but below the unit roundoff of the whole result's norm",
  "no-native-kernel": "native kernel missing: Paddle has none in this dtype here; its kernel in float32 stands for it, rounded",
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
    title: "error ÷ predicted bound",
    paddle: "paddle.prob",
    torch: "torch.prob",
    line: 1,
    bound: "the predicted (probabilistic) rounding bound",
    note: "Each side's error against the oracle as a share of the bound predicted for this call. Above the line: not explained by rounding.",
  },
  {
    id: "absolute",
    title: "absolute error and bound",
    paddle: "paddle.error_max",
    torch: "torch.error_max",
    marks: "bound",
    bound: "the predicted bound of each call",
    note: "Largest absolute error of each side against the oracle, in units of the result, with the bound predicted for that call.",
  },
  {
    id: "units",
    title: "rounding units (ρ)",
    paddle: "paddle.rho_max",
    torch: "torch.rho_max",
    line: 1,
    bound: "one rounding unit",
    note: "Error in units of the op's own rounding bound: independent of the scale of the data.",
  },
  {
    id: "difference",
    title: "difference paddle − torch",
    paddle: "max_abs",
    marks: "incoming",
    single: "largest difference of the two results",
    bound: "incoming difference, where a shadow stream is kept",
    note: "Largest absolute difference of the two kernels on the same inputs, in units of the result. It cannot tell which side is off.",
  },
];
