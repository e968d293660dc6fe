"""Memory order: programs find what their own kernels would have left, Torch gets Torch's strides, no view ends the process."""

import gc
import pathlib

import forked
import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import LAYOUTS, Call, by_first_doors, entries, flat, in_turn, some
from trials import differentiable

import padiff_shim
from padiff_shim.frameworks import memory
from padiff_shim.frameworks.memory import as_operand, hand_over, is_reversed
from padiff_shim.frameworks.torch_state import LooksOn
from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.compat
HERE = pathlib.Path(__file__).resolve().parents[1]
# Natively the backward of a legacy reduce_sum of a view ends the process; results come the same way by all doors.
# Of these Paddle 3 hands out a transposed view of what its kernel made; the shim's results lie contiguously.
TRANSPOSED = {"scaled_dot_product_attention", "flash_attention"}
DIRECT = [(op, entry) for op, entry in entries() if not entry.inplace and entry.pairs is None]


def results(op, entry, layout, *, grad):
    """{number of the sample: (results, gradients)} of every sample that is taken."""
    results = {}
    for number, sample in enumerate(op.samples):
        if layout not in some(LAYOUTS, number) or any(0 in shape for shape in sample.shapes if shape is not None):
            continue
        call = Call(op, entry, sample, "float32", layout, grad)
        try:
            several = flat(call.run())
            if grad:  # through all of several results: Paddle's backward of some ops reads what others left
                ends = differentiable(several)
                paddle.autograd.backward(ends, [paddle.ones_like(result) for result in ends])
        except Exception:
            continue
        results[number] = several, [tensor.grad for tensor in call.tensors if tensor is not None]
    return results


PASSES = [pytest.param(False, id="forward"), pytest.param(True, id="backward")]


@pytest.mark.rows(110)
@pytest.mark.parametrize(("op", "entry", "grad"), in_turn(by_first_doors(DIRECT), PASSES))
def test_results_and_gradients_lie_as_natively(op, entry, grad):
    """All that reads memory order follows from this, whether a mode is open or not."""
    for layout in LAYOUTS if entry is op.entries[0] else ("transposed",):
        native = results(op, entry, layout, grad=grad)
        with padiff_shim.reference("torch"):
            ours = results(op, entry, layout, grad=grad)
        assert set(native) <= set(ours)  # Paddle's own kernels refuse the backward of some
        for number, (theirs, expected) in native.items():
            mine, gradients = ours[number]
            if op.name in TRANSPOSED:
                assert all(tensor.is_contiguous() for tensor in mine), (layout, number)
            else:
                assert [tensor.strides for tensor in mine] == [expected.strides for expected in theirs], (layout, number)
            for result, other in zip(gradients, expected):
                assert (result is None) == (other is None), (layout, number)
                assert result is None or result.is_contiguous(), (layout, number)


READERS = {
    "item": lambda t: t.item(5),
    "item of a view": lambda t: t[1].item(1),
    "as_strided": lambda t: paddle.as_strided(t, [3], [1]).tolist(),
    "_slice": lambda t: t._slice(0, 2).tolist(),
    "strides": lambda t: list(t.strides),
    "get_strides": lambda t: list(t.get_strides()),
    "is_contiguous": lambda t: t.is_contiguous(),
    "view": lambda t: t.view([12]).tolist(),
    "view a dtype": lambda t: t.view("int32").tolist(),
    "flatten": lambda t: t.flatten().tolist(),
    "reshape": lambda t: t.reshape([2, 6]).tolist(),
    "tolist": lambda t: t.tolist(),
    "numpy": lambda t: t.numpy().strides,
    "array": lambda t: np.array(t.get_tensor()).tolist(),
    "dlpack": lambda t: torch.from_dlpack(paddle.utils.dlpack.to_dlpack(t)).tolist(),
    "md5": lambda t: t._md5sum(),
    "offset": lambda t: t[1]._offset(),
    "fill_diagonal_": lambda t: t.clone().fill_diagonal_(7.0).tolist(),
    "setitem": lambda t: paddle.assign(t).__setitem__(0, 1.0),
    "shared": lambda t: (v := t[0], t.scale_(2.0), v.tolist())[2],
}


