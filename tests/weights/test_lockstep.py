"""Trees that are one are matched without a search: what comes out is what the search finds."""

import paddle.nn as pnn
import pytest
import torch.nn as tnn
from layer_pairs import LAYERS
from trees import ours, plinear, theirs, tlinear

from padiff_shim.weights import layer_matching
from padiff_shim.weights.transfer import match


def both_ways(torch_module, paddle_layer, monkeypatch, **options):
    """The mapping, that of the search alone, and whether the first was made without it."""
    mappings, steps = [], []
    walk = layer_matching.equal_trees
    for way in (lambda *arguments: steps.append(walk(*arguments)) or steps[-1], lambda *_: None):
        monkeypatch.setattr(layer_matching, "equal_trees", way)
        mapping = match(torch_module, paddle_layer, **options)
        mappings.append({**mapping.to_dict(), "layers": list(mapping.layers.items())})
    return mappings, steps == [None]


def block(base, linear, norm):
    return base(up=linear(4, 8), down=linear(8, 4), norm=norm(4), again=norm(4))


def of_blocks(side):
    base, linear, norm, listed = (
        (theirs, tlinear, tnn.LayerNorm, tnn.ModuleList) if side == "torch" else (ours, plinear, pnn.LayerNorm, pnn.LayerList)
    )
    return base(words=linear(3, 4), blocks=listed([block(base, linear, norm) for _ in range(3)]), head=linear(4, 3))


def test_a_port_written_after_its_original(monkeypatch):
    (walked, wanted), searched = both_ways(of_blocks("torch"), of_blocks("paddle"), monkeypatch)
    assert walked == wanted
    assert not searched
    assert not walked["unmatched_src"] + walked["unmatched_dst"]


def test_both_directions_and_a_map(monkeypatch):
    (walked, wanted), searched = both_ways(of_blocks("paddle"), of_blocks("torch"), monkeypatch)
    assert walked == wanted
    assert not searched
    (walked, wanted), _ = both_ways(
        of_blocks("torch"), of_blocks("paddle"), monkeypatch, layer_map={"blocks.0.norm": "blocks.1.again"}
    )
    assert walked == wanted


@pytest.mark.parametrize("name", LAYERS)
def test_all_kinds_of_layers(name, monkeypatch):
    pair = LAYERS[name]
    (walked, wanted), _ = both_ways(
        theirs(first=pair.torch_module(), second=pair.torch_module()),
        ours(first=pair.paddle_layer(), second=pair.paddle_layer()),
        monkeypatch,
    )
    assert walked == wanted


@pytest.mark.parametrize(
    ("torch_module", "paddle_layer"),
    [
        # other names, another order, names that say the same, a layer more, another shape, nested otherwise
        (theirs(a=tlinear(2, 2), b=tlinear(2, 2)), ours(a=plinear(2, 2), c=plinear(2, 2))),
        (theirs(a=tlinear(2, 2), b=tlinear(2, 2)), ours(b=plinear(2, 2), a=plinear(2, 2))),
        (theirs(fc=tlinear(2, 2), linear=tlinear(2, 2)), ours(linear=plinear(2, 2), fc=plinear(2, 2))),
        (theirs(a=tlinear(2, 2), b=tlinear(2, 2)), ours(a=plinear(2, 2), b=plinear(2, 2), c=plinear(2, 2))),
        (theirs(a=tlinear(2, 2), b=tlinear(2, 3)), ours(a=plinear(2, 3), b=plinear(2, 2))),
        (theirs(a=tlinear(2, 2), b=tlinear(2, 2)), ours(a=plinear(2, 2), b=pnn.LayerNorm([2]))),
        (theirs(a=tlinear(2, 2), b=tlinear(2, 2)), ours(a=plinear(2, 2), b=ours(a=plinear(2, 2)))),
    ],
)
def test_others_are_searched(torch_module, paddle_layer, monkeypatch):
    (walked, wanted), searched = both_ways(torch_module, paddle_layer, monkeypatch)
    assert walked == wanted
    assert searched
