"""Planted faults that cannot be planted, or raise: the user is told, and nothing passes in silence."""

import warnings

import numpy as np
import paddle
import pytest
from helpers import flat, running
from hypothesis import given, strategies as st

import padiff_shim
from padiff_shim import ArgumentError, testing
from padiff_shim.auditing import cases

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]
planted = testing.planted


class Reached(Exception):
    """The change was called."""


def reached(*_):
    raise Reached


def leaf():
    x = paddle.to_tensor([0.5, -1.0, 2.0])
    x.stop_gradient = False
    return x


def test_a_change_of_another_number_of_arguments_raises_its_own_error():
    raises = pytest.raises(TypeError, match="takes 1 positional argument but 2 were given")
    with raises, padiff_shim.compare("torch") as run, planted("sigmoid", lambda out: out * 2):
        paddle.nn.functional.sigmoid(leaf())
    assert not run.warnings


@pytest.mark.parametrize("side", ["paddle", "torch"])
def test_a_change_of_a_gradient_raises_when_the_backward_has_ended(side):
    x = leaf()
    with padiff_shim.compare("torch"), planted("sigmoid", lambda gradient: gradient, gradients=True, side=side):
        loss = paddle.nn.functional.sigmoid(x).sum()
        with pytest.raises(TypeError, match="positional argument"):
            loss.backward()
    fresh = leaf()
    paddle.nn.functional.sigmoid(fresh).sum().backward()
    assert np.array_equal(fresh.grad.numpy(), x.grad.numpy()), "Paddle's backward went on"


@pytest.mark.parametrize(
    ("change", "gave"),
    [
        (lambda out, x: None, "it returned None"),
        (lambda out, x: out[:2], r"it returned a tensor \[2\]"),
        (lambda out, x: out.numpy(), "it returned array"),
    ],
    ids=["nothing", "another size", "an array"],
)
def test_a_change_that_gives_something_else(change, gave):
    with (
        pytest.raises(ArgumentError, match=rf"planted in 'sigmoid' returns a torch tensor \[3\], as its argument is; {gave}"),
        padiff_shim.compare("torch"),
        planted("sigmoid", change),
    ):
        paddle.nn.functional.sigmoid(leaf())


@pytest.mark.parametrize(
    ("op", "options", "says"),
    [
        ("sigmod", {}, "Did you mean 'sigmoid'"),
        ("uniform", {}, "does nothing but draw random numbers"),
        ("arange", {"gradients": True}, "has no gradient"),
    ],
)
def test_an_op_that_cannot_be_planted(op, options, says):
    with pytest.raises(ArgumentError, match=says), planted(op, lambda out, *_: out, **options):
        pass


def test_an_op_that_draws():
    with padiff_shim.compare("torch"), planted("dropout", reached), pytest.raises(ArgumentError, match="draws random numbers"):
        paddle.nn.functional.dropout(leaf(), 0.5)


def test_a_fault_that_no_call_came_by_is_warned_of():
    warns = pytest.warns(RuntimeWarning, match="no comparison came by a result of 'gelu'")
    with warns, padiff_shim.compare("torch"), planted("gelu", reached):
        paddle.nn.functional.sigmoid(leaf())
    warns = pytest.warns(RuntimeWarning, match="a gradient of 'sigmoid' in layer 'a.b'")
    with warns, padiff_shim.compare("torch"), planted("sigmoid", reached, gradients=True, layer="a.b"):
        paddle.nn.functional.sigmoid(leaf()).sum().backward()


def tried(name, *, gradients):
    """What becomes of a fault that is planted in an op, by a plain sample of it: a sentence, or "" where it passed in silence."""
    case = next(cases.cases(name), None)
    if case is None:
        return "no sample"
    call = cases.AuditCall(case)
    try:
        with warnings.catch_warnings(record=True) as caught, padiff_shim.compare("torch", exact=True, ops=[name]):
            warnings.simplefilter("always")
            with planted(name, reached, gradients=gradients):
                results = call.run(call.tensors(grad=gradients))
                if gradients:
                    call.backward(flat(results))
    except (Reached, ArgumentError) as error:
        return type(error).__name__
    except Exception as error:  # another version's function, no backward of its own
        return f"Paddle refuses: {error}"
    return "".join(str(warning.message) for warning in caught if "no comparison came by" in str(warning.message))


@given(st.sampled_from(running()), st.booleans())
def test_no_fault_passes_in_silence(name, gradients):
    assert tried(name, gradients=gradients)


@pytest.mark.slow
@pytest.mark.parametrize("gradients", [False, True])
def test_no_fault_in_the_table_passes_in_silence(gradients):
    answers = {name: tried(name, gradients=gradients) for name in running()}
    assert [name for name, answer in answers.items() if not answer] == []
    assert sum(answer == "Reached" for answer in answers.values()) > 100
