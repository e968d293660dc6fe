"""What is kept of a parameter's update serves the next step; whatever a program changes between two steps is noticed."""

import gc
import weakref

import paddle
import pytest
from helpers import same
from trainings import KINDS, RATE, batch, nets

import padiff_shim
from padiff_shim.frameworks.memory import to_torch
from padiff_shim.optimizers.step_cache import CrossedUpdate

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]


def built(kind="adamw", **options):
    with paddle.utils.unique_name.guard("a"):
        net, _ = nets()
        return net, KINDS[kind].build(net, **options)


def train(net, optimizer, steps=6, change=None, **mode):
    """Losses of a training with a change before each step, all parameters and accumulators after it, and the run."""
    losses = []
    with padiff_shim.reference("torch", optimizer="torch", **mode) as run, paddle.utils.unique_name.guard("a"):
        for step in range(steps):
            if change is not None:
                change(step, net, optimizer)
            loss = (net(paddle.to_tensor(batch(step))) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(loss.item())
    state = optimizer.state_dict()
    tensors = [*net.parameters(), *(state[name] for name in sorted(state) if isinstance(state[name], paddle.Tensor))]
    return losses, [tensor.numpy() for tensor in tensors], run


def alike(change, kind="adamw", build=built, **mode):
    """Assert that a training with changes is the same whether tensors are kept or crossed anew; how many updates were kept ones."""

    def counted(keeps):
        answers, fits = [], CrossedUpdate.fits
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CrossedUpdate, "fits", lambda update, args: answers.append(keeps and fits(update, args)) or answers[-1])
            return (*train(*build(kind), change=change, **mode), sum(answers))

    losses, tensors, run, count = counted(keeps=True)
    others, wanted, other, _ = counted(keeps=False)
    assert losses == others
    assert len(tensors) == len(wanted)
    assert all(same(result, two) for result, two in zip(tensors, wanted, strict=True))
    assert (run.optimizers, run.native) == (other.optimizers, other.native)
    return count


@pytest.mark.parametrize("kind", KINDS)
def test_kept_tensors_are_those_of_the_step(kind):
    alike(None, kind)


def test_tensors_are_kept():
    assert alike(None) == 5 * 6


def _rate(step, net, optimizer):
    optimizer.set_lr(RATE / (step + 1))


def _beta(step, net, optimizer):
    optimizer._beta1 = 0.9 - 0.1 * (step == 3)


def _epsilon(step, net, optimizer):
    optimizer._epsilon = 1e-8 if step < 3 else 1e-2


def _frozen(step, net, optimizer):
    net[0].weight.stop_gradient = step == 3


def _factor(step, net, optimizer):
    net[0].weight.optimize_attr["learning_rate"] = 0.25 if step in (2, 3) else 1.0


def _accumulator(step, net, optimizer):
    if step == 3:
        for kind in optimizer._accumulators.values():
            kind[net[0].weight.name].set_value(kind[net[0].weight.name] * 0.5)


def _exchanged(step, net, optimizer):
    """The program puts another tensor in an accumulator's place."""
    if step == 3:
        moments = next(kind for name, kind in optimizer._accumulators.items() if "moment1" in name)
        name = net[0].weight.name
        moments[name] = moments[name] * 3.0


def _loaded(step, net, optimizer):
    if step == 1:
        _loaded.saved = {
            name: value.clone() if isinstance(value, paddle.Tensor) else value for name, value in optimizer.state_dict().items()
        }
    if step == 4:
        optimizer.set_state_dict(_loaded.saved)


def _new_memory(step, net, optimizer):
    if step == 3:
        net[0].weight.set_value(paddle.ones(net[0].weight.shape))


def _regularized(step, net, optimizer):
    net[3].weight.regularizer = paddle.regularizer.L2Decay(0.3) if step >= 3 else None


