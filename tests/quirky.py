"""Calls that show each known difference of the shipped table, and kernels that have it, written in torch."""

import sys
from pathlib import Path

import numpy as np
import paddle
import torch

from padiff_shim.frameworks.memory import to_paddle, to_torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from faults.kernels import torch_kernel
from faults.problems import Problem, params

INF, NAN = float("inf"), float("nan")
RNG = np.random.default_rng(0)


def problem(op, dtype="float32", wanted="out", **more):
    """A call of ``op`` with these arguments and the defaults of the others; the incoming gradient is normal."""
    values = {name: more.get(name, default) for name, default in params(op)}
    values = {n: torch.as_tensor(v, dtype=getattr(torch, dtype)) if isinstance(v, np.ndarray) else v for n, v in values.items()}
    made = Problem(op, values, wanted)
    if wanted == "out":
        return made
    return made.change(
        grad=torch.from_numpy(RNG.standard_normal(tuple(torch_kernel(made.forward()).shape))).to(getattr(torch, dtype))
    )


def normal(*shape):
    return RNG.standard_normal(shape)


def frozen_layer_norm(call):
    """Paddle's gradient of x alone."""
    arguments = {n: to_paddle(v.clone()) if isinstance(v, torch.Tensor) else v for n, v in call.values.items()}
    arguments["x"].stop_gradient = False
    out = paddle._C_ops.layer_norm(*arguments.values())
    (gradient,) = paddle.grad(out, arguments["x"], to_paddle(call.grad.clone()))
    return to_torch(gradient.detach()).clone()


NORM = {"epsilon": 1e-5, "begin_norm_axis": 1}
SPECIAL = np.array([1.0, -2.0, 3.0, 0.5] * 8)

CONSTANT = np.repeat([[0.1], [0.3]], 65536, 1)


def with_(value, where=5, base=SPECIAL):
    changed = base.copy()
    changed[where] = value
    return changed


OCCURS = {
    "epsilon in float32": [
        problem("layer_norm", "float64", x=1e-3 * normal(8, 32), scale=normal(32), bias=normal(32), **NORM),
        problem("layer_norm", "float64", "x", x=1e-3 * normal(8, 32), scale=normal(32), bias=normal(32), **NORM),
        problem("layer_norm", "float64", "scale", x=1e-3 * normal(8, 32), scale=normal(32), bias=normal(32), **NORM),
    ],
    "scale lost in the gradient": [
        problem("layer_norm", "float32", "x", x=normal(8, 32), scale=normal(32), bias=normal(32), **NORM)
    ],
    "number in float32": [
        problem("pow", "float64", x=np.abs(normal(6, 8)) + 0.5, y=1.3),
        problem("pow", "float64", "x", x=np.abs(normal(6, 8)) + 0.5, y=1.3),
        problem("addmm", "float64", input=normal(4, 5), x=normal(4, 6), y=normal(6, 5), beta=0.3, alpha=0.7),
        problem("baddbmm", "float64", input=normal(2, 4, 5), x=normal(2, 4, 6), y=normal(2, 6, 5), beta=0.3, alpha=0.7),
    ],
    "softmax clipped at -64": [
        problem("softmax", "float32", x=np.where(np.arange(16) < 12, normal(4, 16), -1e9), axis=-1),
        problem("softmax", "float64", x=np.where(np.arange(16) < 12, normal(4, 16), -INF), axis=-1),
        problem("softmax", "float64", x=np.where(np.arange(16) < 12, normal(4, 16), -500.0), axis=-1),
        problem("softmax", "float32", "x", x=np.where(np.arange(16) < 12, normal(4, 16), -1e9), axis=-1),
        problem("softmax", "float32", x=np.where(np.tri(16), normal(8, 16, 16), -100.0), axis=-1),
    ],
    "softmax of NaN": [
        problem("softmax", "float32", x=with_(NAN, (1, 5), normal(4, 16)), axis=-1),
        problem("softmax", "float32", x=with_(NAN, (1, 0), normal(4, 16)), axis=-1),
        problem("softmax", "float32", x=with_(INF, (1, 5), normal(4, 16)), axis=-1),
        problem("softmax", "float32", x=with_(-INF, 1, normal(4, 16)), axis=-1),
        problem("softmax", "float32", x=with_(NAN, (1, 5), np.where(np.arange(16) < 12, normal(4, 16), -1e9)), axis=-1),
        problem("softmax", "float32", "x", x=with_(NAN, (1, 5), normal(4, 16)), axis=-1),
    ],
    "sequential sum": [
        problem("sum", "float32", x=CONSTANT, axis=1),
        problem("mean", "float32", x=CONSTANT, axis=1),
        problem("sum", "float64", x=CONSTANT, axis=1),
        problem("sum", "float32", x=CONSTANT.reshape(2, 256, 256), axis=(1, 2)),
        *(
            problem(op, "float32", wanted, **more).change(grad=torch.from_numpy(CONSTANT.T.astype("float32")))
            for op, wanted, more in (
                ("linear", "bias", {"x": normal(65536, 3), "weight": normal(2, 3), "bias": normal(2)}),
                ("add", "y", {"x": normal(65536, 2), "y": normal(2)}),
            )
        ),
    ],
    "relu of NaN": [problem("relu", dtype, x=with_(NAN, base=normal(32))) for dtype in ("float32", "float64")],
    "sqrt of infinity and of denormals": [
        problem("sqrt", "float32", x=with_(INF, base=np.abs(SPECIAL))),
        problem("sqrt", "float32", x=with_(INF, [5, 34], np.abs(normal(35)))),
        problem("sqrt", "float32", x=with_(1e-40, 7, with_(INF, [5, 34], np.abs(normal(35))))),
        problem("sqrt", "float32", x=with_(1e-40, base=np.abs(normal(32)))),
        problem("rsqrt", "float32", x=with_(1e-40, base=np.abs(normal(32)))),
    ],
    "float16 exp wraps around": [
        problem("exp", "float16", x=np.concatenate([normal(24), np.linspace(-60, -50, 12), normal(5)])),
        problem("exp", "float16", x=np.linspace(-70, 8, 4000)),
    ],
    "torch's sqrt for pow": [problem("pow", "float64", x=with_(-INF, base=np.abs(SPECIAL)), y=0.5)],
}


