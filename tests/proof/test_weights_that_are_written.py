"""A forward that writes its own weight: what the original's memory serves for as a copy is told by it nothing."""

import paddle
import pytest
import torch
from helpers import numbers, pair

from padiff_shim import prove

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]

LIMIT = 0.1


def zeroed(weight):
    weight[0] = 0.0


WRITES = {
    "set_value": lambda weight: weight.set_value(weight.clip(-LIMIT, LIMIT)),
    "clip_": lambda weight: weight.clip_(-LIMIT, LIMIT),
    "assign": lambda weight: paddle.assign(weight.clip(-LIMIT, LIMIT), output=weight),
    "setitem": zeroed,
}


def models(write, original):
    def port(self, x):
        with paddle.no_grad():
            write(self.first.weight)
        return self.first(x)

    return pair(port, original, first=("Linear", 6, 6))


@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_the_original_has_not(name):
    proof = prove(*models(WRITES[name], lambda self, x: self.first(x)), numbers(4, 6))
    assert not proof, str(proof)


def test_a_write_that_the_original_computes():
    def original(self, x):
        return torch.nn.functional.linear(x, self.first.weight.clamp(-LIMIT, LIMIT), self.first.bias)

    proof = prove(*models(WRITES["clip_"], original), numbers(4, 6), phase="forward")
    assert proof, str(proof)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_norm_that_bounds_rows_or_columns(axis):
    """As EEGNet's; Paddle's weight lies [in, out]."""

    def original(self, x):
        with torch.no_grad():
            self.first.weight.data = torch.renorm(self.first.weight.data, 2, 0, 0.5)
        return self.first(x)

    ours, theirs = models(lambda weight: weight.set_value(paddle.renorm(weight, 2.0, axis, 0.5)), original)
    assert bool(prove(ours, theirs, numbers(4, 6))) is (axis == 1)
