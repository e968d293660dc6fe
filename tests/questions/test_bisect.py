"""The kernels that make a difference are found, each set is asked once, and what cannot be bisected is said."""

import json
from itertools import combinations, count

import numpy as np
import paddle
import paddle.nn.functional as PF
import pytest
from hypothesis import given, strategies as st

import padiff_shim
from padiff_shim import ArgumentError, BisectionError, bisect
from padiff_shim.dispatch import frames
from padiff_shim.present.markdown import in_markdown
from padiff_shim.questions.bisect import ddmin

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]
D = 4
RNG = np.random.default_rng(0)
X, W = RNG.standard_normal((3, D)).astype("float32"), RNG.standard_normal((D, D)).astype("float32")


class Kink(paddle.nn.Layer):
    """leaky_relu of x times a factor; at 0 Paddle's gradient has the slope 1, Torch's 0.01, on every machine."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return PF.leaky_relu(paddle.tanh(x) * self.factor) + PF.leaky_relu(x + 2.0)


class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.parts = paddle.nn.LayerList([Kink(1.0), Kink(0.0), Kink(2.0)])

    def forward(self, x):
        return sum(part(x) for part in self.parts)


def gradient():
    """Of x; the middle part is at the kink."""
    x = paddle.to_tensor(np.abs(X))
    x.stop_gradient = False
    scale = paddle.ones([D])
    scale.stop_gradient = False
    net = Net()
    shift = paddle.zeros([3, D])
    shift.stop_gradient = False
    y = net.parts[0](x) + PF.leaky_relu(paddle.tanh(x) * 0.0 + shift) + net.parts[2](x)
    (net(x).sum() + y.sum()).backward()
    return shift.grad


RIGHT = np.full((3, D), 0.01, "float32")
BAD = 1e-3


@pytest.mark.parametrize("over", ["ops", "layers", "calls"])
def test_what_makes_a_difference_is_found(over):
    bisection = bisect(gradient, RIGHT, over, atol=BAD)
    (unit,) = bisection
    assert (bisection.kernel, bisection.alone) == ("paddle", True)
    assert bisection.units > 2
    if over == "ops":
        assert str(unit) == "leaky_relu"
        assert unit.calls == 11
    elif over == "layers":
        assert unit.layer == ""
    else:
        assert (unit.op, unit.layer, unit.calls) == ("leaky_relu", "", 1)
        ((_, _, site),) = unit.places
        assert "test_bisect.py" in site.file
        assert site.function == "gradient"
    for text, escaped in ((str(bisection), str), (bisection.markdown(), in_markdown)):
        assert escaped(bisection.headline) in text
        assert escaped("test_bisect.py") in text
    json.dumps(bisection.to_dict())


def test_torchs_kernels_can_be_what_is_bad():
    natively = gradient().numpy()
    bisection = bisect(gradient, natively, atol=BAD)
    assert bisection.kernel == "torch"
    assert [unit.op for unit in bisection] == ["leaky_relu"]
    assert "leaky_relu" in bisection.headline


def test_a_layer_is_found_by_its_path():
    def program():
        x = paddle.zeros([2, D])
        x.stop_gradient = False
        net = Net()
        (net(x + 1.0) * paddle.ones([D])).sum()
        net.parts[1](x)
        y = net(x)
        y.sum().backward()
        return x.grad

    with padiff_shim.reference("torch"):
        right = program().numpy()
    bisection = bisect(program, right, "layers", atol=BAD)
    assert {unit.layer for unit in bisection} <= {"parts.0", "parts.2"}
    assert len(bisection) == 1
    assert not bisection.alone, "either of two layers makes it"


def natives():
    """A program whose result is the ops that stayed native."""
    x = paddle.to_tensor(X)
    for op in (paddle.tanh, paddle.exp, PF.gelu, PF.softmax, PF.sigmoid, paddle.sin):
        x = op(x)
    frame = frames.top()
    return frozenset() if frame is None else frozenset(frame.run.native)


@pytest.mark.parametrize("wanted", [{"tanh"}, {"exp", "sin"}, {"tanh", "gelu", "sin"}])
def test_ops_that_make_it_together(wanted):
    runs = []

    def target(native):
        runs.append(native)
        return wanted <= native

    bisection = bisect(natives, target)
    assert {unit.op for unit in bisection} == wanted
    assert bisection.alone
    assert bisection.units == 6
    assert bisection.runs == len(runs)
    assert len(set(runs)) == len(runs) - 1, "no set is asked twice, but for the last, which is made sure of"


def test_the_same_is_found_each_time():
    answers = [bisect(natives, lambda native: len(native) >= 2).to_dict() for _ in range(2)]
    for answer in answers:
        answer.pop("seconds")
    assert answers[0] == answers[1]


def test_optimizers_are_exchanged_too():
    def step():
        layer = paddle.nn.Linear(D, D)
        layer.weight.set_value(W)
        optimizer = paddle.optimizer.RMSProp(0.1, parameters=layer.parameters())
        (layer(paddle.to_tensor(X)).sum() * 1e-4).backward()  # so small that the place of epsilon counts
        optimizer.step()
        return layer.weight

    with padiff_shim.reference("torch", optimizer="torch"):
        right = step().numpy()
    bisection = bisect(step, right, atol=1e-2, optimizer="torch")
    assert [unit.op for unit in bisection] == ["rmsprop"]


def test_both_ends_have_to_differ():
    with pytest.raises(BisectionError, match="bad with all ops on Torch's"):
        bisect(natives, lambda _: True)
    with pytest.raises(BisectionError, match="good on Paddle's"):
        bisect(natives, lambda _: False)
    with pytest.raises(BisectionError, match="no call of fn ran on Torch's kernels"):
        bisect(lambda: 1.0, 2.0)
    numbers = count()
    with pytest.raises(BisectionError, match="the same each time"):
        bisect(natives, lambda _: next(numbers) == 1, "ops")


def test_a_part_that_gives_no_gradient_is_bad_and_not_refused():
    """Kernels of both frameworks mixed may leave a gradient out; that neither end has the target's shape is refused as before."""

    def of_both():
        x, y = paddle.zeros([3]), paddle.zeros([3])
        x.stop_gradient = y.stop_gradient = False
        (PF.leaky_relu(x) + PF.leaky_relu(y)).sum().backward()
        return x.grad if bool((x.grad == y.grad).all()) else None

    bisection = bisect(of_both, np.full(3, 0.01), "calls", atol=BAD)
    assert (bisection.kernel, [unit.op for unit in bisection]) == ("paddle", ["leaky_relu"])
    with pytest.raises(ArgumentError, match="target= has 1 array of shape"):
        bisect(lambda: [] if of_both() is None else None, np.zeros(3))