@pytest.mark.parametrize("when", ["inside", "afterwards"])
@pytest.mark.parametrize("make", [lambda x: x.T + 1, lambda x: F.relu(x.T), lambda x: x.T * x.T], ids=["add", "relu", "multiply"])
def test_what_reads_memory_order_answers_as_natively(make, when):
    def readings(tensor):
        results = {}
        for name, read in READERS.items():
            try:
                results[name] = read(tensor)
            except Exception as error:  # not in this Paddle
                results[name] = type(error)
        return results

    x = paddle.arange(12, dtype="float32").reshape([3, 4]) / 4.0
    expected = readings(make(x))
    with padiff_shim.reference("torch") as run:
        ours = make(x)  # exact in both
        results = readings(ours) if when == "inside" else None
    assert run.substituted
    assert (readings(ours) if results is None else results) == expected


STEPS = {
    "same": lambda t: t,
    "transposed": lambda t: t.transpose([2, 0, 1]) if isinstance(t, paddle.Tensor) else t.permute(2, 0, 1),
    "row": lambda t: t[1],
    "slice": lambda t: t[:, 1:3],
    "steps": lambda t: t[:, :, ::2],
    "split": lambda t: t.reshape([2, 2, 2, 5]),
    "merged": lambda t: t.reshape([8, 5]),
    "unsqueezed": lambda t: t.unsqueeze(1),
    "sliced and transposed": lambda t: (
        t[:, 1:3].transpose([0, 2, 1]) if isinstance(t, paddle.Tensor) else t[:, 1:3].permute(0, 2, 1)
    ),
}


@pytest.mark.skipif(not IS_3, reason="2.6 copies what 3.x views")
@pytest.mark.parametrize("axes", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)], ids=str)
@pytest.mark.parametrize("step", STEPS)
def test_torch_gets_back_the_strides_of_a_torch_program(step, axes):
    inverse = np.argsort(axes).tolist()
    theirs = torch.arange(40.0).reshape([(2, 4, 5)[axis] for axis in axes]).permute(inverse)
    ours = STEPS[step](hand_over(theirs))
    assert ours.is_contiguous() == paddle.ones(ours.shape).is_contiguous() or step != "same"
    twin = STEPS[step](theirs)
    assert torch.equal(as_operand(ours), twin)
    wanted = [stride for stride, size in zip(twin.stride(), twin.shape) if size > 1]
    assert [stride for stride, size in zip(as_operand(ours).stride(), twin.shape) if size > 1] == wanted


def test_the_next_kernel_sees_them():
    """Values are left where Paddle wants them; the kernel's operand is as in the Torch program."""
    x = paddle.arange(12, dtype="float32").reshape([3, 4])
    with padiff_shim.reference("torch"):
        y = paddle.exp(x.T if IS_3 else x)
        z = y + 1.0
    expected = torch.exp(torch.arange(12.0).reshape(3, 4).T if IS_3 else torch.arange(12.0).reshape(3, 4))
    for ours in (y, z):
        assert as_operand(ours).stride() == expected.stride()
        assert ours.is_contiguous()


def test_writes_reach_the_program_s_memory():
    """In place on a result whose strides are remembered: the tensor, its views and the next operand agree."""
    x = paddle.arange(12, dtype="float32").reshape([3, 4])
    with padiff_shim.reference("torch") as run:
        y = x.T * 1.0
        row = y[1]
        y.add_(paddle.ones_like(y))
        paddle.exp(y)
    assert run.substituted["add"] == 1
    np.testing.assert_array_equal(y.numpy(), x.numpy().T + 1)
    np.testing.assert_array_equal(row.numpy(), x.numpy().T[1] + 1)
    np.testing.assert_array_equal(as_operand(y).numpy(), y.numpy())


def operand_of_nothing():
    return tuple(as_operand(paddle.zeros([0, 3])).shape)


