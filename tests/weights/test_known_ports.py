"""Trees as well-known pairs of models have them: other names, other nesting, fused projections, one class per framework."""

import random
import sys
from pathlib import Path

import numpy as np
import paddle.nn as pnn
import pytest
import torch
import torch.nn as tnn
from layer_pairs import scrambled
from trees import ours, theirs

import padiff_shim

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from zoo import PAIRS, pairs

pytestmark = pytest.mark.compat

D, WIDE, WORDS, LAYERS = 8, 16, 11, 2


def tnorm():
    return tnn.LayerNorm(D)


class Conv1D(tnn.Module):
    def __init__(self, nf, nx):
        super().__init__()
        self.weight, self.bias = tnn.Parameter(torch.empty(nx, nf)), tnn.Parameter(torch.zeros(nf))

    def forward(self, x):
        return x @ self.weight + self.bias


def gpt2_attention(attn, x):
    q, k, v = (part.unflatten(-1, (2, D // 2)).transpose(1, 2) for part in attn.c_attn(x).chunk(3, -1))
    return attn.c_proj(tnn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def torch_gpt2():
    def block():
        attn = theirs(gpt2_attention, c_attn=Conv1D(3 * D, D), c_proj=Conv1D(D, D), drop=tnn.Dropout())
        return theirs(ln_1=tnorm(), attn=attn, ln_2=tnorm(), mlp=theirs(c_fc=Conv1D(WIDE, D), c_proj=Conv1D(D, WIDE)))

    transformer = theirs(wte=tnn.Embedding(WORDS, D), wpe=tnn.Embedding(WORDS, D),
                         h=tnn.ModuleList(block() for _ in range(LAYERS)), ln_f=tnorm())  # fmt: skip
    model = theirs(transformer=transformer, lm_head=tnn.Linear(D, WORDS, bias=False))
    model.lm_head.weight = model.transformer.wte.weight
    return model


def paddle_gpt2():
    embeddings = ours(word_embeddings=pnn.Embedding(WORDS, D), position_embeddings=pnn.Embedding(WORDS, D))
    layers = pnn.LayerList([pnn.TransformerEncoderLayer(D, 2, WIDE) for _ in range(LAYERS)])
    return ours(gpt=ours(embeddings=embeddings, decoder=ours(layers=layers, norm=pnn.LayerNorm(D))))


def test_gpt2():
    a, b = torch_gpt2(), paddle_gpt2()
    mapping = padiff_shim.transfer_weights(scrambled(a), b)
    fused = a.transformer.h[1].attn.c_attn.weight.detach().numpy()
    attention = b.gpt.decoder.layers[1].self_attn
    for place, projection in enumerate((attention.q_proj, attention.k_proj, attention.v_proj)):
        assert np.array_equal(projection.weight.numpy(), fused[:, place * D : place * D + D])
    assert {
        "transformer.wte": "gpt.embeddings.word_embeddings", "transformer.wpe": "gpt.embeddings.position_embeddings",
        "transformer.h.0.ln_2": "gpt.decoder.layers.0.norm2", "transformer.h.0.attn": "gpt.decoder.layers.0.self_attn",
        "transformer.h.0.attn.c_proj": "gpt.decoder.layers.0.self_attn.out_proj",
        "transformer.h.0.mlp.c_proj": "gpt.decoder.layers.0.linear2", "transformer.ln_f": "gpt.decoder.norm",
    }.items() <= mapping.layers.items()  # fmt: skip
    padiff_shim.transfer_weights(b, scrambled(a, 1))
    assert mapping.check(a, b)


def gated(mlp, x):
    return mlp.down_proj(tnn.functional.silu(mlp.gate_proj(x)) * mlp.up_proj(x))


def gated_at_once(mlp, x):
    gate, up = mlp.gate_up_fused_proj(x).chunk(2, -1)
    return mlp.down_proj(pnn.functional.silu(gate) * up)


def llama(base, linear, embedding, norm, listed, fused):
    def bare(*sizes):
        return linear(*sizes, **({"bias": False} if base is theirs else {"bias_attr": False}))

    def block():
        attention = base(**{f"{letter}_proj": bare(D, D) for letter in "qkvo"})
        if fused:
            mlp = base(gated_at_once, gate_up_fused_proj=bare(D, 2 * WIDE), down_proj=bare(WIDE, D))
        else:
            mlp = base(gated, gate_proj=bare(D, WIDE), up_proj=bare(D, WIDE), down_proj=bare(WIDE, D))
        return base(self_attn=attention, mlp=mlp, input_layernorm=norm(D), post_attention_layernorm=norm(D))

    model = base(embed_tokens=embedding(WORDS, D), layers=listed([block() for _ in range(LAYERS)]), norm=norm(D))
    return base(model=model, lm_head=bare(D, WORDS))


def test_llama_with_gate_and_up_in_one():
    a = llama(theirs, tnn.Linear, tnn.Embedding, tnn.LayerNorm, tnn.ModuleList, fused=False)
    b = llama(ours, pnn.Linear, pnn.Embedding, pnn.LayerNorm, pnn.LayerList, fused=True)
    mapping = padiff_shim.transfer_weights(scrambled(a), b)
    whole, mlp = b.model.layers[1].mlp.gate_up_fused_proj.weight.numpy(), a.model.layers[1].mlp
    assert np.array_equal(whole[:, :WIDE], mlp.gate_proj.weight.detach().numpy().T)
    assert np.array_equal(whole[:, WIDE:], mlp.up_proj.weight.detach().numpy().T)
    assert mapping.layers["model.layers.0.mlp"] == "model.layers.0.mlp"
    assert mapping.check(a, b)


def renamed(layer, number):
    """Give every layer and parameter of the user's own a name that says nothing; {old name: new name} of all weights."""
    own = type(layer).__module__.startswith("zoo")
    layers = {}
    for name, weight in (*layer._parameters.items(), *layer._buffers.items()):
        layers[name] = f"z{next(number)}" if own and weight is not None else name
    if own:
        for name in list(layer._parameters):
            layer._parameters[layers[name]] = layer._parameters.pop(name)
    for name, child in list(layer._sub_layers.items()):
        del layer._sub_layers[name]
        new = f"z{next(number)}" if own else name
        layer._sub_layers[new] = child
        layers |= {f"{name}.{old}": f"{new}.{other}" for old, other in renamed(child, number).items()}
    return layers


@pytest.mark.rows(2)
@pytest.mark.parametrize("name", [name for name in PAIRS if name != "minilm"])
def test_names_that_say_nothing(name):
    pair = pairs.build(name, "float32")
    wanted = {match.torch: match.paddle for match in padiff_shim.weights.match(pair.torch, pair.paddle)}
    table = renamed(pair.paddle, iter(range(10_000)))
    mapping = padiff_shim.weights.match(pair.torch, pair.paddle)
    assert mapping
    assert {match.torch: match.paddle for match in mapping} == {torch_name: table[old] for torch_name, old in wanted.items()}


def leaves(layer, path=""):
    """(path, layer) of all layers that are no containers of the user's own, in order of construction."""
    children = [(name, child) for name, child in layer._sub_layers.items() if child is not None]
    if not children or not (type(layer).__module__.startswith("zoo") or type(layer).__name__ in ("LayerList", "Sequential")):
        return [(path, layer)]
    return [leaf for name, child in children for leaf in leaves(child, f"{path}.{name}" if path else name)]


def nested(layers, rng, table, prefix=""):
    """The same layers in the same order in a tree of its own; the table says where each of them is now."""
    layer, place = pnn.Layer(), 0
    while place < len(layers):
        size = 1 if prefix.count(".") > 3 or rng.random() < 0.4 else rng.randint(2, max(2, len(layers) // 2))
        name, group = f"z{len(layer._sub_layers)}", layers[place : place + size]
        place += size
        if len(group) == 1:
            layer.add_sublayer(name, group[0][1])
            table[group[0][0]] = prefix + name
        else:
            layer.add_sublayer(name, nested(group, rng, table, f"{prefix}{name}."))
    return layer


@pytest.mark.rows(7)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["resnet", "unet", "gpt", "bert", "gan"])
def test_any_nesting_in_the_same_order(name, seed):
    pair, table = pairs.build(name, "float32"), {}
    wanted = {match.torch: match.paddle for match in padiff_shim.weights.match(pair.torch, pair.paddle)}
    other = nested(leaves(pair.paddle), random.Random(seed), table)
    mapping = padiff_shim.weights.match(pair.torch, other)
    assert mapping
    for match in mapping:
        path, _, last = wanted[match.torch].rpartition(".")
        assert match.paddle == f"{table[path]}.{last}"
