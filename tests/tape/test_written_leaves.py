"""What a tensor that wanted no gradient gets as ``grad`` when it is written in place with what wants one: as natively."""

import numpy as np
import paddle
import pytest

import padiff_shim

pytestmark = pytest.mark.compat


def places():
    return paddle.to_tensor([0, 1])


def row(t, v):
    t[0] = v[0]


def all_of_it(t, v):
    t[:] = v


def mask(t, v):
    t[t[:, 0] > 0.5] = v[0]


def at_places(t, v):
    t[places()] = v[:2]


def every_other(t, v):
    t[..., ::2] = v[:, ::2]


def backwards(t, v):
    t[..., ::-1] = v


def twice(t, v):
    t[0] = v[0]
    t[1] = v[1] * 3.0


def through_scatter(t, v):
    t.scatter_(places(), v[:2])


def through_where(t, v):
    paddle.where_(t > 0.5, t, v)


def added(t, v):
    t.add_(v)


def multiplied(t, v):
    t.multiply_(v)


def multiplied_twice(t, v):
    t.multiply_(v)
    t.multiply_(v)


def interpolated(t, v):
    t.lerp_(v, 0.25)


def assigned(t, v):
    paddle.assign(v, output=t)


WRITES = [
    row, all_of_it, mask, at_places, every_other, backwards, twice, through_scatter, through_where,
    added, multiplied, multiplied_twice, interpolated, assigned,
]  # fmt: skip


def once(t, x):
    (t * 2).sum().backward()


def again(t, x):
    y = (t * t).sum()
    y.backward(retain_graph=True)
    y.backward()


def of_the_operand_alone(t, x):
    return paddle.grad((t * t).sum(), x)


def of_the_written(t, x):
    seen = []
    t.register_hook(lambda grad: seen.append(grad.clone()))
    (t * t).sum().backward()
    return seen


def _seen(write, backward):
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(rng.random((3, 3), dtype=np.float32), stop_gradient=False)
    t = paddle.to_tensor(rng.random((3, 3), dtype=np.float32))
    write(t, x * 1.0)
    flags = (t.stop_gradient, t.is_leaf)
    gradients = backward(t, x) or []
    return flags, [None if tensor is None else tensor.numpy() for tensor in (t, t.grad, x.grad, *gradients)]


@pytest.mark.parametrize("backward", [once, again, of_the_operand_alone, of_the_written], ids=lambda parameter: parameter.__name__)
@pytest.mark.parametrize("write", WRITES, ids=lambda parameter: parameter.__name__)
def test_its_gradient_is_that_of_its_value_before(write, backward):
    flags, expected = _seen(write, backward)
    with padiff_shim.reference("torch"):
        kept_here, results = _seen(write, backward)
    assert kept_here == flags
    for result, other in zip(results, expected):
        assert (result is None) == (other is None), (results, expected)
        if result is not None:
            np.testing.assert_allclose(result, other, rtol=1e-6)
