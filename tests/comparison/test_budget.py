"""The account of ``budget=``: all that comparing costs is in it, by a clock that the test winds itself."""

import threading

import paddle
import pytest
from encoder import model, randn

import padiff_shim
from padiff_shim.comparison import plan
from padiff_shim.comparison.sampling import COLD, Sampling
from padiff_shim.intercept import entry_points
from padiff_shim.runlog.counts import OVER_BUDGET

pytestmark = [pytest.mark.usefixtures("undone"), pytest.mark.compat]


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def account():
    clock = Clock()
    sampling = Sampling(budget="10%", clock=clock)
    sampling.begin()
    sampling.entry = 1.0
    return sampling, clock


def hooked(sampling, clock, *, way=2.0, kernel=5.0, compared=0.0):
    """A hook that takes ``way`` around a native kernel, and compares for so long."""
    entered = sampling.enter()
    clock.now += way + kernel + compared
    sampling.native(kernel)
    sampling.spent("kind", compared)
    sampling.leave(entered)


def test_plumbing_is_in_the_account_and_the_native_kernel_is_not(account):
    sampling, clock = account
    hooked(sampling, clock)
    assert sampling.extra == 2.0 + 1.0
    hooked(sampling, clock, compared=10.0)
    assert sampling.extra == 2 * 3.0 + 10.0


def test_hooks_stand_idle_until_the_account_bears_a_stretch_again(account):
    sampling, clock = account
    sampling.refusal("kind", 0)
    for _ in range(4):
        hooked(sampling, clock)
    assert sampling.extra == 12.0
    assert sampling.pulse(False), "12 of 28 seconds, and 10 % are allowed"
    stretches = 0
    while sampling.pulse(True):
        clock.now += 400.0
        stretches += 1
        assert stretches < 1000
    assert sampling.idle == stretches + 1
    # What four hooks cost that stand idle is in the account, and there is room for the stretch to come.
    assert sampling.extra == pytest.approx(12.0 + COLD * 4.0 * sampling.idle)
    assert sampling.extra + 12.0 <= 0.1 * (clock.now - sampling.extra)


def test_a_floor_above_the_budget_is_said_and_leaves_a_part_of_it(account):
    sampling, clock = account
    sampling.refusal("kind", 0)
    for _ in range(4):
        hooked(sampling, clock)
    assert sampling.pulse(False)
    stretches = 0
    while sampling.pulse(True):
        clock.now += 20.0  # four seconds of which are the ways into idle hooks
        stretches += 1
    assert stretches > 20
    assert sampling.over > 0.1
    refusals = [sampling.refusal("kind", 0) for _ in range(4)]
    assert refusals.count(None) == 1, "a stretch for which the hooks came back has a call that is compared"
    assert refusals.count(OVER_BUDGET) == 3


def test_the_first_stretch_is_open_until_a_call_was_compared(account):
    sampling, clock = account
    clock.now += 1.0
    sampling.charge(5.0)
    assert not sampling.pulse(False)
    assert sampling.refusal("kind", 0) is None
    assert sampling.pulse(False)


def test_all_that_a_call_does_is_between_enter_and_leave(monkeypatch):
    """Refused, compared, uncovered calls and gradients: each enters and leaves the account once, with native kernels taken out."""
    seen = []
    monkeypatch.setattr(Sampling, "enter", lambda self: seen.append("enter") or 0.0)
    monkeypatch.setattr(Sampling, "leave", lambda self, entered: seen.append("leave"))
    monkeypatch.setattr(Sampling, "native", lambda self, seconds: seen.append("native"))
    monkeypatch.setattr(Sampling, "pulse", lambda self, idle, **more: False)
    x = randn(4, 4)
    with padiff_shim.compare("torch", budget=1e9):
        paddle.exp(x)
        assert seen == ["enter", "native", "leave"]
        del seen[:]
        paddle.poisson(x)  # uncovered: its kernel has run before the account is entered
        assert seen == ["enter", "leave"]
    del seen[:]
    monkeypatch.setattr(Sampling, "refusal", lambda self, key, step: "not today")
    with padiff_shim.compare("torch", budget=1e9):
        paddle.exp(x)
    assert seen == ["enter", "native", "leave"]


def test_idle_hooks_let_calls_pass_and_the_run_says_so(monkeypatch):
    idle = iter([True, True, False])
    net, x = model(1), randn(5, 16)
    optimizer = paddle.optimizer.SGD(1e-2, parameters=net.parameters())
    touched = []
    original = plan.Comparison.bound
    monkeypatch.setattr(
        plan.Comparison, "bound", lambda self, sub, *rest: touched.append(sub.op.name) or original(self, sub, *rest)
    )

    def pulse(self, was, **more):
        self.stretches += 1
        self.idle += was
        return next(idle, False)

    monkeypatch.setattr(Sampling, "pulse", pulse)
    with padiff_shim.compare("torch", budget=1e9) as run:
        net(x).sum().backward()  # idle from the start of the layer on
        assert touched == []
        optimizer.step()
        optimizer.clear_grad()
        net(x)  # the pulses: the end of the backward, the start of this layer
        assert touched
    assert {call.step for call in run.calls} == {1}, "steps are counted by idle hooks, too"
    assert [warning for warning in run.warnings if "paused in 2 of 3 stretches" in warning]


