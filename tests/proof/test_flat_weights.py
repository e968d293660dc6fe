"""Weights that lie flat on a layer, some of one shape: their names tell, or their use in the forward does; a proof says which."""

import itertools

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF

import padiff_shim
from padiff_shim import ProofVerdict

TOKENS, WIDTH, UP, BLOCKS = 8, 16, 24, 2
SHAPES = {  # as torch.nn.functional.linear takes them
    "tok_up": (UP, TOKENS), "tok_up_b": (UP,), "tok_down": (TOKENS, UP), "tok_down_b": (TOKENS,),
    "ch_up": (UP, WIDTH), "ch_up_b": (UP,), "ch_down": (WIDTH, UP), "ch_down_b": (WIDTH,),
    "n1": (WIDTH,), "n1b": (WIDTH,), "n2": (WIDTH,), "n2b": (WIDTH,), "mix": (WIDTH, WIDTH),
}  # fmt: skip
X = np.random.default_rng(0).standard_normal((3, TOKENS, WIDTH)).astype("float32")


class Flat(torch.nn.Module):
    """A Mixer whose weights are attributes of one module."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        for block in range(BLOCKS):
            for name, shape in SHAPES.items():
                values = torch.randn(*shape, generator=generator) * 0.3
                setattr(self, f"w{block}_{name}", torch.nn.Parameter(values))

    def forward(self, x):
        for block in range(BLOCKS):
            w = lambda name, block=block: getattr(self, f"w{block}_{name}")  # noqa: E731
            h = TF.layer_norm(x, (WIDTH,), w("n1"), w("n1b")).transpose(1, 2)
            h = TF.linear(TF.gelu(TF.linear(h, w("tok_up"), w("tok_up_b"))), w("tok_down"), w("tok_down_b"))
            x = x + h.transpose(1, 2)
            h = TF.layer_norm(x, (WIDTH,), w("n2"), w("n2b"))
            x = x + TF.linear(TF.gelu(TF.linear(h, w("ch_up"), w("ch_up_b"))), w("ch_down"), w("ch_down_b"))
            x = TF.linear(x, w("mix"))
        return x


class Layers(torch.nn.Module):
    """The same of layers in blocks."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        nn = torch.nn
        self.blocks = nn.ModuleList(
            nn.ModuleDict({
                "n1": nn.LayerNorm(WIDTH), "tok_up": nn.Linear(TOKENS, UP), "tok_down": nn.Linear(UP, TOKENS),
                "n2": nn.LayerNorm(WIDTH), "ch_up": nn.Linear(WIDTH, UP), "ch_down": nn.Linear(UP, WIDTH),
                "mix": nn.Linear(WIDTH, WIDTH, bias=False),
            })
            for _ in range(BLOCKS)
        )  # fmt: skip

    def forward(self, x):
        for block in self.blocks:
            x = x + block["tok_down"](TF.gelu(block["tok_up"](block["n1"](x).transpose(1, 2)))).transpose(1, 2)
            x = x + block["ch_down"](TF.gelu(block["ch_up"](block["n2"](x))))
            x = block["mix"](x)
        return x


PLACES = {name: place for place, name in enumerate(SHAPES)}
NAMES = {
    "the same": lambda name, block: f"w{block}_{name}",
    "numbers": lambda name, block: f"w{block * len(SHAPES) + PLACES[name]}",
    "other words": lambda name, block: name.replace("tok", "spatial").replace("ch", "channel").replace("up", "in") + f"{block}_",
}
ORDERS = {
    "the same": list(SHAPES),
    "matrices first": sorted(SHAPES, key=lambda name: -len(SHAPES[name])),
    "backwards": list(SHAPES)[::-1],
}


class Port(paddle.nn.Layer):
    """A port of either, with its weights as attributes that are declared in some order under some names.

    ``swapped``: two weights that its forward takes for one another; ``tanh``: another mistake.
    """

    def __init__(self, order="the same", names="the same", swapped=(), tanh=False):
        super().__init__()
        self.named, self.swapped, self.tanh = NAMES[names], dict([swapped, swapped[::-1]] if swapped else []), tanh
        for block in range(BLOCKS):
            for name in ORDERS[order]:
                weight = self.create_parameter(list(SHAPES[name][::-1]), default_initializer=paddle.nn.initializer.Normal(0, 0.3))
                self.add_parameter(self.named(name, block), weight)

    def forward(self, x):
        for block in range(BLOCKS):
            w = lambda name, block=block: getattr(self, self.named(self.swapped.get(name, name), block))  # noqa: E731
            h = PF.layer_norm(x, [WIDTH], w("n1"), w("n1b")).transpose([0, 2, 1])
            h = PF.linear(PF.gelu(PF.linear(h, w("tok_up"), w("tok_up_b"))), w("tok_down"), w("tok_down_b"))
            x = x + h.transpose([0, 2, 1])
            h = PF.layer_norm(x, [WIDTH], w("n2"), w("n2b"))
            x = x + PF.linear(PF.gelu(PF.linear(h, w("ch_up"), w("ch_up_b")), approximate=self.tanh), w("ch_down"), w("ch_down_b"))
            x = x @ w("mix")
        return x


