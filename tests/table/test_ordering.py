"""Equal elements, limits and NaN: who has the gradient, and which element an index names."""

import numpy as np
import paddle
import pytest
import torch
from helpers import same

import padiff_shim
from padiff_shim.frameworks.versions import IS_3, VERSION

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]

X = np.array([[1, 3, 3, 2, 1, 3], [2, 2, 0, -1, 2, 2]], "float32")
Y = np.array([[1, 2, 3, 2, 2, 1], [2, 0, 0, -1, 1, 3]], "float32")


# Up to 3.0 each of several largest elements has the whole gradient, the second of two equal ones, and at a limit none has.
SHARED = IS_3 and VERSION != (3, 0)


def leaf(values):
    tensor = paddle.to_tensor(values)
    tensor.stop_gradient = False
    return tensor


def gradients(function, *values):
    """The first result and the gradients of a weighted sum of it, in Paddle."""
    leaves = [leaf(value) for value in values]
    out = function(*leaves)
    out = out[0] if isinstance(out, (list, tuple)) else out
    (out * (paddle.arange(out.size, dtype="float32").reshape(out.shape) + 1)).sum().backward()
    return [out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


def expected(function, *values):
    """The same in Torch."""
    leaves = [torch.tensor(value, requires_grad=True) for value in values]
    out = function(*leaves)
    out = out[0] if isinstance(out, tuple) else out
    (out * (torch.arange(out.numel(), dtype=torch.float32).reshape(out.shape) + 1)).sum().backward()
    return [out.detach().numpy(), *(leaf.grad.numpy() for leaf in leaves)]


# name -> Paddle's function, Torch's, whether Paddle's own kernels share a tie in the same way
CHOICES = {
    "max of all": (paddle.max, torch.amax, SHARED),
    "max of rows": (lambda x: paddle.max(x, axis=1), lambda x: torch.amax(x, 1), SHARED),
    "min of columns": (lambda x: paddle.min(x, axis=0), lambda x: torch.amin(x, 0), SHARED),
    "amax": (lambda x: paddle.amax(x, axis=[0, 1]), torch.amax, True),
    "amin": (lambda x: paddle.amin(x, axis=-1), lambda x: torch.amin(x, 1), True),
    "sort": (lambda x: paddle.sort(x, axis=1), lambda x: torch.sort(x, 1), False),
    "topk": (lambda x: paddle.topk(x, 4), lambda x: torch.topk(x, 4), False),
    "kthvalue": (lambda x: paddle.kthvalue(x, 3), lambda x: torch.kthvalue(x, 3), False),
    "mode": (paddle.mode, torch.mode, False),
    "cummax": (lambda x: paddle.cummax(x, axis=1), lambda x: torch.cummax(x, 1), True),
    "cummin": (lambda x: paddle.cummin(x, axis=0), lambda x: torch.cummin(x, 0), True),
    "abs at 0": (paddle.abs, torch.abs, True),
}


@pytest.mark.parametrize("name", CHOICES)
def test_equal_elements_have_torch_s_gradients(name):
    ours, theirs, natively = CHOICES[name]
    with padiff_shim.reference("torch", strict=True) as run:
        grads = gradients(ours, X)
    assert "add" not in run.native
    assert all(same(result, other) for result, other in zip(grads, expected(theirs, X), strict=True))
    if natively:
        for result, other in zip(grads, gradients(ours, X), strict=True):
            np.testing.assert_allclose(result, other, rtol=1e-6)


PAIRS = {
    "maximum": paddle.maximum,
    "minimum": paddle.minimum,
    "fmax": paddle.fmax,
    "fmin": paddle.fmin,
    "where": lambda x, y: paddle.where(x > y, x, y),
    "clip at its limits": lambda x, y: paddle.clip(x, -1.0, 2.0) + y,
}


@pytest.mark.parametrize("name", PAIRS)
def test_ties_between_two_tensors_are_as_in_paddle(name):
    """The gradient goes where Paddle's own backward sends it: nothing is rounded here, so that it is the same on every machine."""
    if not SHARED and name in ("maximum", "minimum", "clip at its limits"):
        pytest.skip("up to 3.0 Paddle has rules of its own")
    native = gradients(PAIRS[name], X, Y)
    with padiff_shim.reference("torch", strict=True):
        grads = gradients(PAIRS[name], X, Y)
    assert all(same(result, other) for result, other in zip(grads, native, strict=True))


def middle(x):
    """Of rows of six: the mean of the two in the middle, or what all share that are equal to both."""
    below, above = torch.sort(x, 1).values[:, 2:4].unbind(1)
    equal = torch.where(x == below.detach()[:, None], x, -torch.inf).amax(1)
    return torch.where(below == above, equal, (below + above) / 2)


MEDIANS = {
    "median": (lambda x: paddle.median(x, axis=1), middle),
    "nanmedian": (lambda x: paddle.nanmedian(x, axis=1), middle),
}


@pytest.mark.parametrize("name", MEDIANS)
def test_a_median_is_the_mean_of_the_middle(name):
    ours, theirs = MEDIANS[name]
    with padiff_shim.reference("torch", strict=True) as run:
        grads = gradients(ours, X)
    assert run.substituted[name] == run.backward[name] == 1
    assert all(same(result, other) for result, other in zip(grads, expected(theirs, X), strict=True))


@pytest.mark.parametrize("values", [[1.0, np.nan, 3.0, 2.0], [np.nan] * 4, [1.0, np.nan, np.nan, np.nan]], ids=str)
@pytest.mark.parametrize("function", [paddle.median, paddle.nanmedian], ids=["median", "nanmedian"])
def test_nan_among_the_elements(function, values):
    x = np.array([values], "float32")
    native = function(paddle.to_tensor(x), axis=1).numpy()
    with padiff_shim.reference("torch", strict=True):
        ours = function(paddle.to_tensor(x), axis=1)
    assert same(ours, native)


@pytest.mark.skipif(not IS_3, reason="2.6 passes over NaN")
def test_the_largest_of_nan_is_nan():
    x = np.array([[1.0, np.nan, 3.0]], "float32")
    with padiff_shim.reference("torch", strict=True):
        ours = [paddle.max(paddle.to_tensor(x), axis=1), paddle.min(paddle.to_tensor(x)), paddle.amax(paddle.to_tensor(x))]
    assert all(np.isnan(tensor.numpy()).all() for tensor in ours)
