"""The words in which ops are declared: what they derive, what they refuse, and the examples of CONTRIBUTING."""

import re

import numpy as np
import pytest
import torch
from helpers import ROOT

from padiff_shim.catalogue import registry
from padiff_shim.table import reasons
from padiff_shim.table.op import Bools, Entry, Floats, Ints, Sample, c_op, each, legacy_op, op, operator, ranged
from padiff_shim.table.reasons import StayNative
from padiff_shim.table.signature import Binder, binder

pytestmark = pytest.mark.compat


def doors(op_):
    return {entry.target.removeprefix("paddle."): entry for entry in op_.entries}


def test_examples_of_contributing_are_a_family():
    """They load as written there, their doors bind to their formulas, and their samples suit them."""
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    module = {"__name__": "padiff_shim.patches.example", "__package__": "padiff_shim.patches"}
    exec(example, module)
    declared = registry.gather(module, "example")
    assert [op_.name for op_ in declared] == [
        "expm1", "asin", "maximum", "remainder", "leaky_relu", "prod", "index_select",
    ]  # fmt: skip
    for op_ in declared:
        for entry in op_.entries:
            binder(entry, op_.params)
        for sample in op_.samples:
            operands = [torch.from_numpy(value) for value in sample.arrays(np.random.default_rng(0))]
            assert isinstance(op_(*op_.arguments(sample, operands)), torch.Tensor)


def test_the_commonest_op():
    @op("x|input axis|dim=-1", inplace=True, legacy=True)
    def softmin(x, axis):
        return torch.softmax(-x, axis)

    assert (softmin.name, softmin.amp, softmin.results, softmin.names) == ("softmin", ("softmin", ""), ("out",), ["x", "axis"])
    assert softmin.entries == (
        c_op("softmin", "x|input axis|dim=-1"),
        legacy_op("softmin", "x axis=-1"),
        c_op("softmin_", "x|input axis|dim=-1", inplace=True),
        legacy_op("softmin_", "x axis=-1", inplace=True),
    )
    assert torch.equal(softmin(torch.ones(2), -1), torch.full((2,), 0.5))


def test_doors_beside_the_common_one():
    op_ = op(
        "x y|exponent",
        name="power",
        tensors=2,
        numbers=("y",),
        more_entries=(operator("pow"), operator("rpow", "y x")),
        legacy=("elementwise_pow: x y axis=-1", "pow: x y|factor=1.0", "three: x * y axis=0"),
    )(torch.pow)
    assert doors(op_)["_C_ops.power"].numbers == ("y",)
    assert doors(op_)["Tensor.__rpow__"].params == "y x"
    pairs = {name: (entry.pairs, entry.numbers) for name, entry in doors(op_).items() if entry.pairs is not None}
    assert pairs == {
        "_legacy_C_ops.elementwise_pow": (2, ()),
        "_legacy_C_ops.pow": (1, ("y",)),
        "_legacy_C_ops.three": (1, ("y",)),
    }
    assert op_.amp == ("elementwise_pow", "")


def test_a_function_without_a_c_op():
    op_ = op("x", c=False, more_entries=(Entry("paddle.nn.functional.f", "x"),), amp=("a", "b"))(torch.expm1)
    assert list(doors(op_)) == ["nn.functional.f"]
    assert (op_.name, op_.amp) == ("expm1", ("a", "b"))


@pytest.mark.parametrize("form", ["a b: x", "name:", ": x"])
def test_no_legacy_form(form):
    with pytest.raises(ValueError, match="is no legacy form"):
        op("x", legacy=form)(torch.expm1)


def test_an_unknown_word_is_named():
    with pytest.raises(TypeError, match="modle"):
        op("x", modle=None)(torch.expm1)


def test_an_op_stands_under_its_own_name():
    op_ = op("x")(torch.expm1)
    assert registry.gather({"expm1": op_, "torch": torch}, "f") == [op_]
    assert registry.gather({"expm1_": op_}, "f") == [op_]
    with pytest.raises(ValueError, match="op 'expm1' stands in family 'f' as 'other': give it name='other'"):
        registry.gather({"other": op_}, "f")


def test_samples_build_what_they_say():
    sample = Sample((3, 4), None, 2.5, Ints((5,), 2, 7), Bools((2,)), Floats((), 3.0, 4.0), within=(-0.5, 0.5), axis=1)
    values, absent, number, labels, mask, scalar = sample.arrays(np.random.default_rng(0), "float64")
    assert (values.shape, values.dtype, absent, number) == ((3, 4), np.float64, None, 2.5)
    assert np.abs(values).max() < 0.5
    assert (labels.shape, labels.dtype, mask.dtype) == ((5,), np.int64, np.bool_)
    assert labels.min() >= 2
    assert labels.max() < 7
    assert isinstance(scalar, np.ndarray)
    assert 3 <= scalar < 4
    assert sample.shapes == ((3, 4), None, None, (5,), (2,), ())
    assert sample.attrs == {"axis": 1}
    assert "within=(-0.5, 0.5), axis=1" in repr(sample)


