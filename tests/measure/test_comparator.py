"""A comparator of the user's own judges where ``compare``, ``diff`` and ``prove`` do."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import ArgumentError, ProofVerdict, Verdict, testing

X = np.random.default_rng(0).standard_normal((4, 8)).astype("float32")


def near(limit, names=None):
    """A comparator that accepts differences up to a limit; ``names``: what it was asked about."""

    def equal(a, b, name):
        if names is not None:
            names.append(name)
        return bool(np.abs(a - b).max() <= limit)

    return equal


def tanh_compared(**options):
    """The records of a tanh whose result on Paddle's side is 1 % off."""
    with testing.planted("tanh", lambda out, x: out * 1.01), padiff_shim.compare("torch", **options) as run:
        paddle.tanh(paddle.to_tensor(X))
    return run


def test_a_comparison_asks_about_what_differs():
    names = []
    run = tanh_compared(equal=near(0.1, names))
    (call,) = run.calls
    assert (call.verdict, call.side, call.modifiers) == (Verdict.ROUNDING, "none", ["accepted"])
    assert names == ["tanh out"]
    assert run
    assert not tanh_compared(equal=near(1e-6))
    plain = tanh_compared().calls[0]
    (open_call,) = tanh_compared(equal=lambda a, b, name: None).calls
    assert (open_call.verdict, open_call.side) == (plain.verdict, plain.side)
    assert not open_call.modifiers


def test_a_comparison_calls_refused_rounding_inaccurate():
    x = paddle.to_tensor(np.tile(X, (64, 8)))
    with padiff_shim.compare("torch", equal=lambda a, b, name: False) as run:
        y = paddle.nn.functional.softmax(x, -1).sum(0)
        paddle.exp(y)
    refused = [call for call in run.calls if "refused" in call.modifiers]
    assert refused
    assert all(call.verdict is Verdict.LOW_ACCURACY for call in refused)
    assert not run
    equal = [call for call in run.calls if call.verdict is Verdict.EQUAL]
    assert all("refused" not in call.modifiers for call in equal)


@pytest.mark.parametrize("limit", [1e-2, 1e-6])
def test_two_recordings_ask_about_what_differs(tmp_path, limit):
    for folder, shift in (("a", 0.0), ("b", 1e-3)):
        with padiff_shim.record(tmp_path / folder, framework="torch") as recording:
            recording.note("x", torch.from_numpy(X) + shift)
            recording.note("same", torch.from_numpy(X))
    names = []
    difference = padiff_shim.diff(tmp_path / "a", tmp_path / "b", equal=near(limit, names))
    assert bool(difference) is (limit > 1e-3)
    assert "note x" in names
    assert "note same" not in names
    with pytest.raises(ArgumentError, match="equal="):
        padiff_shim.diff(tmp_path / "a", tmp_path / "b", equal=3)


def models(epsilon):
    torch.manual_seed(0)
    paddle.seed(0)
    return paddle.nn.LayerNorm(8, epsilon=epsilon), torch.nn.LayerNorm(8)


def test_a_proof_asks_about_outputs_and_gradients():
    names = []
    proof = padiff_shim.prove(*models(1.1e-5), X, equal=near(1e-2, names))
    assert (proof.verdict, proof.mistakes) == (ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING, [])
    assert "output" in names
    assert "gradient of weight" in names
    assert proof.differences["shim"] > 0
    refusing = padiff_shim.prove(*models(1.1e-5), X, equal=near(1e-9))
    assert refusing.verdict is ProofVerdict.CODE_DIFFERS
    assert refusing.mistakes[0].text == padiff_shim.prove(*models(1.1e-5), X).mistakes[0].text
    assert padiff_shim.prove(*models(1e-5), X, equal=lambda *_: False).verdict is ProofVerdict.CODE_CORRECT


class AnotherOrder(paddle.nn.Layer):
    def forward(self, x):
        return (x + 0.1) + 0.7


class Summed(torch.nn.Module):
    def forward(self, x):
        return (x + 0.7) + 0.1


def test_what_a_comparator_refuses_differs_though_rounding_explains_it():
    assert padiff_shim.prove(AnotherOrder(), Summed(), X).verdict is ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING
    proof = padiff_shim.prove(AnotherOrder(), Summed(), X, equal=lambda *_: False)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert "output" in proof.reason
    with pytest.raises(ArgumentError, match="equal="):
        padiff_shim.prove(*models(1e-5), X, phase="train", optimizer="SGD", equal=near(1.0))
