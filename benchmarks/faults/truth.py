"""What a problem's result really is, and the rounding unit B1 of each of its elements.

Written out here a second time, apart from the library: plain formulas in float64 for float32 problems and in long double (64 bit of
precision on x86) for float64 problems. B1 is the first-order bound for one rounding a term: for sums of products the classical
gamma_2 |A||B| (Higham, Accuracy and Stability of Numerical Algorithms, 3.1 and 3.5), for the others the same bookkeeping step
by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import torch

from .problems import Problem

Array = np.ndarray
HIGH = {"float32": np.float64, "float64": np.longdouble}
UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}
TINY = {"float32": float(np.finfo(np.float32).tiny), "float64": float(np.finfo(np.float64).tiny)}


def _long_erf(value: Any) -> Any:
    """erf of one long double, which NumPy lacks: by mpmath, in and out as the sum of two doubles."""
    with mpmath.workprec(100):
        top = float(value)
        value_of_erf = mpmath.erf(mpmath.mpf(top) + mpmath.mpf(float(value - top)))
        return np.longdouble(float(value_of_erf)) + np.longdouble(float(value_of_erf - float(value_of_erf)))


_ERF = np.frompyfunc(_long_erf, 1, 1)


def high(problem: Problem) -> dict[str, Any]:
    """The operands in the oracle's precision, the incoming gradient as ``"g"``."""
    dtype = HIGH[problem.dtype]
    values = {**problem.values, "g": problem.grad}
    return {n: v.numpy().astype(dtype) if isinstance(v, torch.Tensor) else v for n, v in values.items()}


def number(value: Any, dtype: str) -> Any:
    """A Python number as the oracle takes it: the very double, not yet rounded to the tensor's dtype."""
    return HIGH[dtype](value)


def _erf(x: Array) -> Array:
    if x.dtype == np.float64:
        return torch.special.erf(torch.from_numpy(x)).numpy()
    return _ERF(x).astype(x.dtype)


def _fit(value: Array, shape: tuple[int, ...]) -> Array:
    """Summed over the axes along which an operand of this shape was broadcast."""
    lead = tuple(range(value.ndim - len(shape)))
    value = value.sum(lead) if lead else value
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1)
    return value.sum(ones, keepdims=True) if ones else value


def _t(x: Array, flag: bool) -> Array:
    return np.swapaxes(x, -1, -2) if flag and x.ndim > 1 else x


def contraction(v: dict[str, Any], op: str, wanted: str) -> Array:
    """Sums of products; with absolute values for operands it is the scale of the bound as well."""
    if op == "linear":
        flat = [None if a is None else a.reshape(-1, a.shape[-1]) for a in (v["x"], v["g"])]
        if wanted == "out":
            return v["x"] @ v["weight"].T + (0 if v["bias"] is None else v["bias"])
        return {"x": lambda: v["g"] @ v["weight"], "weight": lambda: flat[1].T @ flat[0], "bias": lambda: flat[1].sum(0)}[wanted]()
    x, y = _t(v["x"], v.get("transpose_x")), _t(v["y"], v.get("transpose_y"))
    if op in ("addmm", "baddbmm"):
        return v["beta"] * v["input"] + v["alpha"] * (x @ y)
    if wanted == "out":
        return x @ y
    gradient = v["g"] @ _t(y, True) if wanted == "x" else _t(x, True) @ v["g"]
    return _fit(_t(gradient, v.get(f"transpose_{wanted}")), v[wanted].shape)


def _absolute(v: dict[str, Any]) -> dict[str, Any]:
    return {n: np.abs(a) if isinstance(a, (np.ndarray, float)) and not isinstance(a, bool) else a for n, a in v.items()}


def _axes(v: dict[str, Any]) -> tuple[int, ...]:
    axis = v["axis"]
    return tuple(range(v["x"].ndim)) if axis in (None, []) else (axis,) if isinstance(axis, int) else tuple(axis)


def _spread(v: dict[str, Any]) -> Array:
    return np.broadcast_to(v["g"] if v["keepdim"] else np.expand_dims(v["g"], _axes(v)), v["x"].shape)


def reduction(v: dict[str, Any], op: str, wanted: str, u: float) -> tuple[Array, Array]:
    """Sum and mean, and their gradients: (value, B1)."""
    axes = _axes(v)
    count = np.prod([v["x"].shape[a] for a in axes]) if op == "mean" else 1
    if wanted == "x":
        y = _spread(v) / count
        return y, 3 * u * np.abs(y)
    scale = np.abs(v["x"]).sum(axes, keepdims=v["keepdim"]) / count
    return v["x"].sum(axes, keepdims=v["keepdim"]) / count, (1 if op == "sum" else 2) * u * scale


