"""The spellings in which users reach the ops: each substituted, each with torch's bits."""

import functools
import gc
import inspect
import weakref
from pathlib import Path

import forked
import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import same
from hypothesis import given, strategies as st
from paddle import matmul as imported_before
from paddle.nn.functional import gelu as gelu_before

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.bitexact

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(7)
X, Y = RNG.standard_normal((4, 6)), RNG.standard_normal((6, 5))
V, P = RNG.standard_normal(6), RNG.uniform(0.5, 2, (4, 6))
TABLE = {"gelu": gelu_before}


class Holder:
    act = staticmethod(F.gelu)


def t(values):
    return torch.from_numpy(np.ascontiguousarray(values))


def p(values):
    return paddle.to_tensor(values)


def lse(x, axis=None, keepdim=False):
    return torch.logsumexp(x, axis if axis is not None else tuple(range(x.ndim)), keepdim)


# spelling: (op it must count as, Paddle program, torch's formula); what are doors of the table is in test_op_table.py
OUTER = "multiply" if "multiply" in inspect.unwrap(paddle.outer).__code__.co_names else "matmul"  # from 3.1 on, and up to 3.0
SPELLINGS = {
    "imported before": ("matmul", lambda: imported_before(p(X), p(Y)), lambda: t(X) @ t(Y)),
    "@": ("matmul", lambda: p(X) @ p(Y), lambda: t(X) @ t(Y)),
    "inner": ("matmul", lambda: paddle.inner(p(X), p(Y.T)), lambda: t(X) @ t(Y.T).t()),
    "outer": (OUTER, lambda: paddle.outer(p(V), p(V)), lambda: torch.outer(t(V), t(V))),
    "x / np.sqrt": ("divide", lambda: p(X) / np.sqrt(80), lambda: t(X) / np.sqrt(80)),
    "x / 3": ("divide", lambda: p(X) / 3, lambda: t(X) / 3),
    "2 / x": ("divide", lambda: 2 / p(P), lambda: 2 / t(P)),
    "x / y": ("divide", lambda: p(X) / p(P), lambda: t(X) / t(P)),
    "x / array": ("divide", lambda: p(X) / P, lambda: t(X) / t(P)),
    "x - 1.7": ("subtract", lambda: p(X) - 1.7, lambda: t(X) - 1.7),
    "1.7 - x": ("subtract", lambda: 1.7 - p(X), lambda: 1.7 - t(X)),
    "x + y": ("add", lambda: p(X) + p(P), lambda: t(X) + t(P)),
    "0.3 * x": ("multiply", lambda: 0.3 * p(X), lambda: 0.3 * t(X)),
    "x ** 2": ("pow", lambda: p(X) ** 2, lambda: t(X) ** 2),
    "x ** 1.3": ("pow", lambda: p(P) ** 1.3, lambda: t(P) ** 1.3),
    "2 ** x": ("pow", lambda: 2.0 ** p(X), lambda: 2.0 ** t(X)),
    "-x": ("scale", lambda: -p(X), lambda: -t(X)),
    "sum dtype": (
        "sum",
        lambda: paddle.sum(p(X.astype("float32")), dtype="float64"),
        lambda: t(X.astype("float32")).double().sum(),
    ),
    "sum int": ("sum", lambda: paddle.sum(p(np.arange(5, dtype="int32"))), lambda: torch.tensor(10)),
    "sum int8": ("sum", lambda: paddle.sum(p(np.arange(5, dtype="int8"))), lambda: torch.tensor(10, dtype=torch.int8)),
    "sum uint8": ("sum", lambda: paddle.sum(p(np.full(3, 99, "uint8")), 0), lambda: torch.tensor(41, dtype=torch.uint8)),
    "sum bool": ("sum", lambda: paddle.sum(p(X > 0)), lambda: t(X > 0).sum()),
    "logsumexp -inf": ("logsumexp", lambda: paddle.logsumexp(p(np.full(3, -np.inf))), lambda: torch.tensor(-np.inf).double()),
    "logsumexp inf": ("logsumexp", lambda: paddle.logsumexp(p(np.array([0, np.inf]))), lambda: torch.tensor(np.inf).double()),
    "gelu kept on a class": ("gelu", lambda: Holder.act(p(X)), lambda: torch.nn.functional.gelu(t(X))),
    "gelu kept in a dict": ("gelu", lambda: TABLE["gelu"](p(X)), lambda: torch.nn.functional.gelu(t(X))),
    "partial": ("matmul", functools.partial(imported_before, p(X), p(Y)), lambda: t(X) @ t(Y)),
    "relu layer": ("relu", lambda: paddle.nn.ReLU()(p(X)), lambda: t(X).relu()),
}


@pytest.mark.compat
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spelling(spelling):
    op, program, formula = SPELLINGS[spelling]
    with padiff_shim.reference("torch") as run:
        ours = program()
    assert same(ours, formula())
    assert run.substituted == {op: 1}, run.native


