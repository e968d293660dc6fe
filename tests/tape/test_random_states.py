"""``random="torch"``: whole trainings with dropout, recompute, and states of generators that are saved and restored."""

import copy

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import in_child, same
from paddle.distributed.fleet.meta_parallel import get_rng_state_tracker
from paddle.distributed.fleet.utils import recompute

import padiff_shim
from padiff_shim.errors import ModeError
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.runlog import counts

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = paddle.nn.Linear(6, 16), paddle.nn.Linear(16, 16), paddle.nn.Linear(16, 3)
        self.drop = paddle.nn.Dropout(0.3)

    def forward(self, x):
        x = self.drop(F.gelu(self.first(x)))
        x = x + self.drop(F.relu(self.second(x)))
        return self.last(F.dropout(x, 0.1, training=self.training))


class Twin(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.first, self.second, self.last = torch.nn.Linear(6, 16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 3)
        self.drop = torch.nn.Dropout(0.3)
        with torch.no_grad():
            for name in ("first", "second", "last"):
                ours, theirs = getattr(net, name), getattr(self, name)
                theirs.weight.copy_(torch.tensor(ours.weight.numpy()).t())
                theirs.bias.copy_(torch.tensor(ours.bias.numpy()))

    def forward(self, x):
        x = self.drop(torch.nn.functional.gelu(self.first(x)))
        x = x + self.drop(torch.relu(self.second(x)))
        return self.last(torch.nn.functional.dropout(x, 0.1, self.training))


def data(seed=0):
    random = np.random.default_rng(seed)
    return random.standard_normal((8, 6)).astype("float32"), random.integers(0, 3, 8)


def step(net, x, label, **options):
    """Plain gradient descent by hand: every loss and weight is the work of ops alone."""
    loss = F.cross_entropy(recompute(net, x, **options) if options else net(x), label)
    loss.backward()
    with paddle.no_grad():
        for weight in net.parameters():
            paddle.assign(weight - 0.5 * weight.grad, weight)
            weight.clear_gradient(False)
    return loss


def test_a_training_with_dropout_is_torch_s_at_every_loss():
    """Ten steps, whose weights, too, are the twin's; evaluation between them draws nothing."""
    net = Net()
    twin = Twin(net)
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        paddle.seed(4)
        losses = []
        for number in range(10):
            x, label = map(paddle.to_tensor, data(number))
            losses.append(step(net, x, label))
            net.eval()
            net(x)
            net.train()
    torch.manual_seed(4)
    for number, ours in enumerate(losses):
        x, label = map(torch.tensor, data(number))
        loss = torch.nn.functional.cross_entropy(twin(x), label)
        loss.backward()
        with torch.no_grad():
            for weight in twin.parameters():
                weight.copy_(weight - 0.5 * weight.grad)
                weight.grad = None
        assert same(ours, loss), number
    assert same(net.last.bias, twin.last.bias)
    assert run.substituted["dropout"] == 60
    assert not {name for name in run.native if "dropout" in name}


FORMS = [{"preserve_rng_state": True}] + ([{"use_reentrant": False}] if IS_3 else [])  # 2.6 refuses the other form on CPUs


@pytest.mark.parametrize("form", FORMS, ids=["reentrant", "by hooks"][: len(FORMS)])
def test_recompute_draws_the_same_numbers_again(form):
    def run(**options):
        paddle.seed(9)
        x = paddle.to_tensor(data()[0], stop_gradient=False)
        out = recompute(net, x, **options) if options else net(x)
        between = torch.rand(3)  # drawn after the forward; the replay comes later and goes back
        (out * out).sum().backward()
        grads = [weight.grad.numpy() for weight in net.parameters()] + [x.grad.numpy()]
        net.clear_gradients()
        return [*grads, between.numpy(), paddle.rand([4]).numpy()]

    net = Net()
    with padiff_shim.reference("torch", random="torch"):
        plain, again = run(), run(**form)
    assert all(np.array_equal(result, other) for result, other in zip(plain, again))


@pytest.mark.parametrize("random", ["paddle", "torch"])
@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.skipif(not IS_3, reason="2.6 refuses it on CPUs")
def test_gradients_of_other_numbers_than_the_forward_drew_are_said(preserve, random):
    """Natively they are of the block's second run, here of the first, whose results went on."""
    net = Net()
    with padiff_shim.reference("torch", random=random) as run:
        recompute(net, paddle.to_tensor(data()[0]), use_reentrant=False, preserve_rng_state=preserve).sum().backward()
    assert (counts.REDRAWN in run.warnings) is (counts.REDRAWN in run.headline) is not preserve


@pytest.mark.parametrize("before", [False, True], ids=["forward outside", "forward inside"])
def test_a_replay_that_would_draw_other_numbers_is_refused(before):
    """Of a forward that was made in the mode when that has closed, or the other way round: gradients would be wrong silently."""
    net = Net()
    modes = [padiff_shim.reference("torch", random="torch"), padiff_shim.reference("torch")]
    with modes[not before]:
        x = paddle.to_tensor(data()[0], stop_gradient=False)
        out = recompute(net, x)
    with modes[before], pytest.raises(ModeError, match="around both, or around neither"):
        out.sum().backward()
    assert paddle.is_grad_enabled()


@pytest.mark.parametrize("before", [False, True], ids=["forward outside", "forward inside"])
def test_a_replay_that_draws_nothing_minds_no_mode(before):
    net = Net()
    net.eval()
    modes = [padiff_shim.reference("torch", random="torch"), padiff_shim.reference("torch")]
    x = paddle.to_tensor(data()[0], stop_gradient=False)
    with modes[not before]:
        out = recompute(net, x)
    with modes[before]:
        out.sum().backward()
    gradient = x.grad.numpy()
    x.clear_gradient()
    with modes[1]:
        net(x).sum().backward()
    assert np.array_equal(x.grad.numpy(), gradient)


def test_a_state_that_was_saved_is_restored():
    with padiff_shim.reference("torch", random="torch") as run:
        paddle.seed(2)
        paddle.rand([3])
        state = paddle.get_rng_state()
        first = [paddle.rand([5]), F.dropout(paddle.ones([9]), 0.5)]
        paddle.set_rng_state(state)
        again = [paddle.rand([5]), F.dropout(paddle.ones([9]), 0.5)]
        paddle.set_rng_state(state)
        assert same(torch.rand(5), first[0])
    assert all(same(result, other.numpy()) for result, other in zip(first, again))
    assert not run.warnings


def test_a_state_of_paddle_s_alone_begins_at_its_seed():
    paddle.seed(8)
    paddle.rand([2])
    before = paddle.get_rng_state()
    with padiff_shim.reference("torch", random="torch") as run:
        drawn = []
        for state in (before, copy.deepcopy(before)):
            paddle.set_rng_state(state)
            drawn.append(paddle.rand([3]))
        assert len(run.warnings) == 1
        assert "begins at its seed" in run.warnings[0]
    torch.manual_seed(8)
    expected = torch.rand(3)
    assert all(same(result, expected) for result in drawn)


def test_without_the_option_states_are_paddle_s_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    with padiff_shim.reference("torch", random="torch"), padiff_shim.reference("torch"):
        generator = paddle.seed(2)
        state = paddle.get_rng_state()
        drawn = paddle.rand([3]).numpy()
        paddle.set_rng_state(state)
        assert np.array_equal(paddle.rand([3]).numpy(), drawn)
        assert generator is paddle.base.core.default_cpu_generator()
    assert torch.equal(torch.get_rng_state(), before)


def test_seeding_returns_what_it_returns_natively():
    native = paddle.seed(3)
    with padiff_shim.reference("torch", random="torch"):
        assert paddle.seed(2**40) is native
        assert torch.initial_seed() == native.initial_seed() == 2**40
        assert native.seed() == torch.initial_seed()
        paddle.seed(6)
        with pytest.raises(TypeError):
            paddle.seed(-1)
        assert torch.initial_seed() == 6


@pytest.mark.parametrize("inside", [False, True], ids=["set up before", "set up inside"])
def test_the_tracker_of_tensor_parallelism_has_streams_of_its_own(inside):
    tracker = get_rng_state_tracker()
    tracker.reset()
    mode = padiff_shim.reference("torch", random="torch")
    if not inside:
        tracker.add("apart", 71)
    with mode:
        paddle.seed(1)
        if inside:
            tracker.add("apart", 71)
        drawn = [paddle.rand([3])]
        for _ in range(2):
            with tracker.rng_state("apart"):
                drawn.append(paddle.rand([3]))
            drawn.append(paddle.rand([3]))
    tracker.reset()
    paddle.seed(1)
    torch.manual_seed(1)
    outer = [torch.rand(3) for _ in range(3)]
    torch.manual_seed(71)
    inner = [torch.rand(3) for _ in range(2)]
    expected = [outer[0], inner[0], outer[1], inner[1], outer[2]]
    assert all(same(result, other) for result, other in zip(drawn, expected))


def test_everything_of_the_generators_is_put_back():
    printed = in_child(
        """
        import gc
        names = ("manual_seed", "seed", "get_state", "set_state", "set_state_index", "register_state_index")
        def look():
            return {name: vars(paddle.base.core.Generator).get(name) for name in names}
        before = look()
        with padiff_shim.reference("torch", random="torch"):
            paddle.seed(3)
            assert look() != before
            expected = torch.get_rng_state()
        gc.collect()
        assert look() == before
        assert torch.equal(torch.get_rng_state(), expected), "left where it is"
        paddle.seed(5)
        assert torch.equal(torch.get_rng_state(), expected)
        print("as it was")
        """
    )
    assert printed.stdout.strip().endswith("as it was"), printed.stderr
