"""Ops that Paddle has for other devices only: on a CPU they run on Torch's formula, which is held against NumPy in float64."""

import numpy as np
import paddle
import pytest
import torch
import torch.nn.functional as TF
from helpers import Call, array, entries, flat, needs, same
from trials import arriving, differentiable, formula, outcome, trials, wanted

import padiff_shim
from padiff_shim.dispatch.dtypes import has_kernel
from padiff_shim.torch_versions import VERSION

incubate = pytest.importorskip("paddle.incubate.nn.functional")
pytestmark = [pytest.mark.bitexact, pytest.mark.skipif(paddle.is_compiled_with_cuda(), reason="this Paddle has these kernels")]

DOORS = {entry.target: (op, entry) for op, entry in entries() if not op.limits.cpu and op.samples}
HALVES = ("bfloat16", "float16")
RNG = np.random.default_rng(7)
NEWER = needs("incubate.nn.functional.fused_rms_norm_ext")  # 2.6 reaches its fused linear layers otherwise, too


def test_they_are_known_to_have_no_kernel():
    assert DOORS
    assert not any(has_kernel(op) for op, _ in DOORS.values())


@pytest.mark.parametrize("target", DOORS)
def test_torchs_bits_forward_and_backward(target):
    op, entry = DOORS[target]
    tried = 0
    for trial in trials(op, entry):
        dtype = trial[1]
        expected, leaves = formula(Call(op, entry, *trial, grad=True), grad=True)
        if expected is None:
            continue
        _, error = outcome(Call(op, entry, *trial).run)
        assert error is not None or op.name == "fused_linear", trial  # without a bias that is a product
        call = Call(op, entry, *trial, grad=True)
        with padiff_shim.reference("torch", strict=True) as run:
            results = call.run()
            ends = [result for result in differentiable(results) if result._is_initialized()]
            seeds = arriving(ends, dtype)
            if op.gradient:
                paddle.autograd.backward(ends, seeds)
        assert run.substituted == {op.name: 1}
        assert run.without_kernel == {op.name: {dtype: 1}}
        mine = [result.detach() for result in flat(results) if result._is_initialized()]
        assert all(same(result, other) for result, other in zip(mine, flat(expected), strict=True)), trial
        tried += 1
        if not op.gradient:
            assert not ends
            continue
        roots, sources = [end for end in flat(expected) if end.requires_grad], wanted(leaves)
        torchs = [torch.from_numpy(array(seed)).to(root.dtype) for root, seed in zip(roots, seeds, strict=True)]
        for leaf, source, other in zip(
            wanted(call.tensors), sources, torch.autograd.grad(roots, sources, torchs, allow_unused=True)
        ):
            if other is None:  # sines, cosines
                assert leaf.grad is None or not array(leaf.grad).any(), trial
            else:
                assert same(leaf.grad, other.t() if op.layouts and source is leaves[1] else other), trial
    assert tried


def ran(function, *arrays, dtype="float32", **options):
    """Results of a Paddle function under the shim, in float64."""
    tensors = [value if value is None else paddle.to_tensor(value) for value in arrays]
    tensors = [tensor.astype(dtype) if tensor is not None and tensor.is_floating_point() else tensor for tensor in tensors]
    with padiff_shim.reference("torch", strict=True):
        results = function(*tensors, **options)
    return [array(result).astype("float64") for result in flat(results) if result._is_initialized()]


def near(mine, exact, dtype="float32"):
    return np.abs(mine - exact).max() <= 4 * {"float32": 2.0**-24, "bfloat16": 2.0**-8}[dtype] * np.abs(exact).max()


def halved(*shape):
    """Numbers that bfloat16 holds."""
    return torch.from_numpy(RNG.standard_normal(shape)).bfloat16().float().numpy()


@NEWER
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rms_norm_is_the_documented_one(dtype):
    x, weight = halved(3, 5, 16), halved(16)
    wide = x.astype("float64")
    reciprocals = 1 / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6)
    exact = wide * reciprocals * weight
    y, invvar = ran(incubate.fused_rms_norm_ext, x, weight, dtype=dtype, epsilon=1e-6)
    assert near(y, exact, dtype)
    assert invvar.shape == (15,)
    assert near(invvar, reciprocals.reshape(-1))
    if hasattr(paddle.nn.functional, "rms_norm"):
        again = ran(lambda *operands: paddle.nn.functional.rms_norm(operands[0], [16], operands[1], 1e-6), x, weight, dtype=dtype)
        assert np.array_equal(again[0], y)
    # Rounded once, as Torch does since 2.9: the nearest numbers of 16 bits.
    once = torch.from_numpy(exact).to(getattr(torch, dtype)).double().numpy()
    assert (y != once).mean() < 0.01 or dtype == "float32" or VERSION < (2, 9)


@NEWER
def test_a_norm_has_the_dtype_of_its_weight():
    x, weight = paddle.to_tensor(halved(3, 16)), paddle.to_tensor(halved(16)).astype("bfloat16")
    with padiff_shim.reference("torch", strict=True):
        y, invvar = incubate.fused_rms_norm_ext(x, weight)
    assert y.dtype == paddle.bfloat16
    assert invvar.dtype == paddle.float32


