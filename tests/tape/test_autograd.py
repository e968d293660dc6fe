"""Gradients of three orders of single ops under the mode: Torch's, also of a loss that is curved."""

import functools

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch

import padiff_shim


def leaf(*shape, seed=0):
    """A fixed leaf with values in [0.5, 1.5): fit for sqrt, pow and division."""
    values = np.random.default_rng(seed + 10 * len(shape)).random(shape) + 0.5
    return paddle.to_tensor(values, stop_gradient=False)


T, X, V, B = torch.nn.functional, (3, 4), (4, 4), (4,)
FUNCTIONS = {  # name: (Paddle, torch, shapes)
    "softmax": (lambda x: F.softmax(x, 1), lambda x: torch.softmax(x, 1), [X]),
    "gelu": (F.gelu, T.gelu, [X]),
    "gelu_tanh": (lambda x: F.gelu(x, True), lambda x: T.gelu(x, approximate="tanh"), [X]),
    "relu": (F.relu, torch.relu, [X]),
    "tanh": (paddle.tanh, torch.tanh, [X]),
    "exp": (paddle.exp, torch.exp, [X]),
    "sqrt": (paddle.sqrt, torch.sqrt, [X]),
    "rsqrt": (paddle.rsqrt, torch.rsqrt, [X]),
    "square": (paddle.square, torch.square, [X]),
    "pow": (lambda x: x**3.5, lambda x: x**3.5, [X]),
    "pow_tensor": (lambda x, b: x**b, lambda x, b: x**b, [X, B]),
    "rpow": (lambda x: 2.0**x, lambda x: 2.0**x, [X]),
    "scale": (lambda x: -(x * 3.0 + 1.0), lambda x: -(x * 3.0 + 1.0), [X]),
    "sum": (lambda x: paddle.sum(x, 1), lambda x: x.sum(1), [X]),
    "mean": (lambda x: paddle.mean(x, 0), lambda x: x.mean(0), [X]),
    "logsumexp": (lambda x: paddle.logsumexp(x, 1), lambda x: torch.logsumexp(x, 1), [X]),
    "layer_norm": (lambda x: F.layer_norm(x, [4]), lambda x: T.layer_norm(x, [4]), [X]),
    "layer_norm_affine": (lambda x, b: F.layer_norm(x, [4], b, b * 2), lambda x, b: T.layer_norm(x, [4], b, b * 2), [X, B]),
    "linear": (F.linear, lambda x, v, b: T.linear(x, v.t(), b), [X, V, B]),
    "matmul": (paddle.matmul, torch.matmul, [X, V]),
    "matmul_t": (lambda x, v: paddle.matmul(x, v, transpose_y=True), lambda x, v: x @ v.mT, [X, V]),
    "matmul_batch": (paddle.matmul, torch.matmul, [(2, 3, 4), V]),
    "multiply": (lambda x, b: x * b, lambda x, b: x * b, [X, B]),
    "divide": (lambda x, b: x / b, lambda x, b: x / b, [X, B]),
    "rdiv": (lambda x: 2.0 / x, lambda x: 2.0 / x, [X]),
    "add_sub": (lambda x, b: (x + b) - x * b, lambda x, b: (x + b) - x * b, [X, B]),
}


def derivatives(grad, function, inputs, curved, constant):
    """The gradients of first, second and third order; of y itself, whose incoming gradient is a leaf, or of a curved loss."""
    y = function(*inputs)
    loss = (y**2 * constant(y)).sum() if curved else y
    results = []
    for _ in range(3):
        grads = grad(loss, inputs)
        results.append([0.0 if g is None else g.detach().numpy() for g in grads])
        loss = sum((g**3 + g * constant(g)).sum() for g in grads if g is not None)
        if isinstance(loss, int) or not getattr(loss, "requires_grad", True) or getattr(loss, "stop_gradient", False):
            break
    return results


@pytest.mark.bitexact
@pytest.mark.parametrize("curved", [False, True], ids=["linear-loss", "curved-loss"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_three_orders_are_torchs(name, curved):
    mine, torchs, shapes = FUNCTIONS[name]
    inputs = [leaf(*shape, seed=i) for i, shape in enumerate(shapes)]
    twins = [torch.tensor(x.numpy(), requires_grad=True) for x in inputs]

    def ramp(shape):
        return np.resize(np.linspace(0.1, 0.9, 24), shape)

    def torch_grad(y, xs):
        return torch.autograd.grad(y, xs, torch.ones_like(y), create_graph=True, allow_unused=True)

    expected = derivatives(torch_grad, torchs, twins, curved, lambda y: torch.tensor(ramp(tuple(y.shape))))
    with padiff_shim.reference("torch") as run:
        grad = functools.partial(paddle.grad, create_graph=True, allow_unused=True)
        gradients = derivatives(grad, mine, inputs, curved, lambda y: paddle.to_tensor(ramp(tuple(y.shape))))
    assert sum(run.backward.values()) >= len(expected)
    assert len(gradients) >= sum(any(np.any(g) for g in grads) for grads in expected)
    for ours, theirs in zip(gradients, expected):
        for a, b in zip(ours, theirs):
            np.testing.assert_allclose(a + np.zeros_like(b), b + np.zeros_like(a), rtol=1e-8, atol=1e-10)
