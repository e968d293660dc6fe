"""A Llama on two ranks in Paddle against the original on one process in Torch: the same without a rule, and each mistake first."""

import ast

import numpy as np
import paddle
import pytest
import ranks
import torch
from helpers import ROOT, thinned
from rank_llama import DECAY, FAULTS, HEADS, HIDDEN, IDS, MOST, RATE, RIGHT, SHARED, SIZE, WHOLE, WIDTH, WORDS
from torch.nn import functional

from padiff_shim import diff, record

RTOL = 2e-4


class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


def linear(inputs, outputs):
    return torch.nn.Linear(inputs, outputs, bias=False)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.o_proj = linear(WIDTH, WIDTH), linear(WIDTH, WIDTH)
        self.k_proj, self.v_proj = linear(WIDTH, SHARED * SIZE), linear(WIDTH, SHARED * SIZE)

    def forward(self, x):
        batch, length, _ = x.shape
        q = self.q_proj(x).view(batch, length, HEADS, SIZE).transpose(1, 2)
        k, v = (part(x).view(batch, length, SHARED, SIZE).transpose(1, 2) for part in (self.k_proj, self.v_proj))
        k, v = (part.repeat_interleave(HEADS // SHARED, 1) for part in (k, v))  # as people write grouped heads
        scores = torch.matmul(q, k.transpose(-1, -2)) * SIZE**-0.5
        hidden = torch.triu(torch.full([length, length], -1e9), 1)
        mixed = torch.matmul(torch.softmax(scores + hidden, -1), v)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = linear(WIDTH, HIDDEN), linear(WIDTH, HIDDEN), linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = Norm(), Attention(), Norm(), Mlp()

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Llama(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.head = torch.nn.Embedding(WORDS, WIDTH), Norm(), linear(WIDTH, WORDS)
        self.layers = torch.nn.ModuleList([Block(), Block()])
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                whole = torch.from_numpy(WHOLE[name])
                parameter.copy_(whole.T if "norm" not in name and name != "embed.weight" else whole)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.layers:
            x = block(x)
        return self.head(self.norm(x))


def train_torch(folder, *, tied=False):
    model = Llama()
    model.head.weight = model.embed.weight if tied else model.head.weight
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY)
    with record(folder, model, gradients=True, parameters=True, states=True) as recording:
        for batch in map(torch.from_numpy, IDS):
            loss = functional.cross_entropy(model(batch[:, :-1]).reshape(-1, WORDS), batch[:, 1:].reshape(-1))
            recording.note("loss", loss)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MOST)
            optimizer.step()
            optimizer.zero_grad()


@pytest.fixture(scope="module")
def runs(request, tmp_path_factory):
    """A folder with a recording of the right model and of each fault that is tried, and of the original."""
    folder = tmp_path_factory.mktemp("llama")
    params = [item.callspec.params for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    ranks.run([ROOT / "tests" / "rank_llama.py", folder, *RIGHT, *(values["fault"] for values in params if "fault" in values)])
    train_torch(folder / "torch")
    if any(values.get("fault") == "untied" for values in params):
        train_torch(folder / "tied", tied=True)
    return folder


class FusedPaddle(paddle.nn.Layer):
    def __init__(self, weights):
        super().__init__()
        self.qkv, self.o = (paddle.nn.Linear(16, size, bias_attr=False) for size in (32, 16))
        self.qkv.weight.set_value(np.concatenate([weights[name] for name in "qkv"], 1))
        self.o.weight.set_value(weights["o"])

    def forward(self, x):
        q, k, v = self.qkv(x).split([16, 8, 8], -1)
        return self.o(q * paddle.concat([k, v], -1))


class SeparateTorch(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        for name, values in weights.items():
            layer = linear(*values.shape)
            layer.weight.data = torch.from_numpy(values.T.copy())
            self.add_module(name if name == "o" else f"{name}_proj", layer)

    def forward(self, x):
        return self.o(self.q_proj(x) * torch.cat([self.k_proj(x), self.v_proj(x)], -1))


def add_linear(model, name, values):
    """A layer without bias, in the framework of the model."""
    if isinstance(model, paddle.nn.Layer):
        model.add_sublayer(name, paddle.nn.Linear(*values.shape, bias_attr=False))
        getattr(model, name).weight.set_value(values)
    else:
        model.add_module(name, linear(*values.shape))
        getattr(model, name).weight.data = torch.from_numpy(values.T.copy())


def laid_in(kind):
    class Laid(kind):
        """A fused layer whose parts lie behind each other, by heads, or the last first; or, with ``layout=None``, separate ones."""

        def __init__(self, name, parts, layout, beside):
            super().__init__()
            self.name, self.layout, self.count, self.beside = name, layout, len(parts), [*beside]
            values = list(parts.values())
            by_head = [part[:, head : head + 4] for head in (0, 4) for part in values]
            laid = {"heads": by_head, "reversed": values[::-1]}.get(layout, values)
            fused = {name: np.concatenate(laid, 1)} if layout else parts
            for own, matrix in {**fused, **beside}.items():
                add_linear(self, own, matrix)
            self.own = list(fused)

        def forward(self, x):
            laid = [getattr(self, own)(x) for own in self.own]
            if self.layout == "heads":
                laid = [part.reshape([-1, 8]) for part in laid[0].reshape([-1, 2, self.count, 4]).unbind(2)]
            elif self.layout:
                laid = laid[0].chunk(self.count, -1)[:: -1 if self.layout == "reversed" else 1]
            return laid[0] * sum(part.tanh() for part in [*laid[1:], *(getattr(self, own)(x) for own in self.beside)])

    return Laid


PaddleLaid, TorchLaid = laid_in(paddle.nn.Layer), laid_in(torch.nn.Module)


# The port's layer and how its parts lie, and how they lie in the original.
@pytest.mark.rows(6)
@pytest.mark.parametrize(("whole", "parts", "layout", "original"), [
    ("qkv", "qkv", "behind", None), ("qkv", "qkv", "heads", None), ("qkv", "qkv", "reversed", None),
    ("qkv", "qkv", "heads", "behind"), ("gate_up", ("gate", "up"), "heads", None), ("gate_up", ("gate", "up"), "reversed", None),
    ("gate_up", ("gate", "up"), "behind", "reversed"), ("qkv", ("q", "kv"), "behind", None), ("kv", "kv", "reversed", "heads"),
])  # fmt: skip
@pytest.mark.parametrize("options", [{"values": "fingerprint"}, {"gradients": True, "parameters": True}], ids=["print", "full"])
def test_layouts(whole, parts, layout, original, options, tmp_path):
    rng = np.random.default_rng(0)
    values, x = {f"{part}_proj": rng.standard_normal((8, 8)).astype("float32") for part in parts}, rng.standard_normal((4, 8))
    beside = {"gate_proj": values["q_proj"] / 4, "up_proj": values["k_proj"] / 4} if parts == "qkv" else {}
    wrong = {name: part * np.float32(1 + 0.01 * (place == 1)) for place, (name, part) in enumerate(values.items())}
    models = {"right": PaddleLaid(whole, values, layout, beside), "wrong": PaddleLaid(whole, wrong, layout, beside)}
    for name, model in {**models, "torch": TorchLaid(whole, values, original, beside)}.items():
        tensor = torch.from_numpy if name == "torch" else paddle.to_tensor
        with record(tmp_path / name, model, **options):
            (model(tensor(x.astype("float32"))) ** 2).mean().backward()
    for pair in (("right", "torch"), ("torch", "right")):
        difference = diff(*(tmp_path / name for name in pair), rtol=1e-5)
        assert difference, difference.answer
        assert not difference.unpaired
    for pair in (("wrong", "torch"), ("torch", "wrong")):
        difference = diff(*(tmp_path / name for name in pair), rtol=1e-5)
        name = f"{whole}.weight" if "values" in options or original else f"{parts[1]}_proj.weight"
        assert (difference.origin or difference.first).any.name == name, difference.answer


@pytest.mark.parametrize("wrong", ["", "k", "o"])
@pytest.mark.parametrize("options", [{"values": "fingerprint"}, {"values": "digest", "gradients": True}], ids=["print", "digest"])
def test_without_values_parts_are_compared_as_a_whole(options, wrong, tmp_path):
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((16, size)).astype("float32") for name, size in zip("qkvo", (16, 8, 8, 16))}
    x = rng.standard_normal((4, 16)).astype("float32")
    original = SeparateTorch(weights)
    port = FusedPaddle({**weights, **({wrong: weights[wrong] * np.float32(1.01)} if wrong else {})})
    for folder, model, values in (("paddle", port, paddle.to_tensor(x)), ("torch", original, torch.from_numpy(x))):
        kind = paddle.optimizer.SGD if folder == "paddle" else torch.optim.SGD
        optimizer = kind(parameters=model.parameters(), learning_rate=0.1) if folder == "paddle" else kind(model.parameters(), 0.1)
        with record(tmp_path / folder, model, **options):
            (model(values) ** 2).mean().backward()
            optimizer.step()
    for a, b in (("paddle", "torch"), ("torch", "paddle")):
        difference = diff(tmp_path / a, tmp_path / b, rtol=1e-5)
        assert not difference.unpaired
        assert bool(difference) is (not wrong), difference.answer
        if "gradients" not in options:
            compared = {row.any.name for row in difference.compared if row.any.kind == "parameter"}
            assert compared == {"qkv.weight", "o.weight"}
        if wrong:
            assert difference.origin.any.name == {"k": "qkv.weight", "o": "o.weight"}[wrong]


def test_the_rule_for_fused_slices_is_said_and_works_as_it_stands(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    parts, x = (
        [rng.standard_normal((8, size)).astype("float32") for size in (16, 4, 4)],
        rng.standard_normal((4, 8)).astype("float32"),
    )

    class Fused(paddle.nn.Layer):
        def __init__(self, values):
            super().__init__()
            self.attn = paddle.nn.Layer()
            self.attn.fused = paddle.nn.Linear(8, values.shape[1], bias_attr=False)
            self.attn.fused.weight.set_value(values)

        def forward(self, x):
            return self.attn.fused(x)

    def run(folder, values):
        model = Fused(values)
        with record(tmp_path / folder, model, calls=False, gradients=True):
            (model(paddle.to_tensor(x)) ** 2).sum().backward()

    run("whole", np.concatenate(parts, 1))
    for rank in range(2):
        for name, value in (("PADDLE_TRAINER_ID", rank), ("RANK", rank), ("PADDLE_TRAINERS_NUM", 2), ("WORLD_SIZE", 2)):
            monkeypatch.setenv(name, str(value))
        run("ranks", np.concatenate([np.split(part, 2, 1)[rank] for part in parts], 1))
    for a, b in (("ranks", "whole"), ("whole", "ranks")):
        difference = diff(tmp_path / a, tmp_path / b, shards="auto")
        assert difference, difference.answer
        (rule,) = {note.partition("shards=")[2] for note in difference.notes if "shards=" in note}
        pasted = diff(tmp_path / a, tmp_path / b, shards=ast.literal_eval(rule))
        assert pasted, pasted.headline
        assert {row.joined for row in pasted.compared if row.any.kind == "gradient"} == {
            "concatenated along axis 1, fused 4:1:1: ranks 0, 1"
        }
        assert not any("matches" in note for note in pasted.notes), "each of its patterns names something"
        assert not diff(tmp_path / a, tmp_path / b, shards={"*.fused*": "-1:2:1:1"}), "another rule does not fit"


def test_ranks_hold_slices_of_the_query_and_all_of_a_shared_key(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    weights = {f"{name}_proj": rng.standard_normal((8, size)).astype("float32") for name, size in zip("qkv", (16, 4, 4))}
    x = rng.standard_normal((3, 8)).astype("float32")

    def run(folder, layers, wrong=0.0):
        model = paddle.nn.LayerDict({name: paddle.nn.Linear(*value.shape, bias_attr=False) for name, value in layers.items()})
        for name, value in layers.items():
            model[name].weight.set_value(value + np.float32(wrong) * (np.arange(value.shape[1]) == value.shape[1] - 1))
        with record(tmp_path / folder, model, parameters=True, overwrite=folder == "whole"):
            for layer in model.values():
                layer(paddle.to_tensor(x))

    run("whole", weights)
    for rank in range(2):
        for name, value in (("PADDLE_TRAINER_ID", rank), ("RANK", rank), ("PADDLE_TRAINERS_NUM", 2), ("WORLD_SIZE", 2)):
            monkeypatch.setenv(name, str(value))
        fused = np.concatenate([np.split(weights["q_proj"], 2, 1)[rank], weights["k_proj"], weights["v_proj"]], 1)
        run("ranks", {"qkv": fused})
        run("wrong", {"qkv": fused}, wrong=0.1 * rank)
    difference = diff(tmp_path / "ranks", tmp_path / "whole", shards="auto", rtol=1e-5)
    assert difference, difference.answer
    assert {f"{name}.weight" for name in weights} == {row.any.name for row in difference.compared if row.any.kind == "parameter"}
    wrong = diff(tmp_path / "wrong", tmp_path / "whole", shards="auto", rtol=1e-5)
    assert (wrong.first.any.name, wrong.first.rank) == ("v_proj.weight", 1), wrong.answer


@pytest.mark.parametrize("rule", ["auto", {"*.qkv.weight": "1:2:1:1", "*.qkv": "1:2:1:1"}], ids=["auto", "rule"])
def test_a_rule_in_the_ports_words_holds_on_both_sides(rule, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    parts, x = (
        [rng.standard_normal((8, size)).astype("float32") for size in (8, 4, 4)],
        rng.standard_normal((4, 8)).astype("float32"),
    )
    for rank in range(2):
        for name, value in (("PADDLE_TRAINER_ID", rank), ("RANK", rank), ("PADDLE_TRAINERS_NUM", 2), ("WORLD_SIZE", 2)):
            monkeypatch.setenv(name, str(value))
        values = np.concatenate([np.split(part, 2, 1)[rank] for part in parts], 1)
        for kind, nn, tensor in ((paddle.nn.Layer, paddle.nn, paddle.to_tensor), (torch.nn.Module, torch.nn, torch.from_numpy)):
            layer = nn.Linear(8, 8, **{"bias_attr" if nn is paddle.nn else "bias": False})
            if nn is paddle.nn:
                layer.weight.set_value(values)
            else:
                layer.weight.data = torch.from_numpy(values.T.copy())
            model = kind()
            model.attn = kind()
            model.attn.qkv = layer
            model.forward = layer.__call__
            with record(tmp_path / nn.__name__, model, gradients=True):
                (model(tensor(x)) ** 2).mean().backward()
    assert diff(tmp_path / "paddle.nn", tmp_path / "torch.nn", shards=rule, rtol=1e-5)


@pytest.mark.rows(2)
@pytest.mark.parametrize("right", RIGHT)
def test_right_is_the_same_without_a_rule(runs, right):
    difference = diff(runs / right, runs / "torch", shards="auto", rtol=RTOL)
    assert difference, str(difference)
    kinds = ("layer", "gradient", "step gradient", "clipped gradient", "parameter", "optimizer state")
    paired = {kind: {row.any.name for row in difference.compared if row.any.kind == kind} for kind in kinds}
    assert all(set(WHOLE) <= paired[kind] for kind in kinds[1:]), "the fused weights' parts are compared one by one"
    layers = {row.any.layer for row in difference.compared if row.any.kind == "layer"}
    assert {f"layers.{place}.{layer}_proj" for place in (0, 1) for layer in ("attn.q", "attn.k", "attn.v", "mlp.gate")} <= layers
    assert right == "recompute" or not difference.unpaired, "gradients that a backward within a backward leaves have no partner"
    assert right != "right" or diff(runs / "torch", runs / right, shards="auto", rtol=RTOL), "either run may be the first"


# Those of one process, the others' reasons among them, are in test_difference_reasons.py.
@pytest.mark.rows(3)
@pytest.mark.parametrize("fault", thinned(FAULTS, "reduce", "norm", "most", "gelu", "double"))
def test_each_mistake_is_first(runs, fault):
    difference = diff(runs / fault, runs / ("tied" if fault == "untied" else "torch"), shards="auto", rtol=RTOL)
    assert not difference
    kind, where, reason, numbers = FAULTS[fault]
    first = difference.first.any
    assert first.kind == kind, difference.answer
    assert where in (first.layer, first.name), difference.answer
    assert first.step == 0
    assert difference.reason.kind == reason, difference.answer
    measured = {name: difference.reason.numbers[name] for name in numbers}
    assert measured == {key: pytest.approx(value, rel=1e-3) if type(value) is float else value for key, value in numbers.items()}
    assert difference.reason.text in difference.answer
