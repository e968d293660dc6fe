"""The judge for ops without a rounding model: honest kernels are never accused, faults are, and ties are nobody's fault."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from formulas import FORMULAS, drawn, gradient
from hypothesis import given, settings
from hypothesis import strategies as st

from padiff_shim import numerics
from padiff_shim.numerics.judging import slices
from padiff_shim.numerics.oracle import noise, precision
from padiff_shim.verdicts import HARD, Side, Verdict

F32, F64 = torch.float32, torch.float64
INNOCENT = (Verdict.EQUAL, Verdict.ROUNDING)


def judged(kernel, operands, paddle, torch_=None, *, paddle_kernel=None, seed=3, **options):
    theirs = kernel(*operands) if torch_ is None else torch_
    kernels = {"torch_kernel": kernel, "paddle_kernel": paddle_kernel, "operands": operands}
    return numerics.fallback(paddle, theirs, rng=np.random.default_rng(seed), **kernels, **options)


def sides(wrong, right, side):
    return (wrong, right) if side is Side.PADDLE else (right, wrong)


# --- innocent kernels -------------------------------------------------------------------------------------------------


@given(st.sampled_from(sorted(FORMULAS)), st.integers(0, 2**31), st.sampled_from((F32, F64)), st.sampled_from((1.0, 1e-3, 30.0)))
@settings(max_examples=25, deadline=None)
def test_another_order_is_never_accused(name, seed, dtype, scale):
    formula = FORMULAS[name]
    operands = drawn(formula.shapes, seed, dtype, scale)
    found = judged(formula.kernel, operands, formula.other(*operands), seed=seed)
    assert found.verdict in INNOCENT, found


@given(st.sampled_from(sorted(n for n, f in FORMULAS.items() if f.smooth)), st.integers(0, 2**31), st.sampled_from((F32, F64)))
@settings(max_examples=12, deadline=None)
def test_gradients_in_another_order_are_never_accused(name, seed, dtype):
    formula = FORMULAS[name]
    operands = drawn(formula.shapes, seed, dtype)
    operands.append(drawn([tuple(formula.kernel(*operands).shape)], seed + 1, dtype)[0])
    for position in range(len(formula.shapes)):
        kernel, other = gradient(formula.kernel, position), gradient(formula.other, position)
        found = judged(kernel, operands, other(*operands), seed=seed)
        assert found.verdict in INNOCENT, (position, found)


@pytest.mark.parametrize("name", sorted(FORMULAS))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, F32])
def test_the_formula_in_float64_rounded_once_is_innocent(name, dtype):
    formula = FORMULAS[name]
    operands = drawn(formula.shapes, 11, dtype)
    exact = formula.kernel(*(t.double() for t in operands)).to(dtype)
    assert judged(formula.kernel, operands, exact).verdict not in HARD


@given(st.integers(1, 400), st.integers(0, 2**31))
@settings(max_examples=30, deadline=None)
def test_sums_in_any_order(count, seed):
    (x,) = drawn([(7, count)], seed)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(count))
    one_by_one = torch.from_numpy(np.cumsum(x[:, order].numpy(), 1)[:, -1].copy())
    assert judged(lambda v: v.sum(-1), [x], one_by_one, seed=seed).verdict not in HARD


def test_a_long_sum_in_one_accumulator_is_no_fault():
    (x,) = drawn([(4, 100_000)], 1)
    found = judged(lambda v: v.abs().sum(-1), [x], torch.from_numpy(np.cumsum(x.abs().numpy(), 1)[:, -1].copy()))
    assert found.verdict in (*INNOCENT, Verdict.LOW_ACCURACY)


def test_what_rounds_to_zero_in_every_kernel_is_no_fault():
    """A sample that is classified beyond doubt: log(1 + 1e-20) is 0 in float32."""
    x = torch.tensor([[50.0, 0.0, 1.0], [0.0, 40.0, -3.0]])
    label = torch.tensor([0, 1])
    found = judged(lambda v: F.cross_entropy(v, label, reduction="none"), [x], torch.zeros(2), torch.zeros(2), audit=True)
    assert found.verdict in INNOCENT
    saturated = torch.full((40,), 20.0)
    kernel = gradient(torch.sigmoid, 0)
    assert judged(kernel, [saturated, torch.ones(40)], torch.zeros(40)).verdict in INNOCENT


# --- ties, jumps, edges -----------------------------------------------------------------------------------------------


def test_a_kink_belongs_to_either_side():
    x = torch.tensor([0.0, 1.0, -1.0, 0.0, 2.0] * 8)
    grad = torch.ones(40)
    for kernel, at_zero in ((F.relu, 1.0), (torch.abs, 1.0), (lambda v: F.leaky_relu(v, 0.1), 0.55), (F.hardtanh, 1.0)):
        derivative = gradient(kernel, 0)
        other = torch.where(x == 0, at_zero, derivative(x, grad))
        assert judged(derivative, [x, grad], other).verdict in INNOCENT
    wrong = torch.where(x == 1, 0.5, gradient(F.relu, 0)(x, grad))
    assert judged(gradient(F.relu, 0), [x, grad], wrong).verdict in HARD


def test_the_gradient_of_a_tie_in_a_pool_goes_to_any_of_them():
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0]] * 6).reshape(6, 1, 2, 2).clone()
    derivative = gradient(lambda v: F.max_pool2d(v, 2), 0)
    grad = torch.ones(6, 1, 1, 1)
    last = torch.tensor([0.0, 0.0, 1.0, 0.0]).repeat(6, 1).reshape(6, 1, 2, 2)
    assert judged(derivative, [x, grad], last).verdict in INNOCENT
    nowhere = torch.tensor([0.0, 0.0, 0.0, 1.0]).repeat(6, 1).reshape(6, 1, 2, 2)
    found = judged(derivative, [x, grad], nowhere)
    assert (found.verdict in HARD, found.side) == (True, Side.PADDLE)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_steps_may_jump_where_they_jump(dtype):
    x = torch.arange(-12, 13, dtype=dtype) / 4
    whole, half = x == x.round(), (x - 0.5) == (x - 0.5).round()
    for kernel, edge, step in ((torch.floor, whole, -1), (torch.ceil, whole, 1), (torch.round, half, 1), (torch.sign, x == 0, 1)):
        jumped = torch.where(edge, kernel(x) + step * (1 - 2 * (kernel(x) > x).to(dtype) * (kernel is torch.round)), kernel(x))
        assert judged(kernel, [x], jumped).verdict in INNOCENT
        wrong = torch.where(edge, kernel(x), kernel(x) + step)
        found = judged(kernel, [x], wrong)
        assert (found.verdict in HARD, found.side) == (True, Side.PADDLE)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_arguments_of_a_maximum(dtype):
    x = torch.tensor([[0.0, 2.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0], [5.0, 1.0, 1.0, 1.0]] * 4, dtype=dtype)
    kernel = lambda v: v.argmax(-1)  # noqa: E731
    last = x.shape[1] - 1 - x.flip(-1).argmax(-1)
    found = judged(kernel, [x], last)
    assert found.verdict is Verdict.ROUNDING
    wrong = kernel(x)
    wrong[2] = 3
    for side in (Side.PADDLE, Side.TORCH):
        found = judged(kernel, [x], *sides(wrong, kernel(x), side))
        assert (found.verdict, found.side, found.stats["first_bad"]) == (Verdict.LOCAL_WRONG, side, [2])
    assert judged(kernel, [x], (kernel(x) + 1) % 4).verdict is Verdict.WRONG


def test_comparisons_on_the_edge():
    x = torch.tensor([0.1, 0.2, 0.3, 0.10000001] * 5)
    kernel = lambda v: v > 0.1  # noqa: E731
    other = torch.where((x - 0.1).abs() < 1e-6, ~kernel(x), kernel(x))
    assert judged(kernel, [x], other).verdict in INNOCENT
    assert judged(kernel, [x], ~kernel(x)).verdict in HARD


def test_integers_have_no_oracle():
    x = torch.arange(20)
    found = judged(lambda v: v * 2, [x], x * 2 + 1)
    assert (found.verdict, found.side) == (Verdict.SEMANTICS, Side.NONE)
    assert judged(lambda v: v * 2, [x], x * 2).verdict is Verdict.EQUAL


# --- indices, labels, masks, shapes -----------------------------------------------------------------------------------


def test_integer_operands_and_masks():
    table = drawn([(30, 16)], 4)[0]
    index = torch.from_numpy(np.random.default_rng(1).integers(0, 30, (9, 5)))
    kernel = lambda w, i: F.embedding(i, w).sum(1)  # noqa: E731
    other = kernel(table, index.flip(1))
    assert judged(kernel, [table, index], other).verdict in INNOCENT
    assert judged(kernel, [table, index], kernel(table, (index + 1) % 30)).verdict is Verdict.WRONG
    mask = torch.arange(16) % 3 == 0
    masked = lambda v: torch.log_softmax(v.masked_fill(mask, -math.inf), -1)  # noqa: E731
    assert judged(masked, [table], masked(table), audit=True).verdict is Verdict.EQUAL
    finite = masked(table).nan_to_num(neginf=-1e4)
    for side in (Side.PADDLE, Side.TORCH):
        found = judged(masked, [table], *sides(finite, masked(table), side))
        assert (found.verdict, found.side) == (Verdict.NONFINITE, side)


def test_each_of_several_results_is_judged_apart():
    x = drawn([(9, 40)], 6)[0]
    variance, mean = torch.var_mean(x, -1)
    moved = judged(lambda v: torch.var_mean(v, -1)[0], [x], variance * 40 / 39)
    still = judged(lambda v: torch.var_mean(v, -1)[1], [x], x.flip(-1).mean(-1))
    assert (moved.verdict, moved.side) == (Verdict.WRONG, Side.PADDLE)
    assert still.verdict in INNOCENT
    assert mean.shape == (9,)


def test_complex_results():
    x = drawn([(6, 90)], 8)[0]
    rows = torch.exp(-2j * math.pi * torch.outer(torch.arange(90.0, dtype=F64), torch.arange(46.0, dtype=F64)) / 90).to(
        torch.complex64
    )
    assert judged(torch.fft.rfft, [x], x.to(torch.complex64) @ rows).verdict not in (Verdict.WRONG, Verdict.SEMANTICS)
    found = judged(torch.fft.rfft, [x], torch.fft.rfft(x).conj().resolve_conj())
    assert (found.verdict, found.side) == (Verdict.WRONG, Side.PADDLE)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 5)])
def test_nothing_is_equal_to_nothing(shape):
    x = torch.zeros(shape)
    assert judged(torch.sigmoid, [x], torch.sigmoid(x)).verdict is Verdict.EQUAL


def test_shapes_and_dtypes():
    x = drawn([(4, 5)], 1)[0]
    assert judged(torch.sin, [x], torch.sin(x).t()).hypothesis == "shape"
    assert judged(torch.sin, [x], torch.sin(x).double()).hypothesis == "dtype"


def test_a_formula_that_asks_for_float32_is_widened_all_the_same():
    x = drawn([(20, 30)], 2)[0]
    kernel = lambda v: torch.softmax(v.float(), -1, dtype=F32) * torch.ones(30, dtype=F32)  # noqa: E731
    assert noise.exact(kernel, [x.double()]).dtype == F64
    assert float((noise.exact(kernel, [x.double()]) - torch.softmax(x.double(), -1)).abs().max()) < 1e-15


def test_no_float64_run_leaves_it_open():
    def only_single(v):
        if v.dtype != F32:
            raise TypeError("float32 alone")
        return v.sin()

    x = drawn([(5,)], 1)[0]
    found = judged(only_single, [x], x.sin() + 1)
    assert found.verdict is Verdict.UNVERIFIED
    assert "float32 alone" in found.reason


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


@pytest.mark.parametrize("side", [Side.PADDLE, Side.TORCH])
@pytest.mark.parametrize("fault", sorted(RESULTS))
@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_planted_faults_are_found_on_their_side(name, fault, side):
    formula = FORMULAS[name]
    operands = drawn(formula.shapes, 21)
    right = formula.kernel(*operands)
    found = judged(formula.kernel, operands, *sides(RESULTS[fault](right), right, side))
    assert found.verdict in HARD or (right.ndim == 0 and found.verdict is Verdict.LOW_ACCURACY), found
    assert found.side is side


@pytest.mark.parametrize("position", [0, 1])
def test_a_fault_in_a_gradient(position):
    formula = FORMULAS["conv2d"]
    operands = drawn(formula.shapes, 22)
    kernel = gradient(formula.kernel, position)
    operands.append(torch.ones_like(formula.kernel(*operands)))
    found = judged(kernel, operands, kernel(*operands) / 2)
    assert (found.verdict, found.side) == (Verdict.WRONG, Side.PADDLE)


@pytest.mark.parametrize("name", ["conv2d", "lstm", "batch_norm"])
def test_a_lower_precision_is_named(name):
    formula = FORMULAS[name]
    operands = drawn(formula.shapes, 23)
    found = judged(formula.kernel, operands, formula.kernel(*map(_tf32, operands)))
    assert (found.verdict, found.side) == (Verdict.PRECISION_MODE, Side.PADDLE)
    assert "tf32-inputs" in (found.hypothesis, *found.alternatives)


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
        found = judged(right, operands, wrong(*operands))
        assert (found.verdict in HARD, found.side) == (True, Side.PADDLE), found


def test_formulas_that_differ_are_told_from_bad_arithmetic():
    x = drawn([(50, 60)], 25)[0]
    wrong = lambda v: torch.sin(v * 1.01)  # noqa: E731
    assert judged(torch.sin, [x], wrong(x), paddle_kernel=wrong).verdict is Verdict.SEMANTICS
    assert judged(torch.sin, [x], wrong(x), paddle_kernel=torch.sin).verdict is Verdict.WRONG


def test_half_precision_sums_are_found():
    x = drawn([(12, 300)], 26)[0]
    total = np.cumsum(x.numpy(), 1, dtype=np.float16)[:, -1].astype(np.float32)
    found = judged(lambda v: v.sum(-1), [x], torch.from_numpy(total))
    assert (found.verdict in HARD, found.side) == (True, Side.PADDLE)


def test_equal_is_not_right_and_the_audit_knows():
    x = drawn([(12, 30)], 27)[0]
    wrong = torch.sin(x) * 1.5
    assert judged(torch.sin, [x], wrong, wrong.clone()).verdict is Verdict.EQUAL
    found = judged(torch.sin, [x], wrong, wrong.clone(), audit=True)
    assert (found.verdict, found.side) == (Verdict.WRONG, Side.BOTH)


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
    part = slices.cut(honest, right, kernel, operands, np.random.default_rng(0))
    assert part is not None
    assert sum(a < b for a, b in zip(part.torch.shape, right.shape)) == axes
    assert torch.allclose(noise.exact(kernel, [t.double() for t in part.operands]).float(), part.paddle, 1e-6, 1e-7)
    found = judged(kernel, operands, honest)
    assert found.verdict in INNOCENT
    assert found.stats["count"] == right.numel()


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
    found = judged(kernel, operands, *sides(wrong, right, side))
    assert (found.verdict, found.side, found.stats["first_bad"]) == (Verdict.LOCAL_WRONG, side, list(place))


def test_an_axis_that_cannot_be_cut_stays_whole():
    operands = drawn([(300, 200)], 33)
    right = torch.softmax(operands[0], 0).cumsum(1)
    kernel = lambda x: torch.softmax(x, 0).cumsum(1)  # noqa: E731
    assert slices.cut(right, right, kernel, operands, np.random.default_rng(0)) is None
    assert judged(kernel, operands, right * 1.001).verdict is Verdict.WRONG
