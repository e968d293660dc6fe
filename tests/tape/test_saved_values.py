"""What a backward reads, changed in place between forward and backward: it raises or goes on as natively, with equal gradients."""

import contextlib
import weakref

import numpy as np
import paddle
import pytest
import torch
from helpers import Call, by_first_doors, entries, located, sampled, some, takes
from torch.multiprocessing.reductions import StorageWeakRef

import padiff_shim
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.tape import calls, twins

CASES = [(op, entry) for op, entry in entries() if not entry.inplace]
COMPOSED = (
    "glu",
    "nan_to_num",
    "sinc",
    "multi_margin_loss",
    "multi_label_margin_loss",
    "multigammaln",
    "nansum",
    "nanmean",
    "cov",
    "cdist",
)
# Where the two differ: op, what is changed, and why.
LISTED = {
    ("conv1d", 1): "Paddle copies the filter",
    ("einsum", 0): "Paddle keeps permuted copies of some operands; Torch reads the operands",
    ("einsum", 1): "Paddle keeps permuted copies of some operands; Torch reads the operands",
    **{(name, 0): "Paddle reads the result; Torch the operand" for name in ("relu6", "selu", "hardsigmoid", "erfinv")},
    **{(name, which): "Paddle composes it, and reads intermediates; Torch the operand" for name in COMPOSED for which in range(3)},
    **{
        (name, which): "Paddle keeps the difference of the operands; Torch reads both"
        for name in ("mse_loss", "smooth_l1_loss", "huber_loss")
        for which in (0, 1)
    },
    ("binary_cross_entropy_with_logits", 3): "Paddle keeps what it makes of the positives' weights; Torch reads the operand",
    ("soft_margin_loss", 1): "Paddle casts the labels to a tensor of its own; Torch reads the operand",
    ("scaled_dot_product_attention", 0): "Paddle scales the query first, and keeps that; Torch reads the query",
    ("cross_entropy", 1): "Torch reads the labels of the class weights; Paddle goes on",
    ("cross_entropy", 0): "of probabilities Paddle keeps a copy; Torch reads the operand",
    ("std", 0): "Paddle keeps the differences from the mean; Torch reads the operand",
}
# Paddle's own gradient is wrong: tests/table/test_pools_and_norms.py, and what the declarations say.
WRONG = {"group_norm", "spectral_norm"} | {op.name for op, _ in CASES if "gradient" in op.deviations}


def outcome(op, entry, sample, which, mode):
    """The gradients after a change of operand ``which`` (or "out"), or the type of the error."""
    call = Call(op, entry, sample, "float32", "contiguous", True)
    leaves = [None if leaf is None or leaf.stop_gradient else leaf for leaf in call.tensors]
    operands = [leaf if own is None else own * 1.0 for own, leaf in zip(leaves, call.tensors)]  # leaves must not be changed
    exchange = {id(leaf): operand for leaf, operand in zip(call.tensors, operands) if leaf is not None}

    def exchanged(value):
        return [exchanged(value) for value in value] if isinstance(value, list) else exchange.get(id(value), value)

    with mode():
        result = located(entry)(*map(exchanged, call.args))
        result = result[0] if entry.returns_list else result
        if which is not None:
            with paddle.no_grad():
                (result if which == "out" else operands[which]).fill_(0.5)
        try:
            paddle.autograd.backward([result], [paddle.ones_like(result)])
        except Exception as error:
            return type(error).__name__
    return [None if leaf is None or leaf.grad is None else leaf.grad.numpy() for leaf in call.tensors]


@pytest.mark.rows(40)
@pytest.mark.parametrize(("op", "entry"), sampled(by_first_doors(CASES), 2))
def test_changed_in_place_between_forward_and_backward(op, entry):
    for number, sample in enumerate(op.samples):
        if (
            not takes(op, entry, sample)
            or any(0 in shape for shape in sample.shapes if shape is not None)
            or (op.name == "mean" and entry.params == "x")
        ):
            continue
        for which in some([*(place for place, shape in enumerate(sample.shapes) if shape is not None), "out"], number):
            try:
                native = outcome(op, entry, sample, which, contextlib.nullcontext)
            except Exception:
                continue  # the forward refuses this sample
            ours = outcome(op, entry, sample, which, lambda: padiff_shim.reference("torch"))
            if isinstance(native, str) and not isinstance(ours, str):  # Torch's backward reads less, and what it reads is unchanged
                native = outcome(op, entry, sample, None, contextlib.nullcontext)
            if isinstance(ours, str) and not isinstance(native, str):
                assert (op.name, which) in LISTED, (which, native, ours)
            elif not isinstance(native, str) and op.name not in WRONG:
                for mine, theirs in zip(ours, native):
                    assert (mine is None) == (theirs is None)
                    assert mine is None or np.allclose(mine, theirs, rtol=1e-4, atol=1e-5), which


BESIDE_A_NUMBER = {
    "x / 3": lambda x: x / 3,
    "3 / x": lambda x: 3 / x,
    "x ** 2": lambda x: x**2,
    "2 ** x": lambda x: 2**x,
    "x * 2": lambda x: x * 2,
}


@pytest.mark.compat
@pytest.mark.parametrize("which", ["operand", "result"])
@pytest.mark.parametrize("program", BESIDE_A_NUMBER)
def test_beside_a_number(program, which):
    def step(change=5.0):
        x = paddle.to_tensor([1.0, 2.0, 3.0], stop_gradient=False)
        operand = x * 1.0
        result = BESIDE_A_NUMBER[program](operand)
        if change is not None:
            (operand if which == "operand" else result)[0] = change
        try:
            result.sum().backward()
        except RuntimeError:
            return "raises"
        return x.grad.tolist()

    native = step()
    with padiff_shim.reference("torch") as run:
        ours = step()
    assert run.substituted
    if native == "raises" and ours != native:  # Torch's backward reads less
        native = step(change=None)
        if which == "result":
            native[0] = 0.0  # what was overwritten has no gradient
    assert ours == native if "raises" in (ours, native) else np.allclose(ours, native)


