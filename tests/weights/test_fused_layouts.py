"""One projection that holds several: in which order and in which groups its rows lie, its use tells, or nothing does."""

import itertools
import random

import numpy as np
import paddle
import paddle.nn as pnn
import pytest
import torch
import torch.nn as tnn
from layer_pairs import scrambled, scrambled_paddle

import padiff_shim
from padiff_shim.weights import gate_up, match, qkv, split

pytestmark = pytest.mark.compat

HEADS, GROUPS, SIZE, WIDTH = 4, 2, 3, 12
ROWS = (HEADS * SIZE, GROUPS * SIZE, GROUPS * SIZE)
X = np.random.default_rng(0).standard_normal((2, 5, WIDTH)).astype("float32")
CAUSAL = np.triu(np.full((5, 5), -1e9, "float32"), 1)


def softmax(scores):
    return torch.softmax(scores, -1) if isinstance(scores, torch.Tensor) else pnn.functional.softmax(scores, -1)


def attended(q, k, v, scale=SIZE**-0.5, mask=None):
    """[batch, tokens, heads, size] of each -> [batch, tokens, heads * size], of tensors of either framework."""
    framework = torch if isinstance(q, torch.Tensor) else paddle
    q, k, v = (
        framework.einsum("bthd->bhtd", part)
        for part in (q, k.repeat_interleave(HEADS // GROUPS, 2), v.repeat_interleave(HEADS // GROUPS, 2))
    )
    scores = framework.einsum("bhtd,bhsd->bhts", q, k) * scale
    mixed = framework.einsum("bhts,bhsd->bthd", softmax(scores if mask is None else scores + mask), v)
    return mixed.reshape([*mixed.shape[:2], HEADS * SIZE])


class Apart(tnn.Module):
    """Three projections."""

    def __init__(self, mask=None):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (tnn.Linear(WIDTH, rows) for rows in ROWS)
        self.o_proj = tnn.Linear(HEADS * SIZE, WIDTH)
        self.mask = mask

    def forward(self, x):
        parts = (layer(x).reshape([*x.shape[:2], -1, SIZE]) for layer in (self.q_proj, self.k_proj, self.v_proj))
        return self.o_proj(attended(*parts, mask=self.mask))


class ApartInPaddle(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (pnn.Linear(WIDTH, rows) for rows in ROWS)
        self.o_proj = pnn.Linear(HEADS * SIZE, WIDTH)

    forward = Apart.forward
    mask = None


def plain(rows):
    """q, k and v of [..., rows], one after the other."""
    ends = np.cumsum((0, *ROWS))
    return [rows[..., start:stop].reshape([*rows.shape[:-1], -1, SIZE]) for start, stop in itertools.pairwise(ends)]


def grouped(rows):
    """Those that lie by group: its heads of q, its k, its v."""
    rows = rows.reshape([*rows.shape[:-1], GROUPS, HEADS // GROUPS + 2, SIZE])
    q = rows[..., :-2, :]
    return [q.reshape([*q.shape[:-3], HEADS, SIZE]), rows[..., -2, :], rows[..., -1, :]]


def values_first(rows):
    """v, q, k, one after the other."""
    v = rows[..., : ROWS[2]]
    return [*plain(rows_with_v_last(rows))[:2], v.reshape([*v.shape[:-1], -1, SIZE])]


def rows_with_v_last(rows):
    return rows[..., [*range(ROWS[2], sum(ROWS)), *range(ROWS[2])]]


class AtOnce(pnn.Layer):
    """One projection, which ``taken`` takes apart."""

    def __init__(self, taken=plain, scale=SIZE**-0.5, mask=None):
        super().__init__()
        self.qkv_proj, self.o_proj = pnn.Linear(WIDTH, sum(ROWS)), pnn.Linear(HEADS * SIZE, WIDTH)
        self.taken, self.scale, self.mask = taken, scale, mask

    def forward(self, x):
        return self.o_proj(attended(*self.taken(self.qkv_proj(x)), self.scale, self.mask))


class AtOnceInTorch(tnn.Module):
    def __init__(self, taken=plain):
        super().__init__()
        self.qkv_proj, self.o_proj = tnn.Linear(WIDTH, sum(ROWS)), tnn.Linear(HEADS * SIZE, WIDTH)
        self.taken, self.scale, self.mask = taken, SIZE**-0.5, None

    forward = AtOnce.forward


def agree(module, layer, x=X):
    ours, theirs = layer(paddle.to_tensor(x)).numpy(), module(torch.from_numpy(x)).detach().numpy()
    return np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()


def taken(mapping):
    return [choice.taken and choice.taken.label for choice in mapping.choices]


WAYS = {
    "plain": (plain, "rows of q, k, v"),
    "grouped": (grouped, f"in each of {GROUPS} groups"),
    "values first": (values_first, "rows of v, q, k"),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_right_way_is_taken(way):
    how, label = WAYS[way]
    module, layer = scrambled(Apart()), AtOnce(how)
    mapping = padiff_shim.transfer_weights(module, layer)
    assert agree(module, layer)
    assert label in taken(mapping)[0]
    assert "by its use" in str(mapping)
    assert mapping.check(module, layer)
    padiff_shim.transfer_weights(scrambled_paddle(layer), module)
    assert agree(module, layer)


@pytest.mark.parametrize("way", WAYS)
def test_of_a_whole_in_torch(way):
    module, layer = scrambled(AtOnceInTorch(WAYS[way][0])), ApartInPaddle()
    padiff_shim.transfer_weights(module, layer)
    assert agree(module, layer)


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    "mistake", [{"scale": 1.0}, {"mask": CAUSAL}, {"mask": CAUSAL, "scale": 3.0}], ids=["scale", "mask", "mask and scale"]
)
@pytest.mark.parametrize("way", WAYS)
def test_a_mistake_in_the_layer_does_not_hide_it(way, mistake):
    """Equal tokens: whatever the softmax is made of, the values that it weighs are the same."""
    options = dict(mistake, mask=paddle.to_tensor(mistake["mask"])) if "mask" in mistake else mistake
    how, label = WAYS[way]
    assert label in taken(match(scrambled(Apart()), AtOnce(how, **options)))[0]


class TorchTokens(tnn.Module):
    """Layers that need what only the model gives them: the whole runs on random tokens, up to the first of them."""

    def __init__(self):
        super().__init__()
        self.words = tnn.Embedding(11, WIDTH)
        self.layers = tnn.ModuleList(tnn.ModuleDict({"attn": TorchNeedy()}) for _ in range(2))

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = x + layer["attn"](x, positions=torch.ones(ids.shape[1], SIZE))
        return x


class TorchNeedy(Apart):
    def forward(self, x, *, positions):
        return super().forward(x * positions[:, :1])


class PaddleTokens(pnn.Layer):
    def __init__(self, how):
        super().__init__()
        self.words = pnn.Embedding(11, WIDTH)
        self.layers = pnn.LayerList([pnn.LayerDict({"attn": PaddleNeedy(how)}) for _ in range(2)])

    def forward(self, ids):
        x = self.words(ids)
        for layer in self.layers:
            x = x + layer["attn"](x, positions=paddle.ones([ids.shape[1], SIZE]))
        return x


class PaddleNeedy(AtOnce):
    def forward(self, x, *, positions):
        return super().forward(x * positions[:, :1])


@pytest.mark.parametrize("way", WAYS)
def test_layers_that_only_their_model_can_call(way):
    how, label = WAYS[way]
    module, layer = scrambled(TorchTokens()), PaddleTokens(how)
    mapping = padiff_shim.transfer_weights(module, layer)
    assert len(taken(mapping)) == 2
    assert all(label in each for each in taken(mapping))
    assert agree(module, layer, np.random.default_rng(0).integers(0, 11, (2, 7)))


def test_models_are_left_as_they_were():
    module, layer = scrambled(TorchTokens()), PaddleTokens(grouped)
    module.train()
    module.layers[0].eval()
    layer.layers[1].eval()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    ours = {name: tensor.numpy().copy() for name, tensor in layer.state_dict().items()}
    torch.manual_seed(1)
    paddle.seed(1)
    random.seed(1)
    states = torch.get_rng_state(), paddle.rand([2]).numpy()
    paddle.seed(1)
    match(module, layer)
    assert torch.equal(states[0], torch.get_rng_state())
    assert (paddle.rand([2]).numpy() == states[1]).all()
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert all((tensor.numpy() == ours[name]).all() for name, tensor in layer.state_dict().items())
    assert [each.training for each in module.layers] == [False, True]
    assert [each.training for each in layer.layers] == [True, False]
    assert not any("forward" in vars(each) for each in (*module.modules(), *layer.sublayers(include_self=True)))


def test_what_nothing_decides_is_refused_with_what_to_write():
    module, layer = scrambled(Apart()), AtOnce(grouped)
    before = layer.qkv_proj.weight.numpy().copy()
    with pytest.raises(padiff_shim.TransferError) as caught:
        padiff_shim.transfer_weights(dict(module.state_dict()), layer)
    message = str(caught.value)
    assert (
        "nothing tells how qkv_proj holds q_proj, k_proj, v_proj: rows of q, k, v or rows of q, k, v in each of N groups" in message
    )
    assert "rules=[('qkv_proj', split('q_proj', 'k_proj', 'v_proj'))]" in message
    assert "rules=[('qkv_proj', split('q_proj', 'k_proj', 'v_proj', groups=N))]" in message
    assert "state dict" in message
    assert (layer.qkv_proj.weight.numpy() == before).all()
    rules = [("qkv_proj", split("q_proj", "k_proj", "v_proj", groups=GROUPS))]
    padiff_shim.transfer_weights(dict(module.state_dict()), layer, rules=rules)
    assert agree(module, layer)


def test_a_program_that_agrees_in_no_way_decides_nothing():
    class Other(AtOnce):
        def forward(self, x):
            return self.o_proj(self.qkv_proj(x)[..., : HEADS * SIZE])

    with pytest.raises(padiff_shim.TransferError, match="none of these"):
        padiff_shim.transfer_weights(Apart(), Other())


def test_a_rule_is_not_tried_but_applied():
    module, layer = scrambled(Apart()), AtOnce(plain)
    mapping = padiff_shim.transfer_weights(module, layer, rules=[("qkv_proj", split("q_proj", "k_proj", "v_proj", groups=GROUPS))])
    assert not mapping.choices
    assert not agree(module, layer)
    rows = layer.qkv_proj.weight.numpy().T.reshape(GROUPS, HEADS // GROUPS + 2, SIZE, WIDTH)
    assert (rows[1, -1] == module.v_proj.weight.detach().numpy()[SIZE:]).all()


def test_both_hold_them_in_another_order():
    """As q, k, v in Torch, by group in Paddle; and the other way round."""
    module, layer = scrambled(AtOnceInTorch(plain)), AtOnce(grouped)
    assert not agree(module, layer)
    padiff_shim.transfer_weights(module, layer, rules=[("qkv_proj", qkv(HEADS, GROUPS))])
    assert agree(module, layer)
    module.taken, layer.taken = grouped, plain
    rules = [("qkv_proj", qkv(HEADS, GROUPS, torch="grouped", paddle="plain"))]
    mapping = padiff_shim.transfer_weights(scrambled_paddle(layer), module, rules=rules)
    assert agree(module, layer)
    assert mapping.check(module, layer)


# -- gate and up

GATED = {"gate, up": lambda gate, up: (gate, up), "up, gate": lambda gate, up: (up, gate)}
KINDS = ("silu", "gelu", "relu", "sigmoid")


class TorchGated(tnn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up_proj, self.down_proj = tnn.Linear(WIDTH, 16), tnn.Linear(8, WIDTH)

    def forward(self, x):
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        return self.down_proj(tnn.functional.silu(gate) * up)


class PaddleGated(pnn.Layer):
    def __init__(self, order="gate, up", kind="silu", name="up_gate_proj"):
        super().__init__()
        self.name, self.order, self.kind = name, order, kind
        self.add_sublayer(name, pnn.Linear(WIDTH, 16))
        self.down_proj = pnn.Linear(8, WIDTH)

    def forward(self, x):
        gate, up = GATED[self.order](*getattr(self, self.name)(x).chunk(2, -1))
        return self.down_proj(getattr(pnn.functional, self.kind)(gate) * up)


@pytest.mark.parametrize("order", GATED)
def test_gate_and_up_called_in_another_order(order):
    """A name says nothing: up_gate_proj of PaddleFormers holds gate and then up."""
    module, layer = scrambled(TorchGated()), PaddleGated(order)
    padiff_shim.transfer_weights(module, layer)
    assert agree(module, layer)


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("order", GATED)
def test_gate_and_up_behind_another_activation(order, kind):
    label = "gate and up in one order" if order == "gate, up" else "gate and up exchanged"
    if kind == "sigmoid":  # no gate that goes on as silu does
        assert taken(match(TorchGated(), PaddleGated(order, kind))) in ([label], [None])
    else:
        assert taken(match(TorchGated(), PaddleGated(order, kind))) == [label]


def test_gate_and_up_of_one_name_are_taken_as_they_are():
    """Unless the caller knows better."""
    module, layer = scrambled(TorchGated()), PaddleGated("up, gate", name="gate_up_proj")
    assert not padiff_shim.transfer_weights(module, layer).choices
    assert not agree(module, layer)
    padiff_shim.transfer_weights(module, layer, rules=[("gate_up_proj", gate_up(paddle="up, gate"))])
    assert agree(module, layer)


def test_rows_that_alternate():
    module, layer = scrambled(TorchGated()), PaddleGated(name="gate_up_proj")
    padiff_shim.transfer_weights(module, layer, rules=[("gate_up_proj", gate_up(torch="alternating"))])
    ours, theirs = layer.gate_up_proj.weight.numpy().T, module.gate_up_proj.weight.detach().numpy()
    assert (ours == np.concatenate([theirs[::2], theirs[1::2]])).all()
    assert (layer.gate_up_proj.bias.numpy() == module.gate_up_proj.bias.detach().numpy().reshape(-1, 2).T.reshape(-1)).all()


def test_orders_that_do_not_fit_are_refused():
    module, layer = TorchGated(), PaddleGated(name="gate_up_proj")
    with pytest.raises(padiff_shim.TransferError, match="16 rows"):
        match(module, layer, rules=[("gate_up_proj", qkv(5))])
    for wrong, words in (
        (lambda: gate_up(torch="up"), "gate_up.torch=.... is 'gate, up', 'up, gate', 'alternating', got 'up'"),
        (lambda: qkv(4, 3), "4 heads are no multiple of 3"),
        (lambda: qkv(4, paddle="heads"), "is 'plain' or 'grouped', got 'heads'"),
        (lambda: split("a", "b", groups=0), "groups= is a whole number from 1 on, got 0"),
    ):
        with pytest.raises(padiff_shim.ArgumentError, match=words):
            wrong()
