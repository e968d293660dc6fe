"""A rule that a user gives is applied, or refused with its reason: never ignored."""

import itertools

import numpy as np
import paddle.nn as pnn
import pytest
import torch
import torch.nn as tnn
from layer_pairs import scrambled
from trees import ours, plinear, theirs, tlinear

import padiff_shim
from padiff_shim.weights import cast, gate_up, match, split, transpose

pytestmark = pytest.mark.compat


def bare(base, **shapes):
    """A layer of bare parameters."""
    layer = theirs() if base is theirs else ours()
    for name, shape in shapes.items():
        if base is theirs:
            layer.register_parameter(name, tnn.Parameter(torch.randn(*shape)))
        else:
            layer.add_parameter(name, layer.create_parameter(list(shape)))
    return layer


def attention(base, norm, *, extra, normed):
    """XLNet's: q is [32, 4, 8] in Torch and [32, 32] in Paddle."""
    shape = (32, 4, 8) if base is theirs else (32, 32)
    layer = bare(base, q=shape, **({"r": (4, 8)} if extra else {}))
    if normed:
        layer.layer_norm = norm(32)
    return layer


@pytest.mark.parametrize(("extra", "normed"), itertools.product((False, True), repeat=2), ids=str)
def test_bare_parameters_of_another_shape(extra, normed):
    """Whatever else is in their layer."""
    options = {"extra": extra, "normed": normed}
    module = tnn.ModuleDict(
        {
            "layer": tnn.ModuleList(
                theirs(rel_attn=attention(theirs, tnn.LayerNorm, **options), ff=tlinear(32, 32)) for _ in range(2)
            )
        }
    )
    layer = pnn.LayerDict(
        {"layer": pnn.LayerList([ours(rel_attn=attention(ours, pnn.LayerNorm, **options), ff=plinear(32, 32)) for _ in range(2)])}
    )
    padiff_shim.transfer_weights(module, layer, rules=[("layer.*.rel_attn.q", lambda value: value.flatten(1))])
    for mine, yours in zip(module["layer"], layer["layer"]):
        assert (yours.rel_attn.q.numpy() == mine.rel_attn.q.detach().numpy().reshape(32, 32)).all()


def test_of_another_name():
    """The one free weight of the shape that the function gives; of several that of its layer's partner."""
    module = bare(theirs, query=(4, 2, 3), key=(4, 5))
    layer = bare(ours, left=(4, 6), right=(5, 4))
    rules = [("query", lambda value: value.flatten(1)), ("key", lambda value: value.t())]
    padiff_shim.transfer_weights(module, layer, rules=rules)
    assert (layer.left.numpy() == module.query.detach().numpy().reshape(4, 6)).all()
    assert (layer.right.numpy() == module.key.detach().numpy().T).all()


def test_a_partner_that_is_named():
    module, layer = bare(theirs, a=(4, 2, 3)), bare(ours, b=(4, 6), c=(4, 6))
    rules = [("a", lambda value: value.flatten(1))]
    with pytest.raises(padiff_shim.TransferError) as caught:
        match(module, layer, rules=[*rules])
    assert "b [4, 6], c [4, 6]" in str(caught.value)
    padiff_shim.transfer_weights(module, layer, rules=[*rules, ("b", None)])
    assert (layer.c.numpy() == module.a.detach().numpy().reshape(4, 6)).all()
    padiff_shim.transfer_weights(module, layer, rules=[*rules, ("c", None)], layer_map={"a": "b"})
    assert (layer.b.numpy() == module.a.detach().numpy().reshape(4, 6)).all()


def double(value):
    return value * 2


MODELS = {
    "linear": lambda base, linear, norm: base(fc=linear(4, 4), head=linear(4, 2), norm=norm(4)),
    "of one side": lambda base, linear, norm: base(fc=linear(4, 4), **({"more": linear(3, 3)} if base is theirs else {})),
    "fused": lambda base, linear, norm: base(**({"qkv": linear(4, 12)} if base is theirs else {n: linear(4, 4) for n in "qkv"})),
}


