"""All faults by name."""

from __future__ import annotations

import numpy as np
import torch

from . import formulas as f
from .planted import (
    SUMS,
    Fault,
    bit_flip,
    dropped,
    epsilon,
    epsilon_float32,
    float32_arithmetic,
    formula,
    on,
    one_element,
    other_axis,
    put,
    result,
    rounded_inputs,
    rounded_output,
    scalar_float32,
    tf32,
    tf32_truncated,
    through,
)
from .problems import Problem
from .truth import PRODUCTS, UNIT

LN, SOFT = ("layer_norm",), ("softmax", "logsumexp")
F32, F64 = ("float32",), ("float64",)
BIASED = ("linear", "layer_norm")


def _without(name):
    return lambda p, v: None if v[name] is None else p.change(**{name: None})


def _with(name, change):
    return lambda p, v: None if v[name] is None else p.change(**{name: change(v[name])})


def _square_weight(p: Problem, v):
    w = v["weight"]
    return p.change(weight=w.t().contiguous()) if w.shape[0] == w.shape[1] else None


def _square_operand(p: Problem, v):
    if v["y"].ndim < 2 or v["y"].shape[-1] != v["y"].shape[-2]:
        return None
    return p.change(y=v["y"].mT.contiguous())


def _flip_gelu(p: Problem, v):
    return p.change(approximate=not v["approximate"])


def _scaled(factor):
    return result(lambda y, p, rng: y * y.dtype.type(factor))


def _units_of_rounding(count):
    return result(lambda y, p, rng: y * y.dtype.type(1 + count * UNIT[p.dtype]))


def _mean_factor(change):
    """The sum's divisor: ``change(n)`` multiplies the result."""

    def apply(y: np.ndarray, p: Problem, rng) -> np.ndarray | None:
        if p.op not in SUMS or p.wanted != "out":
            return None
        n = p.values["x"].numel() / max(y.size, 1)
        factor = change(n, p.op)
        return None if factor is None else y * y.dtype.type(factor)

    return result(apply)


def _swap_rows(y, p, rng):
    if y.ndim < 2 or len(y) < 2:
        return None
    y[[0, 1]] = y[[1, 0]]
    return y


def _roll(y, p, rng):
    return np.roll(y, 1, -1) if y.ndim and y.shape[-1] > 1 else None


def _clip(y, p, rng):
    if not np.isfinite(y).all():
        return None
    top = y.dtype.type(0.9 * float(np.abs(y).max(initial=0.0)))
    return np.clip(y, -top, top)


def _zero_one(y, p, rng):
    y[np.unravel_index(int(rng.integers(y.size)), y.shape)] = 0
    return y


def _swap_two(y, p, rng):
    if y.size < 4:
        return None
    flat = y.reshape(-1)
    a, b = rng.choice(y.size, 2, replace=False)
    flat[[a, b]] = flat[[b, a]]
    return flat.reshape(y.shape)


def _stale_row(y, p, rng):
    if y.ndim < 2 or len(y) < 3:
        return None
    y[-1] = y[-2]
    return y


def _mask(p: Problem, v):
    axis = v["axis"]
    return put(p, "x", (..., -1), -1e4) if axis in (-1, v["x"].ndim - 1) and v["x"].shape[-1] > 1 else None


def _factor_missing(p: Problem, v):
    return p.change(grad=p.grad / 2)


