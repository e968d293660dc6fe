"""Right ports are proven, wrong ones found at their call, and nothing of the caller's is changed."""

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF
from helpers import classes

import padiff_shim
from padiff_shim import ProofVerdict, prove

pytestmark = [pytest.mark.bitexact, pytest.mark.usefixtures("undone")]
D = 12


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.norm = torch.nn.Embedding(20, D), torch.nn.LayerNorm(D)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(D, D) for _ in range(4))

    def forward(self, tokens):
        x = self.words(tokens)
        h = self.norm(x)
        q, k, v = self.q(h), self.k(h), self.v(h)
        weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / D**0.5, dim=-1)
        x = x + self.out(torch.matmul(weights, v))
        return TF.gelu(x) * 0.5


class Port(paddle.nn.Layer):
    """The right port, but for what ``wrong`` says."""

    def __init__(self, **wrong):
        super().__init__()
        self.wrong = wrong
        self.words, self.norm = paddle.nn.Embedding(20, D), paddle.nn.LayerNorm(D, epsilon=wrong.get("epsilon", 1e-5))
        self.q, self.k, self.v, self.out = (paddle.nn.Linear(D, D) for _ in range(4))

    def forward(self, tokens):
        is_ = self.wrong.get
        x = self.words((tokens + 1) % 20 if is_("shift") else tokens)
        h = x if is_("no norm") else self.norm(x)
        q, k, v = self.q(h), self.k(h), self.v(h)
        q, k = (k, q) if is_("swapped") else (q, k)
        scores = paddle.matmul(q, k.transpose([0, 2, 1]))
        scores = scores if is_("no scale") else scores / is_("scale", D**0.5)
        weights = PF.softmax(scores, axis=is_("axis", -1))
        mixed = self.out(paddle.matmul(weights, v))
        x = mixed if is_("no residual") else x + mixed
        x = PF.relu(x) if is_("relu") else PF.gelu(x, approximate=is_("approximate", False))
        x = x * 3.0 if is_("extra") else x
        return x * is_("factor", 0.5)


TOKENS = np.random.default_rng(0).integers(0, 20, (3, 5))
MISTAKES = [
    ({"epsilon": 1e-12}, "another attribute", "epsilon=1e-12 against eps=1e-05", "self.norm(x)"),
    ({"epsilon": 1.2e-5}, "another attribute", "epsilon=1.2e-05 against eps=1e-05", "self.norm(x)"),
    ({"scale": D / 2}, "another attribute", "/ 6 against / 12 ** 0.5", "scores /"),
    ({"axis": 1}, "another attribute", "axis=1 against dim=-1", "PF.softmax"),
    ({"approximate": True}, "another attribute", "approximate=True against False", "PF.gelu"),
    ({"factor": 0.25}, "another attribute", "* 0.25 against * 0.5", "factor"),
    ({"no scale": True}, "an op is missing", "div", "PF.softmax"),
    ({"no norm": True}, "an op is missing", "layer_norm", "self.q(h)"),
    ({"no residual": True}, "an op is missing", "add", "PF.gelu"),
    ({"extra": True}, "an op too many", "mul(other=3.0)", "x * 3.0"),
    ({"relu": True}, "another op", "relu in place of gelu", "PF.relu"),
    ({"swapped": True}, "operands swapped", "the operands of matmul are exchanged", "matmul(q, k"),
    ({"shift": True}, "another constant", "indices", "self.words"),
]


def original():
    torch.manual_seed(0)
    return Original()


@pytest.mark.parametrize("weights", ["torch->paddle", "paddle->torch", "random"])
@pytest.mark.parametrize("phase", ["forward", "both"])
def test_a_right_port_is_proven_bit_for_bit(weights, phase):
    proof = prove(Port(), original(), TOKENS, weights=weights, phase=phase)
    assert proof
    assert proof.verdict is ProofVerdict.CODE_CORRECT
    assert proof.differences["shim"] == 0
    assert not proof.mistakes
    assert all(row.identical for row in proof.layers)
    assert {row.paddle for row in proof.layers} >= {"norm", "q", "out"}
    assert [stage.right for stage in proof.stages] == [True] * len(proof.stages)


