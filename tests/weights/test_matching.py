"""Which layers and weights belong together, in trees that differ in names, order, nesting and shapes."""

import numpy as np
import paddle.nn as pnn
import pytest
import torch
import torch.nn as tnn
from trees import ours, plinear, theirs, tlinear

import padiff_shim
from padiff_shim.weights import match

pytestmark = pytest.mark.compat


def weights(mapping):
    """{Torch's name: Paddle's} of the weights, without biases."""
    return {pair.torch: pair.paddle for pair in mapping if pair.torch.endswith("weight")}


def test_the_same_names_in_another_order():
    mapping = match(theirs(a=tlinear(4, 4), b=tlinear(4, 4)), ours(b=plinear(4, 4), a=plinear(4, 4)))
    assert mapping.layers == {"": "", "a": "a", "b": "b"}
    assert all("another order" in pair.note for pair in mapping)


def test_numbers_that_begin_elsewhere():
    mapping = match(theirs(conv1=tnn.Conv2d(3, 3, 1), conv2=tnn.Conv2d(3, 3, 1)),
                    ours(conv0=pnn.Conv2D(3, 3, 1), conv1=pnn.Conv2D(3, 3, 1)))  # fmt: skip
    assert mapping.layers == {"": "", "conv1": "conv0", "conv2": "conv1"}


def test_words_for_the_same_thing_in_another_order():
    names = ("query", "key", "value", "dense")
    mapping = match(theirs(**{name: tlinear(4, 4) for name in names}),
                    ours(**{f"{name}_proj": plinear(4, 4) for name in ("out", "v", "k", "q")}))  # fmt: skip
    assert mapping.layers == {"": "", "query": "q_proj", "key": "k_proj", "value": "v_proj", "dense": "out_proj"}


def test_shapes_count_more_than_names():
    mapping = match(theirs(a=tlinear(4, 3), b=tlinear(3, 4)), ours(b=plinear(4, 3), a=plinear(3, 4)))
    assert mapping.layers == {"": "", "a": "b", "b": "a"}


def test_square_weights_are_transposed_by_the_type_of_their_layer():
    mapping = match(theirs(fc=tlinear(4, 4), words=tnn.Embedding(4, 4)), ours(fc=plinear(4, 4), words=pnn.Embedding(4, 4)))
    assert {pair.torch: pair.transform for pair in mapping} == {"fc.weight": "transposed", "fc.bias": "", "words.weight": ""}


def test_a_projection_that_holds_three():
    mapping = match(theirs(norm=tnn.LayerNorm(4), attn=theirs(qkv=tlinear(4, 12), proj=tlinear(4, 4))),
                    ours(norm=pnn.LayerNorm(4), q=plinear(4, 4), k=plinear(4, 4), v=plinear(4, 4), out=plinear(4, 4)))  # fmt: skip
    assert mapping
    assert mapping.partner("attn.qkv.weight") == ["q.weight", "k.weight", "v.weight"]
    assert mapping.partner("v.bias") == ["attn.qkv.bias"]
    assert mapping.partner("attn.proj.weight") == ["out.weight"]


def test_another_number_between_the_layers_of_a_sequence():
    mapping = match(tnn.Sequential(tlinear(4, 4), tnn.ReLU(), tlinear(4, 4), tlinear(4, 4)),
                    pnn.Sequential(plinear(4, 4), plinear(4, 4), pnn.ReLU(), plinear(4, 4)))  # fmt: skip
    assert mapping.layers == {"": "", "0": "0", "1": "2", "2": "1", "3": "3"}


def test_lists_by_kind_against_a_list_of_blocks():
    a = theirs(
        convs=tnn.ModuleList(tnn.Conv1d(4, 4, 1) for _ in range(3)), norms=tnn.ModuleList(tnn.LayerNorm(4) for _ in range(3))
    )
    b = ours(blocks=pnn.LayerList([ours(conv=pnn.Conv1D(4, 4, 1), norm=pnn.LayerNorm(4)) for _ in range(3)]))
    mapping = match(a, b)
    assert mapping
    assert all(mapping.layers[f"{kind}s.{place}"] == f"blocks.{place}.{kind}" for kind in ("conv", "norm") for place in range(3))


def test_a_layer_that_belongs_to_another_parent():
    mapping = match(theirs(encoder=theirs(fc=tlinear(4, 4), pooler=tlinear(4, 3))),
                    ours(encoder=ours(fc=plinear(4, 4)), pooler=plinear(4, 3)))  # fmt: skip
    assert mapping
    assert mapping.layers["encoder.pooler"] == "pooler"


