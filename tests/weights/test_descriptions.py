"""Models that describe how their weights lie: AOA statements of Paddle, name mappings of paddlenlp."""

import copy
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import paddle
import paddle.nn as pnn
import pytest
import torch
import torch.nn as tnn
from layer_pairs import scrambled, scrambled_paddle
from test_fused_layouts import GROUPS, HEADS, WIDTH, Apart, AtOnce, agree, grouped, plain
from trees import ours, plinear, theirs, tlinear

import padiff_shim
from padiff_shim.weights import match

pytestmark = pytest.mark.compat

try:
    import paddle.distributed.flex_checkpoint.aoa
except ImportError:
    READS = False
else:
    READS = True
reads = pytest.mark.skipif(not READS, reason="this Paddle has no engine for AOA statements")

GROUP = f"fused_qkv, num_heads={HEADS}, num_key_value_groups={GROUPS}"
STATEMENTS = [
    f"q_proj.weight^T, k_proj.weight^T, v_proj.weight^T -> qkv_proj.weight, {GROUP}",
    f"q_proj.bias, k_proj.bias, v_proj.bias -> qkv_proj.bias, {GROUP}, axis=0",
]


class Describing(AtOnce):
    """As every PaddleFormers model does."""

    config = SimpleNamespace(prefix="")
    calls = 0

    @classmethod
    def _gen_aoa_config(cls, config):
        cls.calls += 1
        statements = [line.replace(" -> ", f" -> {config.prefix}") for line in STATEMENTS]
        return {"aoa_statements": [*statements, "nothing.of.this.kind.weight -> nothing.weight"]}


@pytest.mark.skipif(READS, reason="this Paddle reads them")
def test_a_paddle_that_cannot_read_statements_says_so():
    with pytest.raises(padiff_shim.ArgumentError, match=r"AOA statements are read by Paddle's own engine .* does not have"):
        match(Apart(), AtOnce(grouped), rules=STATEMENTS)
    module, layer = scrambled(Apart()), Describing(grouped)
    padiff_shim.transfer_weights(module, layer)  # its use tells
    assert agree(module, layer)


@reads
def test_statements():
    module, layer = scrambled(Apart()), AtOnce(plain)  # a use would tell something else: the statements count
    mapping = padiff_shim.transfer_weights(module, layer, rules=STATEMENTS)
    assert not mapping.choices
    assert mapping.check(module, layer)
    layer.taken = grouped
    assert agree(module, layer)
    assert mapping.notes == ["2 weights as rules= say"]
    assert [pair.note for pair in mapping].count("as its description says") == 6  # a pair for each part, however many heads
    module = Apart()
    padiff_shim.transfer_weights(scrambled_paddle(layer), module, rules=STATEMENTS)
    assert agree(module, layer)


@reads
@pytest.mark.parametrize("way", ["found", "the model", "its class", "in a list"])
def test_a_model_that_describes_itself(way):
    module, layer = scrambled(Apart()), Describing(grouped)
    rules = {"found": None, "the model": layer, "its class": Describing, "in a list": [layer, ("**", None)][:1]}[way]
    mapping = padiff_shim.transfer_weights(module, layer, rules=rules)
    assert agree(module, layer)
    assert not mapping.choices
    assert mapping.notes == ["2 weights as Describing._gen_aoa_config says"]


@reads
@pytest.mark.parametrize("depth", [1, 2])
def test_a_model_in_another_describes_its_own_weights(depth):
    module, layer = scrambled(Apart()), Describing(grouped)
    whole, port = module, layer
    for _ in range(depth):
        whole, inner, port = theirs(lm=whole, head=tlinear(4, 4)), port, pnn.Layer()
        port.lm, port.head = inner, plinear(4, 4)
    mapping = padiff_shim.transfer_weights(whole, port)
    assert agree(module, layer)
    assert mapping.notes == ["2 weights as Describing._gen_aoa_config says"]