@pytest.mark.rows(6)
@pytest.mark.parametrize(("wrong", "cause", "text", "line"), MISTAKES, ids=[str(row[0]) for row in MISTAKES])
def test_a_mistake_is_found_at_its_line_and_named(wrong, cause, text, line):
    proof = prove(Port(**wrong), original(), TOKENS)
    assert not proof
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert proof.complete
    (mistake,) = proof.mistakes
    assert str(mistake.cause) == cause
    assert text in mistake.text
    assert line in mistake.paddle.source
    assert mistake.paddle.file == __file__
    assert proof.answer.startswith(f"CODE_DIFFERS: {cause}")
    assert [stage.name for stage in proof.stages if stage.right is False] == ["forward"]


class OriginalWithStates(Original):
    def forward(self, tokens):
        x = super().forward(tokens)
        return {"last": x, "states": [self.words(tokens), x, x]}


class PortWithStates(Port):
    def forward(self, tokens):
        x = super().forward(tokens)
        return {"last": x, "states": [self.words(tokens), x, x]}


def test_a_tensor_may_be_returned_more_than_once():
    torch.manual_seed(0)
    theirs = OriginalWithStates()
    proof = prove(PortWithStates(), theirs, TOKENS)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    wrong = prove(PortWithStates(factor=0.25), theirs, TOKENS)
    assert [mistake.text for mistake in wrong.mistakes] == ["* 0.25 against * 0.5 (write * 0.5)"], str(wrong)


@pytest.mark.slow
def test_several_mistakes_are_all_found():
    proof = prove(Port(epsilon=1e-3, swapped=True, approximate=True, factor=0.4), original(), TOKENS)
    causes = [str(mistake.cause) for mistake in proof.mistakes]
    assert sorted(causes) == [*["another attribute"] * 3, "operands swapped"]
    effects = [mistake.effect or 0.0 for mistake in proof.mistakes]
    assert effects == sorted(effects, reverse=True)
    assert proof.complete


class Detached(Port):
    def forward(self, tokens):
        x = self.words(tokens)
        h = self.norm(x)
        weights = PF.softmax(paddle.matmul(self.q(h), self.k(h).detach().transpose([0, 2, 1])) / D**0.5, axis=-1)
        return PF.gelu(x + self.out(paddle.matmul(weights, self.v(h)))) * 0.5


def test_a_gradient_that_is_not_there_breaks_the_backward():
    proof = prove(Detached(), original(), TOKENS)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert {stage.name: stage.right for stage in proof.stages}["forward"] is True
    assert {stage.name: stage.right for stage in proof.stages}["backward"] is False
    assert "k.weight gets no gradient" in " ".join([proof.reason, *proof.notes])
    assert prove(Detached(), original(), TOKENS, phase="forward")


class Scaled(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0


class WrongBackward(Port):
    def forward(self, tokens):
        return Scaled.apply(super().forward(tokens))


def test_a_wrong_backward_behind_a_right_forward_is_no_rounding():
    proof = prove(WrongBackward(), original(), TOKENS)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert {stage.name: stage.right for stage in proof.stages}["forward"] is True


def test_weights_that_differ_are_named():
    theirs, ours = original(), Port()
    padiff_shim.transfer_weights(theirs, ours)
    assert prove(ours, theirs, TOKENS, weights="as-is").verdict is ProofVerdict.CODE_CORRECT
    ours.k.weight.set_value(ours.k.weight.t())
    proof = prove(ours, theirs, TOKENS, weights="as-is")
    assert proof.verdict is ProofVerdict.WEIGHTS_DIFFER
    assert "k.weight" in proof.reason


def test_inputs_that_differ_are_named():
    proof = prove(Port(), original(), lambda framework: TOKENS if framework == "torch" else TOKENS[::-1].copy())
    assert proof.verdict is ProofVerdict.INPUTS_DIFFER
    assert not proof


def test_what_cannot_be_compared_is_said():
    ours = Port()
    ours.eval()
    proof = prove(ours, original(), TOKENS)
    assert proof.verdict is ProofVerdict.NOT_COMPARABLE
    assert "evaluation mode" in proof.reason


@pytest.mark.slow
def test_another_shape_of_the_output_is_no_rounding():
    class Turned(Port):
        def forward(self, tokens):
            return super().forward(tokens).transpose([1, 0, 2])

    proof = prove(Turned(), original(), TOKENS)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert "shape" in proof.reason


def test_a_reversed_output_does_not_pass():
    class Reversed(Port):
        def forward(self, tokens):
            return super().forward(tokens).flip(1)

    proof = prove(Reversed(), original(), TOKENS)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS


def test_the_callers_models_and_random_states_stay_as_they_are():
    theirs, ours = original(), Port()
    before = [p.numpy().tobytes() for p in ours.parameters()], [p.detach().numpy().tobytes() for p in theirs.parameters()]
    states = torch.get_rng_state(), np.random.get_state()[1].tobytes()
    prove(ours, theirs, TOKENS)
    prove(Port(extra=True), theirs, TOKENS)
    assert before == ([p.numpy().tobytes() for p in ours.parameters()], [p.detach().numpy().tobytes() for p in theirs.parameters()])
    assert all(p.grad is None for p in theirs.parameters())
    assert all(p.grad is None for p in ours.parameters())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tobytes() == states[1]
    assert not any(layer._forward_pre_hooks or layer._forward_post_hooks for layer in ours.sublayers(include_self=True))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in theirs.modules())


