"""The judge for ops without a rounding model: honest kernels are never accused, and ties are nobody's fault."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from formulas import FORMULAS, INNOCENT, drawn, gradient, judged, sides
from hypothesis import given, settings, strategies as st

from padiff_shim.numerics import noise, steps
from padiff_shim.verdicts import HARD, Side, Verdict

F32, F64 = torch.float32, torch.float64


# --- innocent kernels -------------------------------------------------------------------------------------------------


@given(st.sampled_from(sorted(FORMULAS)), st.integers(0, 2**31), st.sampled_from((F32, F64)), st.sampled_from((1.0, 1e-3, 30.0)))
@settings(max_examples=25)
def test_another_order_is_never_accused(name, seed, dtype, scale):
    formula = FORMULAS[name]
    operands = drawn(formula.shapes, seed, dtype, scale)
    verdict = judged(formula.kernel, operands, formula.other(*operands), seed=seed)
    assert verdict.verdict in INNOCENT, verdict


@given(st.sampled_from(sorted(n for n, f in FORMULAS.items() if f.smooth)), st.integers(0, 2**31), st.sampled_from((F32, F64)))
@settings(max_examples=12)
def test_gradients_in_another_order_are_never_accused(name, seed, dtype):
    formula = FORMULAS[name]
    operands = drawn(formula.shapes, seed, dtype)
    operands.append(drawn([tuple(formula.kernel(*operands).shape)], seed + 1, dtype)[0])
    for position in range(len(formula.shapes)):
        kernel, other = gradient(formula.kernel, position), gradient(formula.other, position)
        verdict = judged(kernel, operands, other(*operands), seed=seed)
        assert verdict.verdict in INNOCENT, (position, verdict)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e200, 1e-200, 1e307])
def test_what_has_no_square_is_judged_without_a_warning(size):
    """Where the formula itself is asked how well it agrees, too."""
    x = drawn([(40,)], 3, F64)[0].abs() * size
    kernel, wrong = F.silu, F.silu(x)
    wrong[7] *= 1.001
    for ours in (kernel, lambda v: kernel(v) * 1.001):
        verdict = judged(kernel, [x], wrong, kernel(x), paddle_kernel=ours)
        assert verdict.verdict.severity > Verdict.ROUNDING.severity


@pytest.mark.parametrize("name", sorted(FORMULAS))
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, F32])
def test_the_formula_in_float64_rounded_once_is_innocent(name, dtype):
    formula = FORMULAS[name]
    operands = drawn(formula.shapes, 11, dtype)
    exact = formula.kernel(*(t.double() for t in operands)).to(dtype)
    assert judged(formula.kernel, operands, exact).verdict not in HARD


@given(st.integers(1, 400), st.integers(0, 2**31))
@settings(max_examples=30)
def test_sums_in_any_order(count, seed):
    (x,) = drawn([(7, count)], seed)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(count))
    one_by_one = torch.from_numpy(np.cumsum(x[:, order].numpy(), 1)[:, -1].copy())
    assert judged(lambda v: v.sum(-1), [x], one_by_one, seed=seed).verdict not in HARD


def test_a_long_sum_in_one_accumulator_is_no_fault():
    (x,) = drawn([(4, 100_000)], 1)
    verdict = judged(lambda v: v.abs().sum(-1), [x], torch.from_numpy(np.cumsum(x.abs().numpy(), 1)[:, -1].copy()))
    assert verdict.verdict in (*INNOCENT, Verdict.LOW_ACCURACY)


def test_what_rounds_to_zero_in_every_kernel_is_no_fault():
    """A sample that is classified beyond doubt: log(1 + 1e-20) is 0 in float32."""
    x = torch.tensor([[50.0, 0.0, 1.0], [0.0, 40.0, -3.0]])
    label = torch.tensor([0, 1])
    verdict = judged(lambda v: F.cross_entropy(v, label, reduction="none"), [x], torch.zeros(2), torch.zeros(2), audit=True)
    assert verdict.verdict in INNOCENT
    saturated = torch.full((40,), 20.0)
    kernel = gradient(torch.sigmoid, 0)
    assert judged(kernel, [saturated, torch.ones(40)], torch.zeros(40)).verdict in INNOCENT


# --- ties, jumps, edges -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "kernel", [torch.sin, torch.square, F.softsign, lambda v: F.max_pool1d(v[None], 1)[0], lambda v: v.cumsum(-1)]
)
def test_a_wrong_value_of_an_operand_of_zero_is_found(kernel, dtype):
    """Next to no move of 0 is a jump of a result that is 0 itself."""
    x = torch.arange(27, dtype=dtype).reshape(1, 27)
    wrong = kernel(x).clone()
    wrong[0, 0] = 7.5
    judgement = judged(kernel, [x], wrong)
    assert (judgement.verdict in HARD, judgement.side) == (True, Side.PADDLE)


def test_a_kink_belongs_to_either_side():
    x = torch.tensor([0.0, 1.0, -1.0, 0.0, 2.0] * 8)
    grad = torch.ones(40)
    for kernel, place, slope in (
        (F.relu, 0, 1.0),
        (torch.abs, 0, -1.0),
        (lambda v: F.leaky_relu(v, 0.1), 0, 1.0),
        (F.hardtanh, 1, 1.0),
    ):
        derivative = gradient(kernel, 0)
        other = torch.where(x == place, slope, derivative(x, grad))
        assert judged(derivative, [x, grad], other).verdict is Verdict.TIE
        between = torch.where(x == place, 0.55, derivative(x, grad))  # allowed, too: but only of declared kinks that is known
        assert judged(derivative, [x, grad], between).verdict is Verdict.UNVERIFIED
    wrong = torch.where(x == 1, 0.5, gradient(F.relu, 0)(x, grad))
    assert judged(gradient(F.relu, 0), [x, grad], wrong).verdict in HARD


def test_the_gradient_of_a_tie_in_a_pool_goes_to_any_of_them():
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0]] * 6).reshape(6, 1, 2, 2).clone()
    derivative = gradient(lambda v: F.max_pool2d(v, 2), 0)
    grad = torch.ones(6, 1, 1, 1)
    last = torch.tensor([0.0, 0.0, 1.0, 0.0]).repeat(6, 1).reshape(6, 1, 2, 2)
    assert judged(derivative, [x, grad], last).verdict is Verdict.TIE
    nowhere = torch.tensor([0.0, 0.0, 0.0, 1.0]).repeat(6, 1).reshape(6, 1, 2, 2)
    verdict = judged(derivative, [x, grad], nowhere)
    assert (verdict.verdict in HARD, verdict.side) == (True, Side.PADDLE)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_steps_may_jump_where_they_jump(dtype):
    x = torch.arange(-12, 13, dtype=dtype) / 4
    whole, half = x == x.round(), (x - 0.5) == (x - 0.5).round()
    for kernel, edge, step in ((torch.floor, whole, -1), (torch.ceil, whole, 1), (torch.round, half, 1), (torch.sign, x == 0, 1)):
        jumped = torch.where(edge, kernel(x) + step * (1 - 2 * (kernel(x) > x).to(dtype) * (kernel is torch.round)), kernel(x))
        assert judged(kernel, [x], jumped).verdict is Verdict.TIE
        wrong = torch.where(edge, kernel(x), kernel(x) + step)
        verdict = judged(kernel, [x], wrong)
        assert (verdict.verdict in HARD, verdict.side) == (True, Side.PADDLE)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_arguments_of_a_maximum(dtype):
    x = torch.tensor([[0.0, 2.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0], [5.0, 1.0, 1.0, 1.0]] * 4, dtype=dtype)
    kernel = lambda v: v.argmax(-1)  # noqa: E731
    last = x.shape[1] - 1 - x.flip(-1).argmax(-1)
    assert judged(kernel, [x], last).verdict in (Verdict.TIE, Verdict.UNVERIFIED)  # as far as chance finds the last of equal ones
    wrong = kernel(x)
    wrong[2] = 3
    for side in (Side.PADDLE, Side.TORCH):
        verdict = judged(kernel, [x], *sides(wrong, kernel(x), side))
        assert (verdict.verdict, verdict.side, verdict.stats["first_bad"]) == (Verdict.LOCAL_WRONG, side, [2])
    assert judged(kernel, [x], (kernel(x) + 1) % 4).verdict is Verdict.WRONG


def test_comparisons_on_the_edge():
    x = torch.tensor([0.1, 0.2, 0.3, 0.10000001] * 5)
    kernel = lambda v: v > 0.1  # noqa: E731
    other = torch.where((x - 0.1).abs() < 1e-6, ~kernel(x), kernel(x))
    assert judged(kernel, [x], other).verdict is Verdict.TIE
    assert judged(kernel, [x], ~kernel(x)).verdict in HARD


def test_integers_have_no_oracle():
    x = torch.arange(20)
    verdict = judged(lambda v: v * 2, [x], x * 2 + 1)
    assert (verdict.verdict, verdict.side) == (Verdict.SEMANTICS, Side.NONE)
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
        verdict = judged(masked, [table], *sides(finite, masked(table), side))
        assert (verdict.verdict, verdict.side) == (Verdict.NONFINITE, side)


NAN, INF = math.nan, math.inf


def passes_over(x):
    """The largest element by comparisons: NaN is larger than none."""
    return torch.where(x.isnan(), -INF, x).amax(-1)


def margin(x):
    """What the others lack to the first element, by comparisons."""
    lacking = 1 - (x[..., :1] - x[..., 1:])
    return torch.where(lacking > 0, lacking, torch.zeros_like(lacking)).mean()


@pytest.mark.parametrize(
    ("kernel", "values", "other"),
    [
        (passes_over, (1.0, NAN, 2.0), lambda x: x.amax(-1)),
        (margin, (1.0, NAN, 0.5), lambda x: torch.relu(1 - (x[..., :1] - x[..., 1:])).mean()),
        (margin, (INF, INF, 0.5), lambda x: torch.relu(1 - (x[..., :1] - x[..., 1:])).mean()),
    ],
    ids=["maximum", "margin", "infinities"],
)
def test_nan_of_an_operand_that_is_none(kernel, values, other):
    """Where Torch's kernel passes over NaN, or hides it behind a comparison, its formula proves nothing against NaN."""
    x = torch.tensor([values, (0.5, 1.5, -1.0)])
    assert other(x).isnan().any()
    verdict = judged(kernel, [x], other(x))
    assert (verdict.verdict, verdict.side) == (Verdict.UNVERIFIED, Side.NONE), verdict
    assert judged(other, [x], kernel(x)).side is Side.PADDLE  # who hides it


