"""What the caller says: layers that belong together, weights that are left out, changed, split or joined."""

import numpy as np
import paddle.nn as pnn
import pytest
import torch
import torch.nn as tnn
from layer_pairs import scrambled, scrambled_paddle
from trees import ours, plinear, theirs, tlinear

import padiff_shim
from padiff_shim.weights import as_is, concat, match, split, transpose

pytestmark = pytest.mark.compat


def values(tensor):
    return tensor.detach().numpy() if isinstance(tensor, torch.Tensor) else tensor.numpy()


def test_layers_by_name():
    a, b = theirs(x=tlinear(4, 4), y=tlinear(4, 4)), ours(one=plinear(4, 4), two=plinear(4, 4))
    mapping = padiff_shim.transfer_weights(scrambled(a), b, layer_map={"x": "two"})
    assert mapping.layers == {"": "", "x": "two", "y": "one"}
    assert np.array_equal(values(b.two.weight), values(a.x.weight).T)
    assert {pair.note for pair in mapping if pair.torch.startswith("x")} == {"by layer_map"}


def test_layers_by_pattern():
    a = theirs(layers=tnn.ModuleList(theirs(x=tlinear(4, 4), y=tlinear(4, 4)) for _ in range(2)))
    b = ours(h=pnn.LayerList([ours(one=plinear(4, 4), two=plinear(4, 4)) for _ in range(2)]))
    mapping = match(a, b, layer_map={"layers.*.x": "h.*.two"})
    assert mapping
    assert mapping.layers["layers.1.x"] == "h.1.two"
    assert mapping.layers["layers.1.y"] == "h.1.one"
    assert mapping.layers["layers.0"] == "h.0"


def test_layers_by_object():
    a, b = theirs(x=tlinear(4, 4), y=tlinear(4, 4)), ours(one=plinear(4, 4), two=plinear(4, 4))
    assert match(a, b, layer_map={a.x: b.two}).layers["y"] == "one"


def test_layers_with_layers_below():
    a = theirs(left=tnn.Sequential(tlinear(4, 4), tlinear(4, 4)), right=tnn.Sequential(tlinear(4, 4), tlinear(4, 4)))
    b = ours(first=pnn.Sequential(plinear(4, 4), plinear(4, 4)), second=pnn.Sequential(plinear(4, 4), plinear(4, 4)))
    assert match(a, b).layers["left.0"] == "first.0"
    assert match(a, b, layer_map={"left": "second"}).layers["left.0"] == "second.0"
    both = match(a, b, layer_map={"left": "second", "left.0": "second.1"})
    assert (both.layers["left.0"], both.layers["left.1"], both.layers["right"]) == ("second.1", "second.0", "first")


def test_single_weights():
    a, b = scrambled(theirs(fc=tlinear(4, 4))), ours(fc=plinear(4, 4))
    a.one, a.two = (tnn.Parameter(torch.full((4,), float(value))) for value in (1, 2))
    for name in ("uno", "due"):
        b.add_parameter(name, b.create_parameter([4]))
    padiff_shim.transfer_weights(a, b, layer_map={"one": "due"})
    assert (b.due.numpy()[0], b.uno.numpy()[0]) == (1, 2)


@pytest.mark.parametrize(
    ("layer_map", "words"),
    [
        ({"z": "one"}, "unknown layer of the Torch model in layer_map 'z'"),
        ({"x": "three"}, "unknown layer of the Paddle model in layer_map 'three'"),
        ({"x": "*"}, "more wildcards"),
        (["x"], "layer_map= is a dict"),
        ({3: "one"}, "layer_map= takes names of layers"),
        ({"fc.weight": "fc.bias"}, "differ in shape"),
    ],
)
def test_a_layer_map_that_cannot_be(layer_map, words):
    a = theirs(x=tlinear(4, 4), fc=tlinear(4, 3))
    with pytest.raises(padiff_shim.ArgumentError, match=words.replace("*", r"\*")):
        match(a, ours(one=plinear(4, 4), fc=plinear(4, 3)), layer_map=layer_map)


def test_weights_that_are_left_out():
    a, b = scrambled(theirs(fc=tlinear(4, 4), head=tlinear(4, 2))), ours(fc=plinear(4, 4), head=plinear(4, 3))
    before = values(b.head.weight).copy()
    mapping = padiff_shim.transfer_weights(a, b, rules=[("head", None)])
    assert mapping
    assert "left out by rules" in mapping.notes[0]
    assert np.array_equal(values(b.head.weight), before)
    assert np.array_equal(values(b.fc.weight), values(a.fc.weight).T)


def test_layouts_of_the_callers_own():
    a, b = scrambled(theirs(fc=tlinear(4, 4), other=tlinear(4, 4))), ours(fc=plinear(4, 4), other=plinear(4, 4))
    mapping = padiff_shim.transfer_weights(a, b, rules=[("fc.weight", as_is)])
    assert np.array_equal(values(b.fc.weight), values(a.fc.weight))
    assert np.array_equal(values(b.other.weight), values(a.other.weight).T)
    assert {pair.torch: pair.transform for pair in mapping}["fc.weight"] == "by rule"
    padiff_shim.transfer_weights(a, b, rules={"fc.weight": transpose})
    assert np.array_equal(values(b.fc.weight), values(a.fc.weight).T)