def _softmax(x: Array, axes: tuple[int, ...], u: float) -> tuple[Array, Array, Array, Array, Array]:
    """Softmax, its relative unit, and the pieces of logsumexp (Blanchard, Higham & Higham 2021, shifted form)."""
    top = x.max(axes, keepdims=True)
    z = np.where(np.isneginf(x), 0, x - np.where(np.isfinite(top), top, 0))
    e = np.where(np.isneginf(x), 0, np.exp(z))
    s = e.sum(axes, keepdims=True)
    p = e / s
    inner = (p * (np.abs(z) + 2)).sum(axes, keepdims=True)
    return p, u * (np.abs(z) + 4) + u * inner + u, top, s, inner


def exponential(v: dict[str, Any], op: str, wanted: str, u: float) -> tuple[Array, Array]:
    """Softmax and logsumexp, and their gradients: (value, B1)."""
    axes = _axes(v)
    p, relative, top, s, inner = _softmax(v["x"], axes, u)
    if op == "softmax":
        if wanted == "out":
            return p, p * relative
        inside = (v["g"] * p).sum(axes, keepdims=True)
        size = (np.abs(v["g"]) + (np.abs(v["g"]) * p).sum(axes, keepdims=True)) * p
        worst = (np.abs(v["g"]) * p * relative).sum(axes, keepdims=True)
        return p * (v["g"] - inside), size * (relative + 3 * u) + p * worst
    if wanted == "out":
        y, bound = np.log(s) + top, u * inner + u + 2 * u * np.abs(np.log(s))
        bound = bound + u * np.abs(y)
        return (y, bound) if v["keepdim"] else (y.squeeze(axes), bound.squeeze(axes))
    relative = relative + u + u * np.abs(np.log(s) + top)  # both frameworks take exp(x - y), and y is rounded
    return _spread(v) * p, np.abs(_spread(v)) * p * relative


def layer_norm(v: dict[str, Any], op: str, wanted: str, u: float) -> tuple[Array, Array]:
    """Layer norm and its gradients: (value, B1). dmu, the mean's error, shifts the row; dv, the variance's, scales it."""
    x, begin = v["x"], v["begin_norm_axis"]
    axes, shape = tuple(range(begin, x.ndim)), x.shape[begin:]
    w = np.ones(shape, x.dtype) if v["scale"] is None else v["scale"].reshape(shape)
    b = np.zeros(shape, x.dtype) if v["bias"] is None else v["bias"].reshape(shape)
    mu = x.mean(axes, keepdims=True)
    d = x - mu
    var = (d * d).mean(axes, keepdims=True)
    r = 1 / np.sqrt(var + v["epsilon"])
    dmu = 2 * u * np.abs(x).mean(axes, keepdims=True)
    dv = 6 * u * var + dmu**2 + 4 * u * dmu * np.sqrt(var)
    share = dv / (var + v["epsilon"])
    rel = share / 2 / np.maximum(1 - share, 0.05) + 4 * u
    xhat, dxhat = d * r, r * (dmu + u * np.abs(d)) + np.abs(d) * r * (rel + 3 * u)
    if wanted == "out":
        y = xhat * w + b
        return y, np.abs(w) * dxhat + u * np.abs(b) + u * np.abs(y)
    lead = tuple(range(begin))
    if wanted in ("scale", "bias"):
        terms = v["g"] * (xhat if wanted == "scale" else 1)
        size = np.abs(terms) * 2 * u + (np.abs(v["g"]) * dxhat if wanted == "scale" else 0)
        return terms.sum(lead).reshape(v[wanted].shape), size.sum(lead).reshape(v[wanted].shape)
    gw = v["g"] * w
    along = (gw * xhat).mean(axes, keepdims=True)
    size = np.abs(gw) + np.abs(gw).mean(axes, keepdims=True)
    size = size + np.abs(xhat) * np.abs(gw * xhat).mean(axes, keepdims=True)
    moved = np.abs(xhat) * (np.abs(gw) * dxhat).mean(axes, keepdims=True) + dxhat * np.abs(along)
    return r * (gw - gw.mean(axes, keepdims=True) - xhat * along), r * (size * (3 * u + rel) + moved)


def gelu(v: dict[str, Any], op: str, wanted: str, u: float) -> tuple[Array, Array]:
    """Both forms of GELU (Hendrycks & Gimpel, arXiv 1606.08415), and their derivative."""
    x = v["x"]
    dtype = x.dtype.type
    steep: Any = 0  # by how much an error of 1 - t^2, which is one unit however small it is, is multiplied
    if v["approximate"] in (True, "tanh"):
        c = np.sqrt(dtype(2) / dtype(np.longdouble("3.14159265358979323846264338327950288")))
        t = np.tanh(c * (x + dtype(0.044715) * x**3))
        steep = np.abs(x) * c * (1 + 3 * dtype(0.044715) * x * x)
        cdf, slope = (1 + t) / 2, (1 - t * t) / 2 * c * (1 + 3 * dtype(0.044715) * x * x)
    else:
        cdf = (1 + _erf(x / np.sqrt(dtype(2)))) / 2
        slope = np.exp(-x * x / 2) / np.sqrt(2 * dtype(np.longdouble("3.14159265358979323846264338327950288")))
    if wanted == "out":
        y = x * cdf
        return y, 2 * u * (np.abs(x) * np.where(x < 0, 0.5, 1) + np.abs(y))
    return v["g"] * (cdf + x * slope), 2 * u * np.abs(v["g"]) * (1 + cdf + np.abs(x * slope) * (1 + x * x) + steep)


