"""In 16 bits on a CPU: what is created, drawn, moved, chosen, compared and written, where Paddle has no kernel for it."""

import numpy as np
import paddle
import pytest
import torch
from helpers import array, needs, same

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.compat
HALVES = ("bfloat16", "float16")
VALUES = np.array([[1.5, -0.25, 3.0, 0.0], [-2.0, 0.5, -0.75, 4.0], [0.125, -1.0, 2.5, -3.5]], "float32")  # of 8 bits each


def pair(dtype, values=VALUES, *, grad=False):
    """A tensor of either framework."""
    ours, theirs = paddle.to_tensor(values).astype(dtype), torch.from_numpy(values).to(getattr(torch, dtype))
    ours.stop_gradient = not grad
    return ours, theirs.requires_grad_(grad)


def alike(ours, theirs):
    """Bits and dtype."""
    return str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2] and same(ours.detach(), theirs)


CREATED = {
    "arange": (lambda dtype: paddle.arange(0, 5, 0.25, dtype), lambda half: torch.arange(0, 5, 0.25, dtype=half)),
    "linspace": (lambda dtype: paddle.linspace(-1, 2, 17, dtype), lambda half: torch.linspace(-1, 2, 17, dtype=half)),
    "logspace": (lambda dtype: paddle.logspace(0, 1, 9, dtype=dtype), lambda half: torch.logspace(0, 1, 9, dtype=half)),
    "eye": (lambda dtype: paddle.eye(3, dtype=dtype), lambda half: torch.eye(3, dtype=half)),
    "full": (lambda dtype: paddle.full([2, 3], 0.125, dtype), lambda half: torch.full((2, 3), 0.125, dtype=half)),
    "ones": (lambda dtype: paddle.ones([2, 3], dtype), lambda half: torch.ones(2, 3, dtype=half)),
    "randn": (lambda dtype: paddle.randn([7], dtype), lambda half: torch.randn(7, dtype=half)),
    "rand": (lambda dtype: paddle.rand([7], dtype), lambda half: torch.rand(7, dtype=half)),
    "uniform_": (lambda dtype: paddle.zeros([7], dtype).uniform_(-1, 1), lambda half: torch.zeros(7, dtype=half).uniform_(-1, 1)),
    "normal_": (lambda dtype: paddle.zeros([7], dtype).normal_(1, 2), lambda half: torch.zeros(7, dtype=half).normal_(1, 2)),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", CREATED)
def test_created_as_in_torch(name, dtype):
    ours, theirs = CREATED[name]
    with padiff_shim.reference("torch", random="torch"):
        paddle.seed(3)
        result = ours(dtype)
    torch.manual_seed(3)
    assert alike(result, theirs(getattr(torch, dtype)))


DRAWN = {
    "uniform_": lambda x: x.uniform_(-1, 1),
    "normal_": lambda x: x.normal_(1, 2),
    "bernoulli": paddle.bernoulli,
    "dropout": lambda x: paddle.nn.functional.dropout(x, 0.5),
    "randn": lambda x: paddle.randn(x.shape, x.dtype),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", DRAWN)
def test_paddles_own_numbers_are_drawn_in_float32(name, dtype):
    """With random="paddle"; on other devices Paddle's kernels draw so, too."""
    shares = np.full((3, 4), 0.5, "float32")
    paddle.seed(5)
    wide = DRAWN[name](paddle.to_tensor(shares))
    paddle.seed(5)
    with padiff_shim.reference("torch"):
        result = DRAWN[name](paddle.to_tensor(shares).astype(dtype))
    assert result.dtype == getattr(paddle, dtype)
    assert same(result, torch.from_numpy(wide.numpy()).to(getattr(torch, dtype)))


INITIALIZERS = ("Uniform", "Normal", "TruncatedNormal", "XavierUniform", "XavierNormal", "KaimingUniform", "KaimingNormal")


@pytest.mark.parametrize("random", ["paddle", "torch"])
@pytest.mark.parametrize("dtype", HALVES)
def test_parameters_are_created(dtype, random):
    with padiff_shim.reference("torch", random=random):
        for name in INITIALIZERS:
            drawn = paddle.create_parameter([64, 4], dtype, default_initializer=getattr(paddle.nn.initializer, name)())
            assert drawn.dtype == getattr(paddle, dtype)
            assert array(drawn.detach()).astype("float64").std() > 0
        paddle.set_default_dtype(dtype)
        try:
            layers = [paddle.nn.Linear(4, 4), paddle.nn.Conv2D(2, 2, 3), paddle.nn.LayerNorm(4), paddle.nn.Embedding(4, 4)]
        finally:
            paddle.set_default_dtype("float32")
    assert all(layer.weight.dtype == getattr(paddle, dtype) for layer in layers)


CHOSEN = {
    "equal": (lambda x: x == x, lambda x: x == x),
    "less": (lambda x: x < 0.5, lambda x: x < 0.5),
    "isclose": (lambda x: paddle.isclose(x, x), lambda x: torch.isclose(x, x)),
    "allclose": (lambda x: paddle.allclose(x, x), lambda x: torch.tensor(torch.allclose(x, x))),
    "equal_all": (lambda x: paddle.equal_all(x, x), lambda x: torch.tensor(torch.equal(x, x))),
    "isnan": (paddle.isnan, torch.isnan),
    "any": (lambda x: paddle.any(x > 3), lambda x: (x > 3).any()),
    "argmax": (lambda x: paddle.argmax(x, axis=1), lambda x: x.argmax(1)),
    "nonzero": (paddle.nonzero, torch.nonzero),
    "searchsorted": (lambda x: paddle.searchsorted(paddle.sort(x[0]), x), lambda x: torch.searchsorted(x[0].sort()[0], x)),
    "unique": (paddle.unique, torch.unique),
    "row": (lambda x: x[1], lambda x: x[1]),
    "rows": (lambda x: x[[2, 0]], lambda x: x[[2, 0]]),
    "mask": (lambda x: x[x > 0], lambda x: x[x > 0]),
    "crop": (lambda x: paddle.crop(x, [2, 2], [1, 1]), lambda x: x[1:3, 1:3]),
    "diag_embed": (lambda x: paddle.nn.functional.diag_embed(x), torch.diag_embed),
    "heaviside": (lambda x: paddle.heaviside(x, x), lambda x: torch.heaviside(x, x)),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", CHOSEN)
def test_chosen_as_in_torch(name, dtype):
    if name == "diag_embed" and not hasattr(paddle.nn.functional, name):
        pytest.skip("this Paddle has it elsewhere")
    x, theirs = pair(dtype)
    ours, twin = CHOSEN[name]
    with padiff_shim.reference("torch"):
        result = ours(x)
    assert alike(result, twin(theirs))


MOVED = {  # beside the ops of the table: see test_halves.py
    "crop": (lambda x: paddle.crop(x, [2, 2], [1, 1]), lambda x: x[1:3, 1:3]),
    "gather": (lambda x: x[:, [0, 0, 3]], lambda x: x[:, [0, 0, 3]]),
    "mask": (lambda x: x[x > 0], lambda x: x[x > 0]),
    "casts": (lambda x: x.astype("float32") * 0.1, lambda x: x.float() * 0.1),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", MOVED)
def test_moved_with_torchs_gradients(name, dtype):
    x, theirs = pair(dtype, grad=True)
    ours, twin = MOVED[name]
    expected = twin(theirs)
    expected.backward(torch.full_like(expected, 0.75))
    with padiff_shim.reference("torch") as run:
        result = ours(x)
        result.backward(paddle.full(result.shape, 0.75, result.dtype))
    assert run.native == {}
    assert alike(result, expected)
    assert alike(x.grad, theirs.grad)


WRITTEN = {
    "an item": (lambda x: x.__setitem__(1, 0.5), lambda x: x.__setitem__(1, 0.5)),
    "behind a mask": (lambda x: x.__setitem__(x > 0, 0.0), lambda x: x.__setitem__(x > 0, 0.0)),
    "a column": (
        lambda x: x.__setitem__((slice(None), 0), x[:, 1] * 2),
        lambda x: x.__setitem__((slice(None), 0), x[:, 1] * 2),
    ),
    "add_": (lambda x: x.add_(x * 0.5), lambda x: x.add_(x * 0.5)),
    "clip_": (lambda x: x.clip_(-1.0, 1.0), lambda x: x.clamp_(-1.0, 1.0)),
    "scale_": (lambda x: x.scale_(3.0), lambda x: x.mul_(3.0)),
    "fill_": (lambda x: x.fill_(2.0), lambda x: x.fill_(2.0)),
    "increment": (lambda x: paddle.increment(x[0, 0:1], 1.0), lambda x: x[0, 0:1].add_(1.0)),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", WRITTEN)
def test_written_as_in_torch(name, dtype, grad):
    if name == "increment" and not IS_3:
        pytest.skip("a slice of Paddle 2.6 is a copy")
    x, theirs = pair(dtype, grad=grad)
    ours, twin = WRITTEN[name]
    with padiff_shim.reference("torch"):
        result = x * 1.0
        ours(result)
        if grad:
            (result * 1.0).sum().backward()
    expected = theirs * 1.0
    twin(expected)
    assert alike(result, expected)
    if grad:
        (expected * 1.0).sum().backward()
        assert alike(x.grad, theirs.grad)


IN_PLACE = {
    "put_along_axis_": lambda x: x.put_along_axis_(paddle.to_tensor([[0], [1], [2]]), x[:, 3:4] * 1.0, 1),
    "where_": lambda x: paddle.where_(x > 0, x, x * 0.5),
    "tril_": lambda x: x.tril_(),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name.strip("_"))) for name in IN_PLACE])
def test_written_in_place_where_there_is_no_kernel(name, dtype):
    if not hasattr(paddle, name):
        pytest.skip("this Paddle has no such function")
    wide = paddle.to_tensor(VALUES)
    IN_PLACE[name](wide)
    with padiff_shim.reference("torch"):
        x, _ = pair(dtype)
        memory, version = x.data_ptr(), x.inplace_version
        IN_PLACE[name](x)
    assert (x.dtype, x.data_ptr()) == (getattr(paddle, dtype), memory)
    assert x.inplace_version > version
    assert np.array_equal(array(x).astype("float32"), wide.numpy())


@pytest.mark.parametrize("dtype", HALVES)
def test_tensors_without_elements(dtype):
    """An expert without tokens: Paddle's own rules, which it has in float32."""
    x, w = paddle.zeros([0, 4]).astype(dtype), paddle.ones([4, 3]).astype(dtype)
    w.stop_gradient = False
    if outcome_of(lambda: paddle.nn.functional.relu(paddle.zeros([0, 4]))) is not None:
        pytest.skip("this Paddle refuses tensors without elements")
    with padiff_shim.reference("torch"):
        result = paddle.nn.functional.relu(x)
        product = paddle.matmul(x, w) if IS_3 else result
    assert (result.shape, result.dtype) == ([0, 4], getattr(paddle, dtype))
    assert product.dtype == getattr(paddle, dtype)


def outcome_of(function):
    try:
        function()
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("dtype", HALVES)
def test_printed(dtype):
    x, _ = pair(dtype)
    with padiff_shim.reference("torch"):
        assert dtype in str(x)
        assert "1.5" in str(x * 1.0)
        assert float(x[0, 0]) == 1.5
        assert x[0].astype("float32").tolist() == [1.5, -0.25, 3.0, 0.0]
        assert bool((x > 0).any())
