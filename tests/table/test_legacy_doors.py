"""``paddle._legacy_C_ops``: the same ops through the older form of call; and the names that are no ops of the table."""

import collections

import numpy as np
import paddle
import pytest
from helpers import Call, flat, located, same, sampled
from padiff_shim.patches import _unsubstituted

import padiff_shim
from padiff_shim.catalogue.registry import ops
from padiff_shim.table import signature
from padiff_shim.table.reasons import StayNative
from padiff_shim.tested import PADDLES

pytestmark = pytest.mark.compat
LEGACY = "paddle._legacy_C_ops."
DOORS = [(op, entry) for op in ops().values() for entry in op.entries if entry.pairs is not None and located(entry) is not None]


def names(op):
    """All that Paddle calls an op of the table, by the table itself."""
    ours = {op.name, *filter(None, op.amp), *(entry.target.rpartition(".")[2] for entry in op.entries)}
    return {name.rstrip("_") for name in ours if not name.startswith("__")}


def test_every_legacy_twin_is_a_door_or_says_why_not():
    present = set(dir(paddle._legacy_C_ops))
    doors = {entry.target.removeprefix(LEGACY) for op in ops().values() for entry in op.entries if entry.pairs is not None}
    twins = {name + end for op in ops().values() for name in names(op) for end in ("", "_") if name + end in present}
    native = _unsubstituted.EXACT | set(_unsubstituted.NATIVE)
    assert twins - doors - native == (set(_unsubstituted.LEGACY) | _unsubstituted.LEGACY_EXACT) & present
    assert not doors & set(_unsubstituted.LEGACY)


def walks(op, entry, sample):
    """Whether Paddle's own backward goes through this door: that of sign and of the remainder fails."""
    try:
        Call(op, entry, sample, "float32", "contiguous", True).run().sum().backward()
    except Exception:
        return False
    return True


TRIED = [pytest.param(op, entry, id=entry.target.removeprefix(LEGACY)) for op, entry in DOORS if op.samples]


@pytest.mark.rows(23)
@pytest.mark.parametrize(("op", "entry"), sampled(TRIED, 3))
def test_compared_as_well(op, entry):
    """Both modes take the same doors; ``test_op_table`` runs all samples of each in reference mode."""
    sample = op.samples[0]
    call = Call(op, entry, sample, "float32", "contiguous", not entry.inplace and walks(op, entry, sample))
    try:
        expected = Call(op, entry, sample, "float32", "contiguous", False).run()
    except (TypeError, ValueError):
        pytest.skip("takes a number only: see the spellings")
    with padiff_shim.compare("torch") as run:
        results = flat(call.run())
        if not results[0].stop_gradient:
            results[0].sum().backward()
    assert all(same(result, other.numpy()) for result, other in zip(results, flat(expected), strict=True))
    records = run.calls.filter(op=op.name)
    assert {record.entry for record in records if record.phase == "forward"} >= {entry.target}


def test_an_old_layer_s_activation():
    layer = paddle.nn.BatchNorm(4, act="relu")
    with padiff_shim.reference("torch") as run:
        layer(paddle.ones([2, 4, 3, 3]))
    assert run.substituted == {"batch_norm": 1, "relu": 1}
    assert "relu" not in run.native


ODD = [
    lambda o, x, y: o.reduce_sum(x),
    lambda o, x, y: o.reduce_sum(x, "reduce_all", True),
    lambda o, x, y: o.reduce_sum(x, "dim", []),
    lambda o, x, y: o.reduce_sum(x, "dim", [1], "keep_dim", True, "reduce_all", False),
    lambda o, x, y: o.reduce_sum(x, "dim", [0], "in_dtype", 5, "out_dtype", 6),
    lambda o, x, y: o.reduce_mean(x),
    lambda o, x, y: o.logsumexp(x),
    lambda o, x, y: o.pow(x),
    lambda o, x, y: o.pow(x, "factor", 3.0),
    lambda o, x, y: o.softmax(x, "axis", 0, "use_cudnn", False),
    lambda o, x, y: o.relu(x, "of no meaning", 3),
    lambda o, x, y: o.elementwise_add(x, y, "axis", 0),
    lambda o, x, y: o.matmul_v2(x, x, "trans_y", True),
    lambda o, x, y: o.matmul_v2(x, x, "trans_x", True),
    lambda o, x, y: o.scale(x, "scale", 2.0, "bias", 1.0, "bias_after_scale", False),
    lambda o, x, y: o.scale(x, "scale"),
]


@pytest.mark.parametrize("number", range(len(ODD)))
def test_spellings_mean_what_they_mean_natively(number):
    def outcome():
        x = paddle.to_tensor(np.linspace(0.5, 2.0, 12, dtype="float32").reshape(3, 4))
        try:
            result = ODD[number](paddle._legacy_C_ops, x, paddle.ones([3]))
        except Exception as error:
            return type(error)
        return result.numpy()

    native = outcome()
    with padiff_shim.reference("torch"):
        ours = outcome()
    if isinstance(native, type):
        assert ours is native
    else:
        assert (ours.shape, ours.dtype) == (native.shape, native.dtype)
        np.testing.assert_allclose(ours, native, rtol=1e-5)