def test_the_largest_of_infinity_and_nan_is_not_known():
    x = torch.tensor([(INF, NAN, 2.0), (0.5, 1.5, -1.0)])
    verdict = judged(passes_over, [x], x.amax(-1))
    assert (verdict.verdict, verdict.side) == (Verdict.UNVERIFIED, Side.NONE), verdict
    assert judged(passes_over, [x], torch.tensor([INF, NAN])).side is Side.PADDLE
    assert judged(passes_over, [x], torch.tensor([3.0, 1.5])).side is Side.PADDLE


def test_a_matrix_with_infinities_has_no_determinant():
    def signs_and_logarithms(x):
        return torch.stack(torch.linalg.slogdet(x))

    x = drawn([(3, 4, 4)], 0)[0]
    x[0, 1, 2] = -INF
    right = signs_and_logarithms(x)
    other = right.clone()
    other[:, 0] = torch.tensor([0.0, NAN])
    verdict = judged(signs_and_logarithms, [x], other, right)
    assert (verdict.verdict in (Verdict.UNVERIFIED, Verdict.ROUNDING), verdict.side) == (True, Side.NONE), verdict
    for place in ((0, 1), (1, 2)):  # those of the others are known
        wrong = other.clone()
        wrong[place] *= -1.0
        assert judged(signs_and_logarithms, [x], wrong, right).side is Side.PADDLE


