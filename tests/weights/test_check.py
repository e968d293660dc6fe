"""Are the weights equal now? If not: transposed, swapped, rounded, or different."""

import json

import paddle.nn as pnn
import pytest
import torch
import torch.nn as tnn
from layer_pairs import scrambled
from trees import ours, plinear, theirs, tlinear

import padiff_shim
from padiff_shim.weights import match

pytestmark = pytest.mark.compat


@pytest.fixture
def pair():
    a = scrambled(theirs(one=tlinear(4, 4), two=tlinear(4, 4), wide=tlinear(4, 6), words=tnn.Embedding(5, 4)))
    b = ours(one=plinear(4, 4), two=plinear(4, 4), wide=plinear(4, 6), words=pnn.Embedding(5, 4))
    return a, b, padiff_shim.transfer_weights(a, b)


def findings(check):
    return {(difference.pair.torch, difference.finding, difference.other) for difference in check.differences}


def test_equal(pair):
    a, b, mapping = pair
    check = mapping.check(a, b)
    assert check
    assert check.compared == 7
    assert "bit for bit" in str(check)
    assert mapping.check(b, a)


def test_different_values_with_their_largest_difference(pair):
    a, b, mapping = pair
    values = b.one.weight.numpy()
    values[2, 1] += 0.5
    b.one.weight.set_value(values)
    check = mapping.check(a, b)
    assert findings(check) == {("one.weight", "different", ())}
    assert check.differences[0].largest == pytest.approx(0.5)
    assert json.loads(json.dumps(check.to_dict()))["differences"][0]["finding"] == "different"


def test_a_square_weight_that_was_not_transposed(pair):
    a, b, mapping = pair
    b.one.weight.set_value(a.one.weight.detach().numpy())
    check = mapping.check(a, b)
    assert findings(check) == {("one.weight", "transposed", ())}
    assert "transposed" in str(check)


def test_a_weight_that_was_reshaped_where_it_had_to_be_transposed(pair):
    a, b, mapping = pair
    b.wide.weight.set_value(a.wide.weight.detach().numpy().reshape(4, 6))
    check = mapping.check(a, b)
    assert findings(check) == {("wide.weight", "reshaped", ())}


def test_swapped_weights(pair):
    a, b, mapping = pair
    b.one.weight.set_value(a.two.weight.detach().numpy().T.copy())
    b.two.weight.set_value(a.one.weight.detach().numpy().T.copy())
    check = mapping.check(a, b)
    assert findings(check) == {("one.weight", "swapped", ("two.weight",)), ("two.weight", "swapped", ("one.weight",))}
    assert "in two.weight" in str(check)


def test_signs_of_zeros_and_nan(pair):
    a, b, mapping = pair
    with torch.no_grad():
        a.one.bias[0] = 0.0
        a.two.bias[1] = float("nan")
    padiff_shim.transfer_weights(a, b)
    assert mapping.check(a, b)
    values = b.one.bias.numpy()
    values[0] = -0.0
    b.one.bias.set_value(values)
    assert findings(mapping.check(a, b)) == {("one.bias", "signs of zeros", ())}


def test_other_models_of_the_same_kind_and_of_another(pair):
    a, _, mapping = pair
    other = ours(one=plinear(4, 4), two=plinear(4, 4), wide=plinear(4, 6), words=pnn.Embedding(5, 4))
    assert len(mapping.check(a, other).differences) >= 4
    with pytest.raises(padiff_shim.ArgumentError, match="another Paddle model"):
        mapping.check(a, ours(one=plinear(4, 4)))


def test_sections_of_a_fused_weight():
    a, b = scrambled(theirs(attn=tnn.MultiheadAttention(8, 2))), ours(attn=pnn.MultiHeadAttention(8, 2))
    mapping = padiff_shim.transfer_weights(a, b)
    q, k = b.attn.q_proj.weight.numpy().copy(), b.attn.k_proj.weight.numpy().copy()
    b.attn.q_proj.weight.set_value(k)
    b.attn.k_proj.weight.set_value(q)
    check = mapping.check(a, b)
    assert {(difference.pair.paddle, difference.other) for difference in check.differences} == {
        ("attn.q_proj.weight", ("attn.k_proj.weight",)),
        ("attn.k_proj.weight", ("attn.q_proj.weight",)),
    }


def test_a_mapping_is_plain_data_and_holds_no_model(pair):
    a, b, mapping = pair
    data = json.loads(json.dumps(mapping.to_dict()))
    assert data["layers"]["wide"] == "wide"
    assert data["pairs"][0] == {
        "torch": "one.weight", "paddle": "one.weight", "torch_shape": [4, 4], "paddle_shape": [4, 4],
        "transform": "transposed", "note": "",
    }  # fmt: skip
    assert match(a, b).to_dict() == mapping.to_dict()
    assert len(mapping) == 7
