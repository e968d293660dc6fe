"""Formulas whose steps are special: what is moved in place, what is a mark and no number, backwards that are one fused step."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from formulas import INNOCENT, gradient, judged

from padiff_shim.numerics import noise, steps
from padiff_shim.numerics.measured import holds
from padiff_shim.verdicts import Verdict

RNG = np.random.default_rng(0)
SIZE = noise.MoveSize(2.0**-24, 2.0**-24)


def tensor(*shape, dtype=torch.float32, scale=1.0):
    return torch.from_numpy(RNG.standard_normal(shape) * scale).to(dtype)


@pytest.mark.rows(4)
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("scale", [1.0, 1e-4])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (1, 2, 4, 3, 3)])
def test_gradients_of_grid_sample_are_innocent(shape, scale, position):
    """Places near 0 are computed from sums with 1 and products with sizes: their roundings are not relative to the grid."""
    grid = tensor(shape[0], *shape[2:], len(shape) - 2, scale=scale)
    x = tensor(*shape)

    def sample(x, grid):
        return F.grid_sample(x, grid, align_corners=True)

    operands = [x, grid, tensor(*sample(x, grid).shape)]
    verdict = judged(gradient(sample, position), operands, gradient(sample, position)(*operands), audit=True)
    assert verdict.verdict in INNOCENT, verdict
    wrong = gradient(sample, position)(*operands) * (1 + 2.0**-9)
    assert judged(gradient(sample, position), operands, wrong).verdict not in INNOCENT


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_images_and_volumes_taken_apart_are_the_function(shape, padding, align):
    grid = tensor(2, 3, 4, *[2] * (len(shape) - 4), len(shape) - 2, dtype=torch.float64)
    x = tensor(*shape, dtype=torch.float64)
    result = steps.FUNCTIONS[F.grid_sample](x, grid, "bilinear", padding, align)
    torch.testing.assert_close(result, F.grid_sample(x, grid, "bilinear", padding, align), rtol=1e-12, atol=1e-12)


def test_what_has_no_steps_is_left_as_it_is():
    x, grid = tensor(2, 3, 4, 5), tensor(2, 3, 4, 2)
    assert steps.FUNCTIONS[F.grid_sample](x, grid, "nearest") is None
    there = F.grid_sample(x, grid, "nearest", align_corners=True)
    with noise.Functions():
        assert torch.equal(F.grid_sample(x, grid, "nearest", align_corners=True), there)


@pytest.mark.parametrize("align", [False, True])
def test_gradients_of_affine_grid_are_judged(align):
    """Its kernel makes views of a tensor in place."""

    def kernel(theta):
        return F.affine_grid(theta, [2, 3, 4, 5], align)

    operands = [tensor(2, 2, 3), tensor(2, 4, 5, 2)]
    right = gradient(kernel, 0)(*operands)
    assert judged(gradient(kernel, 0), operands, right, audit=True).verdict in INNOCENT
    assert judged(gradient(kernel, 0), operands, right * 1.001).verdict in (Verdict.WRONG, Verdict.SEMANTICS)


def test_marks_are_not_moved():
    """The forward of a margin loss hands its backward which classes are targets, as numbers."""
    label = torch.tensor([[0, 2, -1, 1]] * 3)
    operands = [tensor(3, 4), torch.tensor(1.0)]
    kernel = gradient(lambda x: F.multilabel_margin_loss(x, label), 0)
    moved, _ = noise.moved(kernel, [operand.double() for operand in operands], SIZE, 1)
    assert torch.isfinite(moved).all()
    assert judged(kernel, operands, kernel(*operands), audit=True).verdict in INNOCENT


def test_a_format_that_does_not_hold_the_numbers_is_no_loss_of_precision():
    assert holds(tensor(100), "fp16")
    assert not holds(tensor(100, scale=1e-9), "fp16")
    assert not holds(tensor(100, scale=1e6), "fp16")
    assert holds(tensor(100, scale=1e6), "bf16")
    assert holds(torch.zeros(3), "fp16")
    x = torch.linspace(-20.0, -14.0, 40)
    verdict = judged(F.softplus, [x], torch.log(1 + torch.exp(x)))
    assert verdict.hypothesis is None, verdict
    assert verdict.verdict not in INNOCENT