class TorchBare(tnn.Module):
    def __init__(self):
        super().__init__()
        self.cls_token = tnn.Parameter(torch.ones(1, 1, 4))
        self.pos_embed = tnn.Parameter(torch.ones(1, 5, 4))
        self.square = tnn.Parameter(torch.ones(4, 4))
        self.wide = tnn.Parameter(torch.ones(3, 4))
        self.fc = tlinear(4, 4)


class PaddleBare(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.pos = self.create_parameter([1, 5, 4])
        self.cls = self.create_parameter([1, 1, 4])
        self.square = self.create_parameter([4, 4])
        self.wide = self.create_parameter([4, 3])
        self.fc = plinear(4, 4)


def test_bare_parameters():
    mapping = match(TorchBare(), PaddleBare())
    assert mapping
    assert {pair.torch: (pair.paddle, pair.transform) for pair in mapping} == {
        "cls_token": ("cls", ""), "pos_embed": ("pos", ""), "square": ("square", ""), "wide": ("wide", "transposed"),
        "fc.weight": ("fc.weight", "transposed"), "fc.bias": ("fc.bias", ""),
    }  # fmt: skip
    assert {pair.torch for pair in mapping if pair.note} >= {"square", "wide"}


class Conv1D(tnn.Module):
    """As the class of that name in transformers: the weight is [in, out]."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = tnn.Parameter(torch.empty(nx, nf))
        self.bias = tnn.Parameter(torch.zeros(nf))


def test_the_linear_of_gpt2_is_not_transposed():
    mapping = match(theirs(c_attn=Conv1D(4, 4)), ours(attn=plinear(4, 4)))
    assert [pair.transform for pair in mapping] == ["", ""]


def test_layers_without_weights_are_paired_by_type_and_place():
    a = tnn.Sequential(tnn.Conv2d(3, 4, 1), tnn.BatchNorm2d(4), tnn.SiLU(), tnn.MaxPool2d(2), tnn.Flatten(), tlinear(4, 2))
    b = pnn.Sequential(pnn.Conv2D(3, 4, 1), pnn.BatchNorm2D(4), pnn.Silu(), pnn.MaxPool2D(2), pnn.Flatten(), plinear(4, 2))
    assert match(a, b).layers == {"": "", **{str(place): str(place) for place in range(6)}}


def test_constants_of_the_code_need_no_partner():
    a, b = theirs(fc=tlinear(4, 4)), ours(fc=plinear(4, 4))
    a.register_buffer("index", torch.arange(4))
    a.register_buffer("mask", torch.ones(4), persistent=False)
    assert match(a, b)
    a.register_buffer("scale", torch.ones(4))
    mapping = match(a, b)
    assert not mapping
    assert mapping.unmatched_src == ["scale"]


def test_the_answer_is_the_same_from_the_other_side():
    a, b = theirs(first=tlinear(4, 3), second=tlinear(3, 4)), ours(one=plinear(4, 3), two=plinear(3, 4))
    forth, back = match(a, b), match(b, a)
    assert (forth.src, back.src) == ("torch", "paddle")
    assert weights(forth) == weights(back)
    assert forth.layers == back.layers


class _WithLinear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.gate = torch.nn.Parameter(torch.tensor(2.5)), torch.nn.Parameter(torch.randn(8))
        self.up, self.down, self.last = torch.nn.Linear(8, 8), torch.nn.Conv1d(8, 4, 1), torch.nn.Linear(4, 4)


class _WithConvolution(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.scale, self.gate = self.create_parameter([1]), self.create_parameter([1, 1, 8])
        self.up, self.down, self.last = pnn.Linear(8, 8), pnn.Linear(8, 4), pnn.Conv2D(4, 4, 1)


@pytest.mark.parametrize("back", [False, True])
def test_shapes_that_differ_in_axes_of_one_alone(back):
    """A Linear and a 1x1 convolution, a number and a vector of one."""
    module, layer = _WithLinear(), _WithConvolution()
    mapping = padiff_shim.transfer_weights(layer, module) if back else padiff_shim.transfer_weights(module, layer)
    assert mapping.check(module, layer)
    assert np.array_equal(layer.last.weight.numpy()[:, :, 0, 0], module.last.weight.detach().numpy())
    assert np.array_equal(layer.down.weight.numpy().T, module.down.weight.detach().numpy()[:, :, 0])
    assert layer.scale.numpy().shape == (1,)
    assert any("down.weight" in remark and "last.weight" in remark for remark in mapping.remarks())


def test_other_shapes_stay_apart():
    with pytest.raises(padiff_shim.TransferError):
        padiff_shim.transfer_weights(torch.nn.Linear(8, 4), pnn.Conv2D(8, 4, 3))