def test_the_binder_refuses_what_it_does_not_know():
    binder = signature.PairBinder("x axis|dim=[0] keepdim|keep_dim=False reduce_all=False", "x axis=None keepdim=False", 1)
    assert binder(("x", "dim", [1], "use_mkldnn", False), {}) == ("x", [1], False)
    assert binder(("x", "reduce_all", True), {}) == ("x", None, False)
    for args in ((), ("x", "dim"), ("x", "axis", 0), ("x", "unknown", 0)):
        with pytest.raises(StayNative):
            binder(args, {})
    with pytest.raises(StayNative, match="missing"):
        signature.PairBinder("x axis", "x axis=None", 1)(("x",), {})
    with pytest.raises(StayNative, match="axis=0"):
        signature.PairBinder("x y axis=-1", "x y", 2)(("x", "y", "axis", 0), {})


# Names of the tables that the newest supported version lacks.
ONLY_IN_2 = """
    alloc_float_status alltoall bilateral_slice box_decoder_and_assign bpr_loss c_allgather c_allreduce_max c_allreduce_max_
    c_allreduce_min c_allreduce_prod c_broadcast c_broadcast_ c_reduce_max c_reduce_min c_reduce_prod c_reduce_sum
    c_reduce_sum_ c_reducescatter c_sync_comm_stream_ check_memory_continue clear_float_status data_norm
    deformable_psroi_pooling density_prior_box detection_map distributed_fused_lamb distributed_lookup_table
    distributed_push_sparse fill_zeros_like fill_zeros_like2 fsp generate_mask_labels generate_proposal_labels
    get_float_status iou_similarity linear_chain_crf locality_aware_nms mine_hard_examples minus modified_huber_loss
    multiclass_nms2 pir_run_program polygon_box_transform positive_negative_pair pow2_decay_with_linear_warmup
    precision_recall proximal_gd pull_box_extended_sparse pull_box_sparse pull_gpups_sparse pull_sparse pull_sparse_v2
    push_dense rank_loss retinanet_detection_output retinanet_target_assign rpn_target_assign sampling_id send_and_recv
    sequence_concat sequence_enumerate sequence_erase sequence_expand_as sequence_pad sequence_reshape sequence_reverse
    sequence_scatter sequence_slice sequence_unpad similarity_focus soft_relu soft_relu_ spp teacher_student_sigmoid_loss
    transfer_dtype unique_with_counts unzip var_conv_2d
"""
ONLY_BETWEEN = "moe_dispatch moe_ffn moe_reduce"  # 3.0


def test_the_tables_of_native_ops_name_paddle_s_ops():
    """A name is the newest Paddle's, or one that is known to be of others alone, and in one table only."""
    present = set(dir(paddle._C_ops)) | set(dir(paddle._legacy_C_ops))
    entries = [entry for op in ops().values() for entry in op.entries if entry.until is None]  # else in both, for other Paddles
    doors = {entry.target.rpartition(".")[2] for entry in entries if "_C_ops" in entry.target}
    assert not _unsubstituted.EXACT & set(_unsubstituted.NATIVE)
    assert not (_unsubstituted.EXACT | set(_unsubstituted.NATIVE)) & doors
    assert not (_unsubstituted.EXACT | set(_unsubstituted.NATIVE)) & set(_unsubstituted.LEGACY)
    unknown = {name for name in _unsubstituted.EXACT | set(_unsubstituted.NATIVE) if name not in present}
    older, between = (set(names.split()) for names in (ONLY_IN_2, ONLY_BETWEEN))
    if paddle.__version__ == PADDLES[-1]:
        assert unknown == between | older
    elif paddle.__version__ == PADDLES[0]:
        assert older <= present


def test_no_name_of_a_native_op_is_written_twice():
    lists = (
        _unsubstituted._CREATE,
        _unsubstituted._MOVE,
        _unsubstituted._SELECT,
        _unsubstituted._OLD_NAMES,
        *_unsubstituted._REASONS.values(),
    )
    written = collections.Counter(name for names in lists for name in names.split())
    assert [name for name, times in written.items() if times > 1] == []


def test_other_spellings_of_an_exact_op_are_exact():
    """An in-place form, an older name or a new version of an op moves the same bits."""

    def plain(name):
        return name.removesuffix("_").removesuffix("_v2").removesuffix("2").removeprefix("elementwise_").removeprefix("reduce_")

    exact = {plain(name) for name in _unsubstituted.EXACT}
    present = [*dir(paddle._C_ops), *dir(paddle._legacy_C_ops)]
    doors = {entry.target.rpartition(".")[2] for op in ops().values() for entry in op.entries}
    known = _unsubstituted.EXACT | set(_unsubstituted.NATIVE) | set(_unsubstituted.LEGACY) | doors
    assert [name for name in present if plain(name) in exact and name not in known] == []
