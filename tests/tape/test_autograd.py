"""Gradients under the mode keep Paddle's own semantics: every program runs natively and under the mode, and both must agree."""

import functools

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from paddle.distributed.fleet.utils import recompute

import padiff_shim


def leaf(*shape, seed=0, dtype="float64", train=True):
    """A fixed leaf with values in [0.5, 1.5): fit for sqrt, pow and division."""
    values = np.random.default_rng(seed + 10 * len(shape)).random(shape) + 0.5
    return paddle.to_tensor(values.astype(dtype), stop_gradient=not train)


def plain(value):
    """Tensors as (array, dtype, stop_gradient), containers and other values as they are."""
    if isinstance(value, paddle.Tensor):
        return ("tensor", value.numpy().copy(), str(value.dtype), value.stop_gradient)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def same(native, shim, *, flags=True):
    if isinstance(native, list):
        for pair in zip(native, shim, strict=True):
            same(*pair, flags=flags)
    elif isinstance(native, tuple):
        assert native[2 : 3 + flags] == shim[2 : 3 + flags]
        assert native[1].shape == shim[1].shape
        np.testing.assert_allclose(shim[1], native[1], rtol=2e-5 if native[2].endswith("32") else 1e-9, atol=1e-7)
    else:
        assert native == shim


def both(program):
    """Run natively and under the mode, compare what comes back."""
    native = plain(program())
    with padiff_shim.reference("torch") as run:
        shim = plain(program())
    same(native, shim, flags=program not in (retained_grads, with_pylayer))  # whose stop_gradient Paddle does not let us set
    assert run.substituted
    return run


def failure(function):
    """The kind of error a call ends with."""
    try:
        return function() and ""
    except Exception as error:
        return type(error).__name__


def accumulation():
    x, w = leaf(3, 4), leaf(4, 2)
    for factor in (1.0, 2.0):
        (paddle.matmul(x, w) * factor).sum().backward()
    x.clear_gradient()
    loss = paddle.tanh(paddle.matmul(x, w)).sum()
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    loss.backward(retain_graph=True)
    loss.backward()
    return first, x.grad, w.grad


def freed():
    x = leaf(3, 4)
    loss = (x * x).exp().sum()
    loss.backward()
    return failure(loss.backward), x.grad


def stopped():
    x, w, v = leaf(3, 4), leaf(4, 2, train=False), leaf(2, 2)
    y = paddle.matmul(x, w)
    z = paddle.matmul(y.detach(), v)
    with paddle.no_grad():
        silent = paddle.matmul(x, w)
    (y.sum() + z.sum()).backward()
    return x.grad, w.grad, v.grad, silent, y, paddle.tanh(w), paddle.matmul(w, v)


def hooked():
    x, w = leaf(3, 4), leaf(4, 2)
    seen = []
    h = x * 2.0
    y = paddle.matmul(h, w)

    def double(g):
        seen.append(g.clone())
        return g * 2.0

    for tensor in (x, h, y):
        tensor.register_hook(double)
    y.register_hook(lambda g: seen.append(g.clone()))
    y.register_hook(lambda g: g * 100.0).remove()
    F.softmax(y).pow(2).sum().backward()
    return x.grad, w.grad, seen


def retained_grads():
    x, w = leaf(3, 4), leaf(4, 2)
    h = paddle.matmul(x, w)
    y = F.gelu(h)
    h.retain_grads()
    y.retain_grads()
    (y * y).sum().backward()
    return h.grad, y.grad, x.grad, h.is_leaf, x.is_leaf


def twice_used():
    x = leaf(3, 3)
    grads, factor = [], leaf(3, 3, seed=1, train=False)
    for make in (lambda: x @ x, lambda: x + x, lambda: x * x, lambda: x / x, lambda: x - x, lambda: x**x, lambda: x @ x.t()):
        x.clear_gradient()
        (make() * factor).sum().backward()
        grads.append(x.grad.clone())
    return grads


