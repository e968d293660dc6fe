"""Torch's optimizers on lists of parameters have the bits of its single way, whatever the parameters' shapes, dtypes and values."""

import math

import numpy as np
import paddle
import pytest
import torch
from helpers import same
from hypothesis import given, settings
from hypothesis import strategies as st
from trainings import AMSGRAD, KINDS, RATE

import padiff_shim
from padiff_shim.optimizers import adaptive, descent
from padiff_shim.optimizers.lists import Core
from padiff_shim.optimizers.update import Batch, Item

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
LARGE = (33000,)  # more elements than are gathered in a list
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-40, 3e38, 1e-20, 1e-8])
DTYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16, "bfloat16": torch.bfloat16}
shapes = st.lists(st.one_of(st.lists(st.integers(1, 40), max_size=3).map(tuple), st.just(LARGE)), min_size=1, max_size=6)


def values(rng, shape, odd):
    """Numbers of all sizes, some of them ones that few programs have."""
    count = min(math.prod(shape), 499)  # a large tensor repeats them
    result = rng.standard_normal(count) * 10.0 ** rng.integers(-6, 3, count)
    if odd:
        result = np.where(rng.random(count) < 0.1, rng.choice(ODD, count), result)
    return np.resize(result, shape)


def words_of(kind):
    """Optimizer, its options in both frameworks, one of them with decay."""
    return {"weight_decay": 0.03} if kind not in ("no momentum", "rprop") else {}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(
    shapes=shapes,
    seed=st.integers(0, 2**32 - 1),
    double=st.booleans(),
    odd=st.booleans(),
    decays=st.booleans(),
    amsgrad=st.booleans(),
)
def test_steps_made_again_have_the_twins_bits(kind, shapes, seed, double, odd, decays, amsgrad):
    shapes = [shape or (1,) for shape in shapes] if kind == "rprop" else shapes  # Paddle's refuses tensors without axes
    more = {**(words_of(kind) if decays else {}), **({"amsgrad": True} if amsgrad and kind in AMSGRAD else {})}
    dtype, rng = "float64" if double else "float32", np.random.default_rng(seed)
    begin = [values(rng, shape, False).astype(dtype) for shape in shapes]
    ours = [paddle.base.framework.EagerParamBase.from_tensor(paddle.to_tensor(value)) for value in begin]
    theirs = [torch.nn.Parameter(torch.tensor(value)) for value in begin]
    mine = getattr(paddle.optimizer, KINDS[kind].ours)(RATE, parameters=ours, **{**KINDS[kind].options, **more})
    twin = getattr(torch.optim, KINDS[kind].theirs)(theirs, lr=RATE, **{**KINDS[kind].twin_options, **more})
    with padiff_shim.reference("torch", optimizer="torch") as run, np.errstate(all="ignore"):
        for step in range(4):
            for result, other in zip(ours, theirs, strict=True):
                grad = values(rng, result.shape, odd and step == 2).astype(dtype)
                (result * paddle.to_tensor(grad)).sum().backward()
                other.grad = torch.tensor(grad)
            mine.step()
            twin.step()
            mine.clear_grad()
            for result, other in zip(ours, theirs, strict=True):
                assert same(result.numpy(), other.detach()), (step, result.shape)
    assert not run.native


def batch_of(rng, dtype, numbers, names, shapes, decay):
    items = []
    for shape in shapes:
        tensors = {name: torch.tensor(values(rng, shape, name == "param")).to(dtype) for name in names}
        item = Item({name: tensor if name in ("param", "moment1") else tensor.abs() for name, tensor in tensors.items()})
        item.grad = torch.tensor(values(rng, shape, True)).to(dtype)
        items.append(item)
    return Batch(items, numbers, RATE, decay)