def test_what_is_remembered_dies_with_the_memory():
    handed = hand_over(torch.ones(3, 4).t())
    for _ in range(1000):
        tensor = hand_over(torch.ones(3, 4).t())
        assert as_operand(tensor).stride() == (1, 4)
        view = tensor[1:]
        del tensor
        assert as_operand(view).stride() == (1, 4)
    del view
    gc.collect()
    assert len(memory.layouts) < 300
    assert as_operand(handed).stride() == (1, 4)
    assert operand_of_nothing() == (0, 3)
    del handed
    for _ in range(50):  # the same places again, by others
        fresh = paddle.ones([4, 3])
        assert as_operand(fresh).stride() == (3, 1)


def test_expanded_results_are_remembered_until_an_element_is_written():
    ours = hand_over(torch.ones(3, 1).expand(3, 4))
    assert ours.is_contiguous()
    assert as_operand(ours).stride() == (1, 0)
    assert as_operand(ours[1:]).stride() == (1, 0)
    ours[0, 1] = 5.0
    assert as_operand(ours).tolist() == [[1.0, 5.0, 1.0, 1.0], [1.0] * 4, [1.0] * 4]


NARROW = torch.arange(33.0).remainder(2) > 0
LAID = {  # of an operand that lies transposed: what a Torch program leaves expanded or strided, and Paddle's kernels densely
    "expanded": (lambda x: x[:, :1].expand([2, 4, 33, 80]), lambda x: x[:, :1].expand(2, 4, 33, 80)),
    "turned by einsum": (lambda x: paddle.einsum("bhid->dihb", x), lambda x: torch.einsum("bhid->dihb", x)),
    "zeros like it": (lambda x: paddle.zeros_like(x), lambda x: torch.zeros_like(x)),
    "chosen by a narrow mask": (
        lambda x: paddle.where(paddle.to_tensor(NARROW.numpy())[:, None], x, paddle.full_like(x, 2.0)),
        lambda x: torch.where(NARROW[:, None], x, torch.full_like(x, 2.0)),
    ),
    "chosen by its own mask": (
        lambda x: paddle.where(paddle.greater_than(x, paddle.zeros([1])), x, x * 2),
        lambda x: torch.where(torch.gt(x, torch.zeros(1)), x, x * 2),
    ),
}


@pytest.mark.skipif(not IS_3, reason="2.6 copies what 3.x views")
@pytest.mark.parametrize("name", LAID)
@pytest.mark.parametrize("grad", [False, True])
def test_what_is_made_densely_lies_as_in_a_torch_program(name, grad):
    x = torch.randn(2, 33, 4, 80, generator=torch.Generator().manual_seed(0))
    make, expected = LAID[name][0], LAID[name][1](x.transpose(1, 2))
    with padiff_shim.reference("torch"):
        ours = make(paddle.to_tensor(x.numpy(), stop_gradient=not grad).transpose([0, 2, 1, 3]))
        total, norm = ours.sum(), paddle.linalg.norm(ours)
    assert ours.is_contiguous()
    assert float(total) == float(expected.sum())
    assert float(norm) == float(torch.linalg.norm(expected))
    assert grad or as_operand(ours).stride() == expected.stride()


def test_views_with_negative_strides():
    x = paddle.arange(24, dtype="float32").reshape([4, 6])
    base = torch.arange(24.0).reshape(4, 6)
    for ours, twin in (
        (x[..., ::-1], base.flip(1)),
        (x[::-1, ::-1], base.flip(0, 1)),
        (x[:, ::-2], base.flip(1)[:, ::2]),
        (x[1:3, :1][:, ::-1], base[1:3, :1]),
        (x[0:0, ::-1], base[0:0]),
    ):
        assert torch.equal(as_operand(ours), twin)
    y = x[::-1]
    assert is_reversed(y)
    with padiff_shim.reference("torch") as run:
        z = y.scale_(2.0)
    assert [*run.native] == ["scale"]
    assert z is y
    np.testing.assert_array_equal(x.numpy(), 2 * base.numpy())


@pytest.mark.rows(1)
@pytest.mark.parametrize("mode", ["reference", "compare"])
def test_no_view_ends_the_process(mode):
    """In a child, because a wrong view may end it: values and gradients of views of every kind, with and without a mode."""
    done = forked.run([HERE / "views.py", mode], warm=True)
    assert done.stdout.splitlines()[-1:] == ["0 differences"], (done.stdout[-2000:], done.stderr[-2000:])


