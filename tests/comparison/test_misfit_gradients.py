"""A gradient that does not fit its result, as a PyLayer may return one, meets Paddle's kernels as it would natively."""

import pytest
from helpers import in_child

from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.skipif(not IS_3, reason="2.6 has no post hooks; nothing of it holds a gradient")

# One row more than the result has. Natively the gradient of x is then computed in the memory of the incoming one; with that held by
# somebody else it would be written beyond the end of new memory of the size of x.
PROGRAM = """
import contextlib, hashlib, os, sys
import numpy as np

class Odd(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        return paddle.ones(SHAPE, DTYPE) * 0.5

weight, bias = paddle.full([64, 64], 0.25), paddle.ones([64])
weight.stop_gradient = bias.stop_gradient = False
OPS = {
    "exp": paddle.exp, "relu": F.relu, "tanh": paddle.tanh, "add": lambda x: x + bias.detach(), "multiply": lambda x: x * x,
    "linear": lambda x: F.linear(x, weight, bias), "scale": lambda x: x * 2.0, "sum": lambda x: x.sum(0, keepdim=True) + x,
}

def outcome(operation):
    x = paddle.linspace(0.1, 1.0, 4096).reshape([64, 64])
    x.stop_gradient = False
    try:
        for _ in range(6):
            Odd.apply(operation(x)).sum().backward()
    except Exception as error:
        return type(error).__name__
    churn = [np.ones(n) for n in range(1, 2000)] + [paddle.ones([n, 64]) for n in range(1, 100)]
    return str(x.grad.dtype), hashlib.sha1(x.grad.numpy().tobytes()).hexdigest()
"""


@pytest.mark.parametrize("odd", [("[65, 64]", "'float32'"), ("[64, 64]", "'float64'")])  # Paddle itself casts the latter
def test_compared_calls_do_with_it_what_they_do_natively(odd):
    done = in_child(
        f"SHAPE, DTYPE = {odd[0]}, {odd[1]}\n"
        + PROGRAM
        + """
native = {name: outcome(operation) for name, operation in OPS.items()}
with padiff_shim.compare("torch") as run:
    ours = {name: outcome(operation) for name, operation in OPS.items()}
assert ours == native, (ours, native)
for name in ("exp", "relu", "tanh") if SHAPE == [65, 64] else ():
    reasons = {call.reason for call in run.calls.filter(op=name, phase="backward")}
    assert all("the incoming gradient is" in reason for reason in reasons), (name, reasons)
    assert reasons or not isinstance(native[name], tuple), name
assert not [call for call in run.calls if call.verdict.severity > padiff_shim.Verdict.LOW_ACCURACY.severity]
print("whole")
"""
    )
    assert "whole" in done.stdout, done.stdout + done.stderr


def test_the_tape_refuses_it():
    done = in_child(
        "SHAPE, DTYPE = [65, 64], 'float32'\n"
        + PROGRAM
        + """
with padiff_shim.reference("torch"):
    print({name: outcome(operation) for name, operation in OPS.items()})
print("whole")
"""
    )
    assert "whole" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("RuntimeError") == 8, done.stdout
