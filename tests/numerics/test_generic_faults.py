"""The judge for ops without a rounding model finds faults, on their side and with their causes, also in large calls."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from formulas import FORMULAS, INNOCENT, drawn, gradient, judged, sides

from padiff_shim.numerics import noise, precision, sampling
from padiff_shim.verdicts import HARD, Side, Verdict

F32, F64 = torch.float32, torch.float64


# --- faults -----------------------------------------------------------------------------------------------------------


def _tf32(x):
    return torch.from_numpy(precision.rounded(x.double().numpy(), "tf32")).to(x.dtype)


def _one(y):
    wrong = y.clone().reshape(-1)
    wrong[wrong.numel() // 2] += 0.01 * (1 + wrong.abs().max())
    return wrong.reshape(y.shape)


RESULTS = {
    "one element": _one,
    "rolled": lambda y: y.roll(1, 0) if y.ndim else y * 1.01,
    "a thousandth": lambda y: y * 1.001,
    "bf16": lambda y: y.bfloat16().to(y.dtype),
    "nan": lambda y: torch.where(torch.arange(y.numel()).reshape(y.shape) == y.numel() // 2, math.nan, y),
}


@pytest.mark.rows(40)
@pytest.mark.parametrize("side", [Side.PADDLE, Side.TORCH])
@pytest.mark.parametrize("fault", sorted(RESULTS))
@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_planted_faults_are_found_on_their_side(name, fault, side):
    formula = FORMULAS[name]
    operands = drawn(formula.shapes, 21)
    right = formula.kernel(*operands)
    verdict = judged(formula.kernel, operands, *sides(RESULTS[fault](right), right, side))
    assert verdict.verdict in HARD or (right.ndim == 0 and verdict.verdict is Verdict.LOW_ACCURACY), verdict
    assert verdict.side is side


@pytest.mark.parametrize("position", [0, 1])
def test_a_fault_in_a_gradient(position):
    formula = FORMULAS["conv2d"]
    operands = drawn(formula.shapes, 22)
    kernel = gradient(formula.kernel, position)
    operands.append(torch.ones_like(formula.kernel(*operands)))
    verdict = judged(kernel, operands, kernel(*operands) / 2)
    assert (verdict.verdict, verdict.side) == (Verdict.WRONG, Side.PADDLE)


@pytest.mark.parametrize("name", ["conv2d", "lstm", "batch_norm"])
def test_a_lower_precision_is_named(name):
    formula = FORMULAS[name]
    operands = drawn(formula.shapes, 23)
    verdict = judged(formula.kernel, operands, formula.kernel(*map(_tf32, operands)))
    assert (verdict.verdict, verdict.side) == (Verdict.PRECISION_MODE, Side.PADDLE)
    assert "tf32-inputs" in (verdict.hypothesis, *verdict.alternatives)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_semantic_mistakes(dtype):
    x, w, b = drawn(FORMULAS["group_norm"].shapes, 24, dtype)
    pairs = [
        (lambda *o: F.group_norm(*o[:1], 2, *o[1:]), lambda *o: F.group_norm(*o[:1], 3, *o[1:]), (x, w, b)),
        (lambda *o: F.group_norm(*o[:1], 2, *o[1:]), lambda *o: F.group_norm(*o[:1], 2, *o[1:], 1e-3), (x, w, b)),
        (lambda v: F.avg_pool2d(v, 3, 2, 1), lambda v: F.avg_pool2d(v, 3, 2, 1, count_include_pad=False), (x,)),
        (lambda v: v.cumsum(-1), lambda v: v.cumsum(-1) - v, (x,)),
        (lambda v: F.interpolate(v, scale_factor=2, mode="bilinear"), lambda v: F.interpolate(v, scale_factor=2), (x,)),
        (lambda v: F.softplus(v), lambda v: F.softplus(v, 1.01), (x,)),
        (lambda v: v.std((2, 3)), lambda v: v.std((2, 3), correction=0), (x,)),
    ]
    for right, wrong, operands in pairs:
        verdict = judged(right, operands, wrong(*operands))
        assert (verdict.verdict in HARD, verdict.side) == (True, Side.PADDLE), verdict


def test_formulas_that_differ_are_told_from_bad_arithmetic():
    x = drawn([(50, 60)], 25)[0]
    wrong = lambda v: torch.sin(v * 1.01)  # noqa: E731
    assert judged(torch.sin, [x], wrong(x), paddle_kernel=wrong).verdict is Verdict.SEMANTICS
    assert judged(torch.sin, [x], wrong(x), paddle_kernel=torch.sin).verdict is Verdict.WRONG


def test_half_precision_sums_are_found():
    x = drawn([(12, 300)], 26)[0]
    total = np.cumsum(x.numpy(), 1, dtype=np.float16)[:, -1].astype(np.float32)
    verdict = judged(lambda v: v.sum(-1), [x], torch.from_numpy(total))
    assert (verdict.verdict in HARD, verdict.side) == (True, Side.PADDLE)


def test_equal_is_not_right_and_the_audit_knows():
    x = drawn([(12, 30)], 27)[0]
    wrong = torch.sin(x) * 1.5
    assert judged(torch.sin, [x], wrong, wrong.clone()).verdict is Verdict.EQUAL
    verdict = judged(torch.sin, [x], wrong, wrong.clone(), audit=True)
    assert (verdict.verdict, verdict.side) == (Verdict.WRONG, Side.BOTH)


def test_the_programs_random_numbers_are_left_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    x = torch.linspace(-2, 2, 50)
    judged(torch.sin, [x], torch.sin(x) * 1.001)
    assert torch.equal(before, torch.get_rng_state())


# --- large calls ------------------------------------------------------------------------------------------------------

LARGE = {
    "silu": (F.silu, [(64, 30, 40)], 3),
    "softmax": (lambda x: torch.softmax(x, -1), [(900, 60)], 1),
    "batch_norm": (FORMULAS["batch_norm, training"].kernel, [(8, 24, 16, 16), (24,), (24,)], 1),
    "group_norm": (lambda x, w, b: F.group_norm(x, 4, w, b), [(20, 12, 14, 14), (12,), (12,)], 1),
    "cumsum": (lambda x: x.cumsum(0), [(40, 1200)], 1),
    "matmul": (torch.matmul, [(200, 40), (40, 210)], 2),
}


@pytest.mark.parametrize("name", sorted(LARGE))
def test_large_calls_are_cut_along_the_axes_that_the_formula_treats_apart(name):
    kernel, shapes, axes = LARGE[name]
    operands = drawn(shapes, 31)
    right = kernel(*operands)
    honest = (kernel(*(t.double() for t in operands))).float()
    part = sampling.cut(honest, right, kernel, operands, np.random.default_rng(0))
    assert part is not None
    assert sum(a < b for a, b in zip(part.torch.shape, right.shape)) == axes
    assert torch.allclose(noise.exact(kernel, [t.double() for t in part.operands]).float(), part.paddle, 1e-6, 1e-7)
    verdict = judged(kernel, operands, honest)
    assert verdict.verdict in INNOCENT
    assert verdict.stats["count"] == right.numel()


@pytest.mark.parametrize(
    ("name", "side"), [("silu", Side.PADDLE), ("softmax", Side.TORCH), ("cumsum", Side.PADDLE), ("matmul", Side.TORCH)]
)
def test_one_wrong_element_of_a_large_call_is_found(name, side):
    kernel, shapes, _ = LARGE[name]
    operands = drawn(shapes, 32)
    right = kernel(*operands)
    wrong = right.clone()
    place = tuple(int(i) for i in np.random.default_rng(7).integers(0, right.shape))
    wrong[place] += 0.3 * (wrong[place].abs() + 0.01)
    verdict = judged(kernel, operands, *sides(wrong, right, side))
    assert (verdict.verdict, verdict.side, verdict.stats["first_bad"]) == (Verdict.LOCAL_WRONG, side, list(place))


def test_an_axis_that_cannot_be_cut_stays_whole():
    operands = drawn([(300, 200)], 33)
    right = torch.softmax(operands[0], 0).cumsum(1)
    kernel = lambda x: torch.softmax(x, 0).cumsum(1)  # noqa: E731
    assert sampling.cut(right, right, kernel, operands, np.random.default_rng(0)) is None
    assert judged(kernel, operands, right * 1.001).verdict is Verdict.WRONG