def test_samples_of_one_seed_are_the_same_values_in_every_dtype():
    single, double = (Sample((7,)).arrays(np.random.default_rng(3), dtype)[0] for dtype in ("float32", "float64"))
    assert np.array_equal(single, double.astype("float32"))


def test_samples_from_samples():
    assert [s.attrs for s in each([Sample((2,), a=0)], b=(1, 2), c=(3,))] == [{"a": 0, "b": 1, "c": 3}, {"a": 0, "b": 2, "c": 3}]
    (positive,) = ranged([Sample((2,), a=0)], 0.5, 2)
    assert positive.positive
    assert not Sample((2,)).positive
    assert Sample((2, 0)).empty
    with pytest.raises(TypeError, match="is no operand of a sample"):
        Sample([3, 4])


# Doors that arrange their arguments, dtypes, running statistics, complex operands, and factors whose signs are nobody's: tests of
# their own try these.
TRIED_ELSEWHERE = {
    "batch_norm",
    "rnn",
    "fft_r2c",
    "fft_c2c",
    "fft_c2r",
    "cholesky",
    "qr",
    "svd",
    "eigh",
    "eigvalsh",
    "lu",
    "lu_unpack",
    "eig",
    "eigvals",
    "stft",
    "istft",
    "segment_pool",
    "cross_entropy_with_softmax",
    "cast",
    "index_put",
    "lstsq",
    "norm_except_dim",
    "polar",
    "cholesky_inverse",
    "pdist",
    "fused_softmax_mask",
    "householder_product",
    "ormqr",
    "lstm_cell",
    "gru_cell",
    "rnn_cell",
    "arange",
    "range",
    "linspace",
    "logspace",
}


def test_every_op_has_samples_and_every_family_ops():
    untried = {name for name, op_ in registry.ops().items() if not op_.samples}
    drawing = {name for name in untried if registry.ops()[name].random is not None}  # tests/table/test_random.py tries these
    assert untried - drawing | {"rnn"} == TRIED_ELSEWHERE
    assert all(registry.families().values())
    assert {name for names in registry.families().values() for name in names} == set(registry.ops())


BOUND = "x|input y|other=None axis|dim=-1"
SPELLED = {
    "positional": ((1, 2, 3), {}, (1, 2, 3)),
    "defaults": ((1,), {}, (1, None, -1)),
    "aliases": ((), {"dim": 0, "input": 1}, (1, None, 0)),
    "mixed": ((1,), {"axis": 0, "other": 2}, (1, 2, 0)),
    "named": ((1, 2, 3, "a name"), {}, (1, 2, 3)),
    "unnamed": ((1, 2, 3, None), {}, (1, 2, 3)),
    "name": ((1,), {"name": "a name", "dim": 0}, (1, None, 0)),
    "no out": ((1,), {"out": None, "dim": 0}, (1, None, 0)),
}
UNBOUND = {
    "no operand": ((), {"dim": 0}, reasons.MISSING),
    "too many": ((1, 2, 3, None, None), {}, reasons.TOO_MANY_ARGUMENTS),
    "no name": ((1, 2, 3, 4), {}, reasons.TOO_MANY_ARGUMENTS),
    "twice": ((1,), {"input": 1}, reasons.GIVEN_TWICE),
    "out": ((1,), {"out": 5, "dim": 0}, reasons.REDIRECTED),
    "unknown": ((1,), {"epsilon": 5}, reasons.UNKNOWN_KEYWORD),
}


def test_spellings_are_learnt_and_their_values_are_not():
    """Two rounds on one binder: what was learnt of a spelling holds for other values, and an ``out=`` is looked at each time."""
    bind, turned, plain = Binder(BOUND, BOUND), Binder(BOUND, "axis keep=True y x"), Binder("x", "x")
    for _ in range(2):
        for name, (args, kwargs, expected) in SPELLED.items():
            assert bind(args, kwargs) == expected, name
            assert turned(args, kwargs) == (expected[2], True, expected[1], expected[0]), name
        for name, (args, kwargs, why) in UNBOUND.items():
            with pytest.raises(StayNative) as caught:
                bind(args, kwargs)
            assert caught.value.why is why, name
        assert plain((7,), {}) == plain((), {"x": 7}) == (7,)


def test_no_op_and_no_entry_point_is_declared_twice():
    """Of two ops one may have an entry point in Paddle's versions before the other, or for other values of an argument."""
    names = [name for names in registry.families().values() for name in names]
    assert len(names) == len(set(names))
    claimed = {}
    for name, declared in registry.ops().items():
        for entry in declared.entries:
            for value in (None,) if entry.when is None else entry.when[1]:
                for claim in (None, value):
                    other, door = claimed.get((entry.target, claim), (name, entry))
                    ways = ((door, entry), (entry, door))
                    follow = any(before.until is not None and before.until == after.since for before, after in ways)
                    assert other == name or follow, entry.target
                claimed.setdefault((entry.target, value), (name, entry))
