"""The door between the frameworks' tensors: shared memory, right values, lifetimes, and no deadlock."""

import contextlib
import gc
import pathlib
import textwrap

import forked
import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.frameworks import memory
from padiff_shim.frameworks.memory import dtype_of, explain, own, stream_of, to_paddle, to_torch, torch_dtype

ROOT = pathlib.Path(__file__).resolve().parents[2]
PADDLE_2 = paddle.__version__.startswith("2.")
SHARED = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
    "complex64",
    "complex128",
]
only_3 = pytest.mark.skipif(PADDLE_2, reason="2.6 copies what comes back, and says so in dialect.py")


def values_of(dtype, *shape):
    count = int(np.prod(shape))
    if dtype == "bool":
        return paddle.to_tensor((np.arange(count) % 3 == 0).reshape(shape))
    if dtype.startswith("complex"):
        return paddle.to_tensor((np.arange(count) * (1 + 2j)).reshape(shape).astype(dtype))
    return paddle.to_tensor(np.arange(count, dtype="float32").reshape(shape)).astype(dtype)


def array(tensor):
    """Values of a tensor of either side."""
    if isinstance(tensor, torch.Tensor):
        return tensor.float().numpy() if tensor.dtype is torch.bfloat16 else tensor.resolve_conj().numpy()
    return tensor.astype("float32").numpy() if tensor.dtype == paddle.bfloat16 else tensor.numpy()


@pytest.mark.compat
@pytest.mark.parametrize("dtype", SHARED)
@pytest.mark.parametrize("shape", [(3, 4), (5,), (), (2, 1, 3)], ids=str)
def test_paddle_to_torch_shares_memory(dtype, shape):
    tensor = values_of(dtype, *shape)
    twin = to_torch(tensor)
    assert (twin.data_ptr(), str(twin.dtype), tuple(twin.shape)) == (tensor.data_ptr(), f"torch.{dtype}", shape)
    np.testing.assert_array_equal(array(twin), array(tensor))
    twin.fill_(True)
    assert (array(tensor) == 1).all()  # a write on one side is seen on the other


@pytest.mark.compat
@pytest.mark.parametrize("dtype", SHARED)
@pytest.mark.parametrize("shape", [(3, 4), (5,), (), (2, 1, 3)], ids=str)
def test_torch_to_paddle(dtype, shape):
    twin = torch.arange(int(np.prod(shape))).reshape(shape).to(getattr(torch, dtype))
    tensor = to_paddle(twin)
    assert (str(tensor.dtype).rpartition(".")[2], tuple(tensor.shape), tensor.stop_gradient) == (dtype, shape, True)
    np.testing.assert_array_equal(array(tensor), array(twin))
    if not PADDLE_2 or dtype != "bfloat16":
        assert tensor.data_ptr() == twin.data_ptr()


@pytest.mark.compat
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2)], ids=str)
def test_zero_size(shape):
    tensor = paddle.zeros(shape)
    assert tuple(to_torch(tensor).shape) == shape
    assert tuple(to_paddle(torch.zeros(shape)).shape) == shape


VIEWS = {
    "transpose": lambda t: t.transpose([1, 0, 2]),
    "reverse": lambda t: t.transpose([2, 1, 0]),
    "rows": lambda t: t[1:3],
    "columns": lambda t: t[:, :, 1:3],
    "steps": lambda t: t[:, ::2],
    "one": lambda t: t[2],
    "expand": lambda t: t[0:1].expand([4, 3, 4]),
    "unsqueeze": lambda t: t.unsqueeze(1),
}


@pytest.mark.compat
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool", "bfloat16"])
@pytest.mark.parametrize("view", VIEWS)
def test_views_keep_values_and_memory(view, dtype):
    base = values_of(dtype, 4, 3, 4)
    seen = VIEWS[view](base)
    twin = to_torch(seen)
    np.testing.assert_array_equal(array(twin), array(seen))
    assert twin.data_ptr() == seen.data_ptr()
    assert list(twin.stride()) == list(seen.strides)
    base.set_value(paddle.ones_like(base))
    assert (array(twin) == array(seen)).all()


@only_3
@pytest.mark.parametrize("make", [torch.t, lambda t: t[:, 1:], lambda t: t[::2], lambda t: t[0], lambda t: t[:1].expand(5, 4)])
def test_torch_views_come_back_as_views(make):
    twin = make(torch.arange(12.0).reshape(3, 4))
    tensor = to_paddle(twin)
    assert (tensor.data_ptr(), tuple(tensor.strides)) == (twin.data_ptr(), twin.stride())
    np.testing.assert_array_equal(tensor.numpy(), twin.numpy())
    np.testing.assert_array_equal((tensor + 1.0).numpy(), twin.numpy() + 1.0)