@pytest.mark.compat
@pytest.mark.parametrize("value", [1.5, float("inf"), float("nan"), -200.0])
@pytest.mark.parametrize(("ours", "theirs"), [
    (lambda x: paddle.nn.functional.softmax(x), lambda x: torch.softmax(x, -1)),
    (lambda x: paddle.logsumexp(x), lambda x: torch.logsumexp(x, ())),
    (lambda x: paddle.sum(x), lambda x: torch.sum(x)),
    (lambda x: paddle.mean(x), lambda x: torch.mean(x)),
    (lambda x: paddle.exp(x), lambda x: torch.exp(x)),
], ids=["softmax", "logsumexp", "sum", "mean", "exp"])  # fmt: skip
def test_0_d_is_torch_s_also_where_paddle_answers_by_shape(ours, theirs, value):
    """Paddle's softmax of a 0-D tensor is 1 whatever it holds, NaN included; Torch's kernel computes."""
    with padiff_shim.reference("torch") as run:
        result = ours(paddle.to_tensor(value))
    assert run.substituted
    np.testing.assert_array_equal(result.numpy(), theirs(torch.tensor(value)).numpy())


@pytest.mark.parametrize("function", [
    lambda x: paddle.matmul(x, paddle.ones([3, 3])),
    lambda x: paddle.nn.functional.linear(x, paddle.ones([3, 3])),
    pytest.param(
        paddle.nn.functional.relu,
        marks=pytest.mark.xfail(strict=True, reason="Torch's relu has a second derivative, zero, where Paddle's graph has none"),
    ),
], ids=["matmul", "linear", "relu"])  # fmt: skip
def test_second_derivatives_that_do_not_exist(function):
    def step():
        x = paddle.ones([3, 3])
        x.stop_gradient = False
        (first,) = paddle.grad(function(x).sum(), [x], create_graph=True)
        try:
            (second,) = paddle.grad(first.sum(), [x], allow_unused=True)
        except Exception as error:
            return type(error).__name__
        return second if second is None else second.tolist()

    native = step()
    with padiff_shim.reference("torch"):
        assert step() == native


@pytest.mark.parametrize("function", [torch.softmax, torch.tanh, torch.exp])
def test_what_is_learnt_of_a_call_keeps_nothing_of_it(function):
    """A graph whose result is among what its hooks were given would never die, nor what lies below it."""
    leaf = torch.rand(3, requires_grad=True)
    operand = leaf * 2.0
    gone = weakref.ref(leaf)
    attributes = (0,) if function is torch.softmax else ()
    learnt = calls.reads({}, attributes, (operand,), lambda x: function(x, *attributes))
    assert learnt.results == {0}
    del leaf, operand
    assert gone() is None


def scores(x):
    base = x * 2.0
    heads = base.transpose([0, 2, 1, 3])
    heads.name = "heads"
    return base, heads, paddle.matmul(heads, heads, transpose_y=True)


@pytest.mark.skipif(not IS_3, reason="no view of Paddle 2.6 leaves its memory to others")
def test_of_what_torch_copies_nothing_is_held_beside_the_copy():
    x = paddle.ones([4, 16, 32, 32])
    x.stop_gradient = False
    with padiff_shim.reference("torch"):
        base, heads, result = scores(x)
        assert heads.size * 4 >= calls.LARGE
        memory = StorageWeakRef(twins.taped(base).twin.untyped_storage())
        del base, heads
        assert memory.expired()
        result.sum().backward()
    twin = torch.ones(4, 16, 32, 32, requires_grad=True)
    heads = (twin * 2.0).permute(0, 2, 1, 3)
    torch.matmul(heads, heads.transpose(-1, -2)).sum().backward()
    assert x.grad.numpy().tobytes() == twin.grad.numpy().tobytes()


@pytest.mark.skipif(not IS_3, reason="Paddle 2.6 keeps a copy of what lies strided")
@pytest.mark.parametrize("written", ["operand", "view", "base"])
def test_a_write_into_a_large_operand_is_refused_by_its_name(written):
    x = paddle.ones([4, 16, 32, 32])
    x.stop_gradient = False
    with padiff_shim.reference("torch") as run:
        base, heads, result = scores(x)
        target = {"operand": heads, "view": heads[:1], "base": base}[written]
        with paddle.no_grad():
            target.add_(paddle.ones_like(target))
        with pytest.raises(RuntimeError, match=r"'heads'.*modified by an inplace operation\. Its version is 1 but the .* is 0"):
            result.sum().backward()
    assert run.substituted["matmul"] == 1


def test_an_op_that_draws_is_not_asked_how_it_keeps_what_it_reads():
    """To ask would draw from Paddle's generator, from which the program draws nothing here."""
    values = np.random.default_rng(0).uniform(0.5, 1.5, (4, 4)).astype("float32")
    with padiff_shim.reference("torch", random="torch") as run:
        paddle.seed(0)
        table = paddle.to_tensor(values, stop_gradient=False) - 1.0
        paddle.nn.functional.rrelu(table[:, 1:3], 0.1, 0.9).sum().backward()
    assert run.substituted["rrelu"] == 1
    after = paddle.rand([4]).numpy()
    paddle.seed(0)
    assert np.array_equal(after, paddle.rand([4]).numpy())