class Operands(LooksOn):
    """The strides with which Torch's tanh gets its operand."""

    def __init__(self):
        super().__init__()
        self.strides = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.tanh.default:
            self.strides.append(args[0].stride())
        return function(*args, **(kwargs or {}))


# Shape, and the same movement in both frameworks: what Torch lays with strides where Paddle copies, or has an axis of size 1.
MOVED = {
    "chunk": ((2, 3, 8), lambda x: paddle.chunk(x, 2, axis=-1)[0], lambda x: torch.chunk(x, 2, -1)[0]),
    "split": ((2, 3, 8), lambda x: paddle.split(x, [3, 5], axis=-1)[1], lambda x: torch.split(x, [3, 5], -1)[1]),
    "unbind": ((2, 3, 4), lambda x: paddle.unbind(x, axis=1)[1], lambda x: torch.unbind(x, 1)[1]),
    "unstack": ((2, 3, 4), lambda x: paddle.unstack(x, axis=1)[1], lambda x: torch.unbind(x, 1)[1]),
    "tensor_split": ((2, 3, 7), lambda x: paddle.tensor_split(x, 3, axis=-1)[1], lambda x: torch.tensor_split(x, 3, -1)[1]),
    "slice": ((2, 3, 8), lambda x: x[..., 2:5], lambda x: x[..., 2:5]),
    "slice of size 1": ((2, 3, 4), lambda x: x[:, :1], lambda x: x[:, :1]),
    "chunk of size 1": ((2, 2, 4), lambda x: paddle.chunk(x, 2, axis=1)[0], lambda x: torch.chunk(x, 2, 1)[0]),
    "transpose": ((2, 3, 4), lambda x: x.transpose([0, 2, 1]), lambda x: x.permute(0, 2, 1)),
    "heads of one token": ((2, 1, 3, 4), lambda x: x.transpose([0, 2, 1, 3]), lambda x: x.permute(0, 2, 1, 3)),
    "expand": ((1, 3), lambda x: x.expand([4, 3]), lambda x: x.expand(4, 3)),
    "sum": ((3, 4), lambda x: x.t() + x.t(), lambda x: x.t() + x.t()),
    "chunk, reshape": ((2, 8), lambda x: x.chunk(2, -1)[0].reshape([2, 2, 2]), lambda x: x.chunk(2, -1)[0].reshape(2, 2, 2)),
}


@pytest.mark.skipif(not IS_3, reason="2.6 copies on the way")
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "with gradient"])
@pytest.mark.parametrize("name", MOVED)
def test_what_is_made_contiguous_is_contiguous_to_torch(name, grad):
    """Paddle's contiguous() gives back what it has copied already; Torch's view of it then has to go."""
    shape, move, torch_move = MOVED[name]
    values = np.arange(np.prod(shape), dtype="float32").reshape(shape) / 10
    original = torch.tensor(values, requires_grad=grad)
    with Operands() as expected:
        torch_result = torch.tanh(torch_move(original * 1.0).contiguous())
    port = paddle.to_tensor(values, stop_gradient=not grad)
    with padiff_shim.reference("torch"), Operands() as seen:
        result = paddle.tanh(move(port * 1.0).contiguous())
        if grad:
            result.sum().backward()
    assert set(seen.strides) == set(expected.strides)  # a program with gradients may try a call more than once
    assert np.array_equal(result.numpy(), torch_result.detach().numpy())
    if grad:
        torch_result.sum().backward()
        assert np.array_equal(port.grad.numpy(), original.grad.numpy())


def test_what_is_written_into_a_contiguous_tensor_is_written_as_natively():
    """Paddle's contiguous() of a chunk is the chunk itself."""

    def program():
        chunk = paddle.chunk(paddle.arange(12.0).reshape([3, 4]), 2, axis=-1)[0]
        chunk.contiguous().add_(paddle.ones([3, 2]))
        return chunk.numpy()

    expected = program()
    with padiff_shim.reference("torch"):
        assert np.array_equal(program(), expected)
