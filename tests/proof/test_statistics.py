"""Models that change what they hold: each run of a proof begins alike."""

import functools

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.utils.checkpoint
from paddle.distributed.fleet.utils import recompute

from padiff_shim import ProofVerdict, prove
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.proof.agreement import RunOutcome
from padiff_shim.proof.locate import Differing, stages_of
from padiff_shim.proof.trace import Capture

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("undone")]


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
    def __init__(self, epsilon=1e-5, momentum=0.9):
        super().__init__()
        self.conv = paddle.nn.Conv2D(3, 4, 3, padding=1, bias_attr=False)
        self.norm, self.last = paddle.nn.BatchNorm2D(4, momentum, epsilon), paddle.nn.Linear(4, 2)

    def forward(self, x):
        return self.last(PF.relu(self.norm(self.conv(x))).mean([2, 3]))


@pytest.mark.rows(1)
@pytest.mark.parametrize("training", [True, False])
def test_running_statistics_begin_alike_in_each_run(training):
    x = np.random.default_rng(0).standard_normal((3, 3, 6, 6))
    theirs, ours, wrong = Normed().train(training), NormedPort(), NormedPort(epsilon=1e-3)
    for layer in (ours, wrong):
        layer.train() if training else layer.eval()
    assert prove(ours, theirs, x).verdict is ProofVerdict.CODE_CORRECT
    (mistake,) = prove(wrong, theirs, x).mistakes
    assert "epsilon=0.001 against eps=1e-05" in mistake.text
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
    wanted = torch.full((1, 1, 3, 3), 7.0, dtype=torch.float64)
    _, (values, again) = pooled(forced={node.key: [wanted, None]})
    assert (values == 7.0).all()
    assert torch.equal(again, indices)


def test_memory_that_nothing_was_written_into_is_no_value():
    """What lies there may be the results of a run before, which a call of the port would then seem to have made."""
    with Capture({}, lambda: "") as capture:
        torch.empty(8, 8).bernoulli_(0.5)
    (node,) = capture.trace.nodes
    assert node.name == "bernoulli"
    assert capture.trace.constants == []
    assert not node.operands[0].tensor.any()


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"epsilon": 1e-3}])
def test_another_momentum_is_named_though_no_output_shows_it(more):
    x = np.random.default_rng(0).standard_normal((3, 3, 6, 6))
    proof = prove(NormedPort(momentum=0.1, **more), Normed(), x)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert proof.complete
    (mistake,) = proof.mistakes
    assert mistake.write == ("epsilon=1e-05, momentum=0.9" if more else "momentum=0.9")
    assert "self.norm" in mistake.paddle.source
    right = {stage.name: stage.right for stage in proof.stages}
    assert right["forward"] is (not more)
    if not more:
        assert right["statistics"] is False


class ByHand(NormedPort):
    """The same batch norm, in single steps of its training."""

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        h, norm = self.conv(x), self.norm
        mean = h.mean([0, 2, 3])
        variance = ((h - mean.reshape([1, -1, 1, 1])) ** 2).mean([0, 2, 3])
        count = h.shape[0] * h.shape[2] * h.shape[3]
        norm._mean.set_value(norm._mean * 0.9 + mean.detach() * 0.1)
        norm._variance.set_value(norm._variance * 0.9 + variance.detach() * (0.1 * count / (count - 1)))
        scale = (norm.weight / paddle.sqrt(variance + 1e-5)).reshape([1, -1, 1, 1])
        h = (h - mean.reshape([1, -1, 1, 1])) * scale + norm.bias.reshape([1, -1, 1, 1])
        return self.last(PF.relu(h).mean([2, 3]))


def test_running_statistics_by_hand_are_right_within_rounding():
    proof = prove(ByHand(), Normed(), np.random.default_rng(0).standard_normal((3, 3, 6, 6)))
    assert proof, str(proof)


def test_statistics_of_paddles_own_kernel_are_not_compared():
    """Its running variance is another by definition: a port that has nothing to compare is neither right nor wrong there."""
    held = {"norm.running_var": np.ones(3, dtype=np.float32)}
    differing = Differing(forward="", loss="", backward="", statistics="", missing="", shapes="", gradients=0)
    (forward, statistics) = stages_of(differing, RunOutcome(statistics=held), RunOutcome(unlike=True))
    assert forward.right is True
    assert statistics.right is None
    assert "Paddle's kernel" in statistics.text
    assert [stage.name for stage in stages_of(differing, RunOutcome(statistics=held), RunOutcome())] == [
        "forward"
    ]  # a buffer of Torch's alone


# ---- What recompute without reentry runs once more moves statistics and counters a second time, as natively.


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        with torch.no_grad():
            self.calls.add_(1)
        return self.inner(x)


class CountedPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = paddle.nn.Linear(4, 4)
        self.register_buffer("calls", paddle.zeros([1]))

    def forward(self, x):
        with paddle.no_grad():
            self.calls.set_value(self.calls + 1)
        return self.inner(x)


def run_again(block, x):
    return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)


def run_again_port(block, x):
    return recompute(block, x, use_reentrant=False)


def called(block, x):
    return block(x)


class Around(torch.nn.Module):
    def __init__(self, block, run):
        super().__init__()
        self.first, self.block, self.run = torch.nn.Linear(4, 4), block(), run

    def forward(self, x):
        return self.run(self.block, self.first(x))


class AroundPort(paddle.nn.Layer):
    def __init__(self, block, run):
        super().__init__()
        self.first, self.block, self.run = paddle.nn.Linear(4, 4), block(), run

    def forward(self, x):
        return self.run(self.block, self.first(x))


@pytest.mark.rows(2)
@pytest.mark.skipif(not IS_3, reason="2.6 has no recompute without reentry")
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("port_again", [False, True])
@pytest.mark.parametrize(
    ("block", "port_block"),
    [
        (Counted, CountedPort),
        (functools.partial(torch.nn.BatchNorm1d, 4), functools.partial(paddle.nn.BatchNorm1D, 4)),
    ],
)
def test_recomputed_blocks_move_their_states_as_often_as_natively(block, port_block, again, port_again):
    port = AroundPort(port_block, run_again_port if port_again else called)
    original = Around(block, run_again if again else called)
    answer = prove(port, original, np.random.default_rng(0).standard_normal((6, 4)).astype("float32"))
    assert answer.verdict is (ProofVerdict.CODE_CORRECT if port_again == again else ProofVerdict.CODE_DIFFERS)
