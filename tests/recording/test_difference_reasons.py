"""Reasons of a difference between two trainings: how far rounding explains it, and what is behind it."""

import contextlib

import numpy as np
import paddle
import pytest
import torch
from helpers import in_turn, sampled

import padiff_shim
from padiff_shim import diff, record

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((3, 8, 2, 6, 6)).astype("float32"), RNG.integers(0, 5, (3, 8))
PERMUTED = RNG.permutation(8)


def layers(nn, epsilon):
    conv, norm = (nn.Conv2D, {"epsilon": epsilon}) if nn is paddle.nn else (nn.Conv2d, {"eps": epsilon})
    first, second = conv(2, 6, 3, padding=1), conv(6, 6, 3, padding=1)
    wide = nn.Linear(216, 24)
    return nn.Sequential(first, nn.GELU(), second, nn.Flatten(), nn.LayerNorm(216, **norm), wide, nn.GELU(), nn.Linear(24, 5))


def train(folder, x=X, y=Y, mode=None, framework="paddle", epsilon=1e-5, rate=1e-2, parts=1, values="all"):
    """Three steps of AdamW; ``parts``: micro-batches of a step."""
    paddle.seed(0)
    model, loss_of, tensor = layers(paddle.nn, epsilon), paddle.nn.functional.cross_entropy, paddle.to_tensor
    optimizer = paddle.optimizer.AdamW(rate, parameters=model.parameters())
    if framework == "torch":
        port, model = model, layers(torch.nn, epsilon)
        for (_, source), (_, target) in zip(port.named_parameters(), model.named_parameters()):
            value = torch.from_numpy(source.numpy())
            target.data = value.T.contiguous() if value.ndim == 2 else value.clone()
        loss_of, tensor = torch.nn.functional.cross_entropy, torch.from_numpy
        optimizer = torch.optim.AdamW(model.parameters(), rate)
    options = {"values": values} if values == "fingerprint" else {"gradients": True, "parameters": True}
    with mode or contextlib.nullcontext(), record(folder, model, **options):
        for step in range(3):
            for batch, labels in zip(np.split(x[step], parts), np.split(y[step], parts)):
                (loss_of(model(tensor(np.ascontiguousarray(batch))), tensor(np.ascontiguousarray(labels))) / parts).backward()
            optimizer.step()
            optimizer.zero_grad() if framework == "torch" else optimizer.clear_grad()


