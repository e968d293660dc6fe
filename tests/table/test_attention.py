"""Attention under the shim is Torch's function bit for bit: masks of booleans, groups of heads, three axes."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch

import padiff_shim
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.reasons import RANDOM
from padiff_shim.torch_versions import VERSION

pytestmark = pytest.mark.bitexact


def operands(*shapes):
    rng = np.random.RandomState(0)
    return [rng.randn(*shape).astype("float32") for shape in shapes]


def compared(values, ours, theirs):
    """Result and gradients of both, bit for bit; the run."""
    mine = [paddle.to_tensor(value, stop_gradient=False) for value in values]
    with padiff_shim.reference("torch") as run:
        result = ours(*mine)
        (result * result).sum().backward()
    others = [torch.from_numpy(value).requires_grad_() for value in values]
    expected = theirs(*others)
    (expected * expected).sum().backward()
    assert result.numpy().tobytes() == expected.detach().contiguous().numpy().tobytes()
    for leaf, other in zip(mine, others):
        assert leaf.grad.numpy().tobytes() == other.grad.contiguous().numpy().tobytes()
    return run


def turned(function):
    """A Torch function of [batch, heads, length, size] for operands as Paddle has them."""
    return lambda *sides: function(*(side.transpose(1, 2) for side in sides)).transpose(1, 2)


@pytest.mark.compat
def test_a_mask_of_booleans():
    mask = np.tril(np.ones((5, 5), bool))[None, None].repeat(2, 0)
    run = compared(
        operands(*[(2, 5, 4, 8)] * 3),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=paddle.to_tensor(mask)),
        turned(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, torch.from_numpy(mask))),
    )
    if IS_3:  # 2.6 casts the mask, and adds it
        assert run.substituted["scaled_dot_product_attention"] == 1


def grouped(q, k, v):
    """Fewer heads of keys and values than of queries; before Torch 2.5 each program repeats them."""
    if VERSION >= (2, 5):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    return torch.nn.functional.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))


@pytest.mark.skipif(not IS_3, reason="2.6 has neither")
def test_groups_of_heads_and_three_axes():
    run = compared(
        operands((2, 5, 4, 8), (2, 5, 2, 8), (2, 5, 2, 8)),
        F.scaled_dot_product_attention,
        turned(grouped),
    )
    assert run.substituted["scaled_dot_product_attention"] == 1
    compared(
        operands(*[(5, 4, 8)] * 3),
        F.scaled_dot_product_attention,
        lambda *sides: torch.nn.functional.scaled_dot_product_attention(*(s[None].transpose(1, 2) for s in sides)).transpose(1, 2)[
            0
        ],
    )


@pytest.mark.compat
def test_dropout_stays_native_with_its_reason():
    q, k, v = map(paddle.to_tensor, operands(*[(2, 5, 4, 8)] * 3))
    with padiff_shim.reference("torch") as run:
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    (why,) = run.native["scaled_dot_product_attention"]
    assert why == RANDOM.text


@pytest.mark.compat
@pytest.mark.parametrize("kind", ["numbers", "booleans"])
def test_a_mask_beside_is_causal_counts(kind):
    document = np.array([0, 0, 1, 1, 1])
    apart = (document[:, None] == document)[None, None].repeat(2, 0)
    both = torch.from_numpy(apart & np.tril(np.ones((5, 5), bool)))
    mask = apart if kind == "booleans" else np.where(apart, 0.0, -np.inf).astype("float32")
    theirs = both if kind == "booleans" else torch.zeros(both.shape).masked_fill(~both, -torch.inf)
    run = compared(
        operands(*[(2, 5, 4, 8)] * 3),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, paddle.to_tensor(mask), is_causal=True),
        turned(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, theirs)),
    )
    if IS_3:
        assert ["attn_mask" in warning for warning in run.warnings] == [True]