def quirky(name, call):
    """(the result of a kernel with the known difference, the right result) of a call."""
    right = torch_kernel(call)
    if name == "torch's sqrt for pow":
        return right, torch.where(call.values["x"].isneginf(), INF, right)
    return KERNELS[name](call), right


def through_float32(call):
    """Python numbers of a call rounded to float32."""
    rounded = {n: float(np.float32(v)) for n, v in call.values.items() if isinstance(v, float)}
    return torch_kernel(call.change(**rounded))


def clipped_softmax(x, axis):
    """exp(max(x - max, -64)) with a maximum that ignores NaN in all places but the first, and that takes -64 for NaN."""
    top = torch.where(x.isnan(), -INF, x).amax(axis, keepdim=True)
    top = torch.where(x.select(axis, 0).isnan().unsqueeze(axis), NAN, top)
    z = torch.maximum((x - top).nan_to_num(-64.0, INF, -INF), torch.tensor(-64.0, dtype=x.dtype))
    return z.exp() / z.exp().sum(axis, keepdim=True)


def softmax(call):
    """Its result or its gradient."""
    y, axis = clipped_softmax(call.values["x"], call.values["axis"]), call.values["axis"]
    return y if call.wanted == "out" else y * (call.grad - (call.grad * y).sum(axis, keepdim=True))


def one_by_one(call):
    """Sums of one term after the other, the first of the axes running fastest; of a gradient over all rows."""
    x, axis = (call.values["x"], call.values["axis"]) if call.wanted == "out" else (call.grad, 0)
    axes = [axis] if isinstance(axis, int) else list(axis)
    rest = [a for a in range(x.ndim) if a not in axes]
    terms = x.permute(*rest, *axes[::-1]).reshape(*(x.shape[a] for a in rest), -1).numpy()
    total = torch.from_numpy(np.add.accumulate(terms, -1)[..., -1].copy())
    return total / terms.shape[-1] if call.op == "mean" else total


def vector_root(call):
    """x / sqrt(x) with denormals as 0 in vectors of eight, and the right square root in what is left over at the end."""
    x, right = call.values["x"], torch_kernel(call)
    flushed = torch.where(x.abs() < torch.finfo(x.dtype).tiny, 0.0, x)
    root = flushed.sqrt() if call.op == "sqrt" else flushed.rsqrt()
    root = torch.where(x.isposinf(), NAN, root) if call.op == "sqrt" else root
    whole = x.numel() // 8 * 8
    return torch.where(torch.arange(x.numel()) < whole, root, right)


def wrapped_exp(call):
    """2**64 times too large below -77 log 2."""
    x = call.values["x"].double()
    return torch.where(x < -77 * np.log(2), x.exp() * 2.0**64, x.exp()).to(call.values["x"].dtype)


KERNELS = {
    "float16 exp wraps around": wrapped_exp,
    "epsilon in float32": through_float32,
    "scale lost in the gradient": lambda call: torch_kernel(call.change(scale=torch.ones_like(call.values["scale"]))),
    "number in float32": through_float32,
    "softmax clipped at -64": softmax,
    "softmax of NaN": softmax,
    "sequential sum": one_by_one,
    "relu of NaN": lambda call: torch.relu(call.values["x"]).nan_to_num(0.0),
    "sqrt of infinity and of denormals": vector_root,
}
