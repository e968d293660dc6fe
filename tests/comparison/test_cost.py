"""What a verdict of an op without a rounding model asks for, and how often."""

import contextlib

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.numerics import generic as formulas, measured, noise, tracing
from padiff_shim.testing import planted

pytestmark = pytest.mark.compat
silu = paddle.nn.functional.silu


class LastBit:
    """A third of the elements moved to their next neighbour: rounding, in each call other elements."""

    def __init__(self):
        self.random = torch.Generator().manual_seed(0)

    def __call__(self, result, *_):
        if not result.is_floating_point():
            return result
        up = torch.rand(result.shape, generator=self.random) < 1 / 3
        return torch.where(up, torch.nextafter(result, torch.full_like(result, torch.inf)), result)


@contextlib.contextmanager
def compared(op, **options):
    """A comparison in which no result and no gradient of the op is equal."""
    bit = LastBit()
    gradients = planted(op, lambda gradient, *_: bit(gradient), side="torch", gradients=True)
    mode = padiff_shim.compare("torch", progress=False, ops=[op], **options)
    with mode as run, planted(op, LastBit(), side="torch"), gradients:
        yield run


def leaf(seed, *shape):
    return paddle.to_tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"), stop_gradient=False)


def counted(monkeypatch, owner, name):
    """Calls of a function from now on."""
    calls, original = [], getattr(owner, name)

    def noting(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, noting)
    return calls


def two_lines(seed, shape):
    silu(leaf(seed, *shape)).sum().backward()
    silu(leaf(seed + 1, *shape)).sum().backward()


def test_steps_are_traced_once_for_all_calls_of_a_kind(monkeypatch):
    """Those of the formula and those of its gradient: for all lines and layers, and anew for another shape alone."""
    traces = counted(monkeypatch, measured, "trace")
    with compared("silu") as run:
        for step in range(4):
            two_lines(step, (3, 5))
        assert len(traces) == 2
        two_lines(9, (4, 5))
        assert len(traces) == 4
    assert set(run.verdicts) == {"ROUNDING"}


def test_no_step_is_watched_once_a_kind_is_known(monkeypatch):
    """Torch's dispatcher shows steps at a multiple of their own time: the formula runs without that, and traced steps do."""
    with compared("silu", audit=0):
        two_lines(0, (3, 5))
        watched = [counted(monkeypatch, mode, "__torch_dispatch__") for mode in (noise.WideSteps, tracing.Tracer)]
        for step in range(1, 4):
            two_lines(step, (3, 5))
    assert not any(watched)


def test_the_formula_is_asked_for_its_value_and_beside_its_operands(monkeypatch):
    with compared("silu", audit=0) as run:
        two_lines(0, (3, 5))
        formulas = counted(monkeypatch, measured.JointFormula, "_whole")
        two_lines(2, (3, 5))
    judged = 4
    assert len(list(run.calls)) == 2 * judged
    assert judged <= len(formulas) <= 3 * judged


def test_gradients_of_one_call_share_their_runs(monkeypatch):
    paddle.seed(0)
    layer = paddle.nn.LSTM(3, 2)
    with compared("rnn", audit=0) as run:
        layer(leaf(0, 1, 2, 3))[0].sum().backward()
        first = len(list(run.calls.filter(op="rnn", phase="backward")))
        moved = counted(monkeypatch, tracing.FormulaTrace, "moved")
        layer(leaf(1, 1, 2, 3))[0].sum().backward()
    assert first == 5
    sizes = [(trace, mode.size, mode._drawn) for trace, _, _, mode in moved]
    assert len(sizes) <= 2 * (formulas.RUNS[-1] + formulas.RUNS[-1] // 2), "not as many for each"
