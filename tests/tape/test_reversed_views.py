"""Views that begin at their end, which Torch does not have: strides, writes that nobody counts, hooks; and gradients of numbers."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim

VALUES = np.random.default_rng(3).standard_normal((64, 63)).astype("float32")
BACK = {
    "last axis": (lambda t: t[..., ::-1], lambda t: t.flip(-1)),
    "first axis": (lambda t: t[::-1], lambda t: t.flip(0)),
    "every other": (lambda t: t[::-2], lambda t: t.flip(0)[::2]),
}


@pytest.mark.bitexact
@pytest.mark.parametrize("wanted", [False, True], ids=["no gradient", "gradient"])
@pytest.mark.parametrize("name", BACK)
def test_what_torch_laid_out_with_strides(name, wanted):
    """A sum behind it takes the elements in Torch's order."""
    ours, theirs = BACK[name]
    x = paddle.to_tensor(VALUES, stop_gradient=not wanted)
    with padiff_shim.reference("torch"):
        result = paddle.sum(paddle.exp(ours(paddle.exp(x.transpose([1, 0])))), axis=1)
        if wanted:
            result.sum().backward()
    twin = torch.tensor(VALUES, requires_grad=wanted)
    expected = torch.exp(theirs(torch.exp(twin.permute(1, 0)))).sum(dim=1)
    assert result.numpy().tobytes() == expected.detach().numpy().tobytes()
    if wanted:
        expected.sum().backward()
        assert x.grad.numpy().tobytes() == twin.grad.numpy().tobytes()


VIEWS = {"reversed": lambda t: t[..., ::-1], "sliced": lambda t: t[1:], "transposed": lambda t: t.transpose([1, 0])}


@pytest.mark.parametrize("watch", ["retain_grads", "register_hook"])
@pytest.mark.parametrize("view", VIEWS)
def test_gradients_behind_a_write_that_paddle_does_not_count(view, watch):
    seen = []
    with padiff_shim.reference("torch"):
        x = paddle.rand([3, 4])
        x.stop_gradient = False
        y = VIEWS[view](x)
        y.set_value(paddle.full(y.shape, 2.0))
        if watch == "retain_grads":
            y.retain_grads()
        else:
            y.register_hook(seen.append)
        (y * y).sum().backward()
    gradient = y.grad if watch == "retain_grads" else seen[0]
    np.testing.assert_array_equal(gradient.numpy(), np.full(y.shape, 4.0, "float32"))


@pytest.mark.parametrize("view", VIEWS)
def test_what_paddle_computed_is_read_anew_behind_a_write_that_it_does_not_count(view):
    x = paddle.rand([3, 4])
    x.stop_gradient = False
    y = VIEWS[view](paddle.exp(x))
    with padiff_shim.reference("torch"):
        before = paddle.tanh(y)
        y.set_value(paddle.full(y.shape, 0.5))
        after = paddle.tanh(y)
        (before + after).sum().backward()
    np.testing.assert_allclose(after.numpy(), np.full(y.shape, np.tanh(0.5), "float32"), rtol=1e-6)
    assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize("create", [False, True], ids=["", "create_graph"])
@pytest.mark.parametrize("shape", [[], [1], [3]], ids=str)
def test_a_gradient_outside_of_the_mode_has_its_tensor_s_shape(shape, create):
    x = paddle.full(shape, 0.5)
    x.stop_gradient = False
    with padiff_shim.reference("torch"):
        inside = paddle.exp(x)
    (gradient,) = paddle.grad([(inside * paddle.full(shape, -0.0)).sum()], [inside], create_graph=create)
    assert gradient.shape == shape
    assert np.signbit(gradient.numpy()).all()  # nothing was added to it


@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside another graph"])
def test_a_partial_gradient_outside_of_the_mode_goes_no_further_than_natively(others):
    """Behind its input stands what was written since: no backward comes there."""
    if others:
        drawn = paddle.rand([2])
        drawn.stop_gradient = False
        native = paddle.tanh(drawn)
        with padiff_shim.reference("torch"):
            retained = paddle.exp(native)
    x = paddle.rand([3])
    x.stop_gradient = False
    with padiff_shim.reference("torch"):
        inside = paddle.exp(x)
    y = paddle.exp(paddle.tanh(inside))
    y[0] = 0.5
    z = paddle.exp(paddle.exp(y))
    assert paddle.grad([z.sum()], [z])[0].tolist() == [1.0] * 3
    with pytest.raises(RuntimeError, match="inplace"):
        z.sum().backward()
    if others:
        assert paddle.grad([retained.sum()], [drawn])[0].shape == [2]