@pytest.mark.compat
def test_torch_views_come_back_with_right_values():
    base = torch.arange(12.0).reshape(3, 4)
    for twin in (base.t(), base[:, 1:], base[::2], base[:1].expand(5, 4), base > 3):
        np.testing.assert_array_equal(to_paddle(twin).numpy(), twin.numpy())


@pytest.mark.compat
def test_a_parameter_crosses_without_its_gradient():
    weight = paddle.nn.Linear(3, 2).weight
    twin = to_torch(weight)
    assert twin.data_ptr() == weight.data_ptr()
    assert not twin.requires_grad


@pytest.mark.compat
@pytest.mark.parametrize("strided", [False, True])
def test_lifetimes(strided):
    """Either side may be dropped first."""
    for _ in range(4):
        tensor = values_of("float32", 64, 64)
        if strided:
            tensor = tensor.t()
        expected = tensor.numpy().copy()
        twin = to_torch(tensor)
        del tensor
        gc.collect()
        fill = [paddle.full([64, 64], -1.0) for _ in range(4)]
        np.testing.assert_array_equal(twin.numpy(), expected)
        source = torch.arange(4096.0).reshape(64, 64)
        if strided:
            source = source.t()
        expected = source.numpy().copy()
        back = to_paddle(source)
        del source, fill
        gc.collect()
        fill = [torch.full((64, 64), -1.0) for _ in range(4)]
        np.testing.assert_array_equal(back.numpy(), expected)
        del fill


@pytest.mark.compat
def test_own_copies_what_aliases():
    base = torch.arange(12.0).reshape(3, 4)
    for result in (base, base.t(), base[1:], base.view(12), base.expand(2, 3, 4), base.detach()):
        wrapped = own(result, [None, 3, base])
        assert wrapped.untyped_storage().data_ptr() != base.untyped_storage().data_ptr()
        assert torch.equal(wrapped, result)
    fresh = base + 1
    assert own(fresh, [base]) is fresh


@pytest.mark.compat
def test_dtype_names():
    for name in SHARED:
        assert torch_dtype(getattr(paddle, name)) is getattr(torch, name)
        assert dtype_of(getattr(torch, name)) == name
    assert torch_dtype("no such dtype") is None
    assert torch_dtype("Tensor") is None


@pytest.mark.compat
def test_sparse_tensors_stay_native_and_say_why():
    dense = paddle.to_tensor([[0.0, 2.0], [3.0, 0.0]])
    sparse = dense.to_sparse_coo(2)
    assert explain(sparse, ValueError()).reason == "sparse tensor"
    expected = paddle.sparse.square(sparse).to_dense().numpy()
    with padiff_shim.reference("torch") as run:
        np.testing.assert_array_equal(paddle.sparse.square(sparse).to_dense().numpy(), expected)
        if not PADDLE_2:  # which ends the process by itself here
            with contextlib.suppress(Exception):
                paddle.exp(sparse)  # computed, or refused, by Paddle itself
    assert not run.substituted


@only_3
def test_uninitialised_and_foreign_tensors_are_explained():
    empty = paddle.Tensor()
    assert "uninitialised" in explain(empty, ValueError()).reason
    assert "DLPack (ValueError)" in explain(paddle.ones([1]), ValueError()).reason


@pytest.mark.compat
def test_results_lie_as_torch_laid_them():
    """The strides of a result are torch's, as far as Paddle's own views allow."""
    x = values_of("float32", 4, 6)
    with padiff_shim.reference("torch"):
        for tensor in (paddle.exp(x.t()), x.t() * 2.0, paddle.matmul(x, x, transpose_y=True), paddle.sum(x, 0)):
            np.testing.assert_array_equal(tensor.reshape([-1]).numpy(), tensor.numpy().reshape(-1))
            np.testing.assert_array_equal(tensor.flatten().numpy(), tensor.numpy().reshape(-1))
            assert list(tensor.view([tensor.size]).shape) == [tensor.size]