def test_hooks_are_never_idle_where_several_openings_share_a_mode_or_a_shadow_is_kept(monkeypatch):
    monkeypatch.setattr(Sampling, "pulse", lambda self, idle, **more: True)
    net, x = model(1), randn(5, 16)
    shared, shadow = padiff_shim.compare("torch", budget=1e9), padiff_shim.compare("torch", budget=1e9, shadow=True)
    everywhere = padiff_shim.compare("torch", budget=1e9, all_threads=True)
    with shared, shared as run:
        net(x)
    assert len(run.calls) > 0
    for mode in (shadow, everywhere):
        with mode as run:
            net(x)
        assert len(run.calls) > 0


def taken_away():
    """Whether Paddle's own functions stand where the hooks of calls were; an optimizer's door counts steps and stays."""
    points = {point.path: point for point in entry_points.OPS._points}
    assert points["paddle._C_ops.adamw_"].ours()
    return not points["paddle._C_ops.exp"].ours() and not points["paddle.nn.functional.linear"].ours()


def test_the_hooks_are_taken_away_while_they_stand_idle_and_come_back(monkeypatch):
    idle = iter([True, True, False, True, True])
    net, x = model(1), randn(5, 16)
    monkeypatch.setattr(Sampling, "pulse", lambda self, was, **more: next(idle))
    with padiff_shim.compare("torch", budget=1e9) as run:
        assert not taken_away()
        net(x)
        assert taken_away()
        net(x).sum().backward()  # idle from the start of the layer, on again from the end of the backward
        assert not taken_away()
        assert len(run.calls) == 0
        awaited = paddle.exp(x)
        assert [call.op for call in run.calls] == ["exp"]
        net(x)
        assert taken_away()
        awaited.sum().backward()
        assert [call.tensor for call in run.calls] == ["out", "grad:x"], "the hooks on nodes stay"
    assert not entry_points.OPS.resting


@pytest.mark.parametrize("kind", ["reference", "compare"])
def test_a_mode_that_opens_meanwhile_in_another_thread_has_its_hooks(monkeypatch, kind):
    monkeypatch.setattr(Sampling, "pulse", lambda self, idle, **more: True)
    net, x = model(1), randn(5, 16)
    results = []

    def other():
        with getattr(padiff_shim, kind)("torch") as run:
            results.append(taken_away())
            net(x)
            results.append(run)
        results.append(taken_away())

    with padiff_shim.compare("torch", budget=1e9) as run:
        net(x)
        assert taken_away()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert results[0] is False
        assert results[2] is False, "the idle mode takes the hooks away at its next pulse, not before"
        net(x)
        assert taken_away()
        assert len(run.calls) == 0
    other_run = results[1]
    assert other_run.to_dict()["ops"]["linear"]["substituted"] > 0 if kind == "reference" else len(other_run.calls) > 0


def test_what_somebody_changes_meanwhile_stays_theirs(monkeypatch):
    monkeypatch.setattr(Sampling, "pulse", lambda self, idle, **more: True)
    net, x = model(1), randn(5, 16)
    native = paddle.Tensor.__add__

    def mine(self, other):
        return native(self, other)

    try:
        with padiff_shim.compare("torch", budget=1e9) as run:
            net(x)
            paddle.Tensor.__add__ = mine
        assert paddle.Tensor.__add__ is mine
        assert ["paddle.Tensor.__add__" in warning for warning in run.warnings] == [True]
    finally:
        paddle.Tensor.__add__ = native


def test_a_mode_opened_again_is_idle_at_once_and_pays_for_its_opening():
    net, x = model(1), randn(5, 16)
    mode = padiff_shim.compare("torch", budget=1e-9)
    for _ in range(3):
        with mode:
            net(x)
    paid = mode._plan.sampling.extra
    with mode:
        assert taken_away()
    assert mode._plan.sampling.extra > paid


def test_gradients_that_are_awaited_are_in_the_account(account):
    sampling, _ = account
    assert sampling.refusal("kind", 0) is None
    sampling.spent("kind", 1.0)
    sampling.spent("kind", 4.0, backward=True)
    kind = sampling._kinds["kind"]
    assert kind.cost == 5.0
    sampling._before = 10.0 * 100
    assert sampling.refusal("kind", 0) is None
    assert sampling._due == 4.0
    sampling.spent("kind", 1.0)
    sampling.spent("kind", 2.0, backward=True)
    assert sampling._due == 0.0
    assert kind.backward == 3.0
