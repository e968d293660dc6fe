"""NaN and infinities: where the first one begins leads a report, and what both sides share is no rounding."""

import math
import re

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import ROOT, Call, entries, flat, takes, thinned

import padiff_shim
from padiff_shim.comparison.judge import all_finite
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.runlog import words
from padiff_shim.verdicts import Verdict

NAN, INF = float("nan"), float("inf")


def compared(program, **options):
    with padiff_shim.compare("torch", **options) as run:
        program()
    return run


def born(run):
    """The records in which something begins, as (op, tensor, what, side)."""
    return [
        (call.op, call.tensor, call.born["what"], call.born["side"]) for call in run.calls if "born" in call.to_dict()
    ]  # fmt: skip


def texts(run):
    """What people read: the beginning of each report."""
    return [run.answer, " ".join(str(run).splitlines()[:2]), " ".join(run.markdown().splitlines()[:3])]


def test_a_nan_that_both_sides_make_leads_the_report():
    layer = paddle.nn.Linear(3, 3)

    def program():
        x = paddle.to_tensor([[1.0, -1.0, 4.0]])
        layer(paddle.sqrt(x)).sum()

    run = compared(program)
    assert born(run)[0] == ("sqrt", "out", "NaN", "both")
    for text in texts(run):
        assert re.match(r"\W*(The f|F)irst NaN\b.*\bsqrt at ", text), text
        assert "on both sides" in text
        assert "from -1 to 4" in text.replace("\\", "")
    assert not [call for call in run.calls if call.verdict is Verdict.ROUNDING and math.isnan(call.stats["tolerance"]["atol"])]
    first = run.calls[0]
    assert first.verdict is Verdict.EQUAL
    assert first.born["at"] == [0, 1]
    assert first.stats["tolerance"]["atol"] == 0
    assert len(born(run)) == 1  # what follows from it is no news


@pytest.mark.parametrize("side", ["paddle", "torch"])
@pytest.mark.parametrize("value", [NAN, INF])
def test_of_one_side_alone(side, value):
    def spoil(out, *rest):
        changed = out.clone()
        changed[1] = value
        return changed

    with padiff_shim.testing.planted("exp", spoil, side=side):
        run = compared(lambda: paddle.exp(paddle.to_tensor([0.5, 1.0, 2.0])))
    what = "NaN" if math.isnan(value) else "infinity"
    assert born(run) == [("exp", "out", what, side)]
    (call,) = run.calls
    assert call.verdict is Verdict.NONFINITE
    assert call.side == side
    whose = {"paddle": "Paddle", "torch": "Torch"}[side]
    for text in texts(run):
        assert re.search(rf"irst {what}\b.*\bexp at", text)
        assert f"on {whose}'s side alone" in text
    assert f"{whose}'s exp" in run.answer  # and the accusation follows


def test_an_infinity_and_the_nan_that_comes_of_it_in_their_order():
    run = compared(lambda: (paddle.log(paddle.to_tensor([0.0, 1.0])) * 0.0).sum())
    assert born(run)[:2] == [("log", "out", "infinity", "both"), (born(run)[1][0], "out", "NaN", "both")]
    assert re.match(r".*first infinity .*log.*first NaN", run.answer)
    assert "1 infinite" in run.answer


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_overflow_of_sixteen_bits(dtype):
    x = paddle.to_tensor([0.5, 300.0]).astype(dtype)
    run = compared(lambda: x * (300.0 if dtype == "float16" else 3e38))
    assert born(run)[0][1:] == ("out", "infinity", "both")
    assert not run.by_line()


def test_in_a_backward():
    x = paddle.to_tensor([0.0, 4.0], stop_gradient=False)
    run = compared(lambda: paddle.sqrt(x).sum().backward())
    assert born(run)[0] == ("sqrt", "grad:x", "infinity", "both")
    assert re.match(r".*infinity .*gradient of sqrt \(x\) at ", run.answer)


def test_what_no_compared_call_made():
    x = paddle.to_tensor([1.0, NAN])
    run = compared(lambda: paddle.exp(x + 1.0))
    (first,) = [call for call in run.calls if "born" in call.to_dict()]
    assert first.born["came_in"] == ["x"]
    assert first.op == run.calls[0].op
    assert "with x of" in run.answer


def test_infinities_that_are_handed_on_are_no_news():
    """Masks of minus infinity are what was meant."""
    x = paddle.to_tensor([[1.0, 2.0, 3.0]])

    def program():
        masked = paddle.where(paddle.to_tensor([[True, False, True]]), x, paddle.full([1, 3], -INF))
        F.softmax(masked + 1.0)
        paddle.masked_fill(x, paddle.to_tensor([[True, False, False]]), -INF)
        paddle.clip(x, max=INF)

    assert not born(compared(program))


def test_a_run_that_is_read_from_its_log(tmp_path):
    run = compared(lambda: paddle.log(paddle.to_tensor([-1.0, 1.0])), log=tmp_path / "log")
    again = padiff_shim.load(tmp_path / "log")
    assert again.answer == run.answer
    assert again.calls[0].to_dict()["born"]["operands"][0]["least"] == -1
    page = again.save(tmp_path / "page.html").read_text()
    assert run.headline in page