def test_what_is_refused():
    for arguments, options, words in (
        ((3, 1.0), {}, "fn= is a function of no argument"),
        ((natives, "x"), {}, "target= is a function of fn's result"),
        ((natives, None), {}, "target= is a function"),
        ((natives, bool, "op"), {}, "over"),
        ((natives, bool), {"atol": 1.0}, "belong to a target that is a value"),
        ((natives, 1.0), {"rtol": -1}, "rtol= is a number"),
        ((gradient, np.zeros(3)), {}, "target= has 1 array of shape"),
        ((natives, lambda _: np.zeros(3)), {}, "has to answer with True or False"),
        ((natives, bool), {"random": "jax"}, "random"),
    ):
        with pytest.raises(ArgumentError, match=words):
            bisect(*arguments, **options)


def test_errors_of_the_program_are_its_own():
    def broken():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        bisect(broken, bool)


@pytest.mark.slow
@given(st.integers(1, 12), st.data())
def test_delta_debugging_leaves_nothing_out(size, data):
    """Of any condition over two disjoint sets either of which is enough, one is found, whole and with nothing beside it."""
    items = list(range(size))
    cause = frozenset(data.draw(st.sets(st.sampled_from(items), min_size=1)))
    other = frozenset(data.draw(st.sets(st.sampled_from(items), min_size=1)))
    smallest = ddmin(items, lambda part: cause <= set(part) or other <= set(part))
    assert smallest == sorted(smallest)
    assert set(smallest) in (cause, other)
    for part in combinations(smallest, len(smallest) - 1):
        assert not cause <= set(part)
        assert not other <= set(part)