@pytest.mark.skipif(not IS_3, reason="the raw spellings are Paddle 3.x's")
def test_raw_spellings_of_3():
    with padiff_shim.reference("torch") as run:
        assert same(paddle.matmul(input=p(X), other=p(Y)), t(X) @ t(Y))
        assert same(paddle.sum(p(X), dim=0), t(X).sum(0))
        assert same(paddle.logsumexp(x=p(X), axis=-1, name="n"), lse(t(X), -1))
        out = paddle.empty([4, 5], dtype="float64")
        paddle.matmul(p(X), p(Y), out=out)
    assert run.substituted == {"matmul": 1, "sum": 1, "logsumexp": 1}
    assert run.native == {"matmul": {"result redirected by out=": 1}}
    np.testing.assert_allclose(out.numpy(), X @ Y)


@pytest.mark.compat
def test_layer_norm_in_float64_has_torchs_epsilon():
    layer = paddle.nn.LayerNorm(6, epsilon=1e-5).to(dtype="float64")
    native = layer(p(X * 0.01)).numpy()
    with padiff_shim.reference("torch"):
        ours = layer(p(X * 0.01))
    theirs = torch.nn.functional.layer_norm(t(X * 0.01), (6,), torch.ones(6).double(), torch.zeros(6).double(), 1e-5)
    assert same(ours.detach(), theirs)
    assert np.abs(native - theirs.numpy()).max() > 1e-12  # Paddle rounds epsilon to float32


@pytest.mark.compat
def test_integer_division_and_rebinding_division():
    with padiff_shim.reference("torch") as run:
        x = p(np.array([1, 2, 3], "int64"))
        quotient = x / 2
        y = first = p(X)
        y /= 2
    assert str(quotient.dtype) == "paddle.float32"
    assert quotient.numpy().tolist() == [0.5, 1.0, 1.5]
    assert y is not first
    assert run.substituted == {"divide": 2}


def test_attention_reaches_every_product():
    layer = paddle.nn.MultiHeadAttention(8, 2)
    x = paddle.rand([2, 3, 8])
    with padiff_shim.reference("torch") as run:
        layer(x)
        F.scaled_dot_product_attention(*[paddle.rand([2, 3, 2, 4])] * 3)
    assert run.substituted["matmul"] == 2
    assert run.substituted["softmax"] == 1
    assert run.substituted["linear"] == 4
    assert run.substituted["scaled_dot_product_attention"] == 1


def test_a_refused_call_keeps_its_operands_no_longer_than_paddle():
    with padiff_shim.reference("torch") as run:
        x = paddle.ones([3], dtype="int32")
        seen = weakref.ref(x)
        x + 1
        del x
        gc.collect()
        assert seen() is None
    assert [*run.native] == ["add"]


@pytest.mark.compat
def test_a_refused_first_call_does_not_spoil_the_later_ones():
    """The dtype rule of an entry point is learnt at its first call, which may be a wrong one."""
    program = """if True:
        import paddle, padiff_shim
        x = paddle.ones([2, 3])
        with padiff_shim.reference("torch") as run:
            for wrong in (lambda: paddle.sum(x, axis=7), lambda: paddle.nn.functional.softmax(x, axis=7)):
                try:
                    wrong()
                except ValueError:
                    continue
                raise SystemExit("Paddle did not refuse")
            paddle.sum(x)
            paddle.nn.functional.softmax(x)
        print(run.substituted)
    """
    done = forked.run(["-c", program], warm=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == "{'sum': 1, 'softmax': 1}"


SHAPES = st.lists(st.integers(1, 4), min_size=0, max_size=3)


@given(left=SHAPES, right=SHAPES, name=st.sampled_from(["+", "-", "*", "/", "@"]), dtype=st.sampled_from(["float32", "float64"]))
def test_operators_agree_with_torch_and_fail_as_paddle(left, right, name, dtype):
    """Any two shapes: torch's bits where Paddle answers, Paddle's error where it refuses."""
    rng = np.random.default_rng(len(left) * 7 + len(right))
    x, y = (rng.uniform(0.5, 2, shape).astype(dtype) for shape in (left, right))
    program = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "@": lambda a, b: a @ b,
    }[name]
    a, b = p(np.asarray(x)), p(np.asarray(y))
    try:
        native, error = program(a, b), None
    except Exception as raised:
        native, error = None, type(raised)
    with padiff_shim.reference("torch"):
        if error is not None:
            with pytest.raises(error):
                program(a, b)
            return
        ours = program(a, b)
    assert ours.shape == native.shape
    assert ours.dtype == native.dtype
    assert same(ours, program(torch.from_numpy(np.asarray(x)), torch.from_numpy(np.asarray(y))))


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data(), keepdim=st.booleans())
def test_reductions_over_any_axes(shape, data, keepdim):
    axis = data.draw(st.one_of(st.none(), st.integers(-5, 5), st.lists(st.integers(-4, 3), max_size=3)))
    values = np.random.default_rng(len(shape)).standard_normal(shape)
    for function in (paddle.sum, paddle.mean, paddle.logsumexp):
        try:
            native, error = function(p(values), axis=axis, keepdim=keepdim), None
        except Exception as raised:
            native, error = None, type(raised)
        with padiff_shim.reference("torch"):
            if error is not None:
                with pytest.raises(error):
                    function(p(values), axis=axis, keepdim=keepdim)
                continue
            ours = function(p(values), axis=axis, keepdim=keepdim)
        assert ours.shape == native.shape
        np.testing.assert_allclose(ours.numpy(), native.numpy(), rtol=1e-12, atol=1e-13)


