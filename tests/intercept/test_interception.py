"""Nothing gets past the interception."""

import collections

import numpy as np
import paddle
import pytest
from helpers import needs
from paddle.base import core
from programs import PROGRAMS, Data

import padiff_shim
from padiff_shim.intercept import entry_points

pytestmark = pytest.mark.compat

# Paddle's kernel names of the ops of the table.
_NAMES = """matmul matmul_v2 elementwise_add elementwise_sub elementwise_mul elementwise_div div_scale elementwise_pow pow scale
    square reduce_sum reduce_mean mean logsumexp softmax layer_norm gelu relu tanh exp sqrt rsqrt bmm mv dot addmm baddbmm einsum
    multi_dot linear linear_v2"""
KERNELS = frozenset(_NAMES.split())
EXACT_PROGRAMS = {"int +", "int *"}
EXACT_REASON = "integer or bool result, exact in both"


@pytest.fixture
def kernels():
    """A function that gives the kernels chosen in C++ since the last call."""
    paddle.set_flags({"FLAGS_low_precision_op_list": 1})

    def read():
        counted = {name: sum(map(int, calls.split(","))) for name, calls in core.get_low_precision_op_list().items()}
        core.clear_low_precision_op_list()
        return counted

    yield read
    core.clear_low_precision_op_list()
    paddle.set_flags({"FLAGS_low_precision_op_list": 0})


def as_list(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def test_there_are_enough_programs_and_they_reach_every_covered_kernel(kernels):
    seen = set()
    for program in PROGRAMS.values():
        data = Data()
        kernels()
        program(data)
        seen |= set(kernels())
    assert len(PROGRAMS) >= 100
    versions = {"matmul", "div_scale", "baddbmm", "linear", "linear_v2"}  # not in every Paddle
    assert seen >= KERNELS - versions


@pytest.mark.parametrize("grad", [pytest.param(False, marks=pytest.mark.slow), True], ids=["forward", "backward"])
def test_no_kernel_of_a_covered_op_runs_outside_an_intercepted_call(kernels, grad):
    watched = KERNELS | {name + "_grad" for name in KERNELS}
    if grad:
        watched -= {"scale"}  # also the backward of add_n, which stays native
    outside = collections.Counter()

    def step(program, grad):
        outside.clear()
        data = Data(grad=grad)
        kernels()
        results = [result for result in as_list(program(data)) if not result.stop_gradient]
        if grad and results:
            paddle.autograd.backward(results, [paddle.ones_like(result) for result in results])
        outside.update(kernels())

    offenders = {}
    for name, program in PROGRAMS.items():
        with_grad = grad and not name.startswith("Tensor.")
        with padiff_shim.reference("torch"):
            step(program, with_grad)  # learns the dtype rules, for which native kernels run once on one element
        with padiff_shim.reference("torch") as run:
            step(program, with_grad)
        ran = {kernel: calls for kernel, calls in outside.items() if kernel in watched}
        explained = sum(sum(why.values()) for op, why in run.native.items() if op in entry_points.ops())
        if sum(ran.values()) != explained and not (grad and name in EXACT_PROGRAMS):
            offenders[name] = (ran, run.native)
    assert not offenders


def test_programs_stay_native_only_where_the_result_is_exact():
    for name, program in PROGRAMS.items():
        with padiff_shim.reference("torch") as run:
            program(Data())
        reasons = {why for op, whys in run.native.items() if op in entry_points.ops() for why in whys}
        assert reasons <= {EXACT_REASON}, name


@needs("_C_ops.partial_sum")
def test_a_float_op_without_reference_is_counted_where_its_tensors_come_in_a_list():
    floats, integers = ([paddle.ones([2, 2], dtype)] * 2 for dtype in ("float32", "int64"))
    with padiff_shim.reference("torch") as run:
        paddle._C_ops.partial_sum(floats, 0, -1)
        paddle._C_ops.partial_sum(integers, 0, -1)
    assert {name: sum(reasons.values()) for name, reasons in run.native.items()} == {"partial_sum": 1}


def test_values_and_gradients_agree_with_the_native_ones():
    def values(program):
        data = Data(grad=True)
        results = as_list(program(data))
        paddle.seed(0)
        wanted = [result for result in results if not result.stop_gradient]
        if wanted:
            paddle.autograd.backward(wanted, [paddle.full_like(result, 0.5) for result in wanted])
        grads = [data.x.grad, data.y.grad, data.v.grad, data.a.grad, data.seq.grad]
        for layer in vars(data.nn).values():
            layer.clear_gradients()
        return [(t.dtype, t.shape, t.numpy()) if t is not None else None for t in (*results, *grads)]

    for name, program in PROGRAMS.items():
        native = values(program)
        with padiff_shim.reference("torch"):
            ours = values(program)
        for mine, theirs in zip(ours, native):
            assert (mine is None) == (theirs is None), name
            if mine is not None:
                assert mine[:2] == theirs[:2], name
                np.testing.assert_allclose(mine[2], theirs[2], rtol=2e-4, atol=2e-5, err_msg=name)
