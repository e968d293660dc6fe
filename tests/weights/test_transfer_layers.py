"""Weights of every kind of layer, both ways: under the shim the Paddle layer then gives what the Torch module gives."""

import contextlib
import sys
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch
from layer_pairs import LAYERS, first, scrambled, scrambled_paddle

import padiff_shim

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from zoo import PAIRS, pairs

WAYS = ("torch to paddle", "paddle to torch")
# Paddle writes these in other steps than Torch, which round differently: compared in float64, to its rounding.
OTHER_STEPS = {"encoder", "decoder", "transformer", "cells both ways", *(name for name in LAYERS if " norm" in name)}
OTHER_STEPS |= {"attention", "attention of other widths", "lstm cell", "gru cell", "cell in a loop"}
OTHER_STEPS -= {"batch norm", "layer norm", "group norm", "instance norm"}
MODELS = [name for name in PAIRS if name != "minilm"]  # whose trained weights not every environment has
CRASHES = {"lstm without bias"}  # Paddle's own forward ends the process


@contextlib.contextmanager
def default_dtype(dtype):
    before = paddle.get_default_dtype()
    paddle.set_default_dtype(dtype)
    try:
        yield
    finally:
        paddle.set_default_dtype(before)


def taken(pair, way, dtype="float32"):
    """Both layers, of which one has random weights and the other has got them."""
    with default_dtype(dtype):
        ours, theirs = pair.paddle_layer(), pair.torch_module().to(getattr(torch, dtype))
    ours.eval(), theirs.eval()
    if way == "torch to paddle":
        mapping = padiff_shim.transfer_weights(scrambled(theirs), ours)
    else:
        mapping = padiff_shim.transfer_weights(scrambled_paddle(ours), theirs)
    return ours, theirs, mapping


def results(pair, ours, theirs, dtype="float32"):
    """What both give for the same inputs, Paddle's under the shim."""
    arrays = [make(np.random.default_rng(1)) for make in pair.inputs]
    arrays = [array.astype(dtype) if array.dtype.kind == "f" else array for array in arrays]
    with torch.no_grad():
        wanted = first(theirs(*map(torch.from_numpy, arrays))).numpy()
    with default_dtype(dtype), padiff_shim.reference("torch"), paddle.no_grad():
        result = first(ours(*map(paddle.to_tensor, arrays))).numpy()
    return result, wanted


@pytest.mark.rows(22)
@pytest.mark.compat
@pytest.mark.bitexact
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [name for name in LAYERS if name not in CRASHES])
def test_layer(name, way):
    dtype = "float64" if name in OTHER_STEPS else "float32"
    ours, theirs, mapping = taken(LAYERS[name], way, dtype)
    assert mapping
    assert mapping.check(ours, theirs)
    actual, wanted = results(LAYERS[name], ours, theirs, dtype)
    if name in OTHER_STEPS:
        np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-11)
    else:
        assert np.array_equal(actual, wanted)


@pytest.mark.compat
def test_biases_that_torch_does_not_have_are_zeros_in_paddle():
    ours, theirs, mapping = taken(LAYERS["lstm without bias"], "torch to paddle")
    assert len(mapping) == 4
    for name, tensor in ours.state_dict().items():
        if "bias" in name:
            assert not tensor.numpy().any(), name
    assert np.array_equal(ours[0].cell.weight_hh.numpy(), theirs.weight_hh_l0.detach().numpy())


@pytest.mark.compat
def test_biases_that_torch_has_no_place_for_are_refused():
    ours, theirs = LAYERS["lstm without bias"].paddle_layer(), LAYERS["lstm without bias"].torch_module()
    padiff_shim.transfer_weights(ours, theirs)
    ours[0].cell.bias_hh.set_value(np.ones([24], "float32"))
    before = theirs.weight_ih_l0.detach().clone()
    with pytest.raises(padiff_shim.TransferError, match=r"bias_[ih]h has no partner"):
        padiff_shim.transfer_weights(scrambled_paddle(ours), theirs)
    assert torch.equal(theirs.weight_ih_l0, before)


@pytest.mark.rows(5)
@pytest.mark.compat
@pytest.mark.bitexact
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_zoo(name, way):
    pair = pairs.build(name, "float32")
    ours, theirs = pair.paddle, pair.torch
    if way == "torch to paddle":
        mapping = padiff_shim.transfer_weights(scrambled(theirs), ours)
    else:
        mapping = padiff_shim.transfer_weights(scrambled_paddle(ours), theirs)
    assert mapping
    assert {pair.torch: pair.paddle for pair in mapping} == {
        name: pairs.paddle_name(name) for name in theirs.state_dict() if not name.endswith("num_batches_tracked")
    }
    assert set(mapping.layers) == {name for name, _ in theirs.named_modules()}
    assert all(torch_name == paddle_name for torch_name, paddle_name in mapping.layers.items())
    with padiff_shim.reference("torch"):
        paddle_result = pairs.paddle_step(pair)
    wanted = pairs.torch_step(pair)
    for output, values in wanted.outputs.items():
        assert np.array_equal(paddle_result.outputs[output], values, equal_nan=True), output
