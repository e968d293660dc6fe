"""Planted faults and clean pairs through the verdict: a seeded part of ``benchmarks/bench_verdict.py``, which has the figures.

The problems and faults here are the benchmark's, with another seed and a random share of the faults on each problem.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import paddle
import pytest
import torch
from helpers import EVERY

import padiff_shim
from padiff_shim.catalogue.registry import ops
from padiff_shim.testing import planted as plant
from padiff_shim.verdicts import HARD, Verdict

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from faults import planted as plants
from faults.catalogue import FAULTS
from faults.kernels import CLEAN, paddle_kernel, torch_kernel
from faults.plan import PLAN, problems
from faults.score import clean_pairs, defect, planted, verdict_of
from faults.truth import truth

SEED, SHARE = 20, 0.07
EACH = 1 if EVERY else 5  # so-manieth problem


def tried():
    return [*problems(SEED)][::EACH]


@pytest.fixture(scope="module")
def clean():
    return list(clean_pairs(tried(), SEED))


@pytest.fixture(scope="module")
def visible():
    return [o for o in planted(tried(), SEED, SHARE) if o.visible]


def listed(outcomes):
    """The first cases, for the message of a failure."""
    lines = [
        f"{o.fault.name if o.fault else o.kernel}, {o.problem}, size {o.size:.3g} on {o.planted}: "
        f"{o.judged.verdict} {o.judged.side} {o.judged.hypothesis}"
        for o in outcomes
    ]
    return "\n".join([f"{len(lines)} cases", *lines[:12]])


def test_clean_pairs_are_never_in_a_hard_class(clean):
    assert {o.kernel for o in clean} == {"native", *CLEAN}
    assert len(clean) > 800 / EACH
    alarms = [o for o in clean if o.judged.verdict in HARD]
    assert not alarms, listed(alarms)


def test_most_clean_pairs_are_plain_rounding(clean):
    """LOW_ACCURACY is for kernels that are really worse; it must not become the usual word."""
    soft = [o for o in clean if o.flagged]
    assert len(soft) < 0.1 * len(clean), listed(soft)
    unverified = [o for o in clean if o.judged.verdict is Verdict.UNVERIFIED]
    assert not unverified, listed(unverified)


def test_visible_faults_are_detected(visible):
    assert len(visible) > 1800 / EACH
    unseen = {fault.name for fault in FAULTS} - {o.fault.name for o in visible}
    assert len(unseen) <= 2 * (EACH - 1), unseen
    missed = [o for o in visible if not o.detected]
    assert len(missed) <= 0.03 * len(visible), listed(missed)


def test_faults_of_eight_units_are_detected(visible):
    large = [o for o in visible if o.size >= 8]
    missed = [o for o in large if not o.detected]
    assert len(missed) <= 0.01 * len(large), listed(missed)


def test_the_right_side_is_named(visible):
    flagged = [o for o in visible if o.flagged]
    wrong = [o for o in flagged if not o.right_side]
    assert len(wrong) <= 0.02 * len(flagged), listed(wrong)


@pytest.mark.parametrize("kind", ["precision", "arithmetic", "semantics", "element", "unlisted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_kind_of_fault_hides_in_the_sum(visible, kind, dtype):
    large = [o for o in visible if o.fault.kind == kind and o.dtype == dtype and o.size >= 8]
    missed = [o for o in large if not o.detected]
    assert len(large) > 40 / EACH
    assert len(missed) <= 0.03 * len(large), listed(missed)


@pytest.mark.parametrize("part", ["forward", "backward"])
def test_forward_and_backward_alike(visible, part):
    large = [o for o in visible if (o.wanted == "out") == (part == "forward") and o.size >= 8]
    missed = [o for o in large if not o.detected]
    assert len(missed) <= 0.01 * len(large), listed(missed)


# Where a call multiplies by 1 or copies, operands and result in a narrow format are one and the same; tf32 and fp16 have the same
# fraction.
NAMED = {
    "tf32 inputs": ("tf32-", "fp16-"),
    "bf16 inputs": ("bf16-",),
    "float32 inputs": ("float32-",),
    "output in bf16": ("bf16-",),
    "scalar in float32": ("->float32",),
    "no bias": ("no-bias",),
    "bias twice": ("bias-twice",),
    "n-1 variance": ("variance-n-1",),
    "epsilon in float32": ("epsilon->float32",),
    "epsilon outside sqrt": ("epsilon-outside-sqrt",),
    "last element dropped": ("last-element-dropped",),
}


@pytest.mark.parametrize("name", NAMED)
def test_causes_are_named(visible, name):
    """Of the faults far beyond rounding nearly all get their own name, or have it among the alternatives."""
    seen = [o for o in visible if o.fault.name == name and o.size >= 64]
    right = [o for o in seen if any(part in n for part in NAMED[name] for n in (o.judged.hypothesis or "", *o.judged.alternatives))]
    assert seen
    assert len(right) >= 0.9 * len(seen), (Counter(o.judged.hypothesis for o in seen), listed([o for o in seen if o not in right]))


def test_unlisted_faults_get_no_name_of_another(visible):
    """What no hypothesis describes stays without a name."""
    seen = [o for o in visible if o.fault.kind in ("unlisted", "element") and o.size >= 64]
    named = [o for o in seen if o.judged.hypothesis]
    assert len(named) <= 0.02 * len(seen), listed(named)


def test_equal_results_can_be_equally_wrong():
    """EQUAL is not yet right: the audit finds a fault that both sides share."""
    problem = next(p for p in problems(SEED) if p.op == "linear" and p.data == "normal")
    wrong = torch_kernel(problem.change(bias=None))
    assert verdict_of(problem, wrong, wrong.clone(), 0).verdict is Verdict.EQUAL
    judged = verdict_of(problem, wrong, wrong.clone(), 0, audit=True)
    assert (judged.verdict, judged.side.value, judged.hypothesis) == (Verdict.SEMANTICS, "both", "no-bias")
    right = torch_kernel(problem)
    assert verdict_of(problem, right, right.clone(), 0, audit=True).verdict is Verdict.EQUAL


def test_judging_is_deterministic_and_leaves_the_generators_alone():
    problem = next(p for p in problems(SEED) if p.op == "matmul")
    wrong = torch_kernel(problem) * 1.0001
    torch.manual_seed(3)
    np.random.seed(3)
    states = torch.get_rng_state(), np.random.get_state()[1].tolist()
    first, second = (verdict_of(problem, wrong, torch_kernel(problem), 5) for _ in range(2))
    assert first == second
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.random.get_state()[1].tolist() == states[1]


def test_plan_covers_every_op_with_a_model():
    modelled = {name for name, op in ops().items() if op.model is not None}
    assert {line.op for line in PLAN} - modelled == {"logsumexp"}  # judged by its formula
    assert modelled - {line.op for line in PLAN} <= {"mv", "dot", "einsum", "multi_dot"}


def test_the_second_oracle_agrees_with_torch():
    """The sizes of the faults rest on :mod:`faults.truth`: torch's kernels are within a few of its units everywhere."""
    for problem in problems(SEED, ("float32",)):
        exact, unit = truth(problem)
        far = np.abs(torch_kernel(problem).numpy() - exact) / unit
        assert exact.shape == far.shape
        assert far.max() < 40, problem.label