# Name -> what is other than in the run "plain".
RUNS = {
    "kernels": {"mode": "torch"},
    "torch": {"framework": "torch"},
    "epsilon": {"mode": "torch", "epsilon": 1e-3},
    "rate": {"mode": "torch", "rate": 9e-3},
    "parts": {"parts": 2},
    "parts-epsilon": {"parts": 2, "epsilon": 1e-3},
    "samples": {"x": X[:, PERMUTED], "y": Y[:, PERMUTED]},
    "samples-epsilon": {"x": X[:, PERMUTED], "y": Y[:, PERMUTED], "epsilon": 1e-3},
    "half": {"x": X[:, :4], "y": Y[:, :4]},
    "batches": {"x": X[::-1], "y": Y[::-1]},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reasons")
    train(folder / "plain")
    for name, options in RUNS.items():
        mode = {"mode": padiff_shim.reference("torch")} if "mode" in options else {}
        train(folder / name, **{**options, **mode})
    return folder


@pytest.mark.parametrize(("name", "kind"), [
    ("kernels", "rounding"), ("torch", "rounding"), ("parts", "batch size"), ("samples", "order of samples"),
])  # fmt: skip
def test_rounding_explains_all(runs, name, kind):
    difference = diff(runs / "plain", runs / name)
    reason = difference.reason
    assert not difference
    assert reason.kind == kind, difference.headline
    assert "until" not in reason.numbers
    assert 0 < reason.numbers["begins"] < 2e-6
    assert reason.numbers["amplification"] < 100
    assert reason.text in difference.answer
    assert diff(runs / "plain", runs / name, rtol=1e-2).counts.differing == 0


@pytest.mark.parametrize(("name", "kind"), [
    ("epsilon", "arguments"), ("parts-epsilon", "batch size"), ("samples-epsilon", "order of samples"),
])  # fmt: skip
def test_what_rounding_does_not_explain_is_named(runs, name, kind):
    for values in ("plain", name), (name, "plain"):
        difference = diff(*(runs / value for value in values))
        assert difference.reason.kind == kind, difference.headline
        assert "layer_norm in layer 4" in difference.reason.text, difference.headline


def test_another_rate_is_found_behind_rounding(runs):
    difference = diff(runs / "plain", runs / "rate")
    assert difference.reason.kind == "learning rate"
    assert [difference.reason.numbers[side] for side in "ab"] == pytest.approx([1e-2, 9e-3], rel=1e-3)
    assert difference.first.any.name == "conv2d", "bits part before"


def test_common_samples_of_other_batches_are_compared(runs):
    difference = diff(runs / "plain", runs / "half")
    assert (difference.reason.kind, difference.reason.numbers["a"], difference.reason.numbers["b"]) == ("batch size", 8, 4)
    first = difference.reason.numbers.get("until", difference.first.any.name)  # before it nothing differs where kernels round alike
    assert first.startswith("cross_entropy"), "what one sample makes is compared with itself"


def test_another_order_of_batches(runs):
    assert diff(runs / "plain", runs / "batches").reason.kind == "order of batches"


def test_fingerprints(tmp_path):
    train(tmp_path / "plain", values="fingerprint")
    for name in ("kernels", "epsilon"):
        options = {**RUNS[name], "mode": padiff_shim.reference("torch")}
        train(tmp_path / name, values="fingerprint", **options)
        difference = diff(tmp_path / "plain", tmp_path / name)
        assert difference.reason.kind == "rounding"
        until = difference.reason.numbers.get("until", "")
        assert until.startswith("layer LayerNorm in layer 4" if name == "epsilon" else ""), difference.headline
        assert bool(until) is (name == "epsilon")
    for name, kind in (("samples", "order of samples"), ("samples-epsilon", "order of samples"), ("batches", "order of batches")):
        options = {**RUNS[name], **({"mode": padiff_shim.reference("torch")} if "mode" in RUNS[name] else {})}
        train(tmp_path / name, values="fingerprint", **options)
        assert diff(tmp_path / "plain", tmp_path / name).reason.kind == kind
    assert diff(tmp_path / "plain", tmp_path / "samples", rtol=1e-2)
    first = diff(tmp_path / "plain", tmp_path / "samples-epsilon", rtol=1e-4).first.any
    assert (first.kind, first.layer) == ("layer", "4"), "what the layers before return are the same elements in another order"


def test_the_setting_that_differs_stands_in_the_headline(tmp_path, monkeypatch):
    monkeypatch.delenv("MKL_CBWR", raising=False)
    train(tmp_path / "a")
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    train(tmp_path / "b", mode=padiff_shim.reference("torch"))
    difference = diff(tmp_path / "a", tmp_path / "b")
    assert difference.reason.numbers["settings"] == ["environment.MKL_CBWR"]
    assert "COMPATIBLE" in difference.answer


class Attention(torch.nn.Module):
    """With a bias of keys, whose gradients are zero but for rounding."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = torch.nn.LayerNorm(8), torch.nn.Linear(8, 24), torch.nn.Linear(8, 5)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return self.out(x + torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)), -1), v)).mean(1)


class PaddleAttention(paddle.nn.Layer):
    def __init__(self, epsilon):
        super().__init__()
        self.norm = paddle.nn.LayerNorm(8, epsilon=epsilon)
        self.qkv, self.out = paddle.nn.Linear(8, 24), paddle.nn.Linear(8, 5)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        mixed = paddle.matmul(paddle.nn.functional.softmax(paddle.matmul(q, k, transpose_y=True)), v)
        return self.out(x + mixed).mean(1)


SAMPLES = RNG.standard_normal((3, 6, 4, 8)).astype("float32")
LABELS = RNG.integers(0, 5, (3, 6))
KINDS = {
    "AdamW": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8},
    "Adam": {"beta1": 0.9, "epsilon": 1e-8},
    "Momentum": {"momentum": 0.9},
}


def steps(
    folder, framework="paddle", kind="AdamW", clip=0.5, layer_epsilon=1e-5, reduction="mean", clear=True, values="all", shift=0.0,
    clipper="ClipGradByGlobalNorm", decays="", rates=(), warm=False, leaves="", **numbers,
):  # fmt: skip
    """Three steps with one number that is wrong, or none."""
    torch.manual_seed(1)
    original, port = Attention(), PaddleAttention(layer_epsilon)
    padiff_shim.transfer_weights(original, port)
    port.out.bias.set_value(port.out.bias + shift)
    model = port if framework == "paddle" else original
    numbers = {"learning_rate": 1e-2, "weight_decay": 0.1, **KINDS[kind], **numbers}
    if framework == "paddle":
        clipping = getattr(paddle.nn, clipper)(clip) if clip else None
        if decays:
            spared = {parameter.name for name, parameter in model.named_parameters() if decays in name}
            numbers["apply_decay_param_fun"] = lambda name: name not in spared
        parameters = [parameter for name, parameter in model.named_parameters() if name != leaves]
        optimizer = getattr(paddle.optimizer, kind)(parameters=parameters, grad_clip=clipping, **numbers)
        if warm:
            model(paddle.to_tensor(SAMPLES[2])).sum().backward()
            weights = [parameter.clone() for parameter in model.parameters()]
            optimizer.step()
            optimizer.clear_grad()
            for parameter, weight in zip(model.parameters(), weights):
                parameter.set_value(weight)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)
    module, tensor = (paddle, paddle.to_tensor) if framework == "paddle" else (torch, torch.from_numpy)
    options = {
        "all": {"gradients": True, "parameters": True, "states": True}, "gradients": {"gradients": True},
        "fingerprint": {"values": "fingerprint"},
    }  # fmt: skip
    with record(folder, model, **options[values]):
        for step, (x, y) in enumerate(zip(map(tensor, SAMPLES), map(tensor, LABELS))):
            if rates:
                optimizer.set_lr(rates[step])
            module.nn.functional.cross_entropy(model(x), y, reduction=reduction).backward()
            if framework == "torch":
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            if clear:
                optimizer.clear_grad() if framework == "paddle" else optimizer.zero_grad()


@pytest.mark.parametrize(("kind", "wrong", "reason"), sampled([
    ("AdamW", {"epsilon": 1e-6}, "epsilon"), ("AdamW", {"beta1": 0.8}, "beta"), ("AdamW", {"beta2": 0.99}, "beta"),
    ("AdamW", {"weight_decay": 0.05}, "weight decay"), ("Adam", {"weight_decay": 0.05}, "weight decay"),
    ("Adam", {"learning_rate": 9e-3}, "learning rate"), ("Momentum", {"momentum": 0.8}, "beta"),
    ("Momentum", {"weight_decay": 0.05}, "weight decay"), ("Momentum", {"learning_rate": 9e-3}, "learning rate"),
], 2))  # fmt: skip
def test_a_number_of_the_optimizer(tmp_path, kind, wrong, reason):
    steps(tmp_path / "right", kind=kind)
    steps(tmp_path / "wrong", kind=kind, **wrong)
    known = diff(tmp_path / "right", tmp_path / "wrong").reason
    ((name, number),) = wrong.items()
    right = {"learning_rate": 1e-2, "weight_decay": 0.1, **KINDS[kind]}[name]
    assert known.kind == reason, known.text
    tolerance = {"abs": 3e-8} if name == "epsilon" else {"rel": 1e-2}
    assert [known.numbers[side] for side in "ab"] == pytest.approx([right, number], **tolerance)


@pytest.mark.rows(4)
@pytest.mark.parametrize(("wrong", "reason", "right", "values"), in_turn([
    ({"learning_rate": 9e-3}, "learning rate", 1e-2), ({"weight_decay": 0.0}, "weight decay", 0.1), ({"beta1": 0.8}, "beta", 0.9),
    ({"beta2": 0.99}, "beta", 0.999), ({"epsilon": 1e-6}, "epsilon", 1e-8), ({"clip": 0.4}, "clipping", 0.5),
    ({"clipper": "ClipGradByValue", "clip": 0.1}, "clipping", 0.5),
    ({"clipper": "ClipGradByNorm"}, "clipping", 0.5),
    ({"kind": "Momentum"}, "optimizer", "Adam"), ({"decays": "norm"}, "weight decay", 0.1),
    ({"amsgrad": True}, "optimizer setting", False),
], ["all", "gradients", "fingerprint"]))  # fmt: skip
def test_a_number_between_frameworks(tmp_path, values, wrong, reason, right):
    """Of fingerprints as of values: it is read, not guessed."""
    steps(tmp_path / "torch", framework="torch", values=values)
    steps(tmp_path / "paddle", values=values, **wrong)
    for number, pair in enumerate((("paddle", "torch"), ("torch", "paddle"))):
        difference = diff(*(tmp_path / name for name in pair))
        known = difference.reason
        assert known.kind == reason, difference.answer
        assert known.numbers["ba"[number]] == right
        value = str(right if right is None else f"{right:g}" if isinstance(right, float) else right)
        assert known.numbers["write"].rstrip(")").endswith(value) or known.numbers["write"] == "", known.numbers
        assert known.numbers["write"] in (difference.answer if reason == "clipping" else difference.headline)
        assert difference.settings.differences, "and among what differs around the runs"


def test_a_schedule_that_is_a_step_early(tmp_path):
    for name, ahead in (("right", 0), ("wrong", 1)):
        steps(tmp_path / name, values="fingerprint", rates=(1e-2, 8e-3, 7e-3, 6e-3)[ahead:])
    (known,) = diff(tmp_path / "right", tmp_path / "wrong").settings.differences
    assert (known.shift, known.step, known.a, known.b) == (1, 0, 1e-2, 8e-3)


@pytest.mark.parametrize("values", ["all", "fingerprint"])
@pytest.mark.parametrize("kind", ["AdamW", "Momentum"])
def test_a_state_that_was_not_loaded(tmp_path, values, kind):
    for name, warm in (("right", True), ("wrong", False)):
        steps(tmp_path / name, values=values, kind=kind, warm=warm)
    known = diff(tmp_path / "right", tmp_path / "wrong").reason
    assert (known.kind, known.numbers["side"]) == ("optimizer state", "b")


def test_a_parameter_of_one_optimizer_alone(tmp_path):
    steps(tmp_path / "right", values="fingerprint")
    steps(tmp_path / "wrong", values="fingerprint", leaves="out.bias")
    known = diff(tmp_path / "right", tmp_path / "wrong").reason
    assert (known.kind, known.numbers["a"]) == ("optimizer", "a")
    assert "out.bias" in known.text


def test_settings_without_effect_are_no_difference(tmp_path):
    steps(tmp_path / "right")
    steps(tmp_path / "wrong", amsgrad=True, epsilon=1e-8)
    difference = diff(tmp_path / "right", tmp_path / "wrong")
    assert difference.reason is None or difference.reason.kind == "optimizer setting"
    steps(tmp_path / "loose", clip=1e3)
    steps(tmp_path / "looser", clip=1e4)
    difference = diff(tmp_path / "loose", tmp_path / "looser")
    assert difference, difference.headline
    assert [(known.word, known.a, known.b) for known in difference.settings.differences] == [("clip_norm", 1e3, 1e4)]


@pytest.mark.rows(3)
@pytest.mark.parametrize("values", ["all", "gradients", "fingerprint"])
@pytest.mark.parametrize(("wrong", "reason"), [({"clip": 0}, "clipping"), ({"clear": False}, "not cleared")])
def test_gradients_that_a_step_uses(tmp_path, values, wrong, reason):
    steps(tmp_path / "right", values=values)
    steps(tmp_path / "wrong", values=values, **wrong)
    difference = diff(tmp_path / "right", tmp_path / "wrong")
    assert difference.reason.kind == (reason if not difference.reason.numbers.get("until") else "clipping"), difference.answer
    assert difference.reason.numbers["side"] == ("a" if "clip" in wrong else "b")


@pytest.mark.parametrize(("wrong", "reason"), [({"layer_epsilon": 1e-3}, "epsilon"), ({"reduction": "sum"}, "reduction")])
def test_an_argument_of_a_call(tmp_path, wrong, reason):
    steps(tmp_path / "right")
    steps(tmp_path / "wrong", **wrong)
    known = diff(tmp_path / "right", tmp_path / "wrong").reason
    assert known.kind == "arguments"
    assert reason in known.numbers


def test_an_update_that_was_not_recorded(tmp_path):
    steps(tmp_path / "right", values="gradients")
    steps(tmp_path / "wrong", values="gradients", learning_rate=9e-3)
    difference = diff(tmp_path / "right", tmp_path / "wrong")
    numbers = difference.reason.numbers
    assert (difference.reason.kind, numbers["a"], numbers["b"], numbers["since"]) == ("learning rate", 1e-2, 9e-3, 0)


@pytest.mark.parametrize("values", ["all", "fingerprint"])
def test_noise_of_adaptive_updates_excuses_nothing_else(tmp_path, values):
    """A bias of keys is updated by the signs of rounding: that is no fault, and hides none."""
    steps(tmp_path / "torch", framework="torch", values=values)
    steps(tmp_path / "right", values=values)
    difference = diff(tmp_path / "right", tmp_path / "torch", rtol=3e-4)
    assert {row.any.name for row in difference.differing if row.any.kind == "parameter"} <= {"qkv.bias"}
    assert difference.reason.kind == "rounding"
    assert "until" not in difference.reason.numbers, difference.answer
    for wrong, kind in (
        ({"clear": False}, "not cleared"),
        ({"weight_decay": 0.0}, "weight decay"),
        ({"learning_rate": 9e-3}, "learning rate"),
    ):
        folder = tmp_path / kind
        steps(folder, values=values, **wrong)
        known = diff(folder, tmp_path / "torch", rtol=3e-4).reason
        assert known.kind == kind or (values == "fingerprint" and known.kind == "update"), known.text


@pytest.mark.rows(1)
@pytest.mark.parametrize(("wrong", "reason"), [({"learning_rate": 9e-3}, "learning rate"), ({"shift": 0.1}, "weights")])
def test_one_rank_of_two(tmp_path, monkeypatch, wrong, reason):
    """Of two ranks that compute the same, the second does it otherwise."""
    steps(tmp_path / "alone")
    for rank in range(2):
        monkeypatch.setenv("PADDLE_TRAINER_ID", str(rank))
        monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
        steps(tmp_path / "right")
        steps(tmp_path / "wrong", **(wrong if rank else {}))
    together = diff(tmp_path / "wrong", tmp_path / "alone", shards="auto")
    by_rank = diff(tmp_path / "wrong", tmp_path / "right")
    assert (together.first.rank, by_rank.first.rank) == (1, 1)
    if reason == "weights":
        assert (together.origin.any.name, by_rank.origin.any.name) == ("out.bias", "out.bias")
        return
    assert together.reason.kind == reason, together.answer
    assert by_rank.reason.numbers["a"] == pytest.approx(9e-3, rel=1e-3)


def entropy(folder, framework, factor=0.1, seen=1.0):
    """A step with the entropy of a distribution in its loss, which each framework computes by other calls; ``seen``: by no one."""
    if framework == "paddle":
        model, tensor, distribution = paddle.nn.Linear(6, 3), paddle.to_tensor, paddle.distribution.Categorical
    else:
        model, tensor, distribution = (
            torch.nn.Linear(6, 3),
            torch.from_numpy,
            lambda logits: torch.distributions.Categorical(logits=logits),
        )
    with paddle.no_grad(), torch.no_grad():
        weight = np.linspace(-1, 1, 18, dtype="float32").reshape(6, 3)
        model.weight.copy_(tensor(weight if framework == "paddle" else weight.T.copy()))
        model.bias.copy_(tensor(np.zeros(3, "float32")))
    with record(folder, model, gradients=True, parameters=True):
        logits = model(tensor(X[0].reshape(8, 72)[:, :6].copy()))
        (logits.square().mean() - factor * distribution(logits).entropy().mean()).backward()
        (logits * seen).exp()
    return folder


def test_a_library_computes_by_calls_of_its_own(tmp_path):
    plain = entropy(tmp_path / "a", "paddle")
    difference = diff(plain, entropy(tmp_path / "b", "torch"))
    assert difference.reason.kind == "rounding", difference.reason
    assert "until" not in difference.reason.numbers, difference.reason
    for name, planted in {"loss": {"factor": 0.2}, "result": {"seen": 1.5}}.items():
        reason = diff(plain, entropy(tmp_path / name, "torch", **planted)).reason
        assert reason is not None, name
        assert "until" in reason.numbers or reason.kind != "rounding", reason


class Gated:
    """Angles, a masked attention and a gated layer in either framework, with one thing that is wrong, or none."""

    def __init__(self, framework, mask=1, axis=-1, pairs=False, approximate=False, epsilon=1e-5, first="gate", exchanged=False):
        self.paddle, self.first, self.numbers = framework == "paddle", first, (mask, axis, pairs, approximate, epsilon)
        nn = paddle.nn if self.paddle else torch.nn
        self.model = nn.LayerDict() if self.paddle else nn.ModuleDict()
        drawn = np.random.default_rng(3)
        weights = {name: drawn.standard_normal((8, 8)).astype("float32") for name in ("gate", "up")}
        for name in weights:
            self.model[name] = nn.Linear(8, 8)
            value = weights["up" if exchanged and name == "gate" else "gate" if exchanged else name]
            with paddle.no_grad(), torch.no_grad():
                if self.paddle:
                    self.model[name].weight.set_value(value)
                    self.model[name].bias.set_value(np.zeros(8, "float32"))
                else:
                    self.model[name].weight.copy_(torch.from_numpy(value.T.copy()))
                    self.model[name].bias.zero_()

    def run(self, folder):
        mask, axis, pairs, approximate, epsilon = self.numbers
        module, tensor = (paddle, paddle.to_tensor) if self.paddle else (torch, torch.from_numpy)
        functions, words = module.nn.functional, {"axis" if self.paddle else "dim": axis}
        with record(folder, self.model):
            x = tensor(SAMPLES[0])
            angles = tensor(np.outer(np.arange(4), 0.3 ** np.arange(4)).astype("float32"))
            angles = module.stack([angles, angles], -1).reshape([4, 8]) if pairs else module.concat([angles, angles], -1)
            scores = module.matmul(x, x.transpose([0, 2, 1] if self.paddle else -1, *(() if self.paddle else (-2,))))
            if mask is not None:
                scores = scores + module.triu(module.full([4, 4], -1e9), mask)
            x = module.matmul(functions.softmax(scores, **words), x) * module.cos(angles)
            approximate = approximate if self.paddle else "tanh" if approximate else "none"
            x = functions.gelu(x, approximate=approximate)
            x = functions.layer_norm(x, [8], **{"epsilon" if self.paddle else "eps": epsilon})
            other = "up" if self.first == "gate" else "gate"
            functions.silu(self.model[self.first](x)) * self.model[other](x)
        return folder


@pytest.mark.parametrize(("wrong", "kind", "numbers"), [
    ({"mask": 2}, "mask", {"a": 18, "b": 36}), ({"mask": None}, "mask", {"a": 0, "b": 36}),
    ({"axis": -2}, "axis", {"a": -2, "b": -1}), ({"pairs": True}, "order of elements", {"axis": -1, "pairs": "a"}),
    ({"approximate": True}, "arguments", {}), ({"epsilon": 1e-3}, "arguments", {"epsilon": ["0.001", "1e-05"]}),
    ({"first": "up"}, "operand", {"a": "up", "b": "gate"}),
    ({"exchanged": True}, "exchanged", {"a": "gate.weight", "b": "up.weight"}),
])  # fmt: skip
def test_what_a_call_does_otherwise_between_frameworks(wrong, kind, numbers, tmp_path):
    original = Gated("torch").run(tmp_path / "torch")
    assert diff(Gated("paddle").run(tmp_path / "right"), original, rtol=1e-4)
    difference = diff(Gated("paddle", **wrong).run(tmp_path / "wrong"), original, rtol=1e-4)
    assert difference.reason.kind == kind, difference.answer
    assert numbers.items() <= difference.reason.numbers.items(), difference.reason
    assert difference.reason.text in difference.answer


def plain(
    folder, framework, parts=1, skips=None, decay=None, scale=1.0, dtype="float32", begin=0, count=3, whole=True, **options
):  # fmt: skip
    """A training of two layers, which the program calls itself; ``decay``: that of a moving average of a weight, which is noted."""
    module, tensor = (paddle, paddle.to_tensor) if framework == "paddle" else (torch, torch.from_numpy)
    linears = [module.nn.Linear(8, 8), module.nn.Linear(8, 5)]
    drawn = np.random.default_rng(4)
    with paddle.no_grad(), torch.no_grad():
        for linear, size in zip(linears, (8, 5)):
            value = drawn.standard_normal((8, size)).astype("float32")
            linear.weight.copy_(tensor(value if framework == "paddle" else value.T.copy()))
            linear.bias.copy_(tensor(np.zeros(size, "float32")))
    parameters = [parameter for linear in linears for parameter in linear.parameters()]
    optimizer = paddle.optimizer.Adam(1e-2, parameters=parameters) if framework == "paddle" else torch.optim.Adam(parameters, 1e-2)
    average = linears[0].weight.detach().clone()
    model = module.nn.Sequential(*linears)
    options = {"gradients": True, "parameters": True, **options} if whole else {"framework": framework}
    recording = record(folder, *([model] if whole else []), **options)
    for step in range(begin + count):
        if step == begin:
            recording.start()
        for x, y in zip(np.split(SAMPLES[step], parts), np.split(LABELS[step], parts)):
            hidden = linears[0](tensor(x).mean(1))
            if dtype != "float32":
                hidden = hidden.to(torch.bfloat16).float() * hidden.bfloat16()[0, 0].float() / hidden[0, 0].detach()
                hidden = torch.nn.functional.gelu(hidden.bfloat16()).float()
            else:
                hidden = module.nn.functional.gelu(hidden)
            (module.nn.functional.cross_entropy(linears[1](hidden), tensor(y)) * scale / parts).backward()
        if scale != 1.0:
            for parameter in parameters:
                parameter.grad.div_(scale)
        if step != skips:
            optimizer.step()
        optimizer.clear_grad() if framework == "paddle" else optimizer.zero_grad()
        if decay is not None:
            with paddle.no_grad(), torch.no_grad():
                average = average * decay + linears[0].weight * (1 - decay) if decay else linears[0].weight
            if step >= begin:
                recording.note("average", average)
    recording.stop()
    return folder


def test_a_step_that_one_run_skips(tmp_path):
    for number, framework in enumerate(("paddle", "torch")):
        sides = [plain(tmp_path / f"{framework} {name}", framework, **({"skips": 1} if name == "a" else {})) for name in "ab"]
        for other in (sides[1], plain(tmp_path / f"other {number}", ("torch", "paddle")[number])):
            known = diff(sides[0], other, rtol=1e-4).reason
            assert (known.kind, known.numbers) == ("skipped step", {"side": "a", "step": 1})
            assert diff(other, sides[0], rtol=1e-4).reason.numbers["side"] == "b"


def test_a_moving_average_of_weights(tmp_path):
    original = plain(tmp_path / "torch", "torch", decay=0.9)
    assert diff(plain(tmp_path / "right", "paddle", decay=0.9), original, rtol=1e-4)
    known = diff(plain(tmp_path / "missing", "paddle", decay=0.0), original, rtol=1e-4).reason
    assert (known.kind, known.numbers["a"], known.numbers["b"]) == ("moving average", 0, pytest.approx(0.9, rel=1e-3))


@pytest.mark.parametrize("parts", [(2, 1), (3, 1), (2, 3)])
def test_accumulation_in_layers_that_the_program_calls_itself(parts, tmp_path):
    both = zip("ab", ("paddle", "torch"), parts)
    sides = [plain(tmp_path / name, framework, count, whole=False) for name, framework, count in both]
    difference = diff(*sides, rtol=1e-4)
    assert difference, difference.answer
    assert (difference.reason.kind, difference.reason.numbers["a"], difference.reason.numbers["b"]) == ("batch size", *parts)


def test_a_scaled_loss_whose_gradients_are_unscaled_is_no_difference(tmp_path):
    original = plain(tmp_path / "torch", "torch")
    scaled = plain(tmp_path / "scaled", "torch", scale=1024.0)
    for one_side, other in ((plain(tmp_path / "paddle", "paddle"), scaled), (scaled, original)):
        differing = [row for row in diff(one_side, other, rtol=1e-4).differing if row.any.kind != "op"]
        assert not differing, differing[0]


def test_another_dtype_is_named(tmp_path):
    difference = diff(plain(tmp_path / "a", "paddle"), plain(tmp_path / "b", "torch", dtype="bfloat16"))
    assert "bfloat16" in difference.answer


def test_a_resume_with_another_number_of_steps(tmp_path):
    whole = plain(tmp_path / "whole", "torch")
    for framework in ("torch", "paddle"):
        difference = diff(plain(tmp_path / framework, framework, begin=1, count=1), whole, rtol=1e-4)
        assert difference.begins == ("a", 1)
        assert not difference.counts.differing, difference.answer
        assert len(difference.holes) == 1, "b goes on"