def test_no_deadlock_when_alias_chains_are_freed():
    """3.3.1 never returns from freeing torch -> paddle -> torch -> paddle; whatever returns its input must be copied."""
    program = """
        import gc, paddle, padiff_shim, torch
        import paddle.nn.functional as F
        from padiff_shim.frameworks.memory import own, to_paddle, to_torch
        for result in (lambda t: t, lambda t: t.t(), lambda t: t[1:], lambda t: t.expand(2, 3, 3), lambda t: t.detach()):
            x = to_paddle(torch.ones(3, 3))
            inner = to_torch(x)
            y = to_paddle(own(result(inner), [inner]))
            del inner, x, y
            gc.collect()
        with padiff_shim.reference("torch") as run:
            for train in (False, True):
                w = to_paddle(torch.ones(3, 3)); w.stop_gradient = not train
                x = paddle.exp(w); b = paddle.tanh(w)
                for _ in range(3):
                    x = paddle.add(x, b) + 0.0
                    x = paddle.sum(x.reshape([3, 3, 1]), -1); x = paddle.mean(x.reshape([3, 3, 1]), -1)
                    x = x * 1.0; x = x ** 1.0; x = x / 1.0; x = paddle.scale(x, 1.0); x = F.relu(x); x = F.linear(x, b)
                    x = paddle.sum(x, [], keepdim=False) if False else paddle.sum(x, 0, keepdim=True).expand([3, 3])
                if train:
                    (g,) = paddle.grad(x.sum(), w, create_graph=True)
                    (x.sum() + g.mean() + (w + w).mean()).backward()
                    w.grad.sum()
                    del g
                del x, b, w
                gc.collect()
        print("freed")
    """
    done = forked.run(["-c", textwrap.dedent(program)], warm=True)
    assert done.stdout.strip() == "freed", done.stderr[-2000:]


@pytest.mark.gpu
def test_streams_and_memory_on_the_gpu():
    if not (paddle.is_compiled_with_cuda() and torch.cuda.is_available()):
        pytest.skip("needs a GPU that both frameworks can use")
    paddle.set_device("gpu")
    try:
        for dtype in SHARED:
            tensor = values_of(dtype, 3, 4).cuda()
            assert to_torch(tensor).data_ptr() == tensor.data_ptr()
            twin = torch.ones(3, 4, device="cuda", dtype=getattr(torch, dtype))
            assert PADDLE_2 or to_paddle(twin).data_ptr() == twin.data_ptr()
        x = paddle.rand([512, 512])
        with stream_of(to_torch(x).device):
            assert (
                torch.cuda.current_stream().cuda_stream
                == memory._external_stream.__wrapped__(torch.cuda.current_stream().cuda_stream, torch.device("cuda", 0)).cuda_stream
            )
        with padiff_shim.reference("torch"):
            for _ in range(50):  # freed by one allocator, reused by the other, on one stream
                y = paddle.matmul(x, x) / 512.0
                z = paddle.exp(y)
                del y
        torch.testing.assert_close(to_torch(z), torch.exp(to_torch(x) @ to_torch(x) / 512.0))
    finally:
        paddle.set_device("cpu")


@pytest.mark.compat
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_what_crosses_is_a_tensor_of_its_own(dtype):
    """Memory, in-place version, name and node: of two tensors that crossed one after the other neither sees the other's."""
    first, other = (to_paddle(torch.zeros(shape, dtype=getattr(torch, dtype))) for shape in ((2, 3), (4,)))
    assert (list(first.shape), list(other.shape)) == ([2, 3], [4])
    assert first.name
    assert first.name != other.name
    assert (first.stop_gradient, first.is_leaf, first.persistable, first.inplace_version) == (True, True, False, 0)
    first.zero_()
    assert first.inplace_version > other.inplace_version == 0
    assert to_paddle(torch.ones(1)).item() == 1.0


@pytest.mark.compat
def test_a_gradient_begins_at_what_crossed():
    leaf = to_paddle(torch.full((2, 2), 3.0))
    leaf.stop_gradient = False
    (leaf * leaf).sum().backward()
    assert leaf.grad.numpy().tolist() == [[6.0, 6.0], [6.0, 6.0]]


@pytest.mark.compat
@pytest.mark.parametrize("shape", [[2, 3], [0, 3]])
@pytest.mark.parametrize("made", ["result", "gradient", "under no_grad"])
def test_what_wants_no_gradient_can_be_asked_to_clear_it(made, shape):
    if made == "gradient" and 0 in shape and PADDLE_2:
        pytest.skip("2.6 has no gradients without elements")
    x = paddle.ones(shape)
    with padiff_shim.reference("torch"):
        x.stop_gradient = made == "result"
        if made == "gradient":
            (y,) = paddle.grad([paddle.exp(x).sum()], [x])
        else:
            with paddle.no_grad():
                y = paddle.exp(x)
        y.clear_grad()
    assert y.grad is None
