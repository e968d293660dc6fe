"""Weights that a recomputed block and others use: gradients are added up in the order of ``torch.utils.checkpoint``."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import same
from paddle.distributed.fleet.utils import recompute
from torch.utils.checkpoint import checkpoint

import padiff_shim

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]


class Twin(torch.nn.Module):
    """In Torch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.second(torch.nn.functional.gelu(self.second(self.first(x)))) + torch.amax(x, -1, keepdim=True)


class Net(paddle.nn.Layer):
    """In Paddle."""

    def __init__(self):
        super().__init__()
        self.first, self.second = paddle.nn.Linear(8, 8), paddle.nn.Linear(8, 8)

    def forward(self, x):
        return self.second(F.gelu(self.second(self.first(x)))) + paddle.max(x, axis=-1, keepdim=True)


PROGRAMS = {
    "after": lambda net, x, again: net.second(again(net, x * 1.0)),
    "before": lambda net, x, again: again(net, net.second(x)),
    "around": lambda net, x, again: net(again(net, again(net, net(x)))),
    "beside": lambda net, x, again: again(net, x * 1.0) + net.second(x) + again(net, x * 2.0),
    "nested": lambda net, x, again: net.second(again(lambda y: net(again(net, y)), x * 1.0)),
}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["alone", "with a graph of Paddle's elsewhere"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_gradients_are_added_up_as_in_torch(program, elsewhere):
    natively = paddle.ones([3])
    natively.stop_gradient = not elsewhere
    natively = natively * 2.0
    torch.manual_seed(3)
    twin, net = Twin(), Net()
    padiff_shim.transfer_weights(twin, net)
    values = np.random.default_rng(5).standard_normal((4, 8)).astype("float32")
    theirs = torch.tensor(values, requires_grad=True)
    ours = paddle.to_tensor(values, stop_gradient=False)
    with padiff_shim.reference("torch"):
        other = natively * 3.0  # leads to Paddle's own node; no part of the backward
        for _ in range(3):
            (program(net, ours, recompute) ** 2).sum().backward()
    for _ in range(3):
        (program(twin, theirs, lambda *block: checkpoint(*block, use_reentrant=True)) ** 2).sum().backward()
    assert same(ours.grad, theirs.grad)
    for layer, counterpart in ((net.first, twin.first), (net.second, twin.second)):
        assert same(layer.weight.grad, counterpart.weight.grad.t())
        assert same(layer.bias.grad, counterpart.bias.grad)
    assert other.stop_gradient is not elsewhere
