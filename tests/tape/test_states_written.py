"""States that each step reads and writes anew do not hold the graphs of the steps before."""

import gc

import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import thinned
from paddle import nn
from paddle.nn.quant import quant_layers
from paddle.quantization import QAT, QuantConfig
from paddle.quantization.quanters import FakeQuanterWithAbsMaxObserver

import padiff_shim
from padiff_shim.tape.calls import TapeCall
from padiff_shim.tape.islands import IslandCall, Operands
from padiff_shim.tape.twins import GradientPlace, Taped

pytestmark = pytest.mark.compat

STEPS = 60


class _Stateful(nn.Layer):
    """A Linear, and a state that ``write`` renews with what it returned; natively its node leads to one step alone."""

    def __init__(self, write, *, persistable):
        super().__init__()
        self.linear, self.write = nn.Linear(4, 4), write
        self.register_buffer("state", paddle.zeros([4]), persistable=persistable)

    def forward(self, x):
        h = self.linear(x)
        self.write(self.state, h)
        return h * (1.0 + self.state.detach())


def _in_place(state, h):
    state.scale_(0.9)
    state.add_(0.1 * h.mean(0).detach())


def _without_gradient(state, h):
    with paddle.no_grad():
        _in_place(state, h)
        paddle.assign(state * 1.0, state)


def _moving(state, h):
    paddle.assign(0.9 * state.detach() + 0.1 * h.mean(0), state)


def _slice(state, h):
    state[:] = h.mean(0).detach()


WRITES = {
    "assign": lambda state, h: paddle.assign(h.mean(0), state),
    "moving": _moving,
    "in place": _in_place,
    "without gradient": _without_gradient,
    "slice": _slice,
    "set_value": lambda state, h: state.set_value(0.9 * state + 0.1 * h.mean(0)),
}


def _quantised():
    quanter = FakeQuanterWithAbsMaxObserver(moving_rate=0.9)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    return QAT(QuantConfig(activation=quanter, weight=quanter)).quantize(net)


def _observed():
    moving = {"weight_quantize_type": "abs_max", "activation_quantize_type": "moving_average_abs_max"}
    quantised = quant_layers.QuantizedLinear(nn.Linear(4, 4), **moving)
    return nn.Sequential(nn.Linear(4, 4), quant_layers.MovingAverageAbsMaxScale(), quantised)


LAYERS = {
    "QAT": _quantised,
    "observers": _observed,
    "BatchNorm": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4)),
    "spectral_norm": lambda: nn.utils.spectral_norm(nn.Linear(4, 4)),
    "SpectralNorm": lambda: nn.Sequential(nn.Linear(4, 4), nn.SpectralNorm([6, 4])),
    "weight_norm": lambda: nn.utils.weight_norm(nn.Linear(4, 4)),
    **{
        f"{name}{' of a buffer that is kept' if persistable else ''}": lambda write=write, persistable=persistable: _Stateful(
            write, persistable=persistable
        )
        for name, write in WRITES.items()
        for persistable in (False, True)
    },
}


def _graphs():
    """How many objects of graphs live."""
    gc.collect()
    return sum(type(thing) in (torch.Tensor, TapeCall, Taped, GradientPlace, IslandCall, Operands) for thing in gc.get_objects())


@pytest.mark.parametrize("name", thinned(LAYERS, "QAT", "BatchNorm", "spectral_norm", "assign"))
def test_steps_stay_flat(name):
    paddle.seed(0)
    net = LAYERS[name]()
    optimizer = paddle.optimizer.SGD(0.01, parameters=net.parameters())

    def step():
        F.mse_loss(net(paddle.rand([6, 4])), paddle.ones([6, 4])).backward()
        optimizer.step()
        optimizer.clear_grad()

    with padiff_shim.reference("torch"):
        for _ in range(5):
            step()
        before = _graphs()
        for _ in range(STEPS):
            step()
        assert _graphs() - before < STEPS // 2
