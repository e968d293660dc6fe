"""Optimizers of right ports that are written otherwise, and mistakes in them, each named with both values."""

import ast

import paddle
import pytest
import torch
import training_pair
from training_pair import ours, proven, right, theirs

from padiff_shim import ProofVerdict
from padiff_shim.errors import ArgumentError
from padiff_shim.proof.findings import Cause

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("undone")]


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


def _torch_values(module):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def step():
        torch.nn.utils.clip_grad_value_(module.parameters(), 0.0002)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _clipped(limit, kind="ClipGradByGlobalNorm"):
    clip = getattr(paddle.nn, kind)(limit)
    return lambda layer: paddle.optimizer.SGD(0.01, parameters=layer.parameters(), grad_clip=clip)


def _uncleared(layer):
    return paddle.optimizer.SGD(0.01, parameters=layer.parameters()).step


def _careful(module):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

    def step():
        with_gradients = [parameter for parameter in module.parameters() if parameter.grad is not None]
        for parameter in with_gradients:
            parameter.grad = parameter.grad * 1e38 * 1e38  # overflows
        if all(parameter.grad.isfinite().all() for parameter in with_gradients):
            optimizer.step()
        optimizer.zero_grad()

    return step


def _careless(layer):
    optimizer = paddle.optimizer.SGD(0.01, parameters=layer.parameters())

    def step():
        for parameter in layer.parameters():
            if parameter.grad is not None:
                parameter.grad.set_value(parameter.grad * 1e38 * 1e38)
        optimizer.step()
        optimizer.clear_grad()

    return step


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


def test_clipping_is_named_where_both_round_otherwise_before_it():

    class Scaled(training_pair.Port):
        def forward(self, x):
            return self.down(self.drop(paddle.tanh(self.norm(self.up(x * 3.0) / 3.0 + self.up.bias * (2.0 / 3.0)))))

    proof = proven(_clipped(0.02, "ClipGradByNorm"), _torch_clipped(), port=Scaled)
    assert [str(mistake.cause) for mistake in proof.mistakes] == ["another clipping"], str(proof)
    assert right(proof)["forward"] is right(proof)["backward"] is True
    assert right(proof)["optimizer step"] is False


