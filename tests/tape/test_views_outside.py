"""Hooks on views of the tape, and their gradients, behind what was made of them outside of all modes."""

import contextlib

import paddle
import pytest

import padiff_shim

pytestmark = pytest.mark.compat


def doubled(seen):
    def hook(grad):
        seen.append(grad.tolist())
        return grad * 2.0

    return hook


def hooked(view, after, seen):
    view.register_hook(doubled(seen))
    after.sum().backward()


def removed(view, after, seen):
    view.register_hook(doubled(seen)).remove()
    after.sum().backward()


def hooked_twice_and_one_removed(view, after, seen):
    first = view.register_hook(doubled(seen))
    view.register_hook(doubled(seen))
    first.remove()
    after.sum().backward()


def retained(view, after, seen):
    view.retain_grads()
    after.sum().backward()
    return view.grad


def hooked_and_retained(view, after, seen):
    view.register_hook(doubled(seen))
    view.retain_grads()
    after.sum().backward()
    return view.grad


def retained_of_both(view, after, seen):
    view.retain_grads()
    (after.sum() + (view * 3.0).sum()).backward()
    return view.grad


def asked_for(view, after, seen):
    view.register_hook(doubled(seen))
    return paddle.grad([after.sum()], [view])[0]


def asked_for_through_a_mode(view, after, seen):
    view.register_hook(doubled(seen))
    with padiff_shim.reference("torch"):
        last = after * 3.0
    return paddle.grad([last.sum()], [view])[0]


def asked_for_beside_what_is_hooked(view, after, seen):
    view.register_hook(doubled(seen))
    return paddle.grad([after.sum() + (view * 3.0).sum()], [view])[0]


def cut_at_the_view(view, after, seen):
    view.register_hook(doubled(seen))
    other = paddle.to_tensor(2.0, stop_gradient=False)
    return paddle.grad([(after * other).sum()], [other], no_grad_vars=[view])[0]


PROGRAMS = [
    hooked,
    removed,
    hooked_twice_and_one_removed,
    retained,
    hooked_and_retained,
    retained_of_both,
    asked_for,
    asked_for_through_a_mode,
    cut_at_the_view,
]


def run(program, view, leaf, mode):
    x, seen = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False), []
    with mode:
        taken = view(x if leaf else x * 1.0)
    after = paddle.exp(taken)
    results = program(taken, after, seen)
    return [None if tensor is None else tensor.tolist() for tensor in (results, x.grad)], seen


@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize("view", [lambda x: x[0], lambda x: x.transpose([1, 0]), lambda x: x.reshape([4])])
@pytest.mark.parametrize("program", PROGRAMS)
def test_views_that_are_used_when_the_mode_was_closed(program, view, leaf):
    native = run(program, view, leaf, contextlib.nullcontext())
    assert run(program, view, leaf, padiff_shim.reference("torch")) == native


def test_a_hook_sees_each_turn_apart():
    program, view = asked_for_beside_what_is_hooked, lambda x: x[0]
    native, (whole,) = run(program, view, False, contextlib.nullcontext())
    ours, parts = run(program, view, False, padiff_shim.reference("torch"))
    assert ours == native
    assert [sum(part) for part in zip(*parts)] == whole