Rule = Callable[[dict[str, Any]], tuple[Array, Any]]
# op, wanted -> value and the number of units of |value| that one evaluation costs.
ELEMENTWISE: dict[tuple[str, str], Rule] = {
    ("add", "out"): lambda v: (v["x"] + v["y"], 1),
    ("subtract", "out"): lambda v: (v["x"] - v["y"], 1),
    ("multiply", "out"): lambda v: (v["x"] * v["y"], 1),
    ("divide", "out"): lambda v: (v["x"] / v["y"], 1),
    ("pow", "out"): lambda v: (v["x"] ** v["y"], 4 + np.abs(v["y"] * np.log(v["x"]))),
    ("square", "out"): lambda v: (v["x"] ** 2, 1),
    ("exp", "out"): lambda v: (np.exp(v["x"]), 4),
    ("tanh", "out"): lambda v: (np.tanh(v["x"]), 4),
    ("sqrt", "out"): lambda v: (np.sqrt(v["x"]), 1),
    ("rsqrt", "out"): lambda v: (1 / np.sqrt(v["x"]), 2),
    ("relu", "out"): lambda v: (np.maximum(v["x"], 0), 0),
    ("exp", "x"): lambda v: (v["g"] * np.exp(v["x"]), 5),
    ("sqrt", "x"): lambda v: (v["g"] / (2 * np.sqrt(v["x"])), 3),
    ("rsqrt", "x"): lambda v: (-v["g"] / (2 * v["x"] * np.sqrt(v["x"])), 9),
    ("square", "x"): lambda v: (2 * v["g"] * v["x"], 2),
    ("pow", "x"): lambda v: (v["g"] * v["y"] * v["x"] ** (v["y"] - 1), 7 + np.abs(v["y"] * np.log(v["x"]))),
}


def elementwise(v: dict[str, Any], op: str, wanted: str, u: float) -> tuple[Array, Array]:
    """Functions of one element of each operand: (value, B1)."""
    scalar = any(isinstance(v.get(n), np.longdouble | np.float64) and not isinstance(v.get(n), Array) for n in ("x", "y"))
    if op == "scale":
        s, b = v["scale"], v["bias"]
        if wanted == "x":
            return v["g"] * s, 3 * u * np.abs(v["g"] * s)
        y = v["x"] * s + b if v["bias_after_scale"] else (v["x"] + b) * s
        return y, u * (3 * np.abs(v["x"] * s) + (np.abs(b) if v["bias_after_scale"] else np.abs(b * s)) * 2 + np.abs(y))
    if op == "tanh" and wanted == "x":
        t = np.tanh(v["x"])
        return v["g"] * (1 - t * t), u * np.abs(v["g"]) * (2 + 9 * t * t)
    if op in ("multiply", "divide") and wanted != "out":
        if op == "multiply":
            terms = v["g"] * v["y" if wanted == "x" else "x"]
        else:
            terms = v["g"] / v["y"] if wanted == "x" else -v["g"] * v["x"] / v["y"] ** 2
        shape = v[wanted].shape
        return _fit(terms, shape), (2 if op == "multiply" else 4) * u * _fit(np.abs(terms), shape)
    y, units = ELEMENTWISE[op, wanted](v)
    return y, np.maximum(units, 3 if scalar else 0) * u * np.abs(y)


ROWS = {
    "sum": reduction,
    "mean": reduction,
    "softmax": exponential,
    "logsumexp": exponential,
    "layer_norm": layer_norm,
    "gelu": gelu,
}
PRODUCTS = ("linear", "matmul", "bmm", "addmm", "baddbmm")


def truth(problem: Problem) -> tuple[Array, Array]:
    """(exact result in the oracle's precision, B1 of each element)."""
    v, u = high(problem), UNIT[problem.dtype]
    for name in ("x", "y"):
        if isinstance(v.get(name), (int, float)) and not isinstance(v[name], bool):
            v[name] = number(v[name], problem.dtype)
    if problem.op in PRODUCTS:
        y, scale = contraction(v, problem.op, problem.wanted), contraction(_absolute(v), problem.op, problem.wanted)
        y, bound = y, (1 if problem.wanted == "bias" else 2) * u * scale
    else:
        y, bound = ROWS.get(problem.op, elementwise)(v, problem.op, problem.wanted, u)
    return y, bound + TINY[problem.dtype]