@reads
def test_a_description_is_not_needed_where_types_and_names_tell():
    """It may be another one's."""

    class Simple(pnn.Layer):
        def __init__(self):
            super().__init__()
            self.fc = plinear(4, 4)

        @classmethod
        def _gen_aoa_config(cls, config):
            raise AssertionError

    mapping = match(theirs(fc=tlinear(4, 4)), Simple())
    assert mapping
    assert not mapping.notes


@reads
@pytest.mark.parametrize("wrong", ["a config that lacks something", "no names of these models", "a statement that fails"])
def test_a_description_that_does_not_help_is_a_note(wrong):
    module = scrambled(Apart())

    class Other(AtOnce):
        config = SimpleNamespace() if wrong == "a config that lacks something" else SimpleNamespace(prefix="")

        @classmethod
        def _gen_aoa_config(cls, config):
            assert config.prefix == ""
            if wrong == "no names of these models":
                return {"aoa_statements": ["x.weight -> y.weight"]}
            return {"aoa_statements": [STATEMENTS[0].replace("groups=2", "groups=3"), STATEMENTS[1]]}

    layer = Other(grouped)
    mapping = padiff_shim.transfer_weights(module, layer)
    assert agree(module, layer)
    if wrong != "a statement that fails":
        assert any("not used: " in note for note in mapping.notes)
        with pytest.raises(padiff_shim.ArgumentError, match="AttributeError" if "lacks" in wrong else "name no weight"):
            match(module, layer, rules=layer)


@reads
def test_names_of_the_checkpoint():
    """With the prefix that a model has in it, and without one; as PaddleFormers writes them for a model and its base."""
    module, layer = scrambled(Apart()), Describing(grouped)
    whole, inside = tnn.ModuleDict({"model": module}), pnn.LayerDict({"model": layer})
    lines = ["model." + line.replace(", k", ", model.k").replace(", v", ", model.v") for line in STATEMENTS]
    for source, target, statements in (
        (module, layer, lines),
        (whole, inside, STATEMENTS),
        (whole, layer, lines),
        (module, inside, [line.replace("-> ", "-> model.") for line in lines]),
    ):
        padiff_shim.transfer_weights(source, target, rules=statements)
        assert agree(module, layer)


@reads
def test_layers_by_number_and_what_has_no_counterpart():
    module = theirs(layers=tnn.ModuleList([scrambled(Apart()) for _ in range(2)]), head=tlinear(WIDTH, 3), tail=tlinear(5, 5))
    layer = ours(layers=pnn.LayerList([AtOnce(grouped) for _ in range(2)]), head=plinear(WIDTH, 3), own=plinear(2, 2))
    before = layer.own.weight.numpy().copy()
    lines = [line.replace("_proj.", "_proj.").replace("qkv_proj", "layers.$LAYER_ID.qkv_proj") for line in STATEMENTS]
    for letter in "qkv":
        lines = [line.replace(f"{letter}_proj.weight^T", f"layers.$LAYER_ID.{letter}_proj.weight^T") for line in lines]
        lines = [line.replace(f"{letter}_proj.bias,", f"layers.$LAYER_ID.{letter}_proj.bias,") for line in lines]
    lines = [line.replace("v_proj.bias ->", "layers.$LAYER_ID.v_proj.bias ->") for line in lines]
    rules = [*lines, ("tail", None), "_ -> own.weight", "_ -> own.bias"]
    mapping = padiff_shim.transfer_weights(module, layer, rules=rules)
    assert all(map(agree, module.layers, layer.layers))
    assert (layer.own.weight.numpy() == before).all()
    assert any("rules= says: own.weight, own.bias" in note for note in mapping.notes)
    assert (layer.head.weight.numpy() == module.head.weight.detach().numpy().T).all()  # what no statement says is found as ever


