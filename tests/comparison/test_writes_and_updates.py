"""Under compare what is read and written at an index and what an optimizer does are judged, and stay what they are natively."""

import contextlib
import functools

import numpy as np
import paddle
import pytest
import torch
from helpers import EVERY, in_turn

import padiff_shim
from padiff_shim import fault_injection
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.runlog.counts import UPDATE_UNCHECKED, WRITE_UNCHECKED
from padiff_shim.verdicts import Side

compare = functools.partial(padiff_shim.compare, "torch", progress=False)
STEPS = 3 if EVERY else 2
pytestmark = pytest.mark.skipif(not IS_3, reason="Paddle 2.6 shows no node to a hook")


def values(*shape, dtype="float32"):
    made = paddle.to_tensor(np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    made.stop_gradient = False
    return made


def written(write, x, value, mode=contextlib.nullcontext):
    """The gradients behind a write, and the run."""
    with mode() as run:
        target = x * 1
        write(target, value * 1)
        (target * paddle.arange(target.size, dtype="float32").reshape(target.shape).astype(target.dtype)).sum().backward()
    gradients = [None if leaf.grad is None else leaf.grad.numpy() for leaf in (x, value)]
    x.clear_gradient(False)
    value.clear_gradient(False)
    return run, gradients


def put(index, target, value):
    target[index] = value


def times(index, target, value):
    target[index] *= value


ROWS = paddle.to_tensor([0, 2])
MASK = paddle.to_tensor([True, False, True, False])
WHOLE = paddle.to_tensor(np.arange(120).reshape(4, 5, 6) % 3 == 0)
PARTS = {
    "rows": (ROWS, (2, 5, 6)), "one row for all": (ROWS, (6,)), "an axis": ((slice(None), ROWS), (4, 2, 6)),
    "a list": ([0, 2], (2, 5, 6)),
    "beside a number": ((0, slice(None), ROWS), (5, 2)), "both": ((ROWS, ROWS), (2, 6)), "array": (np.array([1, -1]), (2, 5, 6)),
    "mask": (MASK, (2, 5, 6)), "mask beside a slice": ((MASK, slice(1, 3)), (2, 2, 6)), "whole mask": (WHOLE, (40,)),
    "slice": (slice(1, 3), (2, 5, 6)), "backwards": (slice(None, None, -1), (4, 5, 6)), "new axis": ((None, 1), (1, 5, 6)),
}  # fmt: skip
WRITES = {
    **{name: (functools.partial(put, index), shape) for name, (index, shape) in PARTS.items()},
    "in place": (functools.partial(times, MASK), (2, 5, 6)),
    "index_put_": (lambda target, value: target.index_put_((ROWS, ROWS), value), (2, 6)),
    "scatter_": (lambda target, value: target.scatter_(ROWS, value), (2, 5, 6)),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_is_judged(name):
    write, shape = WRITES[name]
    run, gradients = written(write, values(4, 5, 6), values(*shape), compare)
    judged = {(call.tensor, str(call.verdict)) for call in run.calls if call.op in ("setitem", "index_put", "scatter")}
    assert {tensor for tensor, _ in judged} >= {"out", "grad:x", "grad:value"}
    assert {verdict for _, verdict in judged} <= {"EQUAL", "ROUNDING"}
    assert run.coverage()["unchecked"] == {}
    _, native = written(write, values(4, 5, 6), values(*shape))
    assert all(np.array_equal(*pair) for pair in zip(gradients, native))


@pytest.mark.parametrize("lie", [(0, 1, 2), (1, 0, 2)], ids=["contiguous", "strided"])
@pytest.mark.parametrize("name", [name for name in PARTS if name not in ("slice", "backwards", "new axis")])
def test_what_is_read_at_an_index_is_judged(name, lie):
    """A kernel is accused where it does not read of a view what it reads of a contiguous copy."""
    index, _ = PARTS[name]
    x = values(*((4, 5, 6)[axis] for axis in lie)).transpose(lie)
    expected = paddle.to_tensor(x.numpy())[index].numpy()
    with compare() as run:
        read = x[index]
        (read * 2).sum().backward()
    judged = [call for call in run.calls if call.op == "getitem"]
    right = np.array_equal(read.numpy(), expected)
    assert {call.tensor for call in judged} >= ({"out", "grad:x"} if right else {"out"})
    assert {str(call.side) for call in judged if call.tensor == "out"} == {"none" if right else "paddle"}
    assert bool(run) == right


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("index", [MASK, ROWS], ids=["mask", "rows"])
def test_unwritten_memory_is_accused(index, dtype):
    """Half of the gradient is whatever was there before; with other numbers in the graph it is never the right one."""
    run, _ = written(functools.partial(put, index), values(4, 5, 6, dtype=dtype), values(2, 5, 6, dtype=dtype), compare)
    (call,) = [call for call in run.calls if call.tensor == "grad:value"]
    assert (str(call.side), call.op) == ("paddle", "setitem")
    assert not run


@pytest.mark.parametrize("write", [functools.partial(put, WHOLE), lambda x, value: x.masked_fill_(WHOLE, value)])
def test_a_kernel_that_reads_overwritten_memory_does_so_under_compare(write):
    run, (_, gradient) = written(write, values(4, 5, 6), values(), compare)
    _, (_, native) = written(write, values(4, 5, 6), values())
    assert gradient == native == 0.0
    assert [str(call.side) for call in run.calls if call.tensor == "grad:value"] == ["paddle"]


def test_of_several_values_for_one_place_the_last_one_has_the_gradient():
    run, _ = written(functools.partial(put, paddle.to_tensor([1, 1])), values(3), values(2), compare)
    assert [str(call.side) for call in run.calls if call.tensor == "grad:value"] == ["both"]


def test_what_cannot_be_judged_is_counted_where_it_is_differentiated():
    def write(target, value):
        paddle.where_(WHOLE, target, value)

    run, _ = written(write, values(4, 5, 6), values(4, 5, 6), compare)
    assert run.coverage()["unchecked_ops"] == {"where": {WRITE_UNCHECKED: 1}}
    with compare() as run:
        target = values(4, 5, 6) * 1
        write(target, values(4, 5, 6))
    assert run.coverage()["unchecked_ops"] == {}


# ---- Optimizers


def trained(make, mode=contextlib.nullcontext, dtype="float32"):
    """A small training: its run, and the parameters behind it. The gradient of the first does not lie in order."""
    rng = np.random.default_rng(0)
    parameters = [paddle.create_parameter(shape, dtype) for shape in ([5, 8], [5])]
    for parameter in parameters:
        parameter.set_value(rng.standard_normal(parameter.shape).astype(dtype))
    optimizer = make(parameters=parameters, learning_rate=0.01)
    batches = [paddle.to_tensor(rng.standard_normal([4, 8]).astype(dtype)) for _ in range(STEPS)]
    with mode() as run:
        for batch in batches:
            (batch.matmul(parameters[0].t()) + parameters[1]).tanh().sum().backward()
            optimizer.step()
            optimizer.clear_grad()
    return run, [parameter.numpy() for parameter in parameters]


OPTIMIZERS = {
    name: getattr(paddle.optimizer, name)
    for name in ("SGD", "Momentum", "Adam", "NAdam", "AdamW", "Rprop", "Lamb", "RAdam", "Adadelta", "Adamax", "RMSProp", "Adagrad")
    if hasattr(paddle.optimizer, name)  # 2.6 has fewer
}
OPTIMIZERS["Adagrad"] = functools.partial(paddle.optimizer.Adagrad, initial_accumulator_value=0.1)
OPTIMIZERS["RMSProp"] = functools.partial(paddle.optimizer.RMSProp, centered=True, momentum=0.9)
OPTIMIZERS["Momentum"] = functools.partial(paddle.optimizer.Momentum, use_nesterov=True, weight_decay=0.1)


@pytest.mark.rows(5)
@pytest.mark.parametrize(("name", "dtype"), in_turn(OPTIMIZERS, ["float32", "float64"]))
def test_updates_are_judged(name, dtype):
    run, weights = trained(OPTIMIZERS[name], compare, dtype=dtype)
    assert run, run.headline
    coverage = run.coverage()
    assert coverage["updates"] == 2 * STEPS
    assert coverage["checked_calls"] == coverage["float_calls"]
    _, native = trained(OPTIMIZERS[name], dtype=dtype)
    assert all(map(np.array_equal, weights, native))


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Lamb"])
def test_a_wrong_update_is_accused(name):
    def change(param, *others):
        return param + 1e-4 * torch.sign(param)

    fault = fault_injection.PlantedFault(name.lower(), Side.PADDLE, change, None, False)
    fault_injection.PLANTED.append(fault)
    try:
        run, _ = trained(OPTIMIZERS[name], compare)
    finally:
        fault_injection.PLANTED.remove(fault)
    accused = run.findings[0]
    assert accused.what
    assert {call.op for call in run.calls if str(call.side) == "paddle"} == {name.lower()}


def test_an_update_of_an_unknown_form_is_counted():
    run, _ = trained(functools.partial(paddle.optimizer.ASGD, batch_num=2), compare)
    assert run.coverage()["unchecked_ops"] == {"asgd_": {UPDATE_UNCHECKED: 2 * STEPS}}


@pytest.mark.parametrize("name", ["Adam", "Momentum"])
def test_updates_of_lists_are_judged_one_by_one(name):
    paddle.seed(0)
    model = paddle.nn.Sequential(paddle.nn.Linear(8, 8), paddle.nn.ReLU(), paddle.nn.Linear(8, 8))
    optimizer = getattr(paddle.optimizer, name)(parameters=model.parameters(), use_multi_tensor=True)
    with padiff_shim.compare("torch") as run:
        for _ in range(2):
            model(paddle.randn([4, 8])).square().mean().backward()
            optimizer.step()
            optimizer.clear_grad()
    assert "8 updates of optimizers" in str(run)
