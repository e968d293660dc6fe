"""What counts as negligible: rounding beside the tensor as a whole, in results and in gradients."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from quirky import clipped_softmax, problem, softmax

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from faults.kernels import torch_kernel
from faults.score import verdict_of

RNG = np.random.default_rng(0)
CAUSAL = np.tri(24)
MASKED = {
    "-1e9": lambda x: np.where(CAUSAL, x, -1e9),
    "-100": lambda x: np.where(CAUSAL, x, x - 100),
    "-inf": lambda x: np.where(CAUSAL, x, -np.inf),
}


def scores(*shape):
    return RNG.standard_normal(shape)


def judged(call, wrong):
    verdict = verdict_of(call, wrong, torch_kernel(call), 0)
    return verdict, "negligible" in verdict.modifiers


@pytest.mark.parametrize("wanted", ["out", "x"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mask", MASKED)
def test_entries_that_a_mask_leaves(mask, dtype, wanted):
    call = problem("softmax", dtype, wanted, x=MASKED[mask](scores(4, 3, 24, 24)), axis=-1)
    verdict, negligible = judged(call, softmax(call))
    assert verdict.hypothesis == "clip=-64", verdict
    assert negligible, verdict


@pytest.mark.parametrize("wanted", ["out", "x"])
@pytest.mark.parametrize("size", [1e-5, 1e-2])
def test_one_element_is_not(wanted, size):
    call = problem("softmax", "float32", wanted, x=MASKED["-1e9"](scores(4, 3, 24, 24)), axis=-1)
    wrong = softmax(call)
    wrong.view(-1)[int(wrong.abs().argmax())] += size
    verdict, negligible = judged(call, wrong)
    assert verdict.verdict.severity > 2
    assert not negligible, verdict


@pytest.mark.parametrize("wanted", ["out", "x", "weight"])
def test_a_lower_precision_is_not(wanted):
    call = problem("linear", "float32", wanted, x=scores(64, 96), weight=scores(32, 96))
    cut = {n: (v.view(torch.int32) & -8192).view(torch.float32) for n, v in call.values.items() if isinstance(v, torch.Tensor)}
    verdict, negligible = judged(call, torch_kernel(call.change(**cut)))
    assert verdict.verdict.severity > 2, verdict
    assert not negligible


def test_nan_is_not():
    call = problem("softmax", "float32", x=MASKED["-1e9"](scores(24, 24)), axis=-1)
    wrong = clipped_softmax(call.values["x"], -1)
    wrong[3, 1] = float("nan")
    assert not judged(call, wrong)[1]
