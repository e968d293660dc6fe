"""Recurrent layers under the shim are Torch's layers bit for bit, with the same weights."""

import numpy as np
import paddle
import pytest
import torch
from torch.nn.utils import rnn as packing

import padiff_shim
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.reasons import RANDOM

pytestmark = [pytest.mark.bitexact, pytest.mark.skipif(not IS_3, reason="2.6 has another entry point for RNNs")]
BATCH, TIME, WIDTH, HIDDEN = 3, 5, 4, 6


def paired(kind, **options):
    """A Paddle layer and the Torch layer with its weights."""
    paddle.seed(0)
    twoways = options.pop("twoways", False)
    ours = getattr(paddle.nn, kind)(WIDTH, HIDDEN, direction="bidirect" if twoways else "forward", **options)
    named = {**options, "bidirectional": twoways, "batch_first": not options.pop("time_major", False)}
    named.pop("time_major", None)
    if kind == "SimpleRNN":
        named["nonlinearity"] = named.pop("activation", "tanh")
    theirs = getattr(torch.nn, kind.removeprefix("Simple"))(WIDTH, HIDDEN, **named)
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.copy_(torch.from_numpy(dict(ours.state_dict())[name].numpy()))
    return ours, theirs


def numbers(time_major=False):
    shape = (TIME, BATCH, WIDTH) if time_major else (BATCH, TIME, WIDTH)
    return np.random.RandomState(0).randn(*shape).astype("float32")


def ended(states):
    return list(states) if isinstance(states, (tuple, list)) else [states]


def same(ours, theirs):
    """Results and all gradients of the layers, bit for bit."""
    (ours_x, ours_layer, ours_results), (theirs_x, theirs_layer, theirs_results) = ours, theirs
    for mine, other in zip(ours_results, theirs_results, strict=True):
        assert mine.numpy().tobytes() == other.detach().numpy().tobytes()
    assert ours_x.grad.numpy().tobytes() == theirs_x.grad.numpy().tobytes()
    gradients = {name: parameter.grad for name, parameter in ours_layer.state_dict().items()}
    for name, parameter in theirs_layer.named_parameters():
        assert gradients[name].numpy().tobytes() == parameter.grad.numpy().tobytes(), name


@pytest.mark.parametrize("lengths", [None, [5, 2, 4]], ids=["one length", "several lengths"])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("LSTM", {}),
        ("LSTM", {"num_layers": 2, "twoways": True}),
        ("LSTM", {"time_major": True}),
        ("GRU", {"num_layers": 2}),
        ("GRU", {"twoways": True}),
        ("SimpleRNN", {"num_layers": 2}),
        ("SimpleRNN", {"activation": "relu"}),
    ],
    ids=str,
)
def test_layer(kind, options, lengths):
    major = options.get("time_major", False)
    (ours, theirs), values = paired(kind, **options), numbers(major)
    x = paddle.to_tensor(values, stop_gradient=False)
    with padiff_shim.reference("torch") as run:
        out, states = ours(x, sequence_length=None if lengths is None else paddle.to_tensor(lengths))
        results = [out, *ended(states)]
        sum((one * one).sum() for one in results).backward()
    assert run.substituted["rnn"] == run.backward["rnn"] == 1
    t = torch.from_numpy(values).requires_grad_()
    if lengths is None:
        other, after = theirs(t)
    else:
        other, after = theirs(packing.pack_padded_sequence(t, torch.tensor(lengths), batch_first=not major, enforce_sorted=False))
        other, _ = packing.pad_packed_sequence(other, batch_first=not major, total_length=TIME)
    expected = [other, *ended(after)]
    sum((one * one).sum() for one in expected).backward()
    same((x, ours, results), (t, theirs, expected))


def test_given_states_and_no_gradient():
    ours, theirs = paired("LSTM")
    state = [np.random.RandomState(seed).randn(1, BATCH, HIDDEN).astype("float32") for seed in (1, 2)]
    with padiff_shim.reference("torch") as run, paddle.no_grad():
        out, (h, c) = ours(paddle.to_tensor(numbers()), tuple(map(paddle.to_tensor, state)))
    assert run.substituted["rnn"] == 1
    with torch.no_grad():
        other, (th, tc) = theirs(torch.from_numpy(numbers()), tuple(map(torch.from_numpy, state)))
    for mine, expected in ((out, other), (h, th), (c, tc)):
        assert mine.numpy().tobytes() == expected.numpy().tobytes()


def test_dropout_stays_native_with_its_reason_and_eval_does_not():
    layer = paddle.nn.LSTM(WIDTH, HIDDEN, num_layers=2, dropout=0.5)
    with padiff_shim.reference("torch") as run:
        layer(paddle.to_tensor(numbers()))
        layer.eval()
        layer(paddle.to_tensor(numbers()))
    (why,) = run.native["rnn"]
    assert why == RANDOM.text
    assert run.substituted["rnn"] == 1