def by_use(proof):
    return [note for note in proof.notes if "by their use in the forward" in note]


ALWAYS = {  # each original, order and kind of names, but for that of which a test below asks more
    (Flat, "the same", "the same"), (Flat, "matrices first", "other words"),
    (Layers, "the same", "other words"), (Layers, "backwards", "the same"), (Layers, "matrices first", "numbers"),
}  # fmt: skip
RIGHT = [
    pytest.param(*case, id="-".join((case[0].__name__, *case[1:])), marks=() if case in ALWAYS else pytest.mark.slow)
    for case in itertools.product((Flat, Layers), ORDERS, NAMES)
]


@pytest.mark.parametrize(("original", "order", "names"), RIGHT)
def test_a_right_port_is_proven(original, order, names):
    proof = padiff_shim.prove(Port(order, names), original(), X)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    # Of Flat nothing tells how the square ones lie, of Layers their kind does. Names tell the rest if they are the same.
    decided = original is Layers and names == "the same"
    assert bool(by_use(proof)) is not decided, str(proof)


@pytest.mark.parametrize("original", [Flat, pytest.param(Layers, marks=pytest.mark.slow)])
def test_weights_that_are_taken_for_one_another_are_found_by_their_names(original):
    proof = padiff_shim.prove(Port("backwards", swapped=("n1", "n2")), original(), X)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert [str(mistake.cause) for mistake in proof.mistakes] == ["another weight"], str(proof)
    assert proof.complete
    assert {"w0_n1", "w0_n2"} & set(str(proof.mistakes[0]).replace(",", " ").split())


@pytest.mark.parametrize(
    ("names", "original"),
    [
        ("numbers", Layers),
        pytest.param("other words", Flat, marks=pytest.mark.slow),
        pytest.param("numbers", Flat, marks=pytest.mark.slow),
        pytest.param("other words", Layers, marks=pytest.mark.slow),
    ],
)
def test_a_mistake_is_found_where_weights_are_told_by_their_use(names, original):
    proof = padiff_shim.prove(Port("backwards", names, tanh=True), original(), X)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    (mistake,) = proof.mistakes
    assert str(mistake) == "another attribute: approximate=True against False (write approximate=False) (2 times)", str(proof)
    assert by_use(proof)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_what_names_do_not_tell_is_said(dtype):
    proof = padiff_shim.prove(Port("backwards", "numbers"), Flat(), X, dtype=dtype)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    (note,) = by_use(proof)
    assert "w0_n1 and w8" in note
    assert "layer_map=" in note


@pytest.mark.rows(1)
@pytest.mark.parametrize("phase", ["forward", "both", pytest.param("train", marks=pytest.mark.slow)])
def test_fresh_norms_hold_equal_values(phase):
    more = {"optimizer": "SGD", "loss": lambda out: (out**2).mean()} if phase == "train" else {}
    proof = padiff_shim.prove(Port(swapped=("n1", "n2")), Layers(), X, phase=phase, **more)
    if phase == "forward":  # nothing shows it yet
        assert proof.verdict is ProofVerdict.CODE_CORRECT
        return
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert [str(mistake.cause) for mistake in proof.mistakes] == ["another weight"], str(proof)
    stages = {stage.name: stage.right for stage in proof.stages}
    assert (stages["forward"], stages["backward"]) == (True, False)


@pytest.mark.slow
def test_what_the_caller_says_counts():
    swapped = {
        f"w{block}_{mine}": f"w{13 * block + PLACES[yours]}" for block in (0, 1) for mine, yours in [("n1", "n2"), ("n2", "n1")]
    }
    proof = padiff_shim.prove(Port("the same", "numbers"), Flat(), X, layer_map=swapped)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert [str(mistake.cause) for mistake in proof.mistakes] == ["another weight"], str(proof)


@pytest.mark.slow
def test_a_weight_too_many_that_nothing_reads_is_a_note():
    port = Port("backwards", "numbers")
    port.more = port.create_parameter([WIDTH])
    proof = padiff_shim.prove(port, Flat(), X)
    assert proof.verdict is ProofVerdict.CODE_CORRECT
    assert any("more" in note for note in proof.notes)


def test_values_tell_nothing_of_it_as_they_are():
    port, original = Port("backwards", "numbers"), Flat()
    for block in range(BLOCKS):
        for name in SHAPES:
            values = getattr(original, f"w{block}_{name}").detach().numpy().T
            getattr(port, port.named(name, block)).set_value(np.ascontiguousarray(values))
    proof = padiff_shim.prove(port, original, X, weights="as-is")
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    port.w8.set_value(port.w10)
    assert padiff_shim.prove(port, original, X, weights="as-is").verdict is ProofVerdict.WEIGHTS_DIFFER
