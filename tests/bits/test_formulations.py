"""Every formulation keeps what it says: its spellings are one computation, with the bits that it declares."""

import importlib

import numpy as np
import pytest
from equal_spellings import EQUAL
from formulations import formulations
from formulations.declared import CAUSES, Declared, Spelling
from spelled import apart, drawn, in_torch, on_paddle, ran, which_differ, widened

from padiff_shim.measure.bits import same_bits
from padiff_shim.proof.bits.formulation import BOTH, FORWARD, FUSED, GRADIENT, compiled, replay
from padiff_shim.table.samples import Ints, Sample

pytestmark = pytest.mark.bitexact

DECLARED = [*formulations().values(), *EQUAL]
EVERY = pytest.mark.parametrize("formulation", DECLARED, ids=[formulation.name for formulation in DECLARED])
DTYPES = ("float32", "bfloat16")
CLOSE = 1e-11  # of the largest element, in float64


def doubled(arrays):
    return {
        name: value.astype("float64") if getattr(value, "dtype", None) == np.float32 else value for name, value in arrays.items()
    }


def largest_difference(array, other):
    if array is None or other is None:
        return 0.0 if array is other else np.inf
    assert array.shape == other.shape
    return np.abs(array - other).max(initial=0.0) / max(np.abs(array).max(initial=0.0), np.finfo("float64").tiny)


@pytest.mark.rows(50)
@EVERY
def test_paddles_line_has_the_bits_of_torchs(formulation):
    """Of every sample, with the gradients of all operands."""
    for place in range(len(formulation.samples)):
        arrays = drawn(formulation, place)
        for dtype in DTYPES:
            for spelling in formulation.spellings:
                ported, original = on_paddle(spelling.paddle, arrays, dtype), in_torch(spelling.torch, arrays, dtype)
                assert not ported.forward_differs(original), (spelling, dtype)
                assert not ported.gradient_differs(original), (spelling, dtype)


@pytest.mark.rows(50)
@EVERY
def test_spellings_are_one_computation(formulation):
    for place in range(len(formulation.samples)):
        arrays = doubled(drawn(formulation, place))
        first, *others = (on_paddle(widened(spelling.paddle), arrays, "float64") for spelling in formulation.spellings)
        assert set(first.dtypes) == {"float64"}
        for other in others:
            assert len(first.results) == len(other.results)
            assert max(map(largest_difference, first.results, other.results)) < CLOSE
            assert max(largest_difference(first.gradients[name], other.gradients[name]) for name in first.gradients) < CLOSE


@pytest.mark.rows(50)
@EVERY
def test_bits_differ_as_declared(formulation):
    for dtype in DTYPES:
        differing = which_differ(ran(formulation, dtype))
        if dtype in formulation.differs:
            assert differing == formulation.differs[dtype], dtype
        elif not formulation.may_differ:  # of those, other machines may have other kernels in either dtype
            assert differing == "", dtype


def test_all_causes_are_there():
    declared = formulations().values()
    assert all(formulation.why and not formulation.dtypes for formulation in EQUAL)
    assert {formulation.cause for formulation in declared} == set(CAUSES)
    assert len(declared) >= 45
    assert all(formulation.why and formulation.seen for formulation in declared)
    assert all(set(formulation.dtypes) <= set(DTYPES) for formulation in declared)


@EVERY
def test_a_declaration_does_not_contradict_itself(formulation):
    declared = importlib.import_module(f"formulations.{formulation.cause}").FORMULATIONS
    assert formulation in (*declared, *EQUAL)
    assert len(formulation.spellings) > 1
    assert all(len(sample.operands) == len(formulation.names) for sample in formulation.samples)
    assert bool(formulation.dtypes) is (formulation not in EQUAL)


def test_a_spelling_is_a_function_of_its_operands():
    assert replay("z = x + 1\nz * y", {"x": 2, "y": 3.0}) == 9.0
    assert replay("math.sqrt(x)", {"x": 4.0}, "torch") == 2.0
    for text in ("", "z = x"):
        with pytest.raises(SyntaxError, match="ends with an expression"):
            compiled(text, ("x",), "paddle")


def test_a_widened_spelling_names_float64_alone():
    assert widened('x.astype("float32")') == 'x.astype("float64")'
    assert widened("x.to(torch.bfloat16) + float16") == "x.to(torch.float64) + float16"


def test_bits_are_more_than_values():
    zeros = np.zeros(2, "float32")
    assert same_bits(zeros, zeros.copy())
    assert not same_bits(zeros, -zeros)
    assert same_bits(zeros + np.nan, zeros + np.nan)
    assert not same_bits(zeros, zeros.astype("float64"))
    assert not same_bits(zeros, None)
    assert same_bits(None, None)


def test_forward_and_gradient_are_told_apart():
    texts = ("x * y", "x * y * 1.5", "x.detach() * y", "x * y * 1.0")
    arrays = {"x": np.ones(3, "float32"), "y": np.full(3, 3.0, "float32"), "i": np.arange(3)}
    first, scaled, detached, same = (on_paddle(text, arrays, "float32") for text in texts)
    assert which_differ([first, scaled]) == BOTH
    assert which_differ([first, detached]) == GRADIENT
    assert which_differ([first, same]) == ""
    assert which_differ([on_paddle("x.detach() * 2", arrays, "float32"), on_paddle("x.detach()", arrays, "float32")]) == FORWARD
    results, gradients = apart(first, scaled, "float32")
    assert results.share == gradients.share == 1.0
    assert results.ulp == 1.5 * 2**21  # 4.5 against 3, whose ulp is that of 4


def test_labels_have_no_gradient():
    spellings = (Spelling("x + t", "x + t"), Spelling("t + x", "t + x"))
    loss = Declared("a loss", FUSED, "x t", spellings, (Sample((4, 3), Ints((4,), 0, 3)),), "why")
    bits = on_paddle("F.cross_entropy(x, t)", drawn(loss), "float32")
    assert list(bits.gradients) == ["x"]
    assert bits.gradients["x"].shape == (4, 3)