def test_a_softmax_whose_logarithm_overflows():
    """Paddle#20994: every loss above 64 comes out as 64; on Torch's results the loss is infinite, and a report begins with that."""
    x = paddle.to_tensor([[200.0, 0.0], [1.0, 2.0]])
    y = paddle.to_tensor([[1], [0]])

    def program():
        F.cross_entropy(F.softmax(x), y, use_softmax=False, reduction="none")

    run = compared(program, carry="torch")
    assert born(run)[0][2:] in (("infinity", "torch"), ("infinity", "both"))  # Paddle's own logarithm ends at a large number
    assert run.answer.index("infinity") < run.answer.index("cross_entropy at")


WINDOWS = np.where(np.arange(27) == 13, NAN, np.arange(27.0)).astype("float32")
PASSING = {
    "pool2d": lambda: F.max_pool2d(paddle.to_tensor(WINDOWS.reshape(1, 1, 3, 9)), 2, 1, padding=1, ceil_mode=True),
    "pool3d": lambda: paddle.nn.MaxPool3D(2, 1)(paddle.to_tensor(WINDOWS.reshape(1, 1, 3, 3, 3))),
    "max_pool2d_with_index": lambda: F.adaptive_max_pool2d(paddle.to_tensor(WINDOWS.reshape(1, 3, 3, 3)), 2),
    "put_along_axis": lambda: paddle.put_along_axis(
        paddle.ones([3]), paddle.to_tensor([0, 2]), paddle.to_tensor([NAN, 3.0]), 0, "amax"
    ),
    "log_softmax": lambda: F.log_softmax(paddle.to_tensor([[1.0, -INF, 2.0]]), -1),
}


@pytest.mark.skipif(not IS_3, reason="2.6 spells some of these otherwise")
@pytest.mark.parametrize("name", PASSING)
def test_what_hides_a_nan_or_an_infinity_is_known_by_name(name):
    (call,) = compared(PASSING[name]).calls.filter(op=name, verdict="NONFINITE")
    assert call.quirk, str(call)
    assert call.side == "paddle"

    def one_more(out, *rest):
        changed = out.clone()
        changed.view(-1)[0] = 7.5
        return changed

    with padiff_shim.testing.planted(name, one_more):
        run = compared(PASSING[name])
    assert not [call for call in run.calls.filter(op=name, tensor="out") if call.quirk], str(run)
    assert run.by_line()


def test_finite_numbers_may_have_an_infinite_sum():
    assert all_finite(torch.full((4,), 3e38))
    assert all_finite(torch.full((9,), 60000.0, dtype=torch.float16))
    assert not all_finite(torch.tensor([INF, -INF]))
    assert not all_finite(torch.tensor([1.0, NAN], dtype=torch.bfloat16))
    assert all_finite(torch.tensor([1, 2]))
    assert all_finite(torch.zeros(0))


# --- every op of the table --------------------------------------------------------------------------------------------------


def first_doors():
    known = {}
    for op, entry in entries():
        if op.name not in known and not entry.inplace and not op.random:
            samples = [sample for sample in op.samples if takes(op, entry, sample) and not sample.empty]
            if samples:
                known[op.name] = op, entry, samples
    return known


DOORS = first_doors()
FIGURES = ("max_abs", "mean_abs", "rel_fro", "error", "allowed")


def spoiled_call(name, value):
    """A call with NaN or an infinity in its first float operand; None where it has none, or Paddle refuses it."""
    op, entry, samples = DOORS[name]
    rng = np.random.default_rng(0)
    values = samples[0].arrays(rng, "float32")
    floats = [array for array in values if isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.size]
    if not floats:
        return None
    floats[0].reshape(-1)[floats[0].size // 2] = value
    call = Call(op, entry, samples[0], grad=True, values=values)

    def program():
        try:
            ends = [end for end in flat(call.run()) if not end.stop_gradient]
            if ends:
                paddle.autograd.backward(ends, [paddle.ones_like(end) for end in ends])
        except (ValueError, RuntimeError, TypeError, OSError):  # what Paddle refuses is not compared
            pass

    return compared(program, audit=0, progress=False)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("name", thinned(DOORS, "exp", "softmax", "matmul", "max", "relu", "layer_norm", "gather", "topk"))
def test_no_figure_of_rounding_is_nan_whatever_comes_in(name, value):
    run = spoiled_call(name, value)
    for call in run.calls if run is not None else ():
        assert "the verdict failed" not in call.reason, str(call)
        if call.verdict in (Verdict.EQUAL, Verdict.ROUNDING, Verdict.TIE):
            figures = {key: call.stats.get(key) for key in FIGURES} | dict(call.stats["tolerance"])
            assert not [key for key, figure in figures.items() if figure is not None and math.isnan(figure)], str(call)
    if run is not None and math.isnan(value) and len(run.calls):
        first = [call for call in run.calls if "born" in call.to_dict()]
        assert all(call.born["came_in"] for call in first), [str(call) for call in first]


@pytest.mark.parametrize(("page", "lang"), [("compare.md", "en"), ("zh/compare.md", "zh")])
def test_pages_show_what_a_report_says(page, lang, monkeypatch):
    monkeypatch.setenv("PADIFF_SHIM_LANG", lang)
    lines = "\n" * 6 + "y = paddle.exp(x)\nz = y - y\n"
    names = {"paddle": paddle, "x": paddle.to_tensor([1.0, 2.0, 100.0])}
    run = compared(lambda: exec(compile(lines, "train.py", "exec"), names))
    shown = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for _, record, _ in run.counts.first_births():
        assert f"\n{words.born(record)}{'。' if lang == 'zh' else '.'}\n" in shown
