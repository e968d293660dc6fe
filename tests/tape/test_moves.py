"""Movement between ops: what Torch's strides decide, and programs whose every step moves values."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import same

import padiff_shim
from padiff_shim.frameworks.memory import as_operand
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.reasons import INTEGER

pytestmark = [pytest.mark.bitexact, pytest.mark.compat, pytest.mark.usefixtures("undone")]


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


ROWS = np.array([2, 0, 2, 1])
MASK = np.array([True, False, True])
INDICES = {  # an index as both frameworks take it
    "tensor": lambda tensor: tensor(ROWS),
    "list": lambda tensor: [2, 0],
    "rows and all": lambda tensor: (tensor(ROWS), slice(None), 1),
    "behind a slice": lambda tensor: (slice(None), tensor(ROWS % 2)),
    "around a slice": lambda tensor: (tensor(ROWS), slice(None), tensor(ROWS)),
    "two": lambda tensor: (tensor(ROWS), tensor(ROWS)),
    "broadcast": lambda tensor: (tensor(ROWS)[:, None], tensor(ROWS)),
    "mask": lambda tensor: tensor(MASK),
    "full mask": lambda tensor: tensor(values(3, 4, 5) > 0),
    "after dots": lambda tensor: (Ellipsis, tensor(ROWS)),
    "new axis": lambda tensor: (None, tensor(ROWS)),
    "negative": lambda tensor: tensor(-1 - ROWS),
}


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool", "float64"])
@pytest.mark.parametrize("name", ["tensor", "behind a slice", "two", "around a slice", "mask"])
def test_elements_of_a_strided_tensor_are_those_asked_for(name, dtype):
    array = (values(5, 4, 3) * 10).astype(dtype)
    strided = array.transpose(2, 1, 0)
    with padiff_shim.reference("torch") as run:
        result = paddle.to_tensor(array).transpose([2, 1, 0])[INDICES[name](paddle.to_tensor)]
    assert same(result, strided[INDICES[name](np.array)])
    assert run.native == {}


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("wanted", [False, True], ids=["no gradient", "gradient"])
@pytest.mark.parametrize("name", INDICES)
def test_reading_at_indices(name, wanted, strided):
    ours, theirs = INDICES[name](paddle.to_tensor), INDICES[name](torch.tensor)
    array = values(3, 4, 5)
    x, t = paddle.to_tensor(array, stop_gradient=not wanted), torch.tensor(array, requires_grad=wanted)
    with padiff_shim.reference("torch") as run:
        base, twin = x * 2.0, t * 2.0
        if strided:
            base, twin = base.transpose([2, 1, 0]), twin.permute(2, 1, 0)
            if "mask" in name:
                base, twin = base.transpose([2, 1, 0]), twin.permute(2, 1, 0)
        result, side = base[ours], twin[theirs]
        assert same(result.detach(), side)
        assert result.is_contiguous()
        if wanted:
            (F.softmax(result, -1) * result).sum().backward()
        else:
            assert list(as_operand(result).stride()) == list(side.stride())
    assert run.native == {}
    if wanted:
        (torch.softmax(side, -1) * side).sum().backward()
        assert same(x.grad, t.grad)


def test_an_index_that_changes_before_the_backward_raises():
    x = paddle.to_tensor(values(3, 4), stop_gradient=False)
    with padiff_shim.reference("torch"):
        index = paddle.to_tensor(ROWS)
        result = paddle.exp(x)[index]
        index.scale_(0.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


@pytest.mark.parametrize("index", [(0, 0, 0, 0), "a"])
def test_a_wrong_index_is_refused_as_natively(index):
    x = paddle.to_tensor(values(3, 4), stop_gradient=False)
    with pytest.raises(Exception) as native:
        x[index]
    with padiff_shim.reference("torch"), pytest.raises(native.type):
        paddle.tanh(x)[index]


@pytest.mark.parametrize("wanted", [False, True], ids=["no gradient", "gradient"])
def test_heads_are_merged_by_torch(wanted):
    array, weight = values(2, 6, 16), values(16, 48, seed=1)

    def heads(x, split, merge, mean, softmax):
        q, k, v = split(x)
        q, k, v = (merge(part, [2, 6, 4, 4], [0, 2, 1, 3]) for part in (q, k, v))
        result = softmax(q @ merge(k, None, [0, 1, 3, 2])) @ v
        return merge(merge(result, None, [0, 2, 1, 3]), [2, 6, 16], None), mean(q)

    def ours(tensor, shape, axes):
        tensor = tensor if shape is None else tensor.reshape(shape)
        return tensor if axes is None else tensor.transpose(axes)

    def theirs(tensor, shape, axes):
        tensor = tensor if shape is None else tensor.reshape(shape)
        return tensor if axes is None else tensor.permute(axes)

    x, t = paddle.to_tensor(array, stop_gradient=not wanted), torch.tensor(array, requires_grad=wanted)
    with padiff_shim.reference("torch") as run:
        y = paddle.matmul(x, paddle.to_tensor(weight))
        out, means = heads(y, lambda y: paddle.split(y, 3, -1 if IS_3 else 2), ours, lambda q: q.mean([0, 2]), F.softmax)
        if wanted:
            ((out * out).sum() + means.sum()).backward()
    side, other = heads(
        torch.matmul(t, torch.tensor(weight)), lambda y: y.chunk(3, -1), theirs, lambda q: q.mean((0, 2)), lambda s: s.softmax(-1)
    )
    assert same(out.detach(), side)
    assert same(means.detach(), other)
    assert out.is_contiguous()
    assert run.native == {}
    if wanted:
        ((side * side).sum() + other.sum()).backward()
        assert same(x.grad, t.grad)


class Ours:
    """The words of the program below in Paddle."""

    tensor, matmul, cat, stack, argsort = paddle.to_tensor, paddle.matmul, paddle.concat, paddle.stack, paddle.argsort
    exp, logsumexp, tile = paddle.exp, paddle.logsumexp, paddle.tile
    permute = staticmethod(lambda x, axes: x.transpose(axes))
    take = staticmethod(lambda x, index, axis: paddle.take_along_axis(x, index, axis))
    where = staticmethod(lambda mask, x, value: paddle.where(mask, x, paddle.full_like(x, value)))
    expand = staticmethod(lambda x, shape: x.expand(shape))
    integer = staticmethod(lambda x: x.astype("int64"))
    mean = staticmethod(lambda x, axis: x.mean(axis, keepdim=True))


class Theirs:
    """The same in Torch."""

    tensor, matmul, cat, stack, argsort = torch.tensor, torch.matmul, torch.cat, torch.stack, torch.argsort
    exp, tile = torch.exp, torch.tile
    logsumexp = staticmethod(lambda x, axis, keepdim: torch.logsumexp(x, axis, keepdim))
    permute = staticmethod(lambda x, axes: x.permute(axes))
    take = staticmethod(lambda x, index, axis: torch.gather(x, axis, index))
    where = staticmethod(lambda mask, x, value: torch.where(mask, x, torch.full_like(x, value)))
    expand = staticmethod(lambda x, shape: x.expand(shape))
    integer = staticmethod(lambda x: x.long())
    mean = staticmethod(lambda x, axis: x.mean(axis, keepdim=True))


def lsh_attention(f, hidden, weight, rotations, buckets):
    """Attention within sorted chunks, and each chunk's neighbour, as a Reformer's LSH layers do it."""
    batch, length, width = 2, 16, 8
    heads, size, chunk = 2, 4, 4
    both = f.matmul(hidden, weight)
    query, value = both[:, :, :width], both[:, :, width:]
    query, value = (f.permute(part.reshape([batch, length, heads, size]), [0, 2, 1, 3]) for part in (query, value))
    order = f.argsort(f.integer(f.tensor(buckets)) * length + f.tensor(np.arange(length)), -1)
    back = f.argsort(order, -1)
    at = f.expand(order.reshape([batch, heads, length, 1]), [batch, heads, length, size])
    query, value = f.take(query, at, 2), f.take(value, at, 2)
    scale = f.mean(query * query, -1)
    key = query / (scale + 1e-6) ** 0.5
    chunks = [part.reshape([batch, heads, length // chunk, chunk, size]) for part in (query, key, value)]
    near = [f.cat([part, f.cat([part[:, :, -1:], part[:, :, :-1]], 2)], 3) for part in chunks[1:]]
    scores = f.matmul(chunks[0], f.permute(near[0], [0, 1, 2, 4, 3]))
    places = order.reshape([batch, heads, length // chunk, chunk])
    beside = f.cat([places, f.cat([places[:, :, -1:], places[:, :, :-1]], 2)], 3)
    scores = f.where(places.reshape([batch, heads, -1, chunk, 1]) != beside.reshape([batch, heads, -1, 1, 2 * chunk]), scores, -1e5)
    logits = f.logsumexp(scores.reshape([batch * heads, -1, chunk, 2 * chunk]), -1, True).reshape([batch, heads, -1, chunk, 1])
    result = f.matmul(f.exp(scores - logits), near[1])
    result, logits = result.reshape([batch, heads, length, size]), logits.reshape([batch, heads, length, 1])
    home = f.expand(back.reshape([batch, heads, length, 1]), [batch, heads, length, size])
    result, logits = f.take(result, home, 2), f.take(logits, home[:, :, :, :1], 2)
    rounds = f.stack([result, result * 0.5], 2)
    weights = f.stack([logits, logits - 1.0], 2)
    total = f.logsumexp(weights.reshape([batch * heads, 2, length, 1]), 1, True)
    weights = f.exp(weights - total.reshape([batch, heads, 1, length, 1]))
    merged = (rounds * f.expand(weights, [batch, heads, 2, length, size])).sum(2)
    turned = f.permute(merged, [0, 2, 1, 3]).reshape([batch, length, width])
    return f.cat([turned, hidden], -1) * f.tile(f.tensor(rotations), [1, 2])


def test_sorted_attention_is_torchs_to_the_bit():
    arrays = values(2, 16, 8), values(8, 16, seed=1)
    rotations, buckets = values(16, 8, seed=2), np.random.default_rng(3).integers(0, 4, (2, 2, 16))
    mine = [paddle.to_tensor(array, stop_gradient=False) for array in arrays]
    sides = [torch.tensor(array, requires_grad=True) for array in arrays]
    with padiff_shim.reference("torch") as run:
        out = lsh_attention(Ours, *mine, rotations, buckets)
        again = lsh_attention(Ours, out[:, :, 4:12], mine[1], rotations, buckets)
        (again * again).mean([0, 1]).sum().backward()
    side = lsh_attention(Theirs, *sides, rotations, buckets)
    other = lsh_attention(Theirs, side[:, :, 4:12], sides[1], rotations, buckets)
    (other * other).mean((0, 1)).sum().backward()
    assert {reason for reasons in run.native.values() for reason in reasons} <= {INTEGER.text}
    assert same(out.detach(), side)
    assert same(again.detach(), other)
    for tensor, twin in zip(mine, sides):
        assert same(tensor.grad, twin.grad)


def turned(tensor):
    """The last two axes of three exchanged."""
    return tensor.permute(0, 2, 1) if isinstance(tensor, torch.Tensor) else tensor.transpose([0, 2, 1])


def added_up(module, x, weight, laid):
    """A sum of gradients whose order shows in the last bits; ``laid``: what happens to a transposed tensor on its way."""
    hidden = module.matmul(x, weight)
    other = turned(laid(turned(hidden * 0.5)))
    return ((hidden + other * (module.tanh(hidden) * module.exp(hidden * 0.1))) * module.sin(hidden)).sum()


@pytest.mark.parametrize("repeats", [1, 3])
def test_contiguous_is_on_the_tape(repeats):
    def laid(tensor):
        for _ in range(repeats):
            tensor = turned(turned(tensor.contiguous()))
        return tensor.contiguous()

    arrays = values(4, 64, 64), values(64, 64, seed=1)
    theirs = [torch.tensor(array, requires_grad=True) for array in arrays]
    added_up(torch, *theirs, laid).backward()
    ours = [paddle.to_tensor(array, stop_gradient=False) for array in arrays]
    with padiff_shim.reference("torch") as run:
        added_up(paddle, *ours, laid).backward()
    assert run.native == {}
    for mine, side in zip(ours, theirs):
        assert same(mine.grad, side.grad)


@pytest.mark.parametrize("wanted", [False, True], ids=["no gradient", "gradient"])
def test_contiguous_of_what_lies_so_is_the_tensor_itself(wanted):
    x = paddle.to_tensor(values(3, 4), stop_gradient=not wanted)
    with padiff_shim.reference("torch"):
        y = x * 2.0
        assert y.contiguous() is y
        assert x.contiguous() is x
        view = y.transpose([1, 0])
        lying = view.contiguous()
        assert lying.is_contiguous()
        assert not view.is_contiguous()
        assert (lying.stop_gradient, lying.is_leaf) == (not wanted, not wanted)
        assert same(lying.detach(), torch.tensor(view.numpy()))
