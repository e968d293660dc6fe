"""Paddle's own state: readable, savable, loadable on either side of a mode, and what is computed next sees the new weights."""

import contextlib
import gc
import itertools
import weakref

import numpy as np
import paddle
import pytest
import torch
from helpers import in_turn, same
from trainings import KINDS, accumulator, batch, copy, nets, stepped

import padiff_shim
from padiff_shim.optimizers import step_cache

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
BEFORE, AFTER = 3, 3


def shim():
    return padiff_shim.reference("torch", optimizer="torch")


def train(net, optimizer, steps):
    dtype = str(net.parameters()[0].dtype).rpartition(".")[2]
    with paddle.utils.unique_name.guard("a"):  # accumulators get their names at the first step
        for step in steps:
            (net(paddle.to_tensor(batch(step, dtype))) ** 2).mean().backward()
            optimizer.step()
            optimizer.clear_grad()


def built(name, dtype="float32"):
    """A net and its optimizer, with the same generated names each time."""
    with paddle.utils.unique_name.guard("a"):
        ours, _ = nets(dtype)
        return ours, KINDS[name].build(ours, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5))


def crossing(name, path, before, after, dtype):
    """Values after a checkpoint that was saved in one mode and is continued in another."""
    ours, optimizer = built(name, dtype)
    with before():
        train(ours, optimizer, range(BEFORE))
    paddle.save({"net": ours.state_dict(), "optimizer": optimizer.state_dict()}, str(path))
    resumed, other = built(name, dtype)
    saved = paddle.load(str(path))
    resumed.set_state_dict(saved["net"])
    other.set_state_dict(saved["optimizer"])
    with after() as run:
        train(resumed, other, range(BEFORE, BEFORE + AFTER))
        train(ours, optimizer, range(BEFORE, BEFORE + AFTER))
    return resumed, ours, other, optimizer, run


@pytest.mark.rows(10)
@pytest.mark.parametrize(
    ("name", "dtype", "before", "after"),
    in_turn(
        itertools.product(KINDS, ("float32", "float64")),
        [
            pytest.param(shim, shim, id="in modes"),
            pytest.param(shim, contextlib.nullcontext, id="native behind"),
            pytest.param(contextlib.nullcontext, shim, id="native before"),
        ],
    ),
)
def test_a_checkpoint_goes_on_as_if_nothing_had_been_saved(name, dtype, before, after, tmp_path):
    """On either side of a mode, and from one side to the other."""
    resumed, ours, other, optimizer, run = crossing(name, tmp_path / "state", before, after, dtype)
    assert all(same(tensor.numpy(), two.numpy()) for tensor, two in zip(resumed.parameters(), ours.parameters(), strict=True))
    state, expected = other.state_dict(), optimizer.state_dict()
    assert state.keys() == expected.keys()
    assert all(same(state[key].numpy(), expected[key].numpy()) for key in state)
    if run is not None:
        assert not run.native
        assert set(run.optimizers[optimizer.type]) == {"torch"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("adamax", "rmsprop", "centered")])
def test_the_state_is_native_paddles_but_for_rounding(name, dtype):
    """Where the definitions are the same: also the powers of beta, exactly (NAdam's and RAdam's are of a float32's)."""
    states = []
    for mode in (contextlib.nullcontext, shim):
        net, optimizer = built(name, dtype)
        draw = np.random.default_rng(5)
        with mode(), paddle.utils.unique_name.guard("a"):
            for _ in range(6):
                for param in net.parameters():
                    param.grad = paddle.to_tensor(draw.standard_normal(param.shape).astype(dtype))
                optimizer.step()
        states.append({key: value.numpy() for key, value in optimizer.state_dict().items()})
    native, ours = states
    assert native.keys() == ours.keys()
    for key, value in native.items():
        if "pow" in key:
            assert same(value, ours[key]), key
        if "_rho_" in key or "mu_product" in key:  # of powers alone, by formulas that a compiler may contract
            assert np.allclose(value, ours[key], rtol=8 * np.finfo(dtype).eps, atol=0), key
        assert np.allclose(value, ours[key], rtol=1e-4, atol=1e-5), key


def test_the_twins_state_can_be_begun_from_a_native_checkpoint():
    """Native steps, then Torch's optimizer with that state: the shim goes on as it does."""
    ours, twin = nets()
    optimizer = paddle.optimizer.Adam(0.01, parameters=ours.parameters())
    train(ours, optimizer, range(4))
    copy(ours, twin)
    theirs = torch.optim.Adam(twin.parameters(), lr=0.01)
    for mine, other in zip(ours.parameters(), twin.parameters(), strict=True):
        moments = [torch.tensor(accumulator(optimizer, name, mine)) for name in ("moment1", "moment2")]
        theirs.state[other] = {"step": torch.tensor(4.0), "exp_avg": moments[0], "exp_avg_sq": moments[1]}
    with shim():
        stepped(ours, twin, optimizer, theirs, steps=range(4, 8))


@pytest.mark.parametrize("name", KINDS)
def test_the_next_forward_reads_the_new_weights(name):
    """The [out, in] copy and the leaf twins notice the write, in a graph that was made before it, too, as natively."""
    ours, twin = nets()
    optimizer, theirs = KINDS[name].build(ours), KINDS[name].twin(twin)
    x = batch(0)
    with shim():
        versions = [param.inplace_version for param in ours.parameters()]

        def after(_):
            assert same(ours(paddle.to_tensor(x)), twin(torch.tensor(x)))

        stepped(ours, twin, optimizer, theirs, steps=range(3), after=after)
        assert [param.inplace_version for param in ours.parameters()] == versions


def test_state_that_is_set_in_place_is_read_anew():
    """What is kept from step to step are views of memory, and no values."""
    ours, optimizer = built("adam")
    with shim():
        train(ours, optimizer, range(1))
        begun = {key: value.clone() for key, value in optimizer.state_dict().items()}
        weights = [param.clone() for param in ours.parameters()]
        after = []
        for _ in range(2):
            optimizer.set_state_dict(begun)
            for param, value in zip(ours.parameters(), weights, strict=True):
                param.set_value(value)
            optimizer.clear_grad()
            train(ours, optimizer, range(1, 4))
            after.append([param.numpy() for param in ours.parameters()])
    assert all(same(result, other) for result, other in zip(*after, strict=True))


def test_parameters_of_other_memory_are_crossed_anew():
    """A net that was moved to another dtype and back lies somewhere else."""
    ours, twin = nets()
    optimizer, theirs = KINDS["sgd"].build(ours), KINDS["sgd"].twin(twin)
    with shim() as run:
        stepped(ours, twin, optimizer, theirs, after=lambda _: ours.to(dtype="float64").to(dtype="float32"))
    assert not run.native


def test_what_is_kept_dies_with_the_optimizer():
    gc.collect()
    before = len(step_cache._updates)
    ours, _ = nets()
    optimizer = KINDS["adam"].build(ours)
    with shim():
        train(ours, optimizer, range(2))
    assert len(step_cache._updates) == before + 1
    gone = [weakref.ref(optimizer), *map(weakref.ref, ours.parameters())]
    del optimizer, ours, _
    gc.collect()
    assert [reference() for reference in gone] == [None] * len(gone)
    assert len(step_cache._updates) == before