def power(x, number):
    return x ** abs(number)  # Paddle 3.3.1 never returns from an integer tensor to a negative power


@given(
    number=st.one_of(st.integers(-3, 3), st.floats(-2, 2), st.booleans()),
    kind=st.sampled_from(["float32", "float64", "int32", "bool"]),
)
def test_numbers_promote_as_in_paddle(number, kind):
    x = p(np.array([1, 2, 3]).astype(kind))
    for program in (lambda a, n: a + n, lambda a, n: n - a, lambda a, n: a * n, lambda a, n: n / a, power):
        try:
            native, error = program(x, number), None
        except Exception as raised:
            native, error = None, type(raised)
        with padiff_shim.reference("torch"):
            if error is not None:
                with pytest.raises(error):
                    program(x, number)
                continue
            ours = program(x, number)
        assert ours.dtype == native.dtype
        np.testing.assert_allclose(ours.numpy(), native.numpy(), rtol=1e-6)


NAMED = {
    "add": ("add", lambda name: paddle.add(p(P), p(P), *name)),
    "exp": ("exp", lambda name: paddle.exp(p(P), *name)),
    "matmul": ("matmul", lambda name: paddle.matmul(p(X), p(Y), False, False, *name)),
    "sum": ("sum", lambda name: paddle.sum(p(P), None, None, False, *name)),
    "std": ("std", lambda name: paddle.std(p(P), None, True, False, *name)),
    "linear": ("linear", lambda name: F.linear(p(X), p(Y), None, *name)),
    "softmax": ("softmax", lambda name: F.softmax(p(P), -1, None, *name)),
    "mse_loss": ("mse_loss", lambda name: F.mse_loss(p(P), p(P), "mean", *name)),
    "layer_norm": ("layer_norm", lambda name: F.layer_norm(p(P), [6], None, None, 1e-5, *name)),
    "Tensor.add": ("add", lambda name: p(P).add(p(P), *name)),
    "linspace": ("linspace", lambda name: paddle.linspace(0.0, 1.0, 7, "float32", *name)),
}


@pytest.mark.compat
@pytest.mark.parametrize("mode", ["reference", "compare"])
@pytest.mark.parametrize("case", NAMED)
def test_a_name_may_come_by_position(case, mode):
    op, call = NAMED[case]
    with padiff_shim.reference("torch", strict=True):
        expected = call(())
    with getattr(padiff_shim, mode)("torch") as run:
        named = call(("a name",))
    assert not run.native
    assert op in (run.substituted if mode == "reference" else {call.op for call in run.calls})
    assert mode == "compare" or same(named, torch.from_numpy(expected.numpy()))


INTEGERS = ("int32", "int64", "bool")


@pytest.mark.compat
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("name", "program"), [
    ("sum", lambda x, y: paddle.sum(x)),
    ("sum", lambda x, y: paddle.sum(x, axis=1, keepdim=True)),
    ("sum", lambda x, y: paddle.sum(x, axis=0, dtype="float64")),
    ("divide", lambda x, y: x / y),
    ("divide", lambda x, y: x / 3),
    ("divide", lambda x, y: 3 / x),
    ("divide", lambda x, y: paddle.divide(x, y)),
])  # fmt: skip
def test_integer_operands_promote_as_natively(name, program, dtype):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(1, 9, (3, 4)).astype(dtype) for _ in range(2)]
    x, y = map(paddle.to_tensor, arrays)
    try:
        expected = program(x, y)
    except Exception as error:
        with padiff_shim.reference("torch") as run, pytest.raises(type(error)):
            program(x, y)
        assert not run.substituted
        return
    with padiff_shim.reference("torch") as run:
        ours = program(x, y)
    assert ours.dtype == expected.dtype
    assert list(ours.shape) == list(expected.shape)
    np.testing.assert_allclose(ours.numpy().astype("float64"), expected.numpy().astype("float64"), rtol=1e-5)
    if name == "sum":
        assert run.substituted == {"sum": 1}
        assert same(ours, expected.numpy())
