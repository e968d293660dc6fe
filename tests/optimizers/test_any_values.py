"""Steps have the bits of Torch's twin, whatever the parameters' shapes, dtypes and values."""

import math

import numpy as np
import paddle
import pytest
import torch
from helpers import same
from hypothesis import given, settings, strategies as st
from trainings import AMSGRAD, KINDS, RATE

import padiff_shim

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
LARGE = (33000,)
ODD = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-40, 3e38, 1e-20, 1e-8])
shapes = st.lists(st.one_of(st.lists(st.integers(1, 40), max_size=3).map(tuple), st.just(LARGE)), min_size=1, max_size=6)


def values(rng, shape, odd):
    """Numbers of all sizes, some of them ones that few programs have."""
    count = min(math.prod(shape), 499)  # a large tensor repeats them
    result = rng.standard_normal(count) * 10.0 ** rng.integers(-6, 3, count)
    if odd:
        result = np.where(rng.random(count) < 0.1, rng.choice(ODD, count), result)
    return np.resize(result, shape)


def words_of(kind):
    """Optimizer, its options in both frameworks, one of them with decay."""
    return {"weight_decay": 0.03} if kind not in ("no momentum", "rprop") else {}


@pytest.mark.rows(5)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(
    shapes=shapes,
    seed=st.integers(0, 2**32 - 1),
    double=st.booleans(),
    odd=st.booleans(),
    decays=st.booleans(),
    amsgrad=st.booleans(),
)
def test_steps_made_again_have_the_twins_bits(kind, shapes, seed, double, odd, decays, amsgrad):
    shapes = [shape or (1,) for shape in shapes] if kind == "rprop" else shapes  # Paddle's refuses tensors without axes
    more = {**(words_of(kind) if decays else {}), **({"amsgrad": True} if amsgrad and kind in AMSGRAD else {})}
    dtype, rng = "float64" if double else "float32", np.random.default_rng(seed)
    begin = [values(rng, shape, False).astype(dtype) for shape in shapes]
    ours = [paddle.base.framework.EagerParamBase.from_tensor(paddle.to_tensor(value)) for value in begin]
    theirs = [torch.nn.Parameter(torch.tensor(value)) for value in begin]
    mine = getattr(paddle.optimizer, KINDS[kind].ours)(RATE, parameters=ours, **{**KINDS[kind].options, **more})
    twin = getattr(torch.optim, KINDS[kind].theirs)(theirs, lr=RATE, **{**KINDS[kind].twin_options, **more})
    with padiff_shim.reference("torch", optimizer="torch") as run, np.errstate(all="ignore"):
        for step in range(4):
            for result, other in zip(ours, theirs, strict=True):
                grad = values(rng, result.shape, odd and step == 2).astype(dtype)
                (result * paddle.to_tensor(grad)).sum().backward()
                other.grad = torch.tensor(grad)
            mine.step()
            twin.step()
            mine.clear_grad()
            for result, other in zip(ours, theirs, strict=True):
                assert same(result.numpy(), other.detach()), (step, result.shape)
    assert not run.native
