"""Recurrent layers under the shim are Torch's layers bit for bit, with the same weights."""

import numpy as np
import paddle
import pytest
import torch
from torch.nn.utils import rnn as packing

import padiff_shim
from padiff_shim.catalogue.registry import ops
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.reasons import RANDOM
from padiff_shim.verdicts import Verdict

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
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


@pytest.mark.parametrize("lengths", [None, [2, 5, 4]], ids=["one length", "several lengths"])
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
        sum((result * result).sum() for result in results).backward()
    assert run.substituted["rnn"] == run.backward["rnn"] == 1
    t = torch.from_numpy(values).requires_grad_()
    if lengths is None:
        other, after = theirs(t)
    else:
        other, after = theirs(packing.pack_padded_sequence(t, torch.tensor(lengths), batch_first=not major, enforce_sorted=False))
        other, _ = packing.pad_packed_sequence(other, batch_first=not major, total_length=TIME)
    expected = [other, *ended(after)]
    sum((result * result).sum() for result in expected).backward()
    same((x, ours, results), (t, theirs, expected))


@pytest.mark.skipif(not IS_3, reason="Paddle 2.6 casts to bfloat16 toward zero")
@pytest.mark.parametrize("lengths", [None, [3, 5, 4]])
@pytest.mark.parametrize("major", [False, True])
def test_what_a_layer_behind_computes(major, lengths):
    """Torch's linear rounds once where its operand is contiguous, else twice: in bfloat16 that shows."""
    (ours, theirs), values = paired("LSTM", time_major=major), numbers(major)
    ours._to_impl(dtype="bfloat16", floating_only=True)  # ``to`` casts the state of its dropout, which has no memory
    head = torch.nn.Linear(HIDDEN, 7).bfloat16()
    weight = paddle.to_tensor(head.weight.detach().float().numpy().T).astype("bfloat16")
    bias = paddle.to_tensor(head.bias.detach().float().numpy()).astype("bfloat16")
    with padiff_shim.reference("torch"), paddle.no_grad():
        held = None if lengths is None else paddle.to_tensor(lengths)
        out, _ = ours(paddle.to_tensor(values).astype("bfloat16"), sequence_length=held)
        result = paddle.nn.functional.linear(out, weight, bias)
    with torch.no_grad():
        theirs, t = theirs.bfloat16(), torch.from_numpy(values).bfloat16()
        if lengths is None:
            other, _ = theirs(t)
        else:
            packed = packing.pack_padded_sequence(t, torch.tensor(lengths), batch_first=not major, enforce_sorted=False)
            other, _ = packing.pad_packed_sequence(theirs(packed)[0], batch_first=not major, total_length=TIME)
        expected = head(other)
    assert np.array_equal(result.astype("float32").numpy(), expected.float().numpy())


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


CELLS = {
    "LSTMCell": ("LSTMCell", {}, {}, "lstm_cell"),
    "GRUCell": ("GRUCell", {}, {}, "gru_cell"),
    "SimpleRNNCell": ("RNNCell", {}, {}, "rnn_cell"),
    "SimpleRNNCell, relu": ("RNNCell", {"activation": "relu"}, {"nonlinearity": "relu"}, "rnn_cell"),
}


def cells(name, dtype="float32"):
    """A Paddle cell and the Torch cell with its weights."""
    theirs_name, ours_options, theirs_options, _ = CELLS[name]
    ours = getattr(paddle.nn, name.partition(",")[0])(WIDTH, HIDDEN, **ours_options).to(dtype=dtype)
    theirs = getattr(torch.nn, theirs_name)(WIDTH, HIDDEN, **theirs_options).to(getattr(torch, dtype))
    with torch.no_grad():
        for parameter_name, parameter in theirs.named_parameters():
            parameter.copy_(torch.from_numpy(dict(ours.state_dict())[parameter_name].numpy()))
    return ours, theirs


def zeros(name, dtype, tensor):
    """States of zeros; those that Paddle's cells make themselves are float32."""
    if dtype == "float32":
        return None
    zeros = tensor(np.zeros((BATCH, HIDDEN), dtype))
    return (zeros, zeros) if name == "LSTMCell" else zeros


def unrolled(cell, x, states):
    """Its outputs step by step."""
    outputs = []
    for step in x:
        result = cell(step, states)
        states = result[1] if isinstance(cell, paddle.nn.Layer) else result
        outputs.append(result[0] if isinstance(result, tuple) else result)
    return outputs, states


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_step_by_step(name, dtype):
    ours, theirs = cells(name, dtype)
    steps = numbers(time_major=True).astype(dtype)
    mine = [paddle.to_tensor(step, stop_gradient=False) for step in steps]
    others = [torch.tensor(step, requires_grad=True) for step in steps]
    with padiff_shim.reference("torch", strict=True) as run:
        outputs, states = unrolled(ours, mine, zeros(name, dtype, paddle.to_tensor))
        sum((result * result).sum() for result in outputs).backward()
    expected, ended_there = unrolled(theirs, others, zeros(name, dtype, torch.tensor))
    sum((result * result).sum() for result in expected).backward()
    assert run.substituted[CELLS[name][3]] == run.backward[CELLS[name][3]] == TIME
    assert outputs[-1] is ended(states)[0], "as natively, the output is the state"
    for result, other in zip([*outputs, *ended(states)], [*expected, *ended(ended_there)], strict=True):
        assert result.numpy().tobytes() == other.detach().numpy().tobytes()
    for result, other in zip(mine, others, strict=True):
        assert result.grad.numpy().tobytes() == other.grad.numpy().tobytes()
    for parameter_name, parameter in theirs.named_parameters():
        assert dict(ours.state_dict())[parameter_name].grad.numpy().tobytes() == parameter.grad.numpy().tobytes()


def test_what_is_unusual_in_a_cell_runs_by_its_ops():
    """Of another rank, with an activation of its own, or filtered out: the ops that it calls are seen."""
    cell = paddle.nn.GRUCell(WIDTH, HIDDEN)
    own = paddle.nn.LSTMCell(WIDTH, HIDDEN)
    own._activation = paddle.nn.functional.relu
    x = paddle.to_tensor(numbers()[:, 0])
    with padiff_shim.reference("torch", strict=True) as run:
        own(x)
        with padiff_shim.reference("torch", exclude=["gru_cell"]) as filtered:
            cell(x)
    for listing in (run, filtered):
        assert listing.substituted["matmul"] == 2
        assert not {"lstm_cell", "gru_cell"} & {*listing.substituted, *listing.native}


def test_a_comparison_judges_the_ops_of_a_cell():
    cell = paddle.nn.LSTMCell(WIDTH, HIDDEN)
    with padiff_shim.compare("torch") as run:
        cell(paddle.to_tensor(numbers()[:, 0]))[0].sum().backward()
    assert {call.op for call in run.calls} >= {"matmul", "sigmoid", "tanh"}
    assert all(call.verdict is not Verdict.UNVERIFIED for call in run.calls)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN_TANH"])
def test_weights_that_do_not_fit_the_state_are_refused(kind):
    """Torch's kernels would read beyond them, and end the process."""
    weights = [torch.zeros(6, WIDTH), torch.zeros(6, HIDDEN + 1), torch.zeros(6), torch.zeros(6)]
    state = [torch.zeros(1, BATCH, HIDDEN + 1)] * (2 if kind == "LSTM" else 1)
    with pytest.raises(ValueError):
        ops()["rnn"].reference([torch.zeros(TIME, BATCH, WIDTH), *state, *weights], 0, len(state), 0.0, False, 1, kind, True)
