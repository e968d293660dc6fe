"""Ops that move values: bits, gradients, and the strides with which Torch would go on."""

import numpy as np
import paddle
import pytest
import torch
from helpers import LAYOUTS, Call, entries, leaf, same, twin

import padiff_shim
from padiff_shim.catalogue.registry import families, ops
from padiff_shim.frameworks.memory import as_operand
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.tape.twins import taped

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("undone")]
MOVING = {*families()["movement"], *families()["indexing"]}
CASES = [
    pytest.param(op, entry, sample, id=f"{entry.target.removeprefix('paddle.')}-{number}")
    for op, entry in entries()
    if op.name in MOVING and not entry.inplace
    for number, sample in enumerate(op.samples)
]


def several(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def meant(tensor):
    """Strides, but of axes with one element, which say nothing."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape) if size != 1]


def overlapping(tensor):
    return any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape))


@pytest.mark.rows(26)
@pytest.mark.parametrize(("op", "entry", "sample"), CASES)
def test_values_and_strides(op, entry, sample):
    for layout in LAYOUTS if IS_3 else LAYOUTS[:1]:  # 2.6 reads strided indices as if they were not
        call = Call(op, entry, sample, "float32", layout, False)
        theirs = several(call.torch(False)[0])
        native = several(Call(op, entry, sample, "float32", layout, False).run())
        with padiff_shim.reference("torch") as run:
            ours = several(call.run())
        assert run.substituted == {op.name: 1}, run.native
        for value, other, expected in zip(ours, theirs, native, strict=True):
            assert same(value, other), layout
            assert (value.shape, value.dtype, value.stop_gradient) == (expected.shape, expected.dtype, expected.stop_gradient)
            assert value.is_contiguous()
            assert overlapping(other) or meant(as_operand(value)) == meant(other), layout
            if op.exact:
                assert np.array_equal(value.numpy(), expected.numpy())
        operands = {tensor.data_ptr() for tensor in call.tensors if isinstance(tensor, paddle.Tensor)}
        assert not operands & {value.data_ptr() for value in ours}  # Paddle copies


@pytest.mark.rows(26)
@pytest.mark.parametrize(("op", "entry", "sample"), CASES)
def test_gradients_and_strides(op, entry, sample):
    for layout in LAYOUTS:
        call = Call(op, entry, sample, "float32", layout, True)
        theirs, leaves = call.torch(True)
        theirs, rng = several(theirs), np.random.default_rng(1)
        weights = [rng.standard_normal((*side.shape, 1))[..., 0].astype("float32") for side in theirs]
        torch.autograd.backward(theirs, [torch.from_numpy(weight) for weight in weights])
        with padiff_shim.reference("torch") as run:
            ours = several(call.run())
            for result, other in zip(ours, theirs, strict=True):
                assert same(result.detach(), other), layout
                assert meant(taped(result).twin) == meant(other), layout
            paddle.autograd.backward(ours, [paddle.to_tensor(weight) for weight in weights])
        assert run.substituted == {op.name: 1}, run.native
        assert set(run.backward) == {op.name}
        for tensor, side in zip(call.tensors, leaves, strict=True):
            if isinstance(side, torch.Tensor) and side.is_floating_point():
                assert same(tensor.grad, side.grad.contiguous()), layout


def test_an_index_put_of_lists():
    """Its indices are a list between tensors, which samples cannot say."""
    assert "index_put" in ops()
    x, index, value = np.ones((4, 3), "float32"), np.array([0, 2, 0]), np.random.rand(3, 3).astype("float32")
    for accumulate in (True, False):
        mine, theirs = leaf(x, "contiguous", True), torch.tensor(x, requires_grad=True)
        base, put = leaf(value, "transposed", True), torch.tensor(value, requires_grad=True)
        at = index if accumulate else index[:2]
        with padiff_shim.reference("torch") as run:
            result = paddle.index_put(mine, (paddle.to_tensor(at),), base[: len(at)], accumulate)
            (result * result).sum().backward()
        side = torch.index_put(theirs, (torch.tensor(at),), put[: len(at)], accumulate)
        (side * side).sum().backward()
        assert run.substituted["index_put"] == 1
        assert same(result.detach(), side)
        assert same(mine.grad, theirs.grad)
        assert same(base.grad, put.grad)


FLOATS = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("wanted", FLOATS)
@pytest.mark.parametrize("source", FLOATS)
def test_a_cast_between_floats(source, wanted, layout):
    """Its dtype is one that each framework names otherwise, which samples cannot say."""
    x = np.array([[1 / 3, -(2.0**-24), 65519.0], [1 + 2.0**-11, 7e-8, -0.0]], "float32")
    if source in ("float16", "bfloat16"):  # what the leaf holds, however this Paddle rounds
        x = torch.tensor(x).clamp(-60000, 60000).to(getattr(torch, source)).float().numpy()
    mine, weight = leaf(x, layout, True, source), paddle.full([2, 3], 0.375).astype(wanted)
    with padiff_shim.reference("torch") as run:
        result = mine.astype(wanted)
        paddle.autograd.backward([result], [weight])
    theirs = twin(x, layout, leaf(x, layout, False)).detach().to(getattr(torch, source)).requires_grad_()
    side = theirs.to(getattr(torch, wanted))
    side.backward(torch.full((2, 3), 0.375).to(side.dtype))
    assert run.substituted == ({"cast": 1} if source != wanted or not IS_3 else {})
    assert same(result.detach(), side)
    assert same(mine.grad, theirs.grad.contiguous())


def test_integers_stay_native_and_are_not_counted():
    x = paddle.arange(12).reshape([3, 4])
    with padiff_shim.reference("torch", strict=True) as run:
        paddle.concat([x, x])
        paddle.gather(x, paddle.to_tensor([0, 2]))
        paddle.flip(x, [0])
    assert not run.substituted
    assert not run.native


def test_other_modes_pass_through():
    x = leaf(np.random.rand(3, 4).astype("float32"), "transposed", True)
    with padiff_shim.compare("torch", exact=False) as run:
        paddle.concat([x, paddle.flip(x, [0])]).sum().backward()
    assert not {record.op for record in run.calls} & MOVING
    with padiff_shim.reference("torch", ops="sum") as run:
        paddle.concat([paddle.exp(x), x]).sum().backward()
    assert not {op for op, _ in run.native.items()} & MOVING


def test_what_a_copy_of_paddle_shares_with_nobody():
    """Split and expanded tensors are views in Torch and copies in Paddle: writing into one changes nothing else."""
    x = leaf(np.random.rand(4, 6).astype("float32"), "contiguous", True)
    with padiff_shim.reference("torch"):
        y = paddle.tanh(x)
        before = y.numpy()
        first, second = paddle.split(y, 2, 1)
        wide = paddle.expand(y[:1], [3, 6])
        for part in (first.detach(), second.detach(), wide.detach()):
            part.fill_(7.0)
        assert np.array_equal(y.numpy(), before)
        assert np.array_equal((wide * 1.0).numpy(), np.full((3, 6), 7.0, "float32"))
        assert np.array_equal((first * 2.0).numpy(), np.full((4, 3), 14.0, "float32"))


@pytest.mark.parametrize("wants", [True, False])
def test_one_tensor_that_is_broadcast_twice_gives_two(wants):
    x = leaf(np.random.rand(4, 4).astype("float32"), "contiguous", wants)
    before = x.numpy()
    with padiff_shim.reference("torch"):
        first, second = paddle.broadcast_tensors([x, x])
        second[0] = 0.5
        assert np.array_equal(first.numpy(), before)
        assert (first.inplace_version, second.inplace_version) == (0, 1)
        if wants:
            (first + second).sum().backward()
            assert x.grad.tolist() == [[1.0] * 4, *[[2.0] * 4] * 3]
    assert np.array_equal(x.numpy(), before)


def test_twins_are_alike():
    assert twin(np.ones((2, 3), "float32"), "transposed", leaf(np.ones((2, 3), "float32"), "transposed", False)).stride() == (1, 2)


@pytest.mark.parametrize("shape", [(2, 4), (0, 4), (2, 0)])
@pytest.mark.parametrize("num", [0, 3])
def test_parts_that_paddle_has_to_speak_of(shape, num):
    """Into none it splits what has no elements there, and refuses the rest; into parts of several lengths it refuses."""

    def outcome():
        try:
            return [part.shape for part in paddle.split(paddle.ones(shape), num, axis=-1)]
        except ValueError as error:
            return str(error).splitlines()[0]

    expected = outcome()
    with padiff_shim.reference("torch"):
        assert outcome() == expected
