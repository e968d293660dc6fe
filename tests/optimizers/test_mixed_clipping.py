"""Gradients of several dtypes, as of a router in float32 beside weights in bfloat16, clipped by Torch's definition."""

import numpy as np
import paddle
import pytest
import torch
from helpers import same

import padiff_shim

pytestmark = [pytest.mark.bitexact]
SHAPES = {"bfloat16": [(6, 5), (7,)], "float32": [(4, 3), (5,)]}


def pairs():
    rng = np.random.default_rng(0)
    for place in (0, 1):
        for dtype, shapes in SHAPES.items():
            values = torch.from_numpy(3 * rng.standard_normal(shapes[place])).to(getattr(torch, dtype))
            mine = paddle.to_tensor(values.float().numpy()).astype(dtype)
            mine.stop_gradient = False
            yield mine, values.requires_grad_()


@pytest.mark.parametrize("limit", [1.0, 1e6])
def test_torchs_bits(limit):
    leaves = list(pairs())
    clip = paddle.nn.ClipGradByGlobalNorm(limit)
    with padiff_shim.reference("torch", optimizer="torch") as run:
        sum((mine.astype("float32") ** 2).sum() for mine, _ in leaves).backward()
        clipped = clip([(mine, mine.grad) for mine, _ in leaves])
    sum((other.float() ** 2).sum() for _, other in leaves).backward()
    torch.nn.utils.clip_grad_norm_([other for _, other in leaves], limit)
    assert all(same(grad, other.grad) for (_, grad), (_, other) in zip(clipped, leaves, strict=True))
    assert run.optimizers == {"clip_grad_by_global_norm": {"torch": 1}}
    assert not run.native


def test_paddles_definition_is_left_to_paddle():
    leaves = list(pairs())
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    with padiff_shim.reference("torch") as run:
        sum((mine.astype("float32") ** 2).sum() for mine, _ in leaves).backward()
        clip([(mine, mine.grad) for mine, _ in leaves])
    assert "clip_grad_by_global_norm" in run.native