_ADAM = ({"beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "momentum_decay": 0.004}, "param moment1 moment2 moment2_max moment norm")
_MEANS = ({"rho": 0.9, "epsilon": 1e-6, "momentum": 0.5}, "param squares updates moment mean")
CORES = {
    "sgd": (descent._sgd_core, {}, "param", ()),
    "momentum": (descent._momentum_core, {"mu": 0.9, "nesterov": False}, "param velocity", ()),
    "nesterov": (descent._momentum_core, {"mu": 0.9, "nesterov": True}, "param velocity", ()),
    "adagrad": (descent._adagrad_core, {"epsilon": 1e-6}, "param moment", ()),
    "adadelta": (descent._adadelta_core, *_MEANS, ()),
    "rmsprop": (descent._rmsprop_core, {**_MEANS[0], "centered": False}, _MEANS[1], ()),
    "centered": (descent._rmsprop_core, {**_MEANS[0], "centered": True, "momentum": 0}, _MEANS[1], ()),
    "adam": (adaptive._adam_core, {**_ADAM[0], "amsgrad": False}, _ADAM[1], (RATE, 0.02, False)),
    "adamw": (adaptive._adam_core, {**_ADAM[0], "amsgrad": False}, _ADAM[1], (RATE, 0.02, True)),
    "amsgrad": (adaptive._adam_core, {**_ADAM[0], "amsgrad": True}, _ADAM[1], (RATE, 0, False)),
    "adamax": (adaptive._adamax_core, *_ADAM, ()),
    "nadam": (adaptive._nadam_core, *_ADAM, ()),
    "radam": (adaptive._radam_core, *_ADAM, ()),
}
UNLIKE = {"nadam", "radam"}  # Torch 2.13 orders their operations on lists otherwise


@pytest.mark.parametrize("name", CORES)
@settings(max_examples=10)
@given(
    shapes=shapes, seed=st.integers(0, 2**32 - 1), dtype=st.sampled_from(sorted(DTYPES)), decay=st.sampled_from([0.0, 0.03]),
    done=st.lists(st.sampled_from([0, 4, 5, 3000]), min_size=6, max_size=6), fresh=st.integers(0, 6),
)  # fmt: skip
def test_lists_have_the_bits_of_the_function(name, shapes, seed, dtype, decay, done, fresh):
    """On any values, also where parameters have made other numbers of steps."""
    core, numbers, names, words = CORES[name]
    both = [batch_of(np.random.default_rng(seed), DTYPES[dtype], numbers, names.split(), shapes, decay) for _ in range(2)]
    for b in both:
        for item in b.items[:fresh]:
            item.fresh = True
    core(both[0], done[: len(shapes)], *words)
    core._function(both[1], done[: len(shapes)], *words, foreach=False)
    # in half precision lists round the numbers to the tensors' dtype, so that they are not even tried
    assert all(right is (name not in UNLIKE) and kind in (torch.float32, torch.float64) for (kind, *_), right in core._same.items())
    for mine, theirs in zip(both[0].items, both[1].items, strict=True):
        for key in names.split():
            assert same(mine.tensors[key], theirs.tensors[key]), key


@pytest.mark.parametrize("name", ["nesterov", "adagrad", "adamw"])
@pytest.mark.parametrize("of", [(0, 1), (0, 2), (2, 1)])
def test_parameters_over_one_memory_are_updated_one_after_the_other(name, of):
    """The same memory, a part of it, an accumulator that two of them have."""
    core, numbers, names, words = CORES[name]
    both = [batch_of(np.random.default_rng(5), torch.float32, numbers, names.split(), [(6,)] * 3, 0.03) for _ in range(2)]
    for place, b in enumerate(both):
        for key in names.split()[:2]:
            b.items[of[0]].tensors[key] = b.items[of[1]].tensors[key][1:] if of == (2, 1) else b.items[of[1]].tensors[key]
        items = [Item(item.tensors) for item in b.items]
        for item, grad in zip(items, b.grad, strict=True):
            item.grad = grad[: item.tensors["param"].numel()]
            item.tensors = {key: tensor[: item.grad.numel()] for key, tensor in item.tensors.items()}
        both[place] = b.of(items)
    core(both[0], [3] * 3, *words)
    core._function(both[1], [3] * 3, *words, foreach=False)
    for mine, theirs in zip(both[0].items, both[1].items, strict=True):
        for key in names.split():
            assert same(mine.tensors[key], theirs.tensors[key]), key


def test_a_function_that_computes_otherwise_is_called():
    """As in a Torch that orders its operations otherwise: in one branch, and not in another. Large parameters come one by one."""
    called = []

    def function(b, done, *, foreach):
        called.append((len(b.items), foreach))
        for item in b.items:
            split = b.decay and not foreach
            item.tensors["param"].add_(item.grad * -b.lr if split else item.grad, alpha=1 if split else -b.lr).add_(b.decay)

    core, rng = Core(function), np.random.default_rng(0)
    for decay, calls in ((0.0, [(3, True), (1, True), (1, False)]), (0.1, [(5, False)])):
        b = batch_of(rng, torch.float32, {}, ["param"], [(3,), (20000,), LARGE, (20000,), (7, 7)], decay)
        before = [item.tensors["param"].clone() for item in b.items]
        core(b, [0] * 5)
        assert called[-len(calls) :] == calls
        assert not any(same(item.tensors["param"], value) for item, value in zip(b.items, before, strict=True))
    assert sorted(core._same.values()) == [False, True]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_number_that_rounding_leaves_alone_says_nothing_of_others(dtype):
    """1 - lr * decay is 1 in bfloat16 for the first update, and is not for the second."""
    core, numbers, names, _ = CORES["adamw"]
    numbers = {**numbers, "beta2": 0.999}
    for words in ((0.01, 0.1, True), (0.125, 0.1, True)):
        both = [batch_of(np.random.default_rng(0), DTYPES[dtype], numbers, names.split(), [(3, 7), (5,)], 0.0) for _ in range(2)]
        core(both[0], [0, 0], *words)
        core._function(both[1], [0, 0], *words, foreach=False)
        bits = [[item.tensors["param"].view(torch.int16).tolist() for item in b.items] for b in both]
        assert bits[0] == bits[1]
