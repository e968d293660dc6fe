"""Whole steps of a training: right ones are proven, and what goes wrong in the optimizer, or around it, is named."""

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF
from training_pair import Port, X, original, ours, proven, right, square, theirs

from padiff_shim import ArgumentError, ProofVerdict, prove, transfer_weights
from padiff_shim.proof.findings import Cause
from padiff_shim.runlog.optimizer_settings import PADDLES_KINDS

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("undone")]


@pytest.mark.rows(4)
@pytest.mark.parametrize("name", [name for name in PADDLES_KINDS if hasattr(paddle.optimizer, name)])
def test_a_right_training_is_proven_with_an_optimizer_by_name(name):
    proof = prove(Port(), original(), X, phase="train", loss=square, optimizer=name, steps=3)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    wanted = ["inputs", "weights", "forward", "loss", "backward", "statistics", "optimizer step", "training"]
    assert [(stage.name, stage.right) for stage in proof.stages] == [(name, True) for name in wanted]
    assert [(row.step, row.identical, row.shim) for row in proof.training] == [(0, True, 0), (1, True, 0), (2, True, 0)]
    assert "3 training steps" in proof.answer


def test_steps_change_the_losses_and_not_the_callers_models():
    port, module = Port(), original()
    before = [p.numpy().tobytes() for p in port.parameters()], [p.detach().numpy().tobytes() for p in module.parameters()]
    proof = prove(port, module, X, phase="train", loss=square, optimizer="SGD", steps=3)
    assert len({row.loss for row in proof.training}) == 3
    assert before == ([p.numpy().tobytes() for p in port.parameters()], [p.detach().numpy().tobytes() for p in module.parameters()])
    assert not module.norm.running_mean.any()
    assert all(p.grad is None for p in [*port.parameters(), *module.parameters()])


def test_the_weights_are_those_of_the_side_that_is_named():
    def first_loss(direction):
        proof = prove(port, module, X, phase="train", loss=square, optimizer="SGD", steps=1, weights=direction)
        assert proof
        return proof.training[0].loss

    port, module = Port(), original()
    losses = [first_loss(direction) for direction in ("paddle->torch", "torch->paddle")]
    assert losses[0] != losses[1]
    transfer_weights(module, port)
    assert [first_loss(direction) for direction in ("paddle->torch", "torch->paddle")] == [losses[1]] * 2


def test_a_setting_that_has_no_effect_yet_is_named():
    proof = proven(ours("Momentum", momentum=0.1), theirs("SGD", momentum=0.9), steps=1)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert "no effect in 1 step" in proof.reason


def test_updates_that_are_another_though_no_setting_is():
    def moved(layer):
        optimizer = paddle.optimizer.SGD(0.01, parameters=layer.parameters())

        def step():
            optimizer.step()
            optimizer.clear_grad()
            layer.down.bias.set_value(layer.down.bias * 1.001)

        return step

    proof = proven(moved, theirs("SGD"))
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert not proof.mistakes
    assert right(proof)["optimizer step"] is False
    assert "down.bias" in proof.reason


class Handmade(Port):
    """The same mathematics in another order."""

    def forward(self, x):
        x = paddle.matmul(x, self.up.weight) + self.up.bias
        return self.down(self.drop(paddle.tanh(self.norm(x)) * 3.0) / 3.0)


@pytest.mark.slow
def test_a_training_in_another_order_is_right_within_rounding():
    proof = proven(ours(), theirs(), port=Handmade)
    assert proof.verdict is ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING, str(proof)
    assert right(proof)["training"] is True
    wrong = proven(ours(epsilon=1e-5), theirs(), port=Handmade)
    assert wrong.verdict is ProofVerdict.CODE_DIFFERS
    assert [mistake.write for mistake in wrong.mistakes] == ["epsilon=1e-08"]


class WrongForward(Port):
    def forward(self, x):
        return self.down(self.drop(PF.relu(self.norm(self.up(x)))))


def test_an_optimizer_is_looked_at_behind_a_wrong_forward():
    """From the original's weights and gradients, step by step."""
    proof = proven(ours(), theirs(), port=WrongForward)
    assert right(proof) == {**right(proof), "forward": False, "loss": None, "optimizer step": True, "training": None}
    assert "relu" in proof.answer
    wrong = proven(ours(weight_decay=0.3), theirs(), port=WrongForward)
    assert [mistake.cause for mistake in wrong.mistakes] == [Cause.OTHER_OP, Cause.SETTING]
    assert right(wrong)["optimizer step"] is False


def test_a_wrong_loss_breaks_the_stage_of_the_loss():
    proof = proven(
        ours(), theirs(), loss=(lambda output: PF.l1_loss(output, output * 0), lambda output: TF.mse_loss(output, output * 0))
    )
    assert proof.verdict is ProofVerdict.CODE_DIFFERS
    assert right(proof) == {**right(proof), "forward": True, "loss": False, "backward": None}


class OwnLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = original()

    def forward(self, x, wanted):
        output = self.inner(x)
        return {"loss": TF.cross_entropy(output, wanted), "logits": output}


class OwnLossPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.inner = Port()

    def forward(self, x, wanted):
        output = self.inner(x)
        return {"loss": PF.cross_entropy(output, wanted), "logits": output}


def test_a_models_own_loss_and_another_batch_at_each_step():
    calls = []

    def batch(framework, step):
        calls.append((framework, step))
        rng = np.random.default_rng(step)
        return {"x": rng.standard_normal((8, 6)), "wanted": rng.integers(0, 3, 8)}

    proof = prove(OwnLossPort(), OwnLoss(), batch, phase="train", optimizer="Momentum", steps=3)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    assert {("torch", 2), ("paddle", 2)} <= {*calls}
    assert right(proof)["loss"] is True
    assert len({row.loss for row in proof.training}) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"phase": "train"}, "optimizer= is a function"),
        ({"phase": "train", "optimizer": "Adan"}, "none of the names SGD"),
        ({"phase": "train", "optimizer": "SGD", "steps": 0}, "steps= is a whole number"),
        ({"optimizer": "SGD"}, "belong to phase='train'"),
        ({"steps": 2}, "belong to phase='train'"),
        ({"phase": "train", "optimizer": (lambda _: None, theirs())}, "for Paddle it returned None"),
    ],
)
def test_what_is_not_accepted_is_told(options, message):
    with pytest.raises(ArgumentError, match=message):
        prove(Port(), original(), X, **options)
