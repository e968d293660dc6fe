"""What a program may ask of its optimizer: groups, schedules, factors."""

import numpy as np
import paddle
import pytest
import torch
from helpers import same
from trainings import KINDS, RATE, backward, batch, nets, stepped, turned, unequal

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
PADDLE_2 = paddle.__version__.startswith("2.")


def shim(**options):
    return padiff_shim.reference("torch", optimizer="torch", **options)


def two_groups(ours, twin):
    return (
        [{"params": ours[0].parameters()}, {"params": ours[3].parameters(), "learning_rate": 0.5, "weight_decay": 0.1}],
        [{"params": twin[0].parameters()}, {"params": twin[3].parameters(), "lr": RATE * 0.5, "weight_decay": 0.1}],
    )


@pytest.mark.parametrize("name", ["momentum", "adam", "adamw"])
def test_groups(name):
    ours, twin = nets()
    mine, theirs = two_groups(ours, twin)
    kind = KINDS[name]
    optimizer = kind.build(mine, weight_decay=0.01)
    twins = getattr(torch.optim, kind.theirs)(theirs, lr=RATE, **{**kind.twin_options, "weight_decay": 0.01})
    for param in [*ours[2].parameters()]:
        param.stop_gradient = True
    with shim() as run:
        stepped(ours, twin, optimizer, twins)
    assert not run.native


def test_schedules():
    ours, twin = nets()
    schedule = paddle.optimizer.lr.LambdaDecay(RATE, lambda step: 0.9**step)
    mine = KINDS["adamw"].build(ours, schedule)
    theirs = KINDS["adamw"].twin(twin)
    other = torch.optim.lr_scheduler.LambdaLR(theirs, lambda step: 0.9**step)

    def after(step):
        schedule.step()
        other.step()

    with shim():
        stepped(ours, twin, mine, theirs, after=after)


def test_a_rate_that_is_set_between_steps():
    ours, twin = nets()
    mine, theirs = KINDS["adam"].build(ours), KINDS["adam"].twin(twin)

    def after(step):
        mine.set_lr(0.1 / (step + 3))
        theirs.param_groups[0]["lr"] = 0.1 / (step + 3)

    with shim():
        stepped(ours, twin, mine, theirs, after=after)


def test_a_parameters_own_factor_and_regularizer():
    paddle.seed(0)
    own = paddle.ParamAttr(learning_rate=0.25, regularizer=paddle.regularizer.L2Decay(0.3))
    ours, twin = paddle.nn.Sequential(paddle.nn.Linear(7, 5, weight_attr=own)), torch.nn.Sequential(torch.nn.Linear(7, 5))
    with torch.no_grad():
        for result, other in zip(ours.parameters(), twin.parameters(), strict=True):
            other.copy_(torch.tensor(turned(result.numpy())))
    mine = paddle.optimizer.SGD(RATE, parameters=ours.parameters(), weight_decay=0.1)
    groups = [
        {"params": [twin[0].weight], "lr": RATE * 0.25, "weight_decay": 0.3},
        {"params": [twin[0].bias], "weight_decay": 0.1},
    ]
    with shim():
        stepped(ours, twin, mine, torch.optim.SGD(groups, lr=RATE))


def test_decay_and_rates_that_a_function_chooses():
    ours, twin = nets()
    chosen = {ours[0].weight.name, ours[3].weight.name}
    mine = KINDS["adamw"].build(ours, apply_decay_param_fun=lambda name: name in chosen)
    mine._lr_ratio = lambda param: 0.5 if param.name == ours[3].weight.name else 1.0  # as an argument not on a CPU
    groups = [
        {"params": [twin[0].weight]},
        {"params": [twin[3].weight], "lr": RATE * 0.5},
        {"params": [twin[0].bias, *twin[2].parameters(), twin[3].bias], "weight_decay": 0.0},
    ]
    with shim():
        stepped(ours, twin, mine, torch.optim.AdamW(groups, lr=RATE, weight_decay=0.02))


def test_gradients_that_are_not_clipped():
    ours, twin = nets()
    ours[3].weight.need_clip = False
    mine = KINDS["sgd"].build(ours, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.1))
    theirs = KINDS["sgd"].twin(twin)
    clipped = [param for param in twin.parameters() if param is not twin[3].weight]
    with shim():
        stepped(ours, twin, mine, theirs, before=lambda _: torch.nn.utils.clip_grad_norm_(clipped, 0.1))


@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_all_parameters_in_one_call(name):
    ours, twin = nets()
    mine, theirs = KINDS[name].build(ours, use_multi_tensor=True), KINDS[name].twin(twin)
    with shim() as run:
        stepped(ours, twin, mine, theirs)
    assert run.optimizers == {mine.type: {"torch": 30}}