@pytest.mark.parametrize("neighbours", [True, False])
@pytest.mark.parametrize("placed", [True, False])
def test_a_rotation_turns_pairs(neighbours, placed):
    q, k, sin, cos = halved(2, 5, 3, 8), halved(2, 5, 1, 8), halved(1, 5, 1, 8), halved(1, 5, 1, 8)
    positions = RNG.integers(0, 5, (2, 5)) if placed else None
    tables = [(table[0, :, 0][positions] if placed else table[0, :, 0][None])[:, :, None] for table in (sin, cos)]
    results = ran(incubate.fused_rotary_position_embedding, q, k, None, sin, cos, positions, use_neox_rotary_style=neighbours)
    assert len(results) == 2  # there is none of v
    for x, mine in zip((q, k), results):
        wide = x.astype("float64")
        rotated = np.empty_like(wide)
        if neighbours:
            rotated[..., ::2], rotated[..., 1::2] = -wide[..., 1::2], wide[..., ::2]
        else:
            rotated[..., :4], rotated[..., 4:] = -wide[..., 4:], wide[..., :4]
        assert near(mine, wide * tables[1] + rotated * tables[0])


@NEWER
def test_a_linear_layer_in_both_layouts():
    x, weight, bias = halved(4, 6), halved(6, 5), halved(5)
    exact = x.astype("float64") @ weight + bias
    straight = ran(incubate.fused_linear, x, weight, bias)[0]
    turned = ran(incubate.fused_linear, x, np.ascontiguousarray(weight.T), bias, transpose_weight=True)[0]
    assert near(straight, exact)
    assert near(turned, exact)
    assert near(ran(incubate.fused_linear_activation, x, weight, bias, activation="relu")[0], exact.clip(0))


@NEWER
def test_a_gated_activation():
    x, bias = halved(4, 8), halved(8)
    gate, values = np.split((x + bias).astype("float64"), 2, -1)
    result = ran(incubate.fused_bias_act, x, bias, act_method="swiglu")[0]
    assert near(result, gate / (1 + np.exp(-gate)) * values)


@NEWER
def test_a_weight_of_another_shape_has_paddles_error():
    with padiff_shim.reference("torch") as run, pytest.raises(RuntimeError, match="not registered"):
        incubate.fused_rms_norm_ext(paddle.ones([3, 8]), paddle.ones([7]))
    assert not run.substituted


@NEWER
def test_paddles_error_where_it_is_asked_for():
    with padiff_shim.reference("torch", kernels="paddle"), pytest.raises(RuntimeError, match="not registered"):
        incubate.fused_rms_norm_ext(paddle.ones([3, 8]), paddle.ones([8]))


# A block as a port writes it, and its twin.
LENGTH, HEADS, SIZE = 6, 2, 8
WIDTH = HEADS * SIZE


def paddles_block(x, weights, sin, cos):
    norm, qkv, out, gate_up, down = weights
    swiglu = paddle.nn.functional.swiglu if hasattr(paddle.nn.functional, "swiglu") else incubate.swiglu
    y = incubate.fused_rms_norm_ext(x, norm, 1e-6)[0]
    q, k, v = paddle.split(paddle.nn.functional.linear(y, qkv).reshape([2, LENGTH, HEADS, 3 * SIZE]), 3, axis=-1)
    q, k, _ = incubate.fused_rotary_position_embedding(q, k, None, sin, cos, use_neox_rotary_style=False)
    attended = paddle.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + incubate.fused_linear(attended.reshape([2, LENGTH, WIDTH]), out)
    y = incubate.fused_rms_norm_ext(x, norm, 1e-6)[0]
    return x + paddle.nn.functional.linear(swiglu(paddle.nn.functional.linear(y, gate_up)), down)


def torchs_block(x, weights, sin, cos):
    norm, qkv, out, gate_up, down = weights
    y = TF.rms_norm(x, [WIDTH], norm, 1e-6)
    q, k, v = TF.linear(y, qkv).reshape(2, LENGTH, HEADS, 3 * SIZE).chunk(3, -1)
    q, k = (turned(part, sin, cos) for part in (q, k))
    attended = TF.scaled_dot_product_attention(*(part.transpose(1, 2) for part in (q, k, v)), is_causal=True)
    x = x + TF.linear(attended.transpose(1, 2).reshape(2, LENGTH, WIDTH), out)
    y = TF.rms_norm(x, [WIDTH], norm, 1e-6)
    gate, up = TF.linear(y, gate_up).chunk(2, -1)
    return x + TF.linear(TF.silu(gate) * up, down)


def turned(x, sin, cos):
    """A rotation of halves in float32."""
    wide = x.float()
    first, second = wide.chunk(2, -1)
    return (wide * cos.float() + torch.cat((-second, first), -1) * sin.float()).to(x.dtype)


