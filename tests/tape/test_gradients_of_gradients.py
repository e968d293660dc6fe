"""Gradients of gradients under reference: Torch's bits, Paddle's values, also through PyLayers, recompute and hooks."""

import numpy as np
import paddle
import pytest
import second_orders
import torch
from helpers import ROOT
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.usefixtures("undone"), pytest.mark.compat]


# ---- PyLayers, each with its Torch twin: ``library`` is paddle or torch.


def gate(library, ctx, x):
    ctx.save_for_backward(x)
    return x * library.tanh(x)


def gate_gradient(library, saved, grad):
    (x,) = saved
    y = library.tanh(x)
    return grad * (y + x * (1 - y * y))


def tanh(library, ctx, x):
    y = library.tanh(x)
    ctx.save_for_backward(y)  # a result, whose own gradient leads through the layer once more
    return y


def tanh_gradient(library, saved, grad):
    (y,) = saved
    return grad * (1 - y * y)


def product(library, ctx, x, y):
    ctx.save_for_backward(x, y)
    return library.matmul(x, y)


def product_gradient(library, saved, grad):
    x, y = saved
    return library.matmul(grad, y.T), library.matmul(x.T, grad)


def two_results(library, ctx, x, y):
    ctx.save_for_backward(x, y)
    return library.sin(x) * y, x + y * y


def two_results_gradient(library, saved, first, second):
    x, y = saved
    return first * library.cos(x) * y + second, first * library.sin(x) + second * 2 * y


def first_alone(library, ctx, x, y):
    ctx.save_for_backward(x)
    return x * x + y


def first_alone_gradient(library, saved, grad):
    (x,) = saved
    return grad * 2 * x, None


def handed_on(library, ctx, x):
    return x.clone()


def handed_on_gradient(library, saved, grad):
    return grad


KINDS = {
    "gate": (gate, gate_gradient, 1),
    "tanh": (tanh, tanh_gradient, 1),
    "product": (product, product_gradient, 2),
    "two results": (two_results, two_results_gradient, 2),
    "first alone": (first_alone, first_alone_gradient, 2),
    "handed on": (handed_on, handed_on_gradient, 1),
}


def layer(library, name):
    forward, backward, _ = KINDS[name]
    base = PyLayer if library is paddle else torch.autograd.Function

    class Layer(base):
        @staticmethod
        def forward(ctx, *operands):
            return forward(library, ctx, *operands)

        @staticmethod
        def backward(ctx, *grads):
            return backward(library, ctx.saved_tensor() if library is paddle else ctx.saved_tensors, *grads)

    return Layer.apply


# ---- Random programs of them.


def program(library, seed):
    """Values, and gradients of up to three orders, of a few steps over three matrices; None: no gradient."""
    random = np.random.default_rng(seed)
    layers = {name: layer(library, name) for name in KINDS}

    def leaf():
        values = random.uniform(-1, 1, (3, 3)).astype("float32")
        return paddle.to_tensor(values, stop_gradient=False) if library is paddle else torch.tensor(values, requires_grad=True)

    leaves, factor = [leaf(), leaf(), leaf()], leaf()
    tensors = [*leaves]

    def chosen():
        return tensors[random.integers(len(tensors))]

    def layered():
        name = list(KINDS)[random.integers(len(KINDS))]
        operands = [chosen() for _ in range(KINDS[name][2])]
        if name == "first alone":
            operands[1] = operands[1].detach()  # natively the process ends where another op made it
        made = layers[name](*operands)
        return list(made) if isinstance(made, tuple) else [made]

    def hooked():
        tensor = chosen() * 1.0
        tensor.register_hook([lambda grad: grad * 2, lambda grad: grad * factor, lambda grad: None][random.integers(3)])
        return [tensor]

    steps = [
        layered,
        layered,
        hooked,
        lambda: [chosen() * chosen()],
        lambda: [chosen() + chosen()],
        lambda: [library.exp(chosen() * 0.3)],
    ]
    for _ in range(random.integers(2, 6)):
        tensors += steps[random.integers(len(steps))]()
    root = sum((tensor for tensor in tensors[3:-1] if random.integers(2)), tensors[-1])
    loss = (root * root).mean()
    seen = [loss]
    grad = paddle.grad if library is paddle else torch.autograd.grad
    for _ in range(random.integers(1, 4)):
        grads = grad(loss, leaves, create_graph=True, allow_unused=True)
        seen += grads
        squares = [(each * each).sum() for each in grads if each is not None and wants_gradient(each)]
        if not squares:
            break
        loss = sum(squares[1:], squares[0]) + loss * (0.1 * random.integers(2))
    if wants_gradient(loss):
        loss.backward()
    return [None if each is None else each.detach().numpy() for each in [*seen, *(tensor.grad for tensor in leaves)]]


def wants_gradient(tensor):
    return not tensor.stop_gradient if isinstance(tensor, paddle.Tensor) else tensor.requires_grad


@pytest.mark.rows(3)
@pytest.mark.skipif(not IS_3, reason="2.6 ends the process at a PyLayer one of whose results is not used, under create_graph")
@pytest.mark.bitexact
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs_have_torchs_bits(first):
    for seed in range(first, first + 10):
        with padiff_shim.reference("torch"):
            ours = program(paddle, seed)
        for mine, theirs in zip(ours, program(torch, seed), strict=True):
            # What nothing depends on has zeros for a gradient, or none.
            present = [values for values in (mine, theirs) if values is not None]
            assert np.array_equal(*present) if len(present) == 2 else not any(values.any() for values in present), seed


# ---- Single cases.


def leaf(*shape, seed=0):
    values = np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")
    return paddle.to_tensor(values, stop_gradient=False)