@reads
def test_statements_from_the_right_to_the_left():
    """``aoa_config_reverse``: from the model back to the checkpoint's names."""

    class Reversed(AtOnce):
        config = None

        @classmethod
        def _gen_aoa_config(cls, config):
            return {"aoa_statements": STATEMENTS[1:], "aoa_config_reverse": True}

    module, layer = scrambled(Apart()), scrambled_paddle(Reversed(grouped))
    mapping = match(layer, module, rules=[Reversed, ("qkv_proj.weight", None), ("*_proj.weight", None)])
    assert {(pair.torch, pair.paddle) for pair in mapping if "bias" in pair.torch} == {
        *((f"{letter}_proj.bias", "qkv_proj.bias") for letter in "qkv"),
        ("o_proj.bias", "o_proj.bias"),
    }


@reads
def test_a_stack_by_the_names_of_its_experts():
    """As PaddleFormers writes them for checkpoints in which experts are apart; transformers 5 stacks them as it loads them."""
    experts, width, inner = 3, 4, 5
    module = theirs(experts=tnn.Module())
    module.experts.gate_up_proj = tnn.Parameter(torch.randn(experts, 2 * inner, width))
    module.experts.down_proj = tnn.Parameter(torch.randn(experts, width, inner))
    layer = ours(
        experts=pnn.LayerList(
            [
                ours(both=plinear(width, 2 * inner, bias_attr=False), back=plinear(inner, width, bias_attr=False))
                for _ in range(experts)
            ]
        )
    )
    lines = [
        "experts.$EXPERT_ID.up_proj.weight^T, experts.$EXPERT_ID.gate_proj.weight^T -> experts.$EXPERT_ID.both.weight, axis=1",
        "experts.$EXPERT_ID.down_proj.weight^T -> experts.$EXPERT_ID.back.weight",
    ]
    padiff_shim.transfer_weights(module, layer, rules=lines)
    for number, expert in enumerate(layer.experts):
        gate, up = module.experts.gate_up_proj[number].detach().numpy().reshape(2, inner, width)
        assert (expert.both.weight.numpy() == np.concatenate([up, gate]).T).all()
        assert (expert.back.weight.numpy() == module.experts.down_proj[number].detach().numpy().T).all()


@reads
def test_a_dtype_of_a_statement_is_a_cast():
    module, layer = theirs(fc=tlinear(3, 2).double()), ours(fc=plinear(3, 2))
    with pytest.raises(padiff_shim.TransferError, match="rounded"):
        padiff_shim.transfer_weights(module, layer, rules=["fc.weight^T -> fc.weight", "fc.bias -> fc.bias"])
    lines = ["fc.weight^T -> fc.w", "fc.w -> fc.weight, dtype='float32'", "fc.bias -> fc.bias, dtype='bfloat16'"]
    padiff_shim.transfer_weights(module, layer, rules=lines)
    assert (layer.fc.weight.numpy() == module.fc.weight.detach().float().numpy().T).all()
    assert (layer.fc.bias.numpy() == module.fc.bias.detach().bfloat16().float().numpy()).all()


@reads
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("q_proj.weight^T, nothing.weight^T -> qkv_proj.weight, axis=1", "nothing.weight should be assigned before"),
        ("q_proj.weight -> qkv_proj.weight", r"it makes qkv_proj.weight \[12, 12\], which is \[12, 24\]"),
        ("q_proj.weight -> qkv_proj.weight, axle=1", "cannot be applied"),
        ("q_proj.weight -> -> qkv_proj.weight", "cannot be applied"),
        ("nothing.weight -> else.weight", "name no weight of these two models"),
    ],
)
def test_statements_that_cannot_be(line, words):
    rules = [line] if "nothing.weight ->" in line else [STATEMENTS[1], line]
    with pytest.raises(padiff_shim.ArgumentError, match=words) as caught:
        match(Apart(), AtOnce(), rules=rules)
    assert "nothing.weight ->" in line or f"statement {line!r}" in str(caught.value)


def test_a_rule_that_is_no_statement():
    with pytest.raises(padiff_shim.ArgumentError, match=r"AOA statements .with '->'. and models that describe their weights"):
        match(Apart(), AtOnce(), rules=["q_proj.weight"])