class Scaled:
    """A loop's step behind a loss that is multiplied by 1000."""

    def __init__(self, layer):
        self.optimizer = paddle.optimizer.SGD(0.01, parameters=layer.parameters())
        self.scaler = paddle.amp.GradScaler(init_loss_scaling=1000.0)

    def step(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.clear_grad()


def test_a_scaler_is_right_in_a_wider_dtype_too():
    """Natively Paddle's takes no scale off gradients of float64."""

    def divided(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01)

        def step():
            for parameter in module.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(1000.0)
            optimizer.step()
            optimizer.zero_grad()

        return step

    proof = proven(lambda layer: Scaled(layer).step, divided, loss=lambda out: training_pair.square(out) * 1000.0)
    assert proof, str(proof)


def test_an_optimizer_that_is_not_known_skips_no_step():
    def by_hand(module):
        def step():
            with torch.no_grad():
                for parameter in module.parameters():
                    if parameter.grad is not None:
                        parameter -= 0.01 * parameter.grad
                        parameter.grad = None

        return step

    assert proven(ours("SGD"), by_hand)


class ClippedByHand:
    """A loop's step: the norm alone divides the limit, where torch.nn.utils.clip_grad_norm_ adds 1e-6 to it."""

    def __init__(self, layer):
        self.parameters = layer.parameters()
        self.optimizer = paddle.optimizer.SGD(0.01, parameters=self.parameters)

    @paddle.no_grad()
    def step(self):
        clipped = [parameter for parameter in self.parameters if parameter.grad is not None]
        norm = paddle.sqrt(sum((parameter.grad * parameter.grad).sum() for parameter in clipped))
        for parameter in clipped:
            parameter.grad.set_value(parameter.grad * (0.05 / paddle.maximum(norm, paddle.to_tensor(0.05, norm.dtype))))
        self.optimizer.step()
        self.optimizer.clear_grad()


def _twice(layer):
    optimizer = paddle.optimizer.SGD(0.01, parameters=layer.parameters())

    def step():
        for _ in range(2):
            optimizer.step()
        optimizer.clear_grad()

    return step


SETTING, RATE = "another setting of the optimizer", "another learning rate"
WRONG = {
    "epsilon": (ours(epsilon=1e-6), theirs(), SETTING, "epsilon=1e-06 against eps=1e-08 (write epsilon=1e-08)"),
    "beta": (ours(beta2=0.99), theirs(), SETTING, "beta2=0.99 against 0.999"),
    "decay": (ours(weight_decay=0.1), theirs(), SETTING, "weight_decay=0.1 against 0.01"),
    "no decay": (ours("Momentum"), theirs("SGD", momentum=0.9, weight_decay=0.1), SETTING, "weight_decay=0 against 0.1"),
    "coupled": (
        ours("Adam", weight_decay=0.01),
        theirs(),
        SETTING,
        "in the original apart from the gradient (write paddle.optimizer.AdamW)",
    ),
    "decay of vectors": (ours(), _groups, SETTING, "weight_decay=0.01 against 0 for 4 of 6 weights"),
    "momentum": (ours("Momentum", momentum=0.1), theirs("SGD", momentum=0.9), SETTING, "momentum=0.1 against 0.9"),
    "nesterov": (
        ours("Momentum", use_nesterov=True),
        theirs("SGD", momentum=0.9),
        SETTING,
        "use_nesterov=True against nesterov=False (write use_nesterov=False)",
    ),
    "rho": (ours("RMSProp", rho=0.95, epsilon=1e-8), theirs("RMSprop"), SETTING, "rho=0.95 against alpha=0.99 (write rho=0.99)"),
    "rate": (ours(learning_rate=0.001), theirs(), RATE, "lr=0.001 against 0.01 (write learning_rate=0.01)"),
    "schedule early": (lambda layer: _scheduled(layer, 1), _torch_scheduled, RATE, "the schedule is 1 step early"),
    "schedule late": (_late, _torch_scheduled, RATE, "the schedule is 1 step late from step 1 on"),
    "no schedule": (ours("SGD"), _torch_scheduled, RATE, "lr=0.01 against 0.005"),
    "optimizer": (ours("Momentum"), theirs(), "another optimizer", "SGD in place of Adam"),
    "parameter": (_without_bias, theirs("SGD"), SETTING, "is not in the port's optimizer for 1 of 6 weights (up.bias)"),
    "no clipping": (ours("SGD"), _torch_clipped(), "another clipping", "to 0.05, in the port they are not"),
    "clipping": (_clipped(0.01), theirs("SGD"), "another clipping", "to 0.01, in the original they are not"),
    "limit": (_clipped(0.02), _torch_clipped(), "another clipping", "to 0.02 against their global norm to 0.05"),
    "added to the norm": (
        lambda layer: ClippedByHand(layer).step,
        _torch_clipped(),
        "another clipping",
        "multiplied by 0.05 / norm, in the original by 0.05 / (norm + 1e-06)",
    ),
    "each clipped": (
        _clipped(0.02, "ClipGradByNorm"),
        _torch_clipped(),
        "another clipping",
        "write grad_clip=paddle.nn.ClipGrad",
    ),
    "values": (_clipped(0.02), _torch_values, "another clipping", "write grad_clip=paddle.nn.ClipGradByValue(0.0002)"),
    "overflow": (_careless, _careful, "a step that the other skips", "gradients hold inf or NaN there"),
    "two steps": (_twice, theirs("SGD"), "a step that the other skips", "makes 2 steps for a backward, the original's 1"),
    "not cleared": (_uncleared, theirs("SGD"), "gradients are not cleared", "the port's gradients are kept"),
}


@pytest.mark.rows(5)
@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_in_the_optimizer_is_named_with_both_values(name):
    mine, yours, cause, text = WRONG[name]
    proof = proven(mine, yours)
    assert proof.verdict is ProofVerdict.CODE_DIFFERS, str(proof)
    matching = [mistake for mistake in proof.mistakes if str(mistake.cause) == cause and text in mistake.text]
    assert len(matching) == 1, str(proof)
    if name != "no schedule":
        assert proof.mistakes == matching
    assert {matching[0].paddle.file, matching[0].torch.file} <= {__file__, training_pair.__file__}
    assert right(proof)["forward"] is right(proof)["loss"] is right(proof)["backward"] is True
    broken = "training" if name == "not cleared" else "optimizer step"
    assert [stage.name for stage in proof.stages if stage.right is False] == [broken]
    for shown in (str(proof), proof.markdown(), proof.html()):
        assert "training" in shown
        assert cause in shown


@pytest.mark.rows(1)
@pytest.mark.parametrize(("kind", "options", "theirs_"), [
    ("AdamW", {"epsilon": 1e-6}, theirs()),
    ("AdamW", {"beta1": 0.8, "learning_rate": 0.1}, theirs()),
    ("AdamW", {"weight_decay": 0.3}, theirs()),
    ("Momentum", {"use_nesterov": True, "momentum": 0.5}, theirs("SGD", momentum=0.9)),
    ("RMSProp", {"rho": 0.95, "epsilon": 1e-8}, theirs("RMSprop")),
])  # fmt: skip
def test_what_is_written_of_an_optimizer_mends_it(kind, options, theirs_):
    wrong = proven(ours(kind, **options), theirs_)
    assert not wrong
    written = [dict([mistake.write.split("=")]) for mistake in wrong.mistakes]
    assert all(written)
    changed = {name: ast.literal_eval(value) for each in written for name, value in each.items()}
    assert proven(ours(kind, **{**options, **changed}), theirs_)


@pytest.mark.parametrize("arguments", [("loss",), ("loss", "step")])
def test_a_step_that_wants_arguments_is_refused(arguments):
    def made(layer):
        return eval(f"lambda {', '.join(arguments)}: None")

    with pytest.raises(ArgumentError, match="without arguments"):
        proven(made, theirs())


def _scaled(order, scale=1000.0):
    """A port's step with its scaler, in an order of its own."""

    def made(layer):
        optimizer = paddle.optimizer.SGD(0.01, parameters=layer.parameters())
        scaler = paddle.amp.GradScaler(init_loss_scaling=scale, incr_every_n_steps=1)
        words = {
            "unscale": lambda: scaler.unscale_(optimizer),
            "clip": lambda: paddle.nn.utils.clip_grad_norm_(layer.parameters(), 0.02),
            "step": lambda: scaler.step(optimizer),
            "update": scaler.update,
            "plain step": lambda: optimizer.step(),
        }

        def step():
            for word in order:
                words[word]()
            optimizer.clear_grad()

        return step

    return made


def _torch_scaled(*, clip, scale=1000.0):
    def made(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1)

        def step():
            scaler.scale(torch.zeros(1))  # whose scale the loss below has
            scaler.unscale_(optimizer)
            if clip:
                torch.nn.utils.clip_grad_norm_(module.parameters(), 0.02)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

        return step

    return made


ORDERS = {
    "right": (["unscale", "clip", "step", "update"], True, None),
    "right without clipping": (["unscale", "step", "update"], False, None),
    "right, unscaled by the step": (["step", "update"], False, None),
    "clipped before unscaling": (["clip", "step", "update"], True, Cause.CLIPPING),
    "never unscaled": (["plain step"], False, Cause.GRADIENT_SCALE),
    "updated before unscaling": (["update", "step"], False, Cause.GRADIENT_SCALE),
    "not clipped": (["unscale", "step", "update"], True, Cause.CLIPPING),
    "clipped behind the step": (["step", "update", "clip"], True, Cause.CLIPPING),
}


@pytest.mark.parametrize("name", ORDERS)
def test_a_scaler_in_another_order(name):
    order, clip, cause = ORDERS[name]
    proof = proven(_scaled(order), _torch_scaled(clip=clip), loss=lambda out: training_pair.square(out) * 1000.0)
    if cause is None:
        assert proof, str(proof)
        return
    assert [mistake.cause for mistake in proof.mistakes] == [cause], str(proof)
    text = proof.mistakes[0].text
    assert ("unscale_(optimizer)" in text) == (name == "clipped before unscaling")
    assert ("scaler.step(optimizer)" in text) == (cause is Cause.GRADIENT_SCALE)
    assert ("2e-05" in text) is False
