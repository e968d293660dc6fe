"""Paddle's functions take a ``name`` at their end, by position too: it changes nothing, and keeps no call native."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import same

import padiff_shim

RNG = np.random.default_rng(7)
X, Y, P = RNG.standard_normal((4, 6)), RNG.standard_normal((6, 5)), RNG.uniform(0.5, 2, (4, 6))
p = paddle.to_tensor


NAMED = {
    "add": ("add", lambda name: paddle.add(p(P), p(P), *name)),
    "exp": ("exp", lambda name: paddle.exp(p(P), *name)),
    "matmul": ("matmul", lambda name: paddle.matmul(p(X), p(Y), False, False, *name)),
    "sum": ("sum", lambda name: paddle.sum(p(P), None, None, False, *name)),
    "std": ("std", lambda name: paddle.std(p(P), None, True, False, *name)),
    "linear": ("linear", lambda name: F.linear(p(X), p(Y), None, *name)),
    "softmax": ("softmax", lambda name: F.softmax(p(P), -1, None, *name)),
    "mse_loss": ("mse_loss", lambda name: F.mse_loss(p(P), p(P), "mean", *name)),
    "layer_norm": ("layer_norm", lambda name: F.layer_norm(p(P), [6], None, None, 1e-5, *name)),
    "Tensor.add": ("add", lambda name: p(P).add(p(P), *name)),
    "linspace": ("linspace", lambda name: paddle.linspace(0.0, 1.0, 7, "float32", *name)),
}


@pytest.mark.bitexact
@pytest.mark.compat
@pytest.mark.parametrize("mode", ["reference", "compare"])
@pytest.mark.parametrize("case", NAMED)
def test_a_name_may_come_by_position(case, mode):
    op, call = NAMED[case]
    with padiff_shim.reference("torch", strict=True):
        expected = call(())
    with getattr(padiff_shim, mode)("torch") as run:
        named = call(("a name",))
    assert not run.native
    assert op in (run.substituted if mode == "reference" else {call.op for call in run.calls})
    assert mode == "compare" or same(named, torch.from_numpy(expected.numpy()))
