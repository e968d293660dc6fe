"""The table of known differences: every shipped entry occurs with the installed frameworks."""

import sys
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch

from padiff_shim import quirks
from padiff_shim.bridge import to_paddle, to_torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from faults.kernels import paddle_kernel, torch_kernel
from faults.problems import Problem, params
from faults.score import verdict_of

INF, NAN = float("inf"), float("nan")
VERSIONS = {"paddle": paddle.__version__, "torch": torch.__version__}
RNG = np.random.default_rng(0)


def problem(op, dtype="float32", wanted="out", **given):
    """A call of ``op`` with these arguments and the defaults of the others; the incoming gradient is normal."""
    values = {name: given.get(name, default) for name, default in params(op)}
    values = {n: torch.as_tensor(v, dtype=getattr(torch, dtype)) if isinstance(v, np.ndarray) else v for n, v in values.items()}
    found = Problem(op, values, wanted)
    if wanted == "out":
        return found
    return found.change(
        grad=torch.from_numpy(RNG.standard_normal(tuple(torch_kernel(found.forward()).shape))).to(getattr(torch, dtype))
    )


def normal(*shape):
    return RNG.standard_normal(shape)


def frozen_layer_norm(call):
    """Paddle's gradient of x alone."""
    given = {n: to_paddle(v.clone()) if isinstance(v, torch.Tensor) else v for n, v in call.values.items()}
    given["x"].stop_gradient = False
    out = paddle._C_ops.layer_norm(*given.values())
    (found,) = paddle.grad(out, given["x"], to_paddle(call.grad.clone()))
    return to_torch(found.detach()).clone()


NORM = {"epsilon": 1e-5, "begin_norm_axis": 1}
SPECIAL = np.array([1.0, -2.0, 3.0, 0.5] * 8)


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
    ],
    "sequential sum": [
        problem("sum", "float32", x=np.full((2, 65536), 0.1), axis=1),
        problem("mean", "float32", x=np.full((2, 65536), 0.1), axis=1),
        problem("sum", "float64", x=np.full((2, 65536), 0.1), axis=1),
    ],
    "logsumexp of infinities": [
        problem("logsumexp", "float32", x=np.array([[-INF, -INF], [0.0, 1.0]]), axis=1),
        problem("logsumexp", "float64", x=np.array([[INF, 0.0], [0.0, 1.0]]), axis=1),
    ],
    "relu of NaN": [problem("relu", dtype, x=with_(NAN)) for dtype in ("float32", "float64")],
    "sqrt of infinity and of denormals": [
        problem("sqrt", "float32", x=with_(INF, base=np.abs(SPECIAL))),
        problem("sqrt", "float32", x=with_(1e-40, base=np.abs(normal(32)))),
        problem("rsqrt", "float32", x=with_(1e-40, base=np.abs(normal(32)))),
    ],
    "torch's sqrt for pow": [problem("pow", "float64", x=with_(-INF, base=np.abs(SPECIAL)), y=0.5)],
}

CASES = [pytest.param(name, call, id=f"{name}-{i}") for name, calls in OCCURS.items() for i, call in enumerate(calls)]


def record_of(call, judged):
    """The fields of the log's record that quirks look at."""
    return {
        "op": call.op,
        "phase": "forward" if call.wanted == "out" else "backward",
        "tensor": call.wanted if call.wanted == "out" else f"grad:{call.wanted}",
        "dtype": call.dtype,
        "verdict": judged.verdict,
        "side": judged.side,
        "hypothesis": judged.hypothesis,
        "stats": judged.stats,
        "layer": "",
        "site": "",
    }


def test_every_shipped_entry_is_shown():
    assert set(OCCURS) == {quirk.name for quirk in quirks.shipped()}


@pytest.mark.parametrize(("name", "call"), CASES)
def test_a_shipped_entry_occurs(name, call):
    native = frozen_layer_norm(call) if name == "scale lost in the gradient" else paddle_kernel(call)
    judged = verdict_of(call, native, torch_kernel(call), 0)
    found = quirks.find(record_of(call, judged), VERSIONS)
    assert found is not None, (judged.verdict, judged.side, judged.hypothesis, judged.reason)
    assert found.name == name, (judged.verdict, judged.side, judged.hypothesis, judged.reason)
