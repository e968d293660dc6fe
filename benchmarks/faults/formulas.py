"""Wrong or careless formulas, in NumPy at whatever precision their operands have."""

from __future__ import annotations

from typing import Any

import numpy as np

Values = dict[str, Any]


def _rows(v: Values) -> tuple[np.ndarray, tuple[int, ...], Any, Any]:
    x, begin = v["x"], v["begin_norm_axis"]
    shape = x.shape[begin:]
    w = 1 if v["scale"] is None else v["scale"].reshape(shape)
    b = 0 if v["bias"] is None else v["bias"].reshape(shape)
    return x, tuple(range(begin, x.ndim)), w, b


def sample_variance(v: Values, op: str) -> np.ndarray:
    """Layer norm with n - 1 under the variance."""
    x, axes, w, b = _rows(v)
    d = x - x.mean(axes, keepdims=True)
    n = np.prod([x.shape[a] for a in axes])
    return d / np.sqrt((d * d).sum(axes, keepdims=True) / x.dtype.type(n - 1) + x.dtype.type(v["epsilon"])) * w + b


def epsilon_outside(v: Values, op: str) -> np.ndarray:
    """Layer norm divided by sigma + epsilon."""
    x, axes, w, b = _rows(v)
    d = x - x.mean(axes, keepdims=True)
    return d / (np.sqrt((d * d).mean(axes, keepdims=True)) + x.dtype.type(v["epsilon"])) * w + b


def no_centering(v: Values, op: str) -> np.ndarray:
    """RMS norm in the place of layer norm."""
    x, axes, w, b = _rows(v)
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + x.dtype.type(v["epsilon"])) * w + b


def one_pass_variance(v: Values, op: str) -> np.ndarray:
    """Layer norm with E[x^2] - E[x]^2 in the working precision."""
    x, axes, w, b = _rows(v)
    mean = x.mean(axes, keepdims=True)
    variance = np.maximum((x * x).mean(axes, keepdims=True) - mean * mean, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return ((x - mean) / np.sqrt(variance + x.dtype.type(v["epsilon"])) * w + b).astype(x.dtype)


def _fast(x: np.ndarray, f: np.ndarray) -> np.ndarray:
    """f with a smooth relative error of at most 2^-12, as table look-ups have."""
    with np.errstate(invalid="ignore", over="ignore"):
        wave = np.sin(np.where(np.isfinite(x), x, 0) * 1000.0)
        return (f * (1 + wave * 2.0**-12)).astype(f.dtype)


def fast_exp(v: Values, op: str) -> np.ndarray:
    """exp, softmax and logsumexp by a 12-bit exponential."""
    x = v["x"]
    with np.errstate(over="ignore", under="ignore"):
        if op == "exp":
            return _fast(x, np.exp(x))
        axis = v["axis"] if isinstance(v["axis"], int) else tuple(v["axis"] or range(x.ndim))
        top = x.max(axis, keepdims=True)
        e = _fast(x - top, np.exp(x - top))
        total = e.sum(axis, keepdims=True)
        if op == "softmax":
            return e / total
        result = np.log(total) + top
        return result if v["keepdim"] else result.squeeze(axis)


def fast_tanh(v: Values, op: str) -> np.ndarray:
    """tanh with 12 bits."""
    return _fast(v["x"], np.tanh(v["x"]))


def fast_division(v: Values, op: str) -> np.ndarray:
    """Division by a 12-bit reciprocal."""
    y = np.asarray(v["y"], dtype=getattr(v["x"], "dtype", getattr(v["y"], "dtype", None)))
    return (v["x"] * _fast(y, 1 / y)).astype(y.dtype)


def unshifted(v: Values, op: str) -> np.ndarray:
    """log(sum(exp(x))) without subtracting the maximum."""
    axis = v["axis"] if isinstance(v["axis"], int) else tuple(v["axis"] or range(v["x"].ndim))
    with np.errstate(over="ignore", divide="ignore"):
        return np.log(np.exp(v["x"]).sum(axis, keepdims=v["keepdim"]))


def half_accumulation(v: Values, op: str) -> np.ndarray | None:
    """Sums kept in float16 after each term."""
    x = v["x"]
    with np.errstate(over="ignore", invalid="ignore"):
        if op in ("sum", "mean"):
            if not isinstance(v["axis"], int):
                return None
            total = np.cumsum(x, axis=v["axis"], dtype=np.float16).take(-1, v["axis"]).astype(x.dtype)
            total = total if op == "sum" else total / x.shape[v["axis"]]
            return np.expand_dims(total, v["axis"]) if v["keepdim"] else total
        right = v["weight"].T if op == "linear" else v["y"]
        if x.ndim != 2 or right.ndim != 2 or v.get("transpose_x") or v.get("transpose_y"):
            return None
        total = np.zeros((len(x), right.shape[1]), np.float16)
        for k in range(x.shape[1]):
            total = (total + x[:, k, None] * right[None, k]).astype(np.float16)
        result = total.astype(x.dtype)
        return result if v.get("bias") is None else result + v["bias"]


def quick_gelu(v: Values, op: str) -> np.ndarray:
    """x sigmoid(1.702 x)."""
    x = v["x"]
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(x.dtype.type(-1.702) * x))


def silu(v: Values, op: str) -> np.ndarray:
    """x sigmoid(x)."""
    with np.errstate(over="ignore"):
        return v["x"] / (1 + np.exp(-v["x"]))
