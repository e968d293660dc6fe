"""Sparse tensors have no twin: behind what the tape made they keep Paddle's own nodes, which lead to the tape."""

import numpy as np
import paddle
import pytest

import padiff_shim

pytestmark = pytest.mark.compat


def convolved(x, y):
    voxels, kernel = x.reshape([1, 1, 3, 4, 1]).to_sparse_coo(4), y.reshape([1, 3, 4, 1, 1])[:, :1, :2]
    return paddle.sparse.nn.functional.conv3d(voxels, kernel)


def of_indices(x, y):
    places = paddle.to_tensor([[0, 1, 2], [1, 0, 2]])
    return paddle.sparse.sparse_coo_tensor(places, x[:, 0], [3, 4], stop_gradient=False)


PROGRAMS = {
    "there and back": lambda x, y: x.to_sparse_coo(2),
    "a sum": lambda x, y: paddle.sparse.add(x.to_sparse_coo(2), y.to_sparse_coo(2)),
    "a product": lambda x, y: paddle.sparse.multiply(x.to_sparse_coo(2), y.to_sparse_coo(2)),
    "relu": lambda x, y: paddle.sparse.nn.functional.relu(x.to_sparse_coo(2)),
    "a convolution": convolved,
    "of indices and values": of_indices,
    "refused": lambda x, y: paddle.sparse.matmul(x.to_sparse_coo(2), y.t()),
}


@pytest.mark.parametrize("mode", ["reference", "compare"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_pass_through_sparse_tensors_as_natively(name, mode):
    def outcome(computed):
        numbers = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
        leaves = [paddle.to_tensor(values, stop_gradient=False) for values in numbers]
        try:
            sparse = PROGRAMS[name](*[paddle.tanh(leaf) if place in computed else leaf for place, leaf in enumerate(leaves)])
            (sparse.to_dense() ** 2).sum().backward()
        except Exception as error:
            return type(error)
        return [leaf.grad for leaf in leaves]

    for computed in ((0, 1), (0,), (1,)):
        natively = outcome(computed)
        with getattr(padiff_shim, mode)("torch"):
            here = outcome(computed)
        if isinstance(natively, type):
            assert (here, name) == (natively, "refused")
            continue
        for gradient, expected in zip(here, natively, strict=True):
            assert (gradient is None) is (expected is None), computed
            if expected is not None:
                np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
