"""Recurrent networks: what ``nn.LSTM``, ``nn.GRU`` and ``nn.SimpleRNN`` reach in one call, and their cells, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.utils import rnn as packing

from padiff_shim.table.op import c_op, function, op
from padiff_shim.table.reasons import ODD_CELL, StayNative

KERNELS = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN_TANH": torch.rnn_tanh, "RNN_RELU": torch.rnn_relu}
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _arranged(
    x: Any,
    pre_state: Sequence[Any],
    weight_list: Sequence[Any],
    sequence_length: Any,
    dropout_state: Any,
    dropout: float,
    bidirectional: bool,
    input_size: int,
    hidden_size: int,
    layers: int,
    mode: str,
    seed: int,
    is_test: bool,
) -> tuple[Any, ...]:
    """Paddle's arguments as one sequence of tensors, and what says where each of them is."""
    lengths = () if sequence_length is None else (sequence_length,)
    operands = [x, *lengths, *pre_state, *weight_list]
    return operands, len(lengths), len(pre_state), dropout, bidirectional, layers, mode, is_test


def _dropping(
    operands: Any, lengths: int, states: int, dropout: float, bidirectional: bool, layers: int, mode: str, is_test: bool
) -> bool:
    """Whether a part of what one layer hands to the next is dropped."""
    return bool(dropout) and layers > 1 and not is_test


@op(
    "operands lengths states dropout bidirectional layers mode is_test",
    c=False,
    operands=True,
    promote="same",
    random=_dropping,
    results=("out", "dropout_state", "state", "cell"),
    more_entries=(
        c_op(
            "rnn",
            "x pre_state weight_list sequence_length=None dropout_state_in=None dropout_prob=0.0 is_bidirec=False input_size=10 "
            "hidden_size=100 num_layers=1 mode='RNN_TANH' seed=0 is_test=False",
            arrange=_arranged,
        ),
    ),
    note="Paddle lists all weights before all biases, Torch the four of each layer and direction; the gates have the same order. "
    "Sequences of several lengths are packed, as a Torch program would do.",
)
def rnn(
    operands: Sequence[torch.Tensor],
    lengths: int,
    states: int,
    dropout: float,
    bidirectional: bool,
    layers: int,
    mode: str,
    is_test: bool,
) -> tuple[Any, ...]:
    """``torch.lstm`` and its like over operands x [time, batch, features], lengths [batch], states, weights, biases."""
    x, state, weights = operands[0], operands[1 + lengths : 1 + lengths + states], operands[1 + lengths + states :]
    count = layers * (2 if bidirectional else 1)
    if len(weights) != 4 * count:
        raise NotImplementedError("an RNN without biases")
    if any(len(weight) != GATES[mode] * state[0].shape[-1] for weight in weights):
        raise ValueError("weights of other gates than the state's, beyond whose end Torch's kernels would read")
    flat = [
        weight for i in range(count) for weight in (*weights[2 * i : 2 * i + 2], *weights[2 * (count + i) : 2 * (count + i) + 2])
    ]
    options = (flat, True, layers, float(dropout), not is_test, bidirectional)
    if not lengths:
        out, *after = KERNELS[mode](x, _state(state), *options, False)
        return out, None, after
    # A layer that takes the batch first turns it: so does a Torch program's ``batch_first=True``, of which results lie otherwise.
    first = not x.is_contiguous() and x.transpose(0, 1).is_contiguous()
    packed = packing.pack_padded_sequence(x.transpose(0, 1) if first else x, operands[1].cpu(), first, enforce_sorted=False)
    inner = [tensor.index_select(1, packed.sorted_indices) for tensor in state]
    data, *after = KERNELS[mode](packed.data, packed.batch_sizes, _state(inner), *options)
    out, _ = packing.pad_packed_sequence(packed._replace(data=data), first, total_length=len(x))
    return out.transpose(0, 1) if first else out, None, [tensor.index_select(1, packed.unsorted_indices) for tensor in after]


def _state(state: Sequence[torch.Tensor]) -> Any:
    """One state as it is, two as the pair that ``torch.lstm`` takes."""
    return tuple(state) if len(state) > 1 else state[0]


def _cell(layer: Any, x: Any, states: Any = None) -> tuple[Any, ...]:
    """A cell's arguments: what comes in, its states (which Paddle makes of zeros), its parameters and its last activation."""
    functions = [getattr(layer, name, None) for name in ("_gate_activation", "_activation", "_activation_fn")]
    names = [str(getattr(function, "__name__", "")).strip("_") for function in functions if function is not None]
    if names not in (["sigmoid", "tanh"], ["tanh"], ["relu"]) or getattr(layer, "proj_size", None) or x.ndim != 2:
        raise StayNative(ODD_CELL)
    if states is None:
        states = layer.get_initial_states(x, layer.state_shape)
    several = states if isinstance(states, (list, tuple)) else (states,)
    return (x, *several, layer.weight_ih, layer.weight_hh, layer.bias_ih, layer.bias_hh, names[-1])


def cell(name: str, states: str) -> Any:
    """A decorator: a cell of ``paddle.nn`` as one function of Torch; what is unusual in it runs by the ops that it calls."""
    entry = function(f"paddle.nn.{name}.forward", "self inputs states=None", arrange=_cell, seen_below=True)
    params = f"x {states} weight_ih weight_hh bias_ih bias_hh activation"
    return op(
        params, c=False, tensors=5 + len(states.split()), promote="same", more_entries=(entry,), amp="matmul_v2", products=True
    )


@cell("LSTMCell", "hidden memory")
def lstm_cell(x: Any, hidden: Any, memory: Any, *others: Any) -> Any:
    """``torch.lstm_cell``, as ``torch.nn.LSTMCell`` calls it."""
    hidden, memory = torch.lstm_cell(x, (hidden, memory), *others[:-1])
    return hidden, (hidden, memory)


@cell("GRUCell", "hidden")
def gru_cell(x: Any, hidden: Any, *others: Any) -> Any:
    """``torch.gru_cell``, as ``torch.nn.GRUCell`` calls it."""
    hidden = torch.gru_cell(x, hidden, *others[:-1])
    return hidden, hidden


@cell("SimpleRNNCell", "hidden")
def rnn_cell(x: Any, hidden: Any, *others: Any) -> Any:
    """``torch.rnn_tanh_cell`` or ``torch.rnn_relu_cell``, as ``torch.nn.RNNCell`` calls them."""
    *parameters, activation = others
    hidden = (torch.rnn_relu_cell if activation == "relu" else torch.rnn_tanh_cell)(x, hidden, *parameters)
    return hidden, hidden