@pytest.mark.parametrize("name", ["Momentum", "Adam"])
def test_a_parameter_among_several_whose_update_stays_native(name):
    def trained():
        weights = [paddle.base.framework.EagerParamBase.from_tensor(paddle.ones([rows, 2])) for rows in (3, 0)]
        optimizer = getattr(paddle.optimizer, name)(RATE, parameters=weights, weight_decay=0.1, use_multi_tensor=True)
        for _ in range(2):
            for weight in weights:
                weight.grad = weight * 2.0
            optimizer.step()
        return weights[0].numpy()

    native = trained()
    with shim() as run:
        ours = trained()
    assert np.allclose(ours, native, rtol=1e-5)
    assert PADDLE_2 or sum(run.native[name.lower()].values()) == 2  # 2.6 updates nothing that is empty


@pytest.mark.parametrize("to_zero", [True, False])
def test_minimize_and_clear_grad(to_zero):
    ours, twin = nets()
    mine, theirs = KINDS["adamw"].build(ours, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.2)), KINDS["adamw"].twin(twin)
    with shim() as run:
        for step in range(4):
            loss, _ = backward(ours, twin, step)
            torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.2)
            mine.minimize(loss)
            theirs.step()
            assert not unequal(ours, twin), step
            mine.clear_grad(set_to_zero=to_zero)
            theirs.zero_grad(set_to_none=not to_zero)
    assert not run.native


def test_gradients_of_several_backwards_are_added():
    ours, twin = nets()
    mine, theirs = KINDS["sgd"].build(ours, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.2)), KINDS["sgd"].twin(twin)

    def before(step):
        for part in (1, 2):
            backward(ours, twin, 10 * step + part)
        torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.2)

    with shim():
        stepped(ours, twin, mine, theirs, before=before)


def test_parameters_without_a_gradient_are_left():
    ours, twin = nets()
    mine, theirs = KINDS["adam"].build(ours, weight_decay=0.1), KINDS["adam"].twin(twin, weight_decay=0.1)
    with shim():
        for step in range(3):
            x = batch(step)
            ours[0](paddle.to_tensor(x)).mean().backward()
            twin[0](torch.tensor(x)).mean().backward()
            mine.step()
            theirs.step()
            assert not unequal(ours, twin), step
            mine.clear_grad(set_to_zero=False)
            theirs.zero_grad()


@pytest.mark.skipif(PADDLE_2, reason="2.6 keeps its states otherwise")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("kind", "theirs"), [("AdamW", "AdamW"), ("Momentum", "SGD")])
def test_master_weights(kind, theirs, dtype):
    """Torch's optimizer on the master weights, of which the parameters are the rounded values."""
    draw = np.random.default_rng(0)
    begun = torch.tensor(draw.standard_normal((5, 3))).to(getattr(torch, dtype)).float().numpy()  # whose cast is exact
    param = paddle.create_parameter([5, 3], "float32", default_initializer=paddle.nn.initializer.Assign(begun)).astype(dtype)
    param = paddle.base.framework.EagerParamBase.from_tensor(param.detach(), trainable=True)
    master = torch.nn.Parameter(torch.tensor(begun).to(getattr(torch, dtype)).float())
    options = {"momentum": 0.9} if theirs == "SGD" else {}
    mine = getattr(paddle.optimizer, kind)(RATE, parameters=[param], multi_precision=True)
    twins = getattr(torch.optim, theirs)([master], lr=RATE, **options)
    with shim() as run:
        for _ in range(4):
            grad = torch.tensor(draw.standard_normal((5, 3)).astype("float32")).to(getattr(torch, dtype))
            param.grad = paddle.to_tensor(grad.float().numpy()).astype(dtype)
            master.grad = grad.float()
            mine.step()
            twins.step()
            assert same(mine._master_weights[param.name], master)
            assert same(param.astype("float32"), master.to(grad.dtype).float())
    assert not run.native


@pytest.mark.parametrize("shape", [[], [1], [2], *([[0], [0, 3]] if IS_3 else [])], ids=str)
@pytest.mark.parametrize("stopped", [False, True])
def test_a_clipped_gradient_is_written_where_paddle_writes_it(shape, stopped):
    def clipped():
        leaves = [paddle.full(size, 2.0, "float64") for size in (shape, [3])]
        for leaf in leaves:
            leaf.stop_gradient = stopped
        gradients = [leaf * 1.0 for leaf in leaves]
        results = [result for _, result in paddle.nn.ClipGradByGlobalNorm(0.5)([*zip(leaves, gradients)])]
        return [
            (ours is theirs, list(ours.shape), ours.inplace_version, ours.numpy().tolist(), theirs.numpy().tolist())
            for ours, theirs in zip(results, gradients)
        ]

    natively = clipped()
    with padiff_shim.reference("torch"):
        here = clipped()
    for (*flags, ours, theirs), (*expected, our, their) in zip(here, natively):
        assert flags == expected
        np.testing.assert_allclose(ours, our, rtol=1e-12)
        np.testing.assert_allclose(theirs, their, rtol=1e-12)
