"""The table of known differences: each shipped entry fits its own formula and nothing else, and occurs with the frameworks."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import paddle
import pytest
import torch
from helpers import in_turn
from quirky import NORM, OCCURS, frozen_layer_norm, problem, quirky

from padiff_shim.catalogue import known_differences
from padiff_shim.comparison.judge import Consequences
from padiff_shim.verdicts import Verdict

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from faults.kernels import paddle_kernel, torch_kernel
from faults.score import verdict_of

VERSIONS = {"paddle": paddle.__version__, "torch": torch.__version__}
SEEN = {"paddle": "3.3.1", "torch": "2.13.0"}
CASES = [pytest.param(name, call, id=f"{name}-{i}") for name, calls in OCCURS.items() for i, call in enumerate(calls)]


def one_element(y):
    """The largest finite element a thousandth off; of float16 a hundredth."""
    place = y.nan_to_num(0.0, 0.0, 0.0).abs().argmax()
    changed = y.clone()
    changed.view(-1)[place] *= 1.01 if y.dtype == torch.float16 else 1.001
    return changed


def one_nan(y):
    """NaN for a number."""
    changed = y.clone()
    changed.view(-1)[torch.isfinite(y).reshape(-1).nonzero()[-1]] = float("nan")
    return changed


def tf32(y):
    """The low bits lost (11 are kept); of other formats those that bfloat16 lacks."""
    return truncated(y) if y.dtype == torch.float32 else y.to(torch.float32).to(torch.bfloat16).to(y.dtype)


def truncated(y):
    """13 bits of a float32's significand cut off."""
    return (y.view(torch.int32) & -8192).view(torch.float32)


# Of ops without a rounding model, whose formulas their declarations have: tests/catalogue/test_defects_named.py shows them.
GENERIC = {
    "range added up",
    "group norm without a weight",
    "number added to a norm",
    "erfinv by a quantile",
    "expm1 and log1p spelled out",
    "shares that do not sum to one",
    "torch's renorm",
    "torch's gradient of hardsigmoid",
    "gradient of a product with a zero",
    "whole Cholesky factor",
    "gradient of spectral norm",
    "torch's sign of NaN",
    "extrema that pass over NaN",
    "log_softmax of minus infinity",
    "logsumexp of infinities",
    "whole gradient to each of equal elements",
    "whole gradient to each of equal extrema",
    "powers that leave the range",
    "gradient of silu",
    "logits at zero",
    "label's part taken off",
    "norms bounded together",
    "half-centred covariance",
    "variance in one pass",
    "sinc of NaN",
    "averages in float32",
    "interpolation to one pixel",
    "weights of interpolation in float32",
    "power means in float32",
    "eigenvalues of several matrices",
    "small determinants",
    "slogdet through the determinant",
    "one squaring too few",
    "torch's exponential of degree 8",
    "pinv through vectors",
    "digamma's slope of large negative numbers",
    "gradient of gammaln",
    "incomplete gamma functions",
    "torch's incomplete gamma functions",
    "torch's trigamma",
    "range left on the way",
    "vectors of eigenvalues near the real axis",
    "number of an optimizer in float32",
    "master weight that stays as it was",
}

FAULTS = {
    "times 1.5": lambda y: y * 1.5,
    "one element": one_element,
    "NaN": one_nan,
    "permuted": lambda y: y.reshape(-1).roll(1).reshape(y.shape),
    "tf32": tf32,
}


def record_of(call, judged):
    """The fields of the log's record that quirks look at."""
    return {
        "op": call.op,
        "phase": "forward" if call.wanted == "out" else "backward",
        "tensor": call.wanted if call.wanted == "out" else f"grad:{call.wanted}",
        "dtype": call.dtype,
        "verdict": judged.verdict,
        "side": judged.side,
        "hypothesis": judged.hypothesis,
        "modifiers": list(judged.modifiers),
        "stats": judged.stats,
        "layer": "",
        "site": "",
    }


def named(call, paddle_result, torch_result, versions=SEEN):
    """The name of the known difference that these two results are, or None; and the verdict."""
    judged = verdict_of(call, paddle_result, torch_result, 0)
    outcome = Consequences(
        SimpleNamespace(environment=versions), action="log", threshold=Verdict.WRONG, callback=None, keep=0, known=()
    )
    quirk = outcome._known(record_of(call, judged), judged)
    return quirk and quirk.name, judged


def on_sides(name, accused, other):
    """Paddle's and torch's result."""
    (side,) = [quirk.side for quirk in known_differences.shipped() if quirk.name == name]
    return (accused, other) if side == "paddle" else (other, accused)


def test_every_shipped_entry_is_shown_and_has_a_formula():
    assert set(OCCURS) | GENERIC == {quirk.name for quirk in known_differences.shipped()}
    assert not set(OCCURS) & GENERIC
    assert all(quirk.hypothesis and not set("*?[") & set("".join(quirk.hypothesis)) for quirk in known_differences.shipped())


@pytest.mark.parametrize(("name", "call"), CASES)
def test_a_known_difference_is_named(name, call):
    wrong, right = quirky(name, call)
    quirk, judged = named(call, *on_sides(name, wrong, right))
    assert quirk == name, judged


@pytest.mark.parametrize(("name", "call", "fault"), in_turn(CASES, FAULTS))
def test_a_fault_on_top_of_it_or_instead_is_not(name, call, fault):
    wrong, right = quirky(name, call)
    change = FAULTS[fault]
    for accused, other in ((change(wrong), right), (change(right), right), (wrong, change(right))):
        quirk, judged = named(call, *on_sides(name, accused, other))
        assert quirk is None, judged


def test_a_fault_of_the_other_side_that_the_bound_of_a_long_sum_covers():
    """Beside a sequential sum any kernel looks accurate: it is held against a good one's errors."""
    call = OCCURS["sequential sum"][0]
    wrong, right = quirky("sequential sum", call)
    quirk, judged = named(call, wrong, right * (1 + 2.0**-16))
    assert quirk is None, judged
    quirk, judged = named(call, wrong, right * 1.002)
    assert (quirk, judged.side, judged.hypothesis) == (None, "both", None), judged


@pytest.mark.parametrize("fault", ["top", "other"])
@pytest.mark.parametrize("place", [3, 11111])
def test_a_fault_that_is_smaller_than_the_known_difference(place, fault):
    """It is not among the largest differences of the two kernels, nor (but by luck) in a random sample."""
    rng = np.random.default_rng(place)
    x, scale, bias = rng.standard_normal((512, 64)), rng.standard_normal(64), rng.standard_normal(64)
    call = problem("layer_norm", "float32", "x", x=x, scale=scale, bias=bias, **NORM)
    wrong, right = quirky("scale lost in the gradient", call)
    assert named(call, wrong, right)[0] == "scale lost in the gradient"
    spoilt = (wrong if fault == "top" else right).clone()
    spoilt.view(-1)[place] *= 1.01
    results = (spoilt, right) if fault == "top" else (wrong, spoilt)
    quirk, judged = named(call, *results)
    assert quirk is None, judged


@pytest.mark.parametrize(("name", "call"), CASES)
def test_what_the_installed_kernels_do_is_named_or_right(name, call):
    """Another processor's kernels may not have the difference; what they have instead of it must not get its name."""
    native = frozen_layer_norm(call) if name == "scale lost in the gradient" else paddle_kernel(call)
    quirk, judged = named(call, native, torch_kernel(call), VERSIONS)
    if quirk is None:
        pytest.skip(f"not shown here: {judged.verdict} {judged.hypothesis or ''}")
    assert quirk == name, judged