@pytest.mark.skipif(not IS_3, reason="2.6 has no recompute without reentry")
@pytest.mark.parametrize("use_reentrant", [False, True])
def test_recompute_has_the_gradients_of_gradients_that_it_has_natively(use_reentrant):
    def step():
        x = leaf(3)
        y = recompute(lambda x: paddle.tanh(x) * x, x * 2, use_reentrant=use_reentrant).sum()
        (first,) = paddle.grad(y, [x], create_graph=True)
        (first * first).sum().backward()
        return first, x.grad

    (first, second), mode = step(), padiff_shim.reference("torch")
    with mode as run:
        ours = step()
    np.testing.assert_allclose(ours[0].numpy(), first.numpy(), rtol=1e-5)
    assert (second is None) == (ours[1] is None) == use_reentrant
    if use_reentrant:
        assert any("RecomputeFunction" in str(warning) for warning in run.warnings)
    else:
        np.testing.assert_allclose(ours[1].numpy(), second.numpy(), rtol=1e-5)


@pytest.mark.bitexact
def test_a_hessian_times_a_vector_of_a_linear_weight():
    random = np.random.default_rng(0)
    x, w, v = (random.standard_normal(shape).astype("float32") for shape in ((10, 8), (8, 6), (8, 6)))
    weight = torch.tensor(np.ascontiguousarray(w.T), requires_grad=True)
    loss = (torch.nn.functional.linear(torch.tensor(x), weight) ** 2).mean()
    (grad,) = torch.autograd.grad(loss, [weight], create_graph=True)
    (expected,) = torch.autograd.grad((grad * torch.tensor(np.ascontiguousarray(v.T))).sum(), [weight])
    with padiff_shim.reference("torch"):
        weight = paddle.to_tensor(w, stop_gradient=False)
        loss = (paddle.nn.functional.linear(paddle.to_tensor(x), weight) ** 2).mean()
        (grad,) = paddle.grad(loss, [weight], create_graph=True)
        (ours,) = paddle.grad((grad * paddle.to_tensor(v)).sum(), [weight])
    assert np.array_equal(ours.numpy(), expected.t().numpy())


@pytest.mark.bitexact
@pytest.mark.parametrize("name", ["tan", "amax"])
def test_a_result_that_torch_reads_again_and_several_users_have(name):
    def step(library, x, y, grad):
        out = library.tan(x) if name == "tan" else library.amax(x * y, 1)
        (first,) = grad([(y.sum(1) * out * out if name == "amax" else y * out * out).sum()], [x], create_graph=True)
        (second,) = grad([(first * first).sum()], [x])
        return first.detach().numpy(), second.detach().numpy()

    values = [np.random.default_rng(seed).uniform(-1, 1, (3, 4)).astype("float32") for seed in range(2)]
    expected = step(torch, *[torch.tensor(value, requires_grad=True) for value in values], torch.autograd.grad)
    with padiff_shim.reference("torch"):
        ours = step(paddle, *[paddle.to_tensor(value, stop_gradient=False) for value in values], paddle.grad)
    for mine, theirs in zip(ours, expected):
        assert np.array_equal(mine, theirs)


@pytest.mark.slow
@pytest.mark.avx512
@pytest.mark.skipif(not IS_3, reason="the page's counts are those of Paddle 3")
def test_the_page_counts_the_ops_that_lack_second_derivatives():
    lines = second_orders.lines()
    assert "\n".join(lines) in (ROOT / "docs/run.md").read_text("utf-8")


# ---- PyLayers that return None.


class Unmaterialized(PyLayer):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, first, second):
        return (None if first is None else first * 2), (None if second is None else second * 3)


class Nothing(PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return None


class OfAList(PyLayer):
    @staticmethod
    def forward(ctx, factors, x):
        return factors[0] * factors[1] + x

    @staticmethod
    def backward(ctx, grad):
        return [grad, grad * 2], None


class ByName(PyLayer):
    @staticmethod
    def forward(ctx, x, mask, scale=None):
        return x * mask * scale

    @staticmethod
    def backward(ctx, grad):
        return grad * 5, None, None


class First(PyLayer):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, grad):
        return grad * 5, None


RETURNS_NONE = {
    "an unused result": lambda x, y: Unmaterialized.apply(x, y)[0],
    "alone": lambda x, y: Nothing.apply(x) + y,
    "beside another use": lambda x, y: Nothing.apply(x) + x * y,
    "of a list": lambda x, y: OfAList.apply([x, x * 2], y),
    "by name": lambda x, y: ByName.apply(x, paddle.ones([3]), scale=y),
    "one of two": lambda x, y: First.apply(x, y),
    "of one tensor twice": lambda x, y: First.apply(x, x) + y * 0,
}


@pytest.mark.parametrize("how", RETURNS_NONE)
@pytest.mark.parametrize("partial", [False, True])
def test_a_pylayer_that_returns_none_gives_no_gradient(how, partial):
    def step():
        x, y = leaf(3), leaf(3, seed=1)
        loss = RETURNS_NONE[how](x, y).sum()
        if partial:
            return paddle.grad(loss, [x, y], create_graph=True, allow_unused=True)
        loss.backward()
        return x.grad, y.grad

    native = step()
    with padiff_shim.reference("torch"):
        ours = step()
    for mine, theirs in zip(ours, native):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6)


def test_where_the_process_ends_natively_there_is_no_gradient():
    with padiff_shim.reference("torch"):
        x, y = leaf(3), leaf(3)
        (First.apply(x * 1, y * 1) + Unmaterialized.apply(x * 1, y * 1)[1]).sum().backward()
    assert np.array_equal(x.grad.numpy(), np.full(3, 5, "float32"))
    assert np.array_equal(y.grad.numpy(), np.full(3, 3, "float32"))
