"""Experts: stacked into one weight on one side, a list of layers on the other."""

import numpy as np
import paddle
import paddle.nn as pnn
import pytest
import torch
import torch.nn as tnn
from layer_pairs import scrambled, scrambled_paddle

import padiff_shim
from padiff_shim.weights import gate_up, match, split, stack, unstack

pytestmark = pytest.mark.compat

EXPERTS, WIDTH = 4, 8
X = np.random.default_rng(0).standard_normal((2, 5, WIDTH)).astype("float32")


class Stacks(tnn.Module):
    """[experts, 2 * inner, width] and [experts, width, inner]; ``turned``: with the last two axes exchanged."""

    def __init__(self, inner, turned=False, biases=False):
        super().__init__()
        shapes = {"gate_up_proj": (2 * inner, WIDTH), "down_proj": (WIDTH, inner)}
        for name, shape in shapes.items():
            setattr(self, name, tnn.Parameter(torch.randn(EXPERTS, *(shape[::-1] if turned else shape))))
            if biases:
                setattr(self, f"{name}_bias", tnn.Parameter(torch.randn(EXPERTS, shape[0])))
        self.turned, self.biases = turned, biases

    def forward(self, x, expert):
        def linear(name, x):
            weight = getattr(self, name)[expert]
            bias = getattr(self, f"{name}_bias")[expert] if self.biases else 0.0
            return x @ (weight if self.turned else weight.T) + bias

        gate, up = linear("gate_up_proj", x).chunk(2, -1)
        return linear("down_proj", tnn.functional.silu(gate) * up)


class TorchMixture(tnn.Module):
    def __init__(self, *args, **options):
        super().__init__()
        self.gate, self.experts = tnn.Linear(WIDTH, EXPERTS, bias=False), Stacks(*args, **options)

    def forward(self, x):
        shares = torch.softmax(self.gate(x), -1)
        return sum(shares[..., expert : expert + 1] * self.experts(x, expert) for expert in range(EXPERTS))


class Expert(pnn.Layer):
    """One of a list: gate and up in one layer (in an order) or in two."""

    def __init__(self, inner, order="gate, up", name="up_gate_proj", bias=False):
        super().__init__()
        bias = None if bias else False
        self.order, self.name = order, name
        if name:
            self.add_sublayer(name, pnn.Linear(WIDTH, 2 * inner, bias_attr=bias))
        else:
            self.up_proj, self.gate_proj = (pnn.Linear(WIDTH, inner, bias_attr=bias) for _ in range(2))
        self.down_proj = pnn.Linear(inner, WIDTH, bias_attr=bias)

    def forward(self, x):
        if self.name:
            gate, up = getattr(self, self.name)(x).chunk(2, -1)
            gate, up = (gate, up) if self.order == "gate, up" else (up, gate)
        else:
            gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(pnn.functional.silu(gate) * up)


class PaddleMixture(pnn.Layer):
    def __init__(self, *args, **options):
        super().__init__()
        self.gate = pnn.Linear(WIDTH, EXPERTS, bias_attr=False)
        self.experts = pnn.LayerList([Expert(*args, **options) for _ in range(EXPERTS)])

    def forward(self, x):
        shares = pnn.functional.softmax(self.gate(x))
        return sum(shares[..., number : number + 1] * expert(x) for number, expert in enumerate(self.experts))


def agree(module, layer):
    ours, theirs = layer(paddle.to_tensor(X)).numpy(), module(torch.from_numpy(X)).detach().numpy()
    return np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()


@pytest.mark.rows(6)
@pytest.mark.parametrize("biases", [False, True], ids=["", "biases"])
@pytest.mark.parametrize("turned", [False, True], ids=["out in", "in out"])
@pytest.mark.parametrize("order", ["gate, up", "up, gate", "in two"])
@pytest.mark.parametrize("inner", [3, 4, 8], ids=["no square", "2 * inner is width", "inner is width"])
def test_experts_are_found(inner, order, turned, biases):
    """With 4 the matrices of gate and up are square, with 8 those of down: nothing but their use tells how they lie."""
    module = scrambled(TorchMixture(inner, turned, biases))
    layer = PaddleMixture(inner, order, "" if order == "in two" else "up_gate_proj", bias=biases)
    mapping = padiff_shim.transfer_weights(module, layer)
    assert agree(module, layer), str(mapping)
    assert mapping.check(module, layer)
    assert "stacked" in str(mapping)
    padiff_shim.transfer_weights(scrambled_paddle(layer), module)
    assert agree(module, layer)


def of_experts(model):
    """The experts alone, which have no program of the whole."""
    return (
        tnn.ModuleDict({"experts": model.experts}) if isinstance(model, tnn.Module) else pnn.LayerDict({"experts": model.experts})
    )


