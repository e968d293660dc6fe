"""Screening: what passes is marked and counted, and no fault hides behind it for long."""

import contextlib

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.comparison import judge
from padiff_shim.testing import planted
from padiff_shim.verdicts import SCREENED, Verdict

pytestmark = pytest.mark.compat
CALLS = 40


class Noise:
    """The other neighbour of every third result or so: rounding, in each call another."""

    def __init__(self):
        self.random = np.random.default_rng(0)

    def __call__(self, out, *values):
        up = torch.from_numpy(self.random.random(out.shape) < 0.3)
        return torch.where(up, torch.nextafter(out, torch.full_like(out, torch.inf)), out)


class Fault:
    """A factor from a call on, up to another one."""

    def __init__(self, factor, begins, ends=CALLS):
        self.factor, self.begins, self.ends, self.calls = factor, begins, ends, 0

    def __call__(self, out, *values):
        self.calls += 1
        return out * self.factor if self.begins < self.calls <= self.ends else out


def records(*faults, calls=CALLS, **options):
    """The records of a program that calls one op over and over, and the run; ``faults``: (fault, side)."""
    random = np.random.default_rng(1)
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(padiff_shim.compare("torch", **options))
        for fault, side in ((Noise(), "torch"), *faults):
            stack.enter_context(planted("exp", fault, side=side))
        for _ in range(calls):
            paddle.exp(paddle.to_tensor(random.standard_normal((32, 64)).astype("float32")))
    return list(run.calls), run


def serious(calls):
    return [place for place, call in enumerate(calls) if call.verdict.severity > Verdict.UNVERIFIED.severity]


def test_what_is_screened_says_so_and_one_in_sixteen_is_judged():
    calls, run = records(screening=True)
    screened = [SCREENED in call.modifiers for call in calls]
    assert not any(screened[: judge.LEARNT])
    assert sum(screened) >= CALLS // 2, "rounding of one kind passes"
    assert all(call.verdict is Verdict.ROUNDING for call in calls)
    assert max(len(run) for run in "".join("x" if is_screened else " " for is_screened in screened).split()) < judge.RECHECK
    assert run.coverage()["screened"] == sum(screened)
    assert "screened" in str(run)
    assert run.coverage()["checked_calls"] == CALLS


def test_nothing_is_screened_unless_it_is_asked_for():
    calls, run = records(calls=8)
    assert not any(SCREENED in call.modifiers for call in calls)
    assert "screened" not in run.coverage()


def test_a_budget_screens_unless_it_is_told_not_to():
    calls, _ = records(budget=1e6, calls=12)
    assert any(SCREENED in call.modifiers for call in calls)
    calls, _ = records(budget=1e6, screening=False, calls=12)
    assert not any(SCREENED in call.modifiers for call in calls)


@pytest.mark.parametrize("side", ["paddle", "torch"])
def test_a_fault_that_begins_in_the_middle_is_found_at_once(side):
    calls, _ = records((Fault(1.0001, 20), side), screening=True)
    assert serious(calls)[0] == 20
    assert serious(calls) == list(range(20, CALLS)), "and in every call from then on"


def test_a_fault_that_leaves_the_difference_as_it_was_is_found_when_the_place_is_judged_again():
    calls, _ = records((Fault(1.0001, 20), "paddle"), (Fault(1.0001, 20), "torch"), screening=True)
    assert 20 <= serious(calls)[0] <= 20 + judge.RECHECK


def test_behind_a_finding_a_place_is_learnt_anew():
    calls, _ = records((Fault(1.0001, 20, 21), "paddle"), screening=True)
    assert serious(calls) == [20]
    screened = [SCREENED in call.modifiers for call in calls[21:]]
    assert not any(screened[: judge.LEARNT])
    assert any(screened)


class LocalFault(Fault):
    """A factor on the smallest element alone, which moves it by far less than the rounding of the largest ones."""

    def __call__(self, out, *values):
        self.calls += 1
        if self.calls <= self.begins:
            return out
        changed = out.clone()
        changed.reshape(-1)[out.argmin()] *= self.factor
        return changed


def test_a_fault_smaller_than_the_usual_difference_is_found_when_the_place_is_judged_again():
    fault = LocalFault(1 + 2e-5, 20)  # of 0.03 or so; neighbours of the largest, 64 and more, are 7.6e-6 apart
    calls, _ = records((fault, "paddle"), screening=True)
    usual = max(call.stats["max_abs"] for call in calls[:20])
    assert max(call.stats["max_abs"] for call in calls[20:]) <= judge.ROOM * usual, "no larger than before"
    assert SCREENED in calls[20].modifiers, "so it passes at first"
    first = serious(calls)[0]
    assert 20 <= first <= 20 + judge.RECHECK
    assert serious(calls) == list(range(first, CALLS)), "what was usual before says nothing of a kernel that was found wrong"


@pytest.mark.parametrize("options", [{}, {"screening": True}, {"audit": 4}])
def test_a_fault_that_is_equal_on_both_sides_is_found_by_the_audit_of_its_place(options):
    def both(out, *values):
        return torch.exp(values[0]) * 1.001

    with padiff_shim.compare("torch", **options) as run, planted("exp", both), planted("exp", both, side="torch"):
        for _ in range(2 * options.get("audit", 16)):
            paddle.exp(paddle.randn([16, 16]))
    audit = options.get("audit", 16)
    calls = serious(list(run.calls))
    assert calls, "equal is not yet right"
    assert calls[0] < audit
    assert calls[1] - calls[0] == audit


def test_each_difference_of_a_product_says_how_far_right_kernels_may_be_apart():
    random = np.random.default_rng(2)
    x, w = (paddle.to_tensor(random.integers(-3, 4, shape).astype("float32")) for shape in ((6, 40), (40, 6)))  # exact natively
    near = planted("matmul", lambda out, *_: torch.nextafter(out, torch.zeros_like(out)), side="torch")
    with padiff_shim.compare("torch", audit=0) as run, near:
        for _ in range(3):
            paddle.matmul(x, w)
    assert ["allowed" in call.stats for call in run.calls] == [True] * 3
    assert {call.verdict for call in run.calls} == {Verdict.ROUNDING}
