"""Hooks on results that nothing was made of, beside one that something was: what natively they are shown, and may answer."""

import gc
import weakref

import numpy as np
import paddle
import pytest

import padiff_shim

pytestmark = pytest.mark.compat

SPLITS = {
    "chunk": lambda x: paddle.chunk(x, 3, axis=1),
    "split": lambda x: paddle.split(x, [1, 2], axis=1),
    "unbind": lambda x: paddle.unbind(x, axis=1),
    "eigh": lambda x: paddle.linalg.eigh(x),
}
ANSWERS = {
    "nothing": [lambda grad: None],
    "zeros": [lambda grad: grad * 2.0],
    "a gradient": [lambda grad: grad + 3.0],
    "several": [lambda grad: grad + 3.0, lambda grad: grad * 2.0, lambda grad: None],
}
BACKWARDS = {
    "backward": lambda out, x: out.backward(),
    "twice": lambda out, x: (out.backward(retain_graph=True), out.backward()),
    "grad": lambda out, x: setattr(x, "grad", paddle.grad(out, x)[0]),
}


def _matrix():
    return paddle.to_tensor([[3.0, 1.0, 0.5], [1.0, -2.0, 0.25], [0.5, 0.25, 1.0]], stop_gradient=False)


def _program(split, answers, backward, *, leaf, retain):
    x, seen = _matrix(), []

    def hooked(number, answer):
        def hook(grad):
            seen.append((number, grad.numpy()))
            return answer(grad)

        return hook

    parts = SPLITS[split](x if leaf else x * 1.0)
    for number, part in enumerate(parts):
        for answer in ANSWERS[answers]:
            part.register_hook(hooked(number, answer))
        if retain:
            part.retain_grads()
    BACKWARDS[backward](parts[0].sum(), x)
    retained = [part.grad for part in parts] if retain else []
    return seen, [None if grad is None else grad.numpy() for grad in [x.grad, *retained]]


def _agree(native, ours):
    for result, other in zip(native, ours, strict=True):
        assert type(result) is type(other)
        if isinstance(result, tuple):
            _agree(result, other)
        elif isinstance(result, np.ndarray):
            np.testing.assert_allclose(other, result, rtol=1e-5, atol=1e-6)
        else:
            assert result == other


@pytest.mark.parametrize(("leaf", "retain"), [(True, False), (False, True)], ids=["of a leaf", "retained"])
@pytest.mark.parametrize("backward", BACKWARDS)
@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("split", SPLITS)
def test_hooks_are_called_as_natively(split, answers, backward, leaf, retain):
    native = _program(split, answers, backward, leaf=leaf, retain=retain)
    with padiff_shim.reference("torch") as run:
        ours = _program(split, answers, backward, leaf=leaf, retain=retain)
    assert split not in run.native
    for result, other in zip(native, ours):
        _agree(result, other)


def test_where_paddle_has_no_zeros_hooks_are_shown_nothing():
    def program():
        seen = []
        u, s, _ = paddle.linalg.svd(_matrix() * 1.0)
        u.register_hook(seen.append)
        s.sum().backward()
        return [grad is None or not grad.numpy().size for grad in seen]

    native = program()
    with padiff_shim.reference("torch"):
        assert program() == native == [True]


def test_an_answer_holds_nothing():
    class Answer:
        def __call__(self, grad):
            return grad + 1.0

    gc.disable()
    try:
        with padiff_shim.reference("torch"):
            answer, x = Answer(), _matrix()
            first, second, _ = paddle.unbind(x * 2.0)
            second.register_hook(answer)
            first.sum().backward()
            gone = weakref.ref(answer)
            del answer, first, second, _
            assert gone() is None
        np.testing.assert_array_equal(x.grad.numpy(), [[2.0] * 3, [2.0] * 3, [0.0] * 3])
    finally:
        gc.enable()


def test_a_hook_that_was_removed_is_not_called():
    seen = []
    with padiff_shim.reference("torch"):
        first, second, _ = paddle.unbind(_matrix() * 2.0)
        handle = second.register_hook(seen.append)
        handle.remove()
        first.sum().backward()
    assert seen == []


class _Two(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2.0, x * 3.0

    @staticmethod
    def backward(ctx, first, second):
        return first * 2.0 + second * 3.0


@pytest.mark.parametrize("made", [_Two.apply, lambda x: paddle.linalg.svd(x)[:2]], ids=["PyLayer", "svd"])
def test_an_error_in_a_hook_that_is_shown_nothing_is_one_of_paddles_engine(made):
    def refuse(grad):
        raise ValueError("mine")

    def program():
        first, second = made(_matrix() * 1.0)
        first.register_hook(refuse)
        with pytest.raises(OSError, match=r"\(External\) ValueError: mine"):
            second.sum().backward()

    program()
    with padiff_shim.reference("torch"):
        program()


@pytest.mark.parametrize("split", SPLITS)
def test_no_gradient_passes_through_a_result_that_nothing_was_made_of(split):
    """Beside one that something was: a partial gradient met an error there."""

    def program():
        x = _matrix()
        first, second = SPLITS[split](x * 1.0)[:2]
        return paddle.grad([first.sum()], [x], no_grad_vars=[second])[0].numpy()

    expected = program()
    with padiff_shim.reference("torch"):
        results = program()
    np.testing.assert_allclose(results, expected, rtol=1e-5, atol=1e-6)