def test_what_nothing_decides_is_refused_with_what_to_write():
    module, layer = scrambled(TorchMixture(3)), PaddleMixture(3, "up, gate")
    with pytest.raises(padiff_shim.TransferError) as caught:
        padiff_shim.transfer_weights(of_experts(module), of_experts(layer))
    message = str(caught.value)
    assert "nothing tells how experts.gate_up_proj holds" in message
    assert "gate and up in one order or stacked; gate and up exchanged" in message
    rule = "unstack('experts.{}.up_gate_proj', inner=gate_up('gate, up', 'up, gate'))"
    assert f"rules=[('experts.gate_up_proj', {rule})]" in message
    rules = [("experts.gate_up_proj", eval(rule, {"unstack": unstack, "gate_up": gate_up}))]
    padiff_shim.transfer_weights(of_experts(module), of_experts(layer), rules=rules)
    layer.gate.weight.set_value(module.gate.weight.detach().numpy().T)
    assert agree(module, layer)


def test_rules():
    """What is named is done, with other names and without any program."""
    module, layer = scrambled(TorchMixture(3)), PaddleMixture(3, name="w13")
    rules = [("experts.gate_up_proj", unstack(*(f"experts.{number}.w13.weight" for number in range(EXPERTS))))]
    padiff_shim.transfer_weights(of_experts(module), of_experts(layer), rules=rules)
    layer.gate.weight.set_value(module.gate.weight.detach().numpy().T)
    assert agree(module, layer)
    layer = PaddleMixture(3, name="")
    rules = [("experts.gate_up_proj", stack(split("experts.{}.gate_proj", "experts.{}.up_proj")))]
    padiff_shim.transfer_weights(scrambled_paddle(layer), module, rules=rules)
    assert agree(module, layer)


def test_split_of_a_stack_is_unstack():
    module, layer = scrambled(TorchMixture(3)), PaddleMixture(3)
    rules = [
        ("experts.gate_up_proj", split(*(f"experts.{number}.up_gate_proj.weight" for number in range(EXPERTS)))),
        ("experts.down_proj", split(*(f"experts.{number}.down_proj.weight" for number in range(EXPERTS)))),
    ]
    padiff_shim.transfer_weights(of_experts(module), of_experts(layer), rules=rules)
    layer.gate.weight.set_value(module.gate.weight.detach().numpy().T)
    assert agree(module, layer)


def test_rules_of_all_layers():
    module = tnn.ModuleList([scrambled(TorchMixture(3, biases=True)) for _ in range(2)])
    layer = pnn.LayerList([PaddleMixture(3, name="w13", bias=True) for _ in range(2)])
    rules = [("*.experts.gate_up_proj", unstack("*.experts.{}.w13")), ("*.experts.gate_up_proj_bias", unstack("*.experts.{}.w13"))]
    padiff_shim.transfer_weights(module, layer, rules=rules)
    assert all(map(agree, module, layer))


def test_a_square_stack_in_a_rule_needs_a_word():
    module, layer = scrambled(TorchMixture(4, turned=True)), PaddleMixture(4, name="w13")
    with pytest.raises(padiff_shim.ArgumentError, match=r"may be .out, in. or .in, out.; say transposed=False or transposed=True"):
        match(module, layer, rules=[("experts.gate_up_proj", unstack("experts.{}.w13"))])
    padiff_shim.transfer_weights(module, layer, rules=[("experts.gate_up_proj", unstack("experts.{}.w13", transposed=True))])
    assert agree(module, layer)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (lambda: unstack("experts.{}.nothing"), "unknown weight of the Paddle model 'experts.0.nothing'"),
        (lambda: unstack("experts.{}.down_proj"), r"is \[8, 3\] where \[6, 8\] is its share"),
        (lambda: unstack("experts.0.up_gate_proj", "experts.1.up_gate_proj"), r"is \[4, 6, 8\], a stack of 2 weights"),
        (lambda: unstack("experts.*.up_gate_proj"), "needs {} once in each name"),
        (lambda: unstack(), "take names of weights"),
        (lambda: unstack("experts.{}.up_gate_proj", inner=3), "inner= is what gate_up or qkv give"),
        (lambda: unstack("experts.{}.up_gate_proj", transposed=3), "transposed= is True, False or None, got 3"),
        (lambda: split("experts.0.up_gate_proj", "experts.1.up_gate_proj"), r"no part of \[4, 6, 8\] along 0"),
        (lambda: split("experts.0.up_gate_proj.weight", "gate.weight"), r"is \[4, 6, 8\], a stack of 2 weights"),
    ],
)
def test_rules_that_cannot_be(rule, words):
    with pytest.raises(padiff_shim.ArgumentError, match=words):
        match(TorchMixture(3), PaddleMixture(3), rules=[("experts.gate_up_proj", rule())])


def test_stacks_on_both_sides_by_name_and_shape():
    """[in, out] against [out, in]."""

    class PaddleStacks(pnn.Layer):
        def __init__(self):
            super().__init__()
            self.gate_up_proj = self.create_parameter([EXPERTS, WIDTH, 6])
            self.down_proj = self.create_parameter([EXPERTS, 3, WIDTH])

    module, layer = Stacks(3), PaddleStacks()
    mapping = padiff_shim.transfer_weights(module, layer)
    assert (layer.gate_up_proj.numpy() == module.gate_up_proj.detach().numpy().swapaxes(1, 2)).all()
    assert {pair.transform for pair in mapping} == {"transposed"}
