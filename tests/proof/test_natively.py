"""The port's native run: Paddle's own kernels, and no more of ours than random numbers need."""

from typing import Any, NamedTuple

import numpy as np
import paddle
import pytest
import torch

from padiff_shim import ProofVerdict, prove
from padiff_shim.dispatch.frames import top
from padiff_shim.proof import programs
from padiff_shim.trees import as_array, copied

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]


class Original(torch.nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.rnn = torch.nn.LSTM(6, 5, num_layers=2, batch_first=True, dropout=dropout)

    def forward(self, x):
        return self.rnn(x)[0]


class Port(paddle.nn.Layer):
    """It notes for each run whether a mode was open in it."""

    def __init__(self, dropout, seen):
        super().__init__()
        self.rnn = paddle.nn.LSTM(6, 5, num_layers=2, dropout=dropout)
        self.note = lambda: seen.append(top() is not None)

    def forward(self, x):
        self.note()
        return self.rnn(x)[0]


@pytest.mark.parametrize(("dropout", "opened"), [(0.0, [True, False]), (0.5, [True, True])])
def test_a_port_runs_natively_in_no_mode_unless_it_draws_random_numbers(dropout, opened):
    """An op that could draw, as a recurrent network with dropout, ran on Torch's kernel also where it did not."""
    seen = []
    proof = prove(Port(dropout, seen), Original(dropout), np.random.default_rng(0).standard_normal((3, 4, 6)))
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    assert seen == [*opened, True, True]  # on Torch's kernels, natively, with the gradients of inputs, and in evaluation
    assert proof.differences["native"] < 1e-4  # with dropout, too: Torch's numbers were drawn


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.seen = self.seen + 1
        return self.linear(x)


class CountingPort(paddle.nn.Layer):
    def __init__(self, by):
        super().__init__()
        self.by, self.linear = by, paddle.nn.Linear(3, 3)
        self.register_buffer("seen", paddle.zeros([1]))

    def forward(self, x):
        self.seen = self.seen + self.by
        return self.linear(x)


@pytest.mark.parametrize(("by", "verdict"), [(1, ProofVerdict.CODE_CORRECT), (2, ProofVerdict.CODE_DIFFERS)])
def test_a_buffer_that_a_forward_exchanges_is_compared_as_it_is_then(by, verdict):
    assert prove(CountingPort(by), Counting(), np.ones((2, 3))).verdict is verdict


TENSORS = {
    "torch": lambda: torch.randn(3, 4),
    "torch, turned": lambda: torch.randn(3, 4).t(),
    "torch, bfloat16": lambda: torch.randn(3).to(torch.bfloat16),
    "torch, conjugated": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "paddle": lambda: paddle.randn([3, 4]),
    "paddle, turned": lambda: paddle.randn([3, 4]).t(),
    "paddle, a part": lambda: paddle.randn([3, 4])[1:],
    "paddle, a number": lambda: paddle.to_tensor(1.5),
    "numpy": lambda: np.ones((2, 3)),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_a_copy_keeps_its_values_when_the_tensor_is_written(kind):
    tensor = TENSORS[kind]()
    copy, before = copied(tensor), as_array(tensor).copy()
    assert np.array_equal(copy, before)
    assert copy.flags.writeable
    tensor[...] = 7.0
    assert np.array_equal(copy, before)
    assert not np.array_equal(as_array(tensor), before)


class Pair(NamedTuple):
    left: Any
    right: Any


@pytest.mark.parametrize("framework", ["paddle", "torch"])
def test_an_input_has_one_name_however_it_is_asked_for(framework):
    """A dict's entries and a named tuple's fields had another name as a value than as what a gradient belongs to."""

    def make():
        return paddle.ones([2]) if framework == "paddle" else torch.ones(2)

    arguments = (
        (make(), [make(), 3, Pair(make(), "no tensor")], {"a": make(), "b": (make(),)}),
        {"tokens": make(), "more": {"c": make()}},
    )
    names = [name for name, _ in programs.named_tensors(arguments)]
    wanted = "0,1[0],1[2].left,2.a,2.b[0],tokens,more.c"
    assert names == [f"input {name}" for name in wanted.split(",")]
    passed = []
    (positional, keywords), begun = programs.followed_arguments(
        arguments, lambda name, tensor: passed.append(name) or tensor.detach()
    )
    assert passed == list(begun) == names
    assert isinstance(positional[1][2], Pair)
    assert positional[1][1:2] == [3]
    assert positional[1][2].right == "no tensor"
    assert list(keywords) == ["tokens", "more"]
    assert [name for name, _ in programs.named_tensors((positional, keywords))] == names


def test_a_drift_draws_torchs_random_numbers_natively_too():
    """The native run came before one that tells what is drawn, and drew Paddle's: nothing could be compared."""
    drifts = prove(Port(0.5, []), Original(0.5), np.random.default_rng(0).standard_normal((3, 4, 6)), phase="forward").drift()
    assert drifts.largest["substituted"].identical
    assert 0 <= drifts.largest["native"].max_abs < 1e-4
    assert drifts.largest["float64"].max_abs < 1e-12
