"""What moves a leaf on Paddle's kernel is on the tape as well: its share of the gradient is added where Torch adds it."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim

VALUES = np.random.default_rng(0).standard_normal((8, 8)).astype("float32")
pytestmark = [pytest.mark.compat, pytest.mark.bitexact]


@pytest.mark.parametrize(
    ("index", "axis"), [(slice(None, None, -1), 0), ((..., slice(None, None, -1)), 1)], ids=["rows", "columns"]
)
def test_a_leaf_that_is_read_backwards_and_used_otherwise(index, axis):
    weight = torch.from_numpy(VALUES).requires_grad_()
    (((weight @ weight) @ weight.flip(axis)) ** 2).sum().backward()
    leaf = paddle.to_tensor(VALUES, stop_gradient=False)
    with padiff_shim.reference("torch"):
        (((leaf @ leaf) @ leaf[index]) ** 2).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), weight.grad.numpy())


def test_a_hook_on_a_leaf_sees_the_gradient_once_beside_a_part_without_elements():
    seen = []
    leaf = paddle.to_tensor(VALUES, stop_gradient=False)
    leaf.register_hook(lambda grad: seen.append(grad.numpy()))
    with padiff_shim.reference("torch"):
        paddle.autograd.backward([leaf[8:], leaf * 2.0])
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], np.full_like(VALUES, 2.0))


def test_a_leaf_that_is_read_backwards_is_written_through_the_view():
    leaf = paddle.to_tensor(VALUES)
    with padiff_shim.reference("torch"):
        view = leaf[::-1]
        view.zero_()
    assert not leaf.numpy().any()