def test_the_logarithm_of_what_is_zero_but_for_rounding_may_be_infinite():
    """As of the determinant of a singular matrix: float64 happens to give -37, and another order of the same steps gives -inf."""

    def logarithms(x):
        return ((x[:, 0] / x[:, 1]) * x[:, 1] - x[:, 2]).abs().log()

    x = torch.tensor([(2.0, 4.0, 1.0), (1.0, 49.0, 1.0)])
    right = noise.exact(logarithms, [x.double()]).float()
    assert -40 < right[1] < -30
    for value, verdict, side in ((-INF, Verdict.UNVERIFIED, Side.NONE), (NAN, Verdict.NONFINITE, Side.PADDLE)):
        judgement = judged(logarithms, [x], torch.stack([right[0], torch.tensor(value)]), right)
        assert (judgement.verdict, judgement.side) == (verdict, side), judgement
    assert judged(logarithms, [x], torch.stack([torch.tensor(-INF), right[1]]), right).side is Side.PADDLE


@pytest.mark.parametrize(
    "kernel",
    [lambda x: torch.view_as_real(torch.fft.rfft(x)), lambda x: torch.linalg.householder_product(x, x[:, 0])],
    ids=["spectrum", "reflections"],
)
def test_what_infinities_make_of_each_other_within_a_step_is_not_known(kernel):
    x = drawn([(3, 4, 4)], 0)[0]
    x[0, 2, 1] = -INF
    right = kernel(x)
    other = right.clone()
    other[0, 2] = NAN
    verdict = judged(kernel, [x], other, right)
    assert (verdict.verdict, verdict.side) == (Verdict.UNVERIFIED, Side.NONE), verdict
    wrong = other.clone()
    wrong[1, 1] = NAN
    assert judged(kernel, [x], wrong, right).side is Side.PADDLE