def partial_grad():
    x, w, unused = leaf(3, 4), leaf(4, 2), leaf(2)
    y = paddle.matmul(x, w)
    loss = (y * y).mean()
    (only,) = paddle.grad(loss, [w], retain_graph=True)
    gx, none, gy = paddle.grad(loss, [x, unused, y], retain_graph=True, allow_unused=True)
    error = failure(lambda: paddle.grad(loss, [x, unused], retain_graph=True))
    seeded = paddle.grad([y, loss], [x], grad_outputs=[leaf(3, 2, seed=3, train=False), None], retain_graph=True)
    return only, gx, none, gy, error, seeded, x.grad, w.grad


def blocked_by_no_grad_vars():
    x, w, b = leaf(3, 4), leaf(4, 2), leaf(2)
    return paddle.grad(F.linear(x, w, b).sum(), [x], no_grad_vars=[w])


def two_losses():
    x, w, v = leaf(3, 4), leaf(4, 2), leaf(4, 2, seed=1)
    shared = F.layer_norm(x, [4])
    first, second = paddle.matmul(shared, w).sum(), paddle.matmul(shared, v).exp().mean()
    first.backward(retain_graph=True)
    second.backward()
    paddle.autograd.backward([paddle.tanh(x).sum(), (x * x).sum()], [None, None])
    return x.grad, w.grad, v.grad


def mixed_branches():
    """No gradient reaches a part of the graph; another part receives one from several consumers."""
    x, y, s = leaf(2, 1, 4), leaf(3, 1), leaf()
    a, b = paddle.exp(x), paddle.tanh(x)
    c = a * b
    c.stop_gradient = True
    d = (a + b) / (c + 1.0)
    (d.sum() + d.mean() + a.logsumexp() + (x * y + s - y / x).pow(2).mean()).backward()
    return x.grad, y.grad, s.grad


def gan():
    paddle.seed(1)
    generator, critic = paddle.nn.Linear(2, 3), paddle.nn.Linear(3, 1)
    optimizers = [paddle.optimizer.SGD(0.1, parameters=net.parameters()) for net in (generator, critic)]
    noise, real = leaf(5, 2, dtype="float32", train=False), leaf(5, 3, dtype="float32", train=False)
    for _ in range(3):
        fake = paddle.tanh(generator(noise))
        (critic(fake.detach()).mean() - critic(real).mean()).backward()
        optimizers[1].step()
        optimizers[1].clear_grad()
        (-critic(paddle.tanh(generator(noise))).mean()).backward()
        optimizers[0].step()
        for optimizer in optimizers:
            optimizer.clear_grad()
    return [p.detach() for net in (generator, critic) for p in net.parameters()]


def gradient_penalty():
    w, x = leaf(4, 1), leaf(3, 4)
    score = paddle.tanh(paddle.matmul(x, w))
    (grad,) = paddle.grad(score, x, create_graph=True)
    penalty = ((grad.pow(2).sum(axis=1).sqrt() - 1.0) ** 2).mean()
    (score.mean() + penalty).backward()
    seed = leaf(3, 2, seed=2)  # and the gradient with respect to the incoming gradient
    (moved,) = paddle.grad(paddle.tanh(paddle.matmul(x, leaf(4, 2))), x, grad_outputs=seed, create_graph=True)
    return grad.detach(), w.grad, x.grad, moved.detach(), paddle.grad((moved * moved).sum(), seed)


class Cube(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensor()
        return grad * 3.0 * x * x


def with_pylayer():
    x, w = leaf(3, 4), leaf(4, 2)
    Cube.apply(paddle.matmul(Cube.apply(x), w)).sum().backward()
    return x.grad, w.grad


PROGRAMS = (accumulation, freed, stopped, hooked, retained_grads, twice_used, partial_grad)
PROGRAMS += (blocked_by_no_grad_vars, two_losses, mixed_branches, gan, gradient_penalty, with_pylayer)


@pytest.mark.compat
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_program(program):
    both(program)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_recompute(use_reentrant):
    def program():
        x, w = leaf(3, 4), leaf(4, 4)
        y = recompute(lambda t: F.gelu(paddle.matmul(t, w)), x * 1.5, use_reentrant=use_reentrant, preserve_rng_state=False)
        (y * y).sum().backward()
        return y, x.grad, w.grad

    run = both(program)
    assert run.substituted["gelu"] == 2 or not use_reentrant  # replayed by the reentrant form


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
