"""Whole steps of a training: right ones are proven, and what goes wrong in the optimizer, or around it, is named."""

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
import torch
import torch.nn.functional as TF

from padiff_shim import ArgumentError, ProofVerdict, prove
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.proving.updates import _NAMES

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("undone")]
X = np.random.default_rng(0).standard_normal((8, 6))


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
        self.drop = torch.nn.Dropout(0.25)

    def forward(self, x):
        return self.down(self.drop(torch.tanh(self.norm(self.up(x)))))


class Port(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = paddle.nn.Linear(6, 8), paddle.nn.BatchNorm1D(8), paddle.nn.Linear(8, 3)
        self.drop = paddle.nn.Dropout(0.25)

    def forward(self, x):
        return self.down(self.drop(paddle.tanh(self.norm(self.up(x)))))


def original():
    torch.manual_seed(0)
    return Original()


def square(output):
    return (output * output).mean()


def ours(name="AdamW", **options):
    return lambda layer: getattr(paddle.optimizer, name)(**{"learning_rate": 0.01, "parameters": layer.parameters(), **options})


def theirs(name="AdamW", **options):
    return lambda module: getattr(torch.optim, name)(module.parameters(), **{"lr": 0.01, **options})


def proven(paddle_optimizer, torch_optimizer, steps=3, port=Port, **more):
    return prove(
        port(), original(), X, phase="train", optimizer=(paddle_optimizer, torch_optimizer), steps=steps, **{"loss": square, **more}
    )


def right(proof):
    return {stage.name: stage.right for stage in proof.stages}


@pytest.mark.parametrize("name", _NAMES)
def test_a_right_training_is_proven_with_an_optimizer_by_name(name):
    proof = prove(Port(), original(), X, phase="train", loss=square, optimizer=name, steps=3)
    if name == "Adagrad" and not IS_3:  # its update stays on Paddle's kernel there
        assert proof.verdict is ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING, str(proof)
        return
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    wanted = ["inputs", "weights", "forward", "loss", "backward", "statistics", "optimizer step", "training"]
    assert [(stage.name, stage.right) for stage in proof.stages] == [(name, True) for name in wanted]
    assert [(row.step, row.identical, row.shim) for row in proof.training] == [(1, True, 0), (2, True, 0), (3, True, 0)]
    assert "3 training steps" in proof.headline


def test_steps_change_the_losses_and_not_the_callers_models():
    port, module = Port(), original()
    before = [p.numpy().tobytes() for p in port.parameters()], [p.detach().numpy().tobytes() for p in module.parameters()]
    proof = prove(port, module, X, phase="train", loss=square, optimizer="SGD", steps=3)
    assert len({row.loss for row in proof.training}) == 3
    assert before == ([p.numpy().tobytes() for p in port.parameters()], [p.detach().numpy().tobytes() for p in module.parameters()])
    assert not module.norm.running_mean.any()
    assert all(p.grad is None for p in [*port.parameters(), *module.parameters()])


def _no_decay_of_vectors(layer):
    decayed = [p.name for p in layer.parameters() if p.ndim > 1]
    return paddle.optimizer.AdamW(0.01, parameters=layer.parameters(), apply_decay_param_fun=lambda name: name in decayed)


def _groups(module):
    parameters = list(module.parameters())
    flat = [p for p in parameters if p.ndim == 1]
    return torch.optim.AdamW([{"params": [p for p in parameters if p.ndim > 1]}, {"params": flat, "weight_decay": 0.0}], lr=0.01)


def _scheduled(layer, warm=0):
    schedule = paddle.optimizer.lr.StepDecay(0.01, 1, 0.5)
    for _ in range(warm):
        schedule.step()
    return paddle.optimizer.SGD(schedule, parameters=layer.parameters()), schedule


def _torch_scheduled(module):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


def _late(layer):
    optimizer, schedule = _scheduled(layer)
    steps = iter(range(100))

    def step():
        optimizer.step()
        optimizer.clear_grad()
        if next(steps):
            schedule.step()

    return step


def _torch_clipped(limit=0.05):
    def make(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

        def step():
            torch.nn.utils.clip_grad_norm_(module.parameters(), limit)
            optimizer.step()
            optimizer.zero_grad()

        return step

    return make


def _clipped(limit):
    return lambda layer: paddle.optimizer.SGD(0.01, parameters=layer.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(limit))


def _uncleared(layer):
    return paddle.optimizer.SGD(0.01, parameters=layer.parameters()).step


def _without_bias(layer):
    return paddle.optimizer.SGD(0.01, parameters=[layer.up.weight, *layer.norm.parameters(), *layer.down.parameters()])


RIGHT = {
    "groups": (_no_decay_of_vectors, _groups),
    "schedule": (_scheduled, _torch_scheduled),
    "clipping": (_clipped(0.05), _torch_clipped()),
    "clipping without effect": (_clipped(1e6), theirs("SGD")),
    "no decay at all": (ours("Adam"), theirs(weight_decay=0.0)),
    "momentum of zero": (ours("Momentum", momentum=0.0), theirs("SGD")),
    "decay of the gradient": (ours("Momentum", weight_decay=0.1), theirs("SGD", momentum=0.9, weight_decay=0.1)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_optimizers_that_are_written_otherwise_are_right(name):
    proof = proven(*RIGHT[name])
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)


SETTING, RATE = "another setting of the optimizer", "another learning rate"
WRONG = {
    "epsilon": (ours(epsilon=1e-6), theirs(), SETTING, "eps=1e-06 against 1e-08"),
    "beta": (ours(beta2=0.99), theirs(), SETTING, "beta2=0.99 against 0.999"),
    "decay": (ours(weight_decay=0.1), theirs(), SETTING, "weight_decay=0.1 against 0.01"),
    "no decay": (ours("Momentum"), theirs("SGD", momentum=0.9, weight_decay=0.1), SETTING, "weight_decay=0 against 0.1"),
    "coupled": (ours("Adam", weight_decay=0.01), theirs(), SETTING, "weight decay is added to the gradient"),
    "decay of vectors": (ours(), _groups, SETTING, "weight_decay=0.01 against 0 for 4 of 6 weights"),
    "momentum": (ours("Momentum", momentum=0.1), theirs("SGD", momentum=0.9), SETTING, "momentum=0.1 against 0.9"),
    "nesterov": (
        ours("Momentum", use_nesterov=True),
        theirs("SGD", momentum=0.9),
        SETTING,
        "nesterov=True against False",
    ),
    "rho": (ours("RMSProp", rho=0.95, epsilon=1e-8), theirs("RMSprop"), SETTING, "alpha=0.95 against 0.99"),
    "rate": (ours(learning_rate=0.001), theirs(), RATE, "lr=0.001 against 0.01"),
    "schedule early": (lambda layer: _scheduled(layer, 1), _torch_scheduled, RATE, "the schedule is one step early"),
    "schedule late": (_late, _torch_scheduled, RATE, "the schedule is one step late from step 2 on"),
    "no schedule": (ours("SGD"), _torch_scheduled, RATE, "lr=0.01 against 0.005"),
    "optimizer": (ours("Momentum"), theirs(), "another optimizer", "SGD in place of Adam"),
    "parameter": (_without_bias, theirs("SGD"), SETTING, "is not in the port's optimizer for 1 of 6 weights (up.bias)"),
    "no clipping": (ours("SGD"), _torch_clipped(), "another clipping", "to 0.05, in the port they are not"),
    "clipping": (_clipped(0.01), theirs("SGD"), "another clipping", "to 0.01, in the original they are not"),
    "limit": (_clipped(0.02), _torch_clipped(), "another clipping", "to 0.02 against their global norm to 0.05"),
    "not cleared": (_uncleared, theirs("SGD"), "gradients are not cleared", "the port's gradients stay"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_in_the_optimizer_is_named_with_both_values(name):
    mine, yours, cause, text = WRONG[name]
    proof = proven(mine, yours)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS, str(proof)
    found = [mistake for mistake in proof.mistakes if str(mistake.cause) == cause and text in mistake.text]
    assert len(found) == 1, str(proof)
    if name != "no schedule":
        assert proof.mistakes == found
    assert found[0].paddle.file == __file__
    assert right(proof)["forward"] is right(proof)["loss"] is right(proof)["backward"] is True
    broken = "training" if name == "not cleared" else "optimizer step"
    assert [stage.name for stage in proof.stages if stage.right is False] == [broken]
    for shown in (str(proof), proof.to_markdown(), proof.to_html()):
        assert "training" in shown
        assert cause in shown


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


def test_a_training_in_another_order_is_right_within_rounding():
    proof = proven(ours(), theirs(), port=Handmade)
    assert proof.verdict is ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING, str(proof)
    assert right(proof)["training"] is True
    wrong = proven(ours(epsilon=1e-5), theirs(), port=Handmade)
    assert wrong.verdict is ProofVerdict.CODE_DIFFERS
    assert "eps=1e-05 against 1e-08" in wrong.headline


class WrongForward(Port):
    def forward(self, x):
        return self.down(self.drop(PF.relu(self.norm(self.up(x)))))


def test_an_optimizer_is_looked_at_behind_a_wrong_forward():
    """From the original's weights and gradients, step by step."""
    proof = proven(ours(), theirs(), port=WrongForward)
    assert right(proof) == {**right(proof), "forward": False, "loss": None, "optimizer step": True, "training": None}
    assert "relu" in proof.headline
    wrong = proven(ours(weight_decay=0.3), theirs(), port=WrongForward)
    assert [str(mistake.cause) for mistake in wrong.mistakes] == ["another op", SETTING]
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
    asked = []

    def batch(framework, step):
        asked.append((framework, step))
        rng = np.random.default_rng(step)
        return {"x": rng.standard_normal((8, 6)), "wanted": rng.integers(0, 3, 8)}

    proof = prove(OwnLossPort(), OwnLoss(), batch, phase="train", optimizer="Momentum", steps=3)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    assert {("torch", 2), ("paddle", 2)} <= {*asked}
    assert right(proof)["loss"] is True
    assert len({row.loss for row in proof.training}) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"phase": "train"}, "optimizer= is a function"),
        ({"phase": "train", "optimizer": "Adan"}, "none of the names SGD"),
        ({"phase": "train", "optimizer": "SGD", "steps": 0}, "steps= is a whole number"),
        ({"optimizer": "SGD"}, "belong to phase='train'"),
        ({"steps": 2}, "belong to phase='train'"),
        ({"phase": "train", "optimizer": (lambda _: None, theirs())}, "for Paddle it returned None"),
    ],
)
def test_what_is_not_accepted_is_told(given, message):
    with pytest.raises(ArgumentError, match=message):
        prove(Port(), original(), X, **given)