def _power_of_no_step(step, net, optimizer):
    """Written where nothing tells of it: found only when the step is about to be made."""
    if step == 3:
        powers = next(kind for name, kind in optimizer._accumulators.items() if "beta1_pow" in name)
        to_torch(powers[net[0].weight.name]).fill_(0.37)


CHANGES = (
    _rate,
    _beta,
    _epsilon,
    _frozen,
    _factor,
    _accumulator,
    _exchanged,
    _loaded,
    _new_memory,
    _regularized,
    _power_of_no_step,
)


@pytest.mark.rows(8)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__[1:])
@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_a_change_is_noticed(kind, change):
    assert alike(change, kind)


@pytest.mark.parametrize("change", [_rate, _frozen, _factor, _new_memory, _regularized], ids=lambda change: change.__name__[1:])
@pytest.mark.parametrize("kind", ["sgd", "momentum", "adamax"])
def test_a_change_of_others_is_noticed(kind, change):
    alike(change, kind)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam", "adamax"])
def test_a_gradient_that_does_not_lie_in_order(kind):
    """Paddle's kernels take it in order, and so does Torch's update."""
    strided = []

    def turned(grad):
        gradients = grad.t().clone().t()  # which 2.6 copies into order
        strided.append(not gradients.is_contiguous())
        return gradients

    def change(step, net, optimizer):
        if step == 3:
            net[3].weight.register_hook(turned)

    _, _, run = train(*built(kind), change=change)
    assert len(strided) == 3
    assert not run.native
    assert sum(sum(counts.values()) for counts in run.optimizers.values()) == 6 * 6
    assert alike(change, kind)


def test_a_schedule_goes_on():
    def with_schedule(kind):
        schedule = paddle.optimizer.lr.StepDecay(RATE, step_size=2, gamma=0.5)
        return built(kind, rate=schedule)

    assert alike(lambda step, net, optimizer: step and optimizer._learning_rate.step(), build=with_schedule)


def test_the_programs_own_choice_of_decay_is_asked_each_time():
    spared = set()

    def change(step, net, optimizer):
        spared.clear()
        if step in (2, 3):
            spared.add(net[0].weight.name)

    assert alike(change, build=lambda kind: built(kind, apply_decay_param_fun=lambda name: name not in spared))


def test_groups_of_their_own():
    def build(kind):
        with paddle.utils.unique_name.guard("a"):
            net, _ = nets()
            groups = [
                {"params": net[0].parameters(), "weight_decay": 0.3, "beta1": 0.8},
                {"params": net[2].parameters()},
                {"params": net[3].parameters(), "learning_rate": 0.1},
            ]
            return net, KINDS[kind].build(groups)

    assert alike(None, build=build)


def test_clipping_and_a_scaler():
    net, optimizer = built(grad_clip=paddle.nn.ClipGradByGlobalNorm(0.01))
    scaler = paddle.amp.GradScaler(init_loss_scaling=8.0)
    with padiff_shim.reference("torch") as run:
        for step in range(4):
            scaler.scale((net(paddle.to_tensor(batch(step))) ** 2).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.clear_grad()
    assert run.optimizers["adamw"] == {"torch": 4 * 6}
    assert alike(None, build=lambda kind: built(kind, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.01)))


def test_a_mode_that_leaves_the_optimizer_native():
    net, optimizer = built()
    train(net, optimizer)
    _, _, run = train(net, optimizer, exclude=["adamw"])
    assert not run.optimizers
    assert run.native


def test_gradients_and_the_optimizer_die_with_their_users():
    net, optimizer = built()
    with padiff_shim.reference("torch"):
        for step in range(3):
            (net(paddle.to_tensor(batch(step))) ** 2).mean().backward()
            grads = [weakref.ref(param.grad) for param in net.parameters()]
            optimizer.step()
            for param in net.parameters():
                param.clear_gradient(False)
    gone, kind = weakref.ref(optimizer), weakref.ref(net)
    del optimizer, net, param
    gc.collect()
    assert gone() is None
    assert kind() is None
    assert not any(reference() is not None for reference in grads)