@pytest.mark.parametrize(
    ("kind", "rule", "words"),
    [
        ("of one side", ("more.weight", double), "rule 'more.weight' was not applied to more.weight"),
        ("of one side", ("more", transpose), "rule 'more' was not applied to more.weight"),
        ("of one side", ("more.weight", gate_up()), "rule 'more.weight' was not applied to more.weight"),
        ("linear", ("fc", split("a", "b")), "unknown weight of the Paddle model 'a'"),
        ("linear", ("fc.weight", gate_up(axis=2)), "do not hold the same blocks along 2"),
        ("linear", ("fc.weight", gate_up(axis=3)), "do not hold the same blocks along 3"),
        ("linear", ("nothing", double), "rule 'nothing' matches no weight on either side"),
        ("linear", ("fc.weight", lambda value: value[:2]), r"fc.weight is \[4, 4\], but fc.weight would give it \[2, 4\]"),
        ("linear", ("fc.bias", transpose), None),
        ("linear", ("fc.bias", lambda value: value[None]), r"fc.bias is \[4\], but fc.bias would give it \[1, 4\]"),
    ],
)
def test_a_rule_that_cannot_be_applied_is_refused(kind, rule, words):
    a, b = (MODELS[kind](*parts) for parts in ((theirs, tlinear, tnn.LayerNorm), (ours, plinear, pnn.LayerNorm)))
    if words is None:  # the transpose of a vector is itself
        padiff_shim.transfer_weights(a, b, rules=[rule])
        return
    with pytest.raises((padiff_shim.TransferError, padiff_shim.ArgumentError), match=words):
        padiff_shim.transfer_weights(a, b, rules=[rule])


def test_an_earlier_rule_counts_and_a_later_one_for_nothing_else_is_refused():
    a, b = scrambled(theirs(fc=tlinear(4, 4))), ours(fc=plinear(4, 4))
    padiff_shim.transfer_weights(a, b, rules=[("fc.bias", double), ("fc.*", lambda value: value.t() if value.ndim > 1 else value)])
    assert (b.fc.bias.numpy() == 2 * a.fc.bias.detach().numpy()).all()
    with pytest.raises(padiff_shim.TransferError, match=r"rule 'fc.bias' was not applied"):
        match(a, b, rules=[("fc.*", double), ("fc.bias", double)])


def test_a_function_for_a_part_of_what_is_fused():
    """It makes a whole weight of the target of a whole one of the source."""
    a = scrambled(theirs(qkv=tlinear(4, 12)))
    b = ours(**{letter: plinear(4, 4) for letter in "qkv"})
    parts = [
        (f"{letter}.weight", lambda value, start=4 * place: value[start : start + 4].t()) for place, letter in enumerate("vqk")
    ]
    biases = [("qkv.bias", split("v.bias", "q.bias", "k.bias"))]
    padiff_shim.transfer_weights(a, b, rules=[("qkv.weight", split(*(f"{letter}.weight" for letter in "qkv"))), *parts, *biases])
    assert (b.q.weight.numpy() == a.qkv.weight.detach().numpy()[4:8].T).all()
    with pytest.raises(padiff_shim.TransferError, match=r"qkv.weight holds several"):
        padiff_shim.transfer_weights(b, a, rules=[("qkv", split("q", "k", "v")), ("q.weight", lambda value: value.t())])


def test_a_function_and_a_cast():
    a, b = scrambled(theirs(fc=tlinear(4, 4))).double(), ours(fc=plinear(4, 4))
    with pytest.raises(padiff_shim.TransferError, match="rounded"):
        padiff_shim.transfer_weights(a, b, rules=[("fc.bias", double)])
    padiff_shim.transfer_weights(a, b, rules=[("fc.bias", double), ("**", cast())])
    assert (b.fc.bias.numpy() == (2 * a.fc.bias.detach()).float().numpy()).all()


def test_layers_in_split_are_their_weights_and_biases():
    a, b = scrambled(theirs(whole=tlinear(4, 9))), ours(x=plinear(4, 3), y=plinear(4, 6))
    padiff_shim.transfer_weights(a, b, rules=[("whole", split("y", "x"))])
    assert (b.x.bias.numpy() == a.whole.bias.detach().numpy()[6:]).all()
    assert (b.y.weight.numpy() == a.whole.weight.detach().numpy()[:6].T).all()


def test_parts_in_groups():
    a, b = scrambled(theirs(whole=tlinear(4, 9))), ours(x=plinear(4, 3), y=plinear(4, 6))
    padiff_shim.transfer_weights(a, b, rules=[("whole", split("x", "y", groups=3))])
    rows = a.whole.weight.detach().numpy().reshape(3, 3, 4)
    assert (rows[:, 0] == b.x.weight.numpy().T).all()
    assert (rows[:, 1:].reshape(6, 4) == b.y.weight.numpy().T).all()
    with pytest.raises(padiff_shim.ArgumentError, match=r"3, 6 rows .* 2 groups"):
        match(a, b, rules=[("whole", split("x", "y", groups=2))])


def test_values_of_two_sources_for_one_place_are_refused():
    a, b = scrambled(theirs(x=tlinear(4, 4), y=tlinear(4, 4))), ours(one=plinear(4, 4), other=plinear(4, 4))
    b.other.weight = b.one.weight
    with pytest.raises(padiff_shim.TransferError, match="different values"):
        padiff_shim.transfer_weights(a, b)
    with torch.no_grad():
        a.y.weight.copy_(a.x.weight)
    padiff_shim.transfer_weights(a, b)
    assert np.array_equal(b.one.weight.numpy().T, a.x.weight.detach().numpy())