FAULTS = (
    Fault("tf32 inputs", "precision", rounded_inputs(tf32, F32, PRODUCTS)),
    Fault("tf32 inputs, truncated", "precision", rounded_inputs(tf32_truncated, F32, PRODUCTS)),
    Fault("bf16 inputs", "precision", rounded_inputs(through(torch.bfloat16), F32)),
    Fault("fp16 inputs", "precision", rounded_inputs(through(torch.float16), F32)),
    Fault("float32 inputs", "precision", rounded_inputs(through(torch.float32), F64)),
    Fault("output in bf16", "precision", rounded_output(torch.bfloat16, F32)),
    Fault("output in fp16", "precision", rounded_output(torch.float16, F32)),
    Fault("output in float32", "precision", rounded_output(torch.float32, F64)),
    Fault("scalar in float32", "precision", on(("divide", "multiply", "add", "pow", "scale"), scalar_float32), rare=True),
    Fault("epsilon in float32", "precision", on(LN, epsilon_float32, ("out", "x", "scale")), rare=True),
    Fault("float32 arithmetic", "arithmetic", float32_arithmetic),
    Fault("fp16 accumulation", "arithmetic", formula(("linear", "matmul", *SUMS), f.half_accumulation, F32)),
    Fault("12-bit exp", "arithmetic", formula((*SOFT, "exp"), f.fast_exp)),
    Fault("12-bit tanh", "arithmetic", formula(("tanh",), f.fast_tanh)),
    Fault("12-bit reciprocal", "arithmetic", formula(("divide",), f.fast_division)),
    Fault("one-pass variance", "arithmetic", formula(LN, f.one_pass_variance)),
    Fault("exp without shift", "arithmetic", formula(("logsumexp",), f.unshifted)),
    Fault("epsilon 1e-5", "semantics", epsilon(1e-5)),
    Fault("epsilon 1e-6", "semantics", epsilon(1e-6)),
    Fault("epsilon 1e-12", "semantics", epsilon(1e-12)),
    Fault("epsilon outside sqrt", "semantics", formula(LN, f.epsilon_outside)),
    Fault("n-1 variance", "semantics", formula(LN, f.sample_variance)),
    Fault("no centering", "semantics", formula(LN, f.no_centering)),
    Fault("no bias", "semantics", on(BIASED, _without("bias"), ("out",))),
    Fault("bias twice", "semantics", on(BIASED, _with("bias", lambda b: 2 * b), ("out",))),
    Fault("no scale", "semantics", on(LN, _without("scale"), ("out", "x"))),
    Fault("weight transposed", "semantics", on(("linear",), _square_weight, ("out", "x"))),
    Fault("operand transposed", "semantics", on(("matmul",), _square_operand, ("out", "x"))),
    Fault("other axis", "semantics", on((*SUMS, *SOFT), other_axis, ("out",))),
    Fault("last element dropped", "semantics", dropped(lambda k: slice(k - 1, k))),
    Fault("first element dropped", "semantics", dropped(lambda k: slice(0, 1))),
    Fault("n-1 divisor", "semantics", _mean_factor(lambda n, op: n / (n - 1) if op == "mean" and n > 1 else None)),
    Fault("sum and mean mixed", "semantics", _mean_factor(lambda n, op: n if op == "mean" else 1 / n)),
    Fault("other gelu form", "semantics", on(("gelu",), _flip_gelu)),
    Fault("quick gelu", "semantics", formula(("gelu",), f.quick_gelu)),
    Fault("silu for gelu", "semantics", formula(("gelu",), f.silu)),
    Fault("one element x (1 + 1e-4)", "element", one_element(1e-4, F32)),
    Fault("one element x (1 + 1e-5)", "element", one_element(1e-5, F32)),
    Fault("one element x (1 + 1e-12)", "element", one_element(1e-12, F64)),
    Fault("one element x (1 + 1e-14)", "element", one_element(1e-14, F64)),
    Fault("one bit flipped", "element", result(bit_flip)),
    Fault("one element zero", "element", result(_zero_one)),
    Fault("two elements swapped", "element", result(_swap_two)),
    Fault("epsilon 2e-5", "unlisted", epsilon(2e-5)),
    Fault("bias rolled", "unlisted", on(BIASED, _with("bias", lambda b: b.roll(1)), ("out",))),
    Fault("scale rolled", "unlisted", on(LN, _with("scale", lambda w: w.roll(1)), ("out", "x"))),
    Fault("scale + 1", "unlisted", on(LN, _with("scale", lambda w: w + 1), ("out", "x"))),
    Fault("weight rolled", "unlisted", on(("linear",), _with("weight", lambda w: w.roll(1, 0)), ("out", "x"))),
    Fault("quarter of k dropped", "unlisted", dropped(lambda k: slice(k // 4, max(k // 2, k // 4 + 1)))),
    Fault("mask one too many", "unlisted", on(SOFT, _mask, ("out",))),
    Fault("temperature 1.001", "unlisted", on(SOFT, lambda p, v: p.change(x=v["x"] * 1.001), ("out",))),
    Fault("result x 1.001", "unlisted", _scaled(1.001)),
    Fault("result x (1 + 64 u)", "unlisted", _units_of_rounding(64)),
    Fault("result x (1 + 16 u)", "unlisted", _units_of_rounding(16)),
    Fault("rows swapped", "unlisted", result(_swap_rows)),
    Fault("result rolled", "unlisted", result(_roll)),
    Fault("last row stale", "unlisted", result(_stale_row)),
    Fault("output clipped", "unlisted", result(_clip)),
    Fault(
        "half of the gradient",
        "unlisted",
        lambda kernel, p, rng: None if p.grad is None else kernel(_factor_missing(p, {})),
    ),
)