def test_a_fault_of_nothing_is_invisible():
    """The harness's own check: kernels that are run unchanged plant nothing."""
    problem = next(p for p in problems(SEED) if p.op == "softmax")
    exact, _ = truth(problem)
    assert np.array_equal(plants.Kernel("oracle")(problem), exact)
    assert np.array_equal(plants.Kernel("paddle")(problem), paddle_kernel(problem).numpy())
    assert defect(problem) is None


# 64 terms of one sign: k + 2 roundings bound the error of their sum for certain, k = 63 (Higham, Accuracy and Stability, 4.2), and
# a few more that of what is divided by it.
SUMMED = {"sum": lambda x: x.sum(1), "softmax": lambda x: paddle.nn.functional.softmax(x, 1)}


@pytest.mark.parametrize(("units", "verdict"), [(40.0, Verdict.LOW_ACCURACY), (150.0, Verdict.WRONG)])
@pytest.mark.parametrize("op", SUMMED)
def test_what_is_beyond_the_certain_bound_is_wrong(op, units, verdict):
    x = paddle.to_tensor(np.random.default_rng(0).uniform(0.5, 1.0, (8, 64)).astype("float32"))
    with padiff_shim.compare("torch", progress=False) as run, plant(op, lambda out, *_: out * (1.0 + units * 2.0**-24)):
        SUMMED[op](x)
    (call,) = run.calls
    assert call.verdict is verdict