# -- name mappings


@dataclass
class NameMapping:
    """One of paddlenlp's StateDictNameMapping."""

    source_name: str
    target_name: str
    action: object = None
    index: object = None


class Named(pnn.Layer):
    """As models of paddlenlp are: names of another origin, and what is done to the values."""

    def __init__(self, architectures=("NamedModel",)):
        super().__init__()
        self.a, self.b, self.c, self.other = (plinear(4, 4) for _ in range(4))
        self.flat, self.scaled = self.create_parameter([4, 6]), self.create_parameter([5])
        self.config = SimpleNamespace(architectures=architectures and list(architectures))

    @classmethod
    def _get_name_mappings(cls, config):
        prefix = "" if "NamedModel" in config.architectures else "named."
        mappings = [
            *(NameMapping("fused.weight", f"{letter}.weight", "split", place) for place, letter in enumerate("abc")),
            *(NameMapping("fused.bias", f"{letter}.bias", "split", place) for place, letter in enumerate("abc")),
            NameMapping("table", "flat", "merge_last_two_dim"),
            NameMapping("last.weight", "other.weight", "transpose"),
            NameMapping("last.bias", "other.bias"),
            NameMapping("scale", "scaled", lambda array: array[::-1] * np.float32(2)),
            NameMapping("rotary.inv_freq", "rotary.inv_freq"),
        ]
        for mapping in mappings:
            mapping.source_name, mapping.target_name = prefix + mapping.source_name, prefix + mapping.target_name
        return mappings


def original():
    module = theirs(fused=tnn.Module(), last=tlinear(4, 4))
    module.fused.weight, module.fused.bias = tnn.Parameter(torch.randn(4, 12)), tnn.Parameter(torch.randn(12))
    module.table, module.scale = tnn.Parameter(torch.randn(4, 2, 3)), tnn.Parameter(torch.randn(5))
    return module


@pytest.mark.parametrize("architectures", [("NamedModel",), ("NamedForSomething",), None], ids=["base", "with a prefix", "unnamed"])
@pytest.mark.parametrize("explicit", [False, True], ids=["found", "said"])
def test_name_mappings(explicit, architectures):
    module, layer = original(), Named(architectures)
    config = copy.deepcopy(layer.config)
    mapping = padiff_shim.transfer_weights(module, layer, rules=layer if explicit else None)
    for place, letter in enumerate("abc"):
        part = getattr(layer, letter)
        assert (part.weight.numpy() == module.fused.weight.detach().numpy()[:, 4 * place : 4 * place + 4]).all()
        assert (part.bias.numpy() == module.fused.bias.detach().numpy()[4 * place : 4 * place + 4]).all()
    assert (layer.flat.numpy() == module.table.detach().numpy().reshape(4, 6)).all()
    assert (layer.other.weight.numpy() == module.last.weight.detach().numpy().T).all()
    assert (layer.scaled.numpy() == 2 * module.scale.detach().numpy()[::-1]).all()
    assert mapping.check(module, layer)
    assert any("Named._get_name_mappings says" in note for note in mapping.notes)
    assert vars(layer.config) == vars(config)


def test_name_mappings_that_fit_nothing_are_refused():
    with pytest.raises(padiff_shim.ArgumentError, match=r"Named._get_name_mappings names no weights of these two models"):
        match(theirs(x=tlinear(4, 4)), Named(), rules=Named)


def test_a_name_mapping_that_does_not_fit_is_a_note():
    class Wrong(Named):
        @classmethod
        def _get_name_mappings(cls, config):
            return [*super()._get_name_mappings(config)[:-3], NameMapping("scale", "scaled", "transpose")]

    mapping = match(original(), Wrong(), rules=Wrong)
    assert any("scale [5]" in note and "'transpose'" in note for note in mapping.notes)
    assert mapping.partner("scale") == ["scaled"]
    assert paddle.is_tensor(Wrong().scaled)
