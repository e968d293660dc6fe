"""Models that change what they hold: each run of a proof begins alike."""

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch

from padiff_shim import ProofVerdict, prove
from padiff_shim.proving.capture import Capture

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = (
            torch.nn.Conv2d(3, 4, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(4),
            torch.nn.Linear(4, 2),
        )

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class NormedPort(paddle.nn.Layer):
    def __init__(self, epsilon=1e-5):
        super().__init__()
        self.conv = paddle.nn.Conv2D(3, 4, 3, padding=1, bias_attr=False)
        self.norm, self.last = paddle.nn.BatchNorm2D(4, epsilon=epsilon), paddle.nn.Linear(4, 2)

    def forward(self, x):
        return self.last(PF.relu(self.norm(self.conv(x))).mean([2, 3]))


@pytest.mark.parametrize("training", [True, False])
def test_running_statistics_begin_alike_in_each_run(training):
    x = np.random.default_rng(0).standard_normal((3, 3, 6, 6))
    theirs, ours, wrong = Normed().train(training), NormedPort(), NormedPort(epsilon=1e-3)
    for layer in (ours, wrong):
        layer.train() if training else layer.eval()
    assert prove(ours, theirs, x).verdict is ProofVerdict.CODE_CORRECT
    (mistake,) = prove(wrong, theirs, x).mistakes
    assert "eps=0.001 against 1e-05" in mistake.text
    assert not theirs.norm.running_mean.any()
    assert not ours.norm._mean.numpy().any()


def test_indices_of_the_original_stay_out_of_the_port():
    """A pool of the port may read a smaller tensor: with the original's indices its backward would write beyond it."""
    x = torch.rand(1, 1, 6, 6, dtype=torch.float64)

    def pooled(**forced):
        with Capture({}, lambda: "", **forced) as capture:
            results = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
        return capture.trace.nodes, results

    (node,), (_, indices) = pooled()
    wanted = [torch.full((1, 1, 3, 3), 7.0, dtype=torch.float64), torch.full((1, 1, 3, 3), 10**6)]
    _, (values, again) = pooled(forced={node.key: wanted})
    assert (values == 7.0).all()
    assert torch.equal(again, indices)
