"""The account of ``budget=``: all that comparing costs is in it, by a clock that the test winds itself."""

import paddle
import pytest
from encoder import model, randn

import padiff_shim
from padiff_shim.comparison import flow
from padiff_shim.comparison.sampling import Sampling

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
    assert sampling.extra == 12.0 + 4.0 * sampling.idle
    assert sampling.extra + 12.0 <= 0.1 * (clock.now - sampling.extra)


def test_a_floor_above_the_budget_leaves_the_hooks_idle(account):
    sampling, clock = account
    for _ in range(4):
        hooked(sampling, clock)
    assert sampling.pulse(False)
    for _ in range(500):
        clock.now += 20.0  # four seconds of which are the ways into idle hooks
        assert sampling.pulse(True)


def test_all_that_a_call_does_is_between_enter_and_leave(monkeypatch):
    """Refused, compared, uncovered calls and gradients: each enters and leaves the account once, with native kernels taken out."""
    seen = []
    monkeypatch.setattr(Sampling, "enter", lambda self: seen.append("enter") or 0.0)
    monkeypatch.setattr(Sampling, "leave", lambda self, entered: seen.append("leave"))
    monkeypatch.setattr(Sampling, "native", lambda self, seconds: seen.append("native"))
    monkeypatch.setattr(Sampling, "pulse", lambda self, idle: False)
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
    original = flow.Comparison.bound
    monkeypatch.setattr(
        flow.Comparison, "bound", lambda self, sub, *rest: touched.append(sub.op.name) or original(self, sub, *rest)
    )

    def pulse(self, was):
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
    assert [warning for warning in run.warnings if "stood idle in 2 of 3 stretches" in warning]


def test_hooks_are_never_idle_where_several_openings_share_a_mode_or_a_shadow_is_kept(monkeypatch):
    monkeypatch.setattr(Sampling, "pulse", lambda self, idle: True)
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