def test_nan_that_comes_of_zeros_alone():
    """The zeros around a convolution's input, times a weight that is none: kernels that leave them out are right as well."""
    x, weight = torch.ones(1, 1, 4), torch.tensor([[[NAN, 1.0, 2.0]]])
    skipped = F.conv1d(x[..., :2], weight[..., 1:])
    whole = F.conv1d(x, weight, padding=1)
    assert whole.isnan().all()
    ours = whole.clone()
    ours[..., :1] = skipped
    verdict = judged(lambda x, w: F.conv1d(x, w, padding=1), [x, weight], ours)
    assert (verdict.verdict, verdict.side) == (Verdict.UNVERIFIED, Side.NONE), verdict
    ours[..., 1:2] = 3.0  # there the weight meets an element
    assert judged(lambda x, w: F.conv1d(x, w, padding=1), [x, weight], ours).side is Side.PADDLE


@pytest.mark.parametrize("value", [NAN, INF])
def test_nan_of_another_row_is_guilty(value):
    x = torch.tensor([(1.0, value, 2.0), (0.5, 1.5, -1.0)])
    assert judged(passes_over, [x], torch.full((2,), NAN)).side is Side.PADDLE


def test_nan_of_infinity_where_large_numbers_have_a_limit_is_guilty():
    x = torch.tensor([INF, 1.0, -2.0])
    for kernel in (F.softshrink, F.softplus, lambda x: x.double().log1p().to(x.dtype) if x.dtype == F32 else x.log1p()):
        ours = kernel(x.clamp(min=0)).clone()
        expected = kernel(x.clamp(min=0))
        ours[0] = NAN
        assert judged(lambda x, kernel=kernel: kernel(x.clamp(min=0)), [x], ours, expected).side is Side.PADDLE


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
    verdict = judged(torch.fft.rfft, [x], torch.fft.rfft(x).conj().resolve_conj())
    assert (verdict.verdict, verdict.side) == (Verdict.WRONG, Side.PADDLE)


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
    verdict = judged(only_single, [x], x.sin() + 1)
    assert verdict.verdict is Verdict.UNVERIFIED
    assert "float32 alone" in verdict.reason


@pytest.mark.parametrize("dtype", [F32, F64])
def test_a_fused_backward_keeps_its_own_forward(dtype):
    """Torch's attention hands its backward what a decomposition of the forward alone does not give."""
    operands = drawn([(2, 3, 7, 8)] * 4, 12, dtype)
    other = lambda q, k, v: torch.softmax(q @ k.mT / math.sqrt(8), -1) @ v  # noqa: E731
    for position in range(3):
        kernel, honest = gradient(F.scaled_dot_product_attention, position), gradient(other, position)
        assert judged(kernel, operands, honest(*operands)).verdict in INNOCENT
        verdict = judged(kernel, operands, honest(*operands) * 1.01)
        assert (verdict.verdict in HARD, verdict.side) == (True, Side.PADDLE)


def test_a_decomposition_that_computes_something_else_is_not_used(monkeypatch):
    monkeypatch.setitem(steps.DECOMPOSED, torch.ops.aten._softmax.default, lambda x, axis, half: torch.zeros_like(x))
    x = drawn([(20, 30)], 13, F64)[0]
    kernel = lambda v: torch.softmax(v, -1)  # noqa: E731
    assert judged(kernel, [x], x.exp() / x.exp().sum(-1, keepdim=True)).verdict in INNOCENT
    assert judged(kernel, [x], torch.zeros_like(x)).verdict is Verdict.WRONG


@pytest.mark.parametrize("kernel", [torch.fft.rfftn, torch.fft.fftn, lambda x: torch.fft.irfft(torch.fft.rfft(x))])
def test_what_cancels_in_a_spectrum_cancels_but_for_rounding(kernel):
    """Rows that come twice: elements of their spectrum are 0, also where they have no imaginary part whatever the rows are."""
    x = drawn([(2, 2, 3, 3)], 0)[0].repeat_interleave(2, -1).repeat_interleave(2, -2)
    right = kernel(x)
    rng = np.random.default_rng(1)
    moves = torch.from_numpy(rng.choice([-1.0, 1.0], (*right.shape, 2))) * 2.0**-25 * float(right.abs().square().mean().sqrt())
    other = right + (torch.view_as_complex(moves) if right.is_complex() else moves[..., 0]).to(right.dtype)
    assert judged(kernel, [x], other).verdict in INNOCENT
    wrong = right.clone()
    wrong[0, 0, 3, 1] += 1e-3
    verdict = judged(kernel, [x], wrong)
    assert (verdict.verdict in HARD, verdict.side) == (True, Side.PADDLE), verdict