def test_an_error_of_a_model_is_raised_unchanged_and_leaves_nothing():
    class Broken(Port):
        def forward(self, tokens):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        prove(Broken(), original(), TOKENS)


def test_a_loss_and_dropout_in_training():
    theirs = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.5), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    ours = paddle.nn.Sequential(paddle.nn.Linear(6, 8), paddle.nn.Dropout(0.5), paddle.nn.Tanh(), paddle.nn.Linear(8, 3))
    x = np.random.default_rng(1).standard_normal((4, 6))
    losses = (lambda out: PF.mse_loss(out, paddle.ones_like(out)), lambda out: TF.mse_loss(out, torch.ones_like(out)))
    proof = prove(ours, theirs, x, loss=losses)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    assert "loss" in [stage.name for stage in proof.stages]
    wrong = (lambda out: PF.l1_loss(out, paddle.ones_like(out)), losses[1])
    assert prove(ours, theirs, x, loss=wrong).verdict is ProofVerdict.CODE_DIFFERS


def single(self, x):
    return torch.matmul(self.last(x), torch.eye(D, dtype=torch.float32))  # so, whatever the model is


def single_port(self, x):
    return paddle.matmul(self.last(x * 2.0), paddle.eye(D, dtype="float32"))


SinglePort, Single = classes(single_port, single, last=("Linear", D, D))


def test_models_that_say_float32_run_in_float64_all_the_same():
    proof = prove(SinglePort(), Single(), np.random.default_rng(0).standard_normal((3, D)))
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert "2.0" in str(proof)


def test_models_that_do_not_run_in_float64_are_told():
    class Refusing(Single):
        def forward(self, x):
            if self.last.weight.dtype != torch.float32:
                raise RuntimeError("float32 alone")
            return super().forward(x)

    proof = prove(SinglePort(), Refusing(), np.random.default_rng(0).standard_normal((3, D)))
    assert proof.verdict is ProofVerdict.NOT_COMPARABLE
    assert "RuntimeError: float32 alone" in proof.reason


def test_nan_alone_proves_nothing():
    """NaN equals NaN, whatever a port computes."""
    models = paddle.nn.LayerNorm(4, epsilon=1e-3), torch.nn.LayerNorm(4)
    proof = prove(*models, np.full((2, 4), np.nan, "float32"))
    assert proof.verdict is ProofVerdict.NOT_COMPARABLE
    assert "NaN" in proof.reason
    some = np.arange(8.0).reshape(2, 4)
    some[0] = np.nan
    assert prove(*models, some).verdict is ProofVerdict.CODE_DIFFERS
    with pytest.raises(padiff_shim.ArgumentError, match="seed= is a whole number"):
        prove(*models, some, seed=-1)
    with pytest.raises(padiff_shim.ArgumentError, match="inputs= holds numbers"):
        prove(*models, np.array(["a"]))
