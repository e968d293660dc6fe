"""What an audit tries: each op of the table, and stresses that do to operands what they say and stay in the op's domain."""

import numpy as np
import paddle
import pytest
from helpers import LAYOUTS

from padiff_shim.auditing.cases import (
    PROGRAMS,
    STRESSES as ALL_STRESSES,
    AuditCall,
    AuditCase,
    cases,
    changed,
    find,
    resized,
)
from padiff_shim.catalogue.registry import ops
from padiff_shim.dispatch.entry_point import present_entry
from padiff_shim.table.samples import Floats, Ints, Sample
from padiff_shim.tested import PADDLES

pytestmark = pytest.mark.compat

RNG = np.random.default_rng(0)
STRESSES = {stress.name: stress for stress in ALL_STRESSES}


def stressed(name, sample, dtype="float32"):
    return changed(STRESSES[name], sample, sample.arrays(np.random.default_rng(1), dtype), np.random.default_rng(2))


def test_every_op_is_tried_but_for_those_that_only_draw_or_count():
    seen = {name for name, op in ops().items() if op.tensors and not all(entry.seen_below for entry in op.entries)}
    idle = {name for name in seen if not list(cases(name))}
    drawing = {name for name in idle if ops()[name].random is not None}
    absent = {
        name for name in idle - drawing if not any(present_entry(entry) for entry in ops()[name].entries if entry.pairs is None)
    }
    assert idle - drawing - absent <= {"fused_softmax_mask"}, "its kernel is for GPUs alone"
    assert len(drawing) < 40
    assert not absent or paddle.__version__ != PADDLES[-1], "the newest Paddle has what the table has"


def test_names_are_unique_and_found_again():
    for name in ("softmax", "qr", "cross_entropy"):
        listed = [case.name for case in cases(name)]
        assert len(set(listed)) == len(listed) > 10
        assert find(listed[-1]).name == listed[-1]


def test_programs_are_of_ops_that_no_sample_reaches():
    assert all(not ops()[name].samples for name in PROGRAMS)


def test_scales_keep_to_what_a_range_stands_for():
    positive = Sample((3, 4), positive=True)
    assert (stressed("tiny", positive)[0] > 0).all()
    assert stressed("large", positive)[0].max() > 1000
    share = Sample((3, 4), within=(0.1, 0.9))
    assert stressed("large", share) is None
    assert stressed("-inf", positive) is None
    assert stressed("inf", share) is None
    assert stressed("mask", positive) is None
    both = stressed("large", Sample((2, 3), Floats((3,), 0.1, 0.9)))
    assert abs(both[0]).max() > 1000 > both[1].max()


@pytest.mark.parametrize(("name", "value"), [("nan", np.nan), ("inf", np.inf), ("-inf", -np.inf)])
def test_specials_stand_in_one_place_of_the_first_float_operand(name, value):
    labels, first, second = stressed(name, Sample(Ints((4,), 0, 3), (2, 3), (3,)))
    assert np.array_equal(labels, Sample(Ints((4,), 0, 3)).arrays(np.random.default_rng(1))[0])
    assert (~np.isfinite(first)).sum() == 1
    assert np.array_equal(first[~np.isfinite(first)], [value], equal_nan=True)
    assert np.isfinite(second).all()


def test_denormals_are_denormal_in_each_dtype():
    for dtype in ("float32", "float64"):
        result = stressed("denormal", Sample((50,)), dtype)[0]
        small = abs(result) < np.finfo(dtype).tiny
        assert 10 < small.sum() < 40
        assert (result[small] != 0).all()


def test_sizes_change_together():
    result = dict(resized(Sample((3, 4), (4, 5))))
    assert set(result) == {"long 3", "empty 3", "long 4", "empty 4"}
    (a, long), (again, b) = result["long 4"].shapes
    assert (a, b) == (3, 5)
    assert long == again > 500
    assert result["empty 3"].shapes == ((0, 4), (4, 5))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_hold_the_values(layout):
    call = AuditCall(AuditCase("softmax", 1, "plain" if layout == "contiguous" else layout, "float32"))
    assert call.layout == layout
    (tensor,) = call.tensors(grad=True)
    wanted = call.arrays[0] if layout != "expanded" else np.broadcast_to(call.arrays[0][:1], call.arrays[0].shape)
    assert np.array_equal(tensor.numpy(), wanted)
    assert not tensor.stop_gradient
    assert tensor.is_leaf


def test_a_program_is_called_like_an_op():
    call = AuditCall(AuditCase("fft_r2c", 0, "plain", "float32"))
    (result,) = call.run(call.tensors(grad=False))
    assert np.allclose(result.numpy(), np.fft.rfft(call.arrays[0]), atol=1e-4)
    assert result.dtype == paddle.complex64