def test_a_function_of_both_names():
    a, b = scrambled(theirs(fc=tlinear(4, 4))), ours(fc=plinear(4, 4))
    seen = []

    def rule(torch_name, paddle_name):
        seen.append((torch_name, paddle_name))
        return (lambda value: value * 2) if torch_name.endswith("bias") else None

    padiff_shim.transfer_weights(a, b, rules=[rule])
    assert ("fc.weight", "fc.weight") in seen
    assert np.array_equal(values(b.fc.bias), 2 * values(a.fc.bias))


def test_shapes_that_only_the_caller_can_explain():
    a, b = theirs(fc=tlinear(4, 4)), ours(fc=plinear(4, 4))
    a.table, a.fc.weight.data = tnn.Parameter(torch.arange(24.0).reshape(2, 3, 4)), torch.ones(4, 4)
    b.add_parameter("table", b.create_parameter([4, 6]))
    assert not match(a, b)
    padiff_shim.transfer_weights(a, b, rules=[("table", lambda value: value.reshape(6, 4).t())])
    assert np.array_equal(values(b.table), values(a.table).reshape(6, 4).T)


PARTS = [f"blocks.*.{letter}.weight" for letter in "abc"]


def fused(base, listed, linear):
    return base(blocks=listed([base(whole=linear(4, 12, **({"bias": False} if base is theirs else {"bias_attr": False})))]))


def parted(base, listed, linear):
    options = {"bias": False} if base is theirs else {"bias_attr": False}
    return base(blocks=listed([base(**{letter: linear(4, 4, **options) for letter in "cab"})]))


def test_split_and_concat():
    a, b = scrambled(fused(theirs, tnn.ModuleList, tlinear)), parted(ours, pnn.LayerList, plinear)
    assert not match(a, b)
    mapping = padiff_shim.transfer_weights(a, b, rules=[("blocks.*.whole.weight", split(*PARTS))])
    assert mapping.partner("blocks.0.whole.weight") == ["blocks.0.a.weight", "blocks.0.b.weight", "blocks.0.c.weight"]
    assert np.array_equal(values(b.blocks[0].b.weight), values(a.blocks[0].whole.weight)[4:8].T)
    padiff_shim.transfer_weights(scrambled_paddle(b), a, rules=[("blocks.*.whole.weight", concat(*PARTS))])
    assert np.array_equal(values(a.blocks[0].whole.weight)[8:].T, values(b.blocks[0].c.weight))


def test_concat_on_the_other_side():
    a, b = scrambled(parted(theirs, tnn.ModuleList, tlinear)), fused(ours, pnn.LayerList, plinear)
    padiff_shim.transfer_weights(a, b, rules=[("blocks.*.whole.weight", concat(*PARTS))])
    assert np.array_equal(values(b.blocks[0].whole.weight)[:, :4], values(a.blocks[0].a.weight).T)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("head", "rules= is a list of rules"),
        (("head", None), "a single rule stands in a list"),
        ([3], "rules= takes pairs"),
        ([("head", 3)], "the transform of rule 'head'"),
        ([("haed.weight", None)], "matches no weight on either side; did you mean 'head.weight'"),
        ([("head.weight", split("head.weight", "head.bias"))], "no part of"),
        ([lambda torch_name, paddle_name: 3], "a rule gave 3 for"),
    ],
)
def test_rules_that_cannot_be(rules, words):
    with pytest.raises(padiff_shim.ArgumentError, match=words):
        match(theirs(head=tlinear(4, 4)), ours(head=plinear(4, 4)), rules=rules)


def test_a_rule_that_fails_or_gives_another_shape():
    a, b = theirs(head=tlinear(4, 4)), ours(head=plinear(4, 4))
    before = values(b.head.bias).copy()
    with pytest.raises(padiff_shim.TransferError, match=r"the rule for head.weight and head.weight failed: ZeroDivisionError"):
        padiff_shim.transfer_weights(a, b, rules=[("head.weight", lambda value: value / (1 // 0))])
    with pytest.raises(padiff_shim.TransferError, match=r"head.weight is \[4, 4\], but head.weight would give it \[2, 4\]"):
        padiff_shim.transfer_weights(a, b, rules=[("head.weight", lambda value: value[:2])])
    assert np.array_equal(values(b.head.bias), before)


def test_a_rule_cannot_change_the_source():
    a, b = scrambled(theirs(head=tlinear(4, 4))), ours(head=plinear(4, 4))
    before = values(a.head.weight).copy()
    padiff_shim.transfer_weights(a, b, rules=[("head.weight", lambda value: value.mul_(2))])
    assert np.array_equal(values(a.head.weight), before)
    assert np.array_equal(values(b.head.weight), 2 * before)
