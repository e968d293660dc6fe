"""Reasons of a difference between two trainings: how far rounding explains it, and what is behind it."""

import contextlib

import numpy as np
import paddle
import pytest
import torch

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
    ("epsilon", "rounding"), ("parts-epsilon", "batch size"), ("samples-epsilon", "order of samples"),
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
    assert difference.reason.numbers["until"].startswith("cross_entropy"), "what one sample makes is compared with itself"


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


def test_the_setting_that_differs_stands_in_the_headline(tmp_path, monkeypatch):
    monkeypatch.delenv("MKL_CBWR", raising=False)
    train(tmp_path / "a")
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    train(tmp_path / "b", mode=padiff_shim.reference("torch"))
    difference = diff(tmp_path / "a", tmp_path / "b")
    assert difference.reason.numbers["settings"] == ["environment.MKL_CBWR"]
    assert "COMPATIBLE" in difference.answer