@NEWER
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_block_of_a_llama_is_its_twins_bit_for_bit(dtype):
    shapes = [(WIDTH,), (3 * WIDTH, WIDTH), (WIDTH, WIDTH), (4 * WIDTH, WIDTH), (WIDTH, 2 * WIDTH)]
    arrays = [halved(*shape) / 2 + (len(shape) == 1) for shape in shapes]
    x, sin, cos = halved(2, LENGTH, WIDTH), *(np.tile(halved(1, LENGTH, 1, SIZE // 2), 2) for _ in range(2))
    narrow = getattr(torch, dtype)
    leaves = [torch.from_numpy(array).to(narrow).requires_grad_() for array in (x, *arrays)]
    result = torchs_block(leaves[0], leaves[1:], *(torch.from_numpy(table).to(narrow) for table in (sin, cos)))
    result.float().square().sum().backward()
    paddles = [
        paddle.to_tensor(np.ascontiguousarray(value.T) if value.ndim == 2 else value).astype(dtype) for value in (x, *arrays)
    ]
    for leaf in paddles:
        leaf.stop_gradient = False
    with padiff_shim.reference("torch", strict=True) as run:
        for _ in range(2):  # what the first run learns serves the second
            for leaf in paddles:
                leaf.clear_gradient()
            mine = paddles_block(paddles[0], paddles[1:], *(paddle.to_tensor(table).astype(dtype) for table in (sin, cos)))
            mine.astype("float32").square().sum().backward()
    assert run.without_kernel["fused_rms_norm_ext"] == {dtype: 4}
    assert same(mine.detach(), result)
    for leaf, other in zip(paddles, leaves):
        assert same(leaf.grad, other.grad.t() if other.ndim == 2 else other.grad)


BOUNDS = {  # causal, bounds of each column -> which rows see which columns
    "sentences of 2 and 4": (True, [[2], [2], [6], [6], [6], [6]], lambda row, column: column <= row and (row < 2 or column >= 2)),
    "rows 2 and 3 skip the first column": (
        True,
        [[2, 4], *[[6, 6]] * 5],
        lambda row, column: column <= row and not (column == 0 and row in (2, 3)),
    ),
    "a window around the diagonal": (
        False,
        [[column + 2, column - 1] for column in range(6)],
        lambda row, column: abs(row - column) < 2,
    ),
    "two bands": (False, [[4, 6, 0, 1]] * 6, lambda row, column: 1 <= row < 4),
}
attention = paddle.nn.functional.flash_attention


def seen(query, key, value, mask):
    """Attention by its definition in float64."""
    scores = np.einsum("brhd,bchd->bhrc", query, key) / np.sqrt(query.shape[-1])
    weights = np.exp(np.where(mask, scores, -np.inf))
    return np.einsum("bhrc,bchd->brhd", weights / weights.sum(-1, keepdims=True), value)


@pytest.mark.skipif(not hasattr(attention, "flashmask_attention"), reason="this Paddle has no flashmask")
@pytest.mark.parametrize("name", BOUNDS)
def test_masks_by_the_bounds_of_columns(name):
    causal, bounds, sees = BOUNDS[name]
    mask = np.array([[sees(row, column) for column in range(6)] for row in range(6)])
    query, key, value = (halved(2, 6, 2, 8) for _ in range(3))
    rows = mask.any(-1)
    tensors = [paddle.to_tensor(array, stop_gradient=False) for array in (query, key, value)]
    with padiff_shim.reference("torch", strict=True) as run:
        mine = attention.flashmask_attention(
            *tensors, paddle.to_tensor(np.array(bounds, "int32")[None, None]).tile([2, 1, 1, 1]), causal=causal
        )
        mine[:, : int(rows.sum())].sum().backward()
    assert run.substituted["flashmask_attention"] == 1
    wide = [array.astype("float64") for array in (query, key, value)]
    assert near(array(mine)[:, rows], seen(wide[0][:, rows], *wide[1:], mask[rows]))
    assert all(tensor.grad is not None for tensor in tensors)


@pytest.mark.skipif(not hasattr(attention, "flash_attn_unpadded"), reason="this Paddle has no attention of packed sequences")
def test_packed_sequences_do_not_see_each_other():
    query, key, value = (halved(7, 2, 8) for _ in range(3))
    ends = np.array([0, 3, 7], "int32")
    options = {"scale": 0.3, "causal": True}
    with padiff_shim.reference("torch", strict=True) as run:
        tensors = [paddle.to_tensor(array) for array in (query, key, value, ends, ends)]
        mine, weights = attention.flash_attn_unpadded(*tensors, 4, 4, **options)
    assert weights is None
    assert run.substituted == {"flash_attn_unpadded": 1}
    for start, end in ((0, 3), (3, 7)):
        sides = [torch.from_numpy(array[start:end]).transpose(0, 1)[None] for array in (query, key, value)]
        expected = TF.scaled_dot_product_attention(*sides, is_causal=True, scale=0.3)[0].transpose(0, 1)
        assert same(mine[start:end], expected)
