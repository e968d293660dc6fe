"""What native functions are asked beside the program: on its own operands, once for a combination of dtypes, and nothing else."""

import json

import numpy as np
import paddle
import pytest
from helpers import in_child

import padiff_shim
from padiff_shim.dispatch.dtypes import DtypeRules
from padiff_shim.table.reasons import EMPTY

pytestmark = pytest.mark.compat

# Every door's native function tells the shapes of the tensors that it is given.
RECORDING = """
import functools, json, sys
sys.path.insert(0, "tests")
import suite, numpy as np
from helpers import Call, entries, located, takes
from padiff_shim.dispatch.dtypes import exchanged, has_kernel
from padiff_shim.intercept import entry_points

calls = []

def tensors(value):
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    return [value] if isinstance(value, paddle.Tensor) else []

class Recording(entry_points.EntryPoint):
    def __init__(self, op, entry, original, **options):
        @functools.wraps(original)
        def recorded(*args, **kwargs):
            calls.append((entry.target, [list(tensor.shape) for tensor in tensors((*args, *kwargs.values()))]))
            return original(*args, **kwargs)
        super().__init__(op, entry, recorded, **options)

entry_points.EntryPoint = Recording
padiff_shim.install()

def mixed(call):
    floats = [place for place, side in enumerate(call.tensors) if isinstance(side, paddle.Tensor) and side.is_floating_point()]
    for place in floats[1:2]:
        wide = call.tensors[place].astype("float64")
        exchange = {id(call.tensors[place]): wide}
        call.tensors[place] = wide
        call.args = exchanged(call.args, exchange)
    return call

strange, tried = [], 0
for op, entry in entries():
    if op.random or not has_kernel(op):
        continue
    for sample in [sample for sample in op.samples if takes(op, entry, sample)]:
        for prepared in (lambda call: call, mixed):
            with padiff_shim.MODE("torch"):
                call = prepared(Call(op, entry, sample))
                calls.clear()
                shapes = [list(tensor.shape) for tensor in tensors(call.tensors)]
                try:
                    call.run()
                except Exception:
                    pass
                probed = [shape for target, each in calls if target == entry.target for shape in each]
                tried += bool(probed)
                strange += [(entry.target, str(sample), shape) for shape in probed if shape not in shapes]
print(json.dumps([tried, strange]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["reference", "compare"])
def test_no_native_function_gets_operands_of_another_shape_than_the_programs(mode):
    """A kernel may write outside of its memory where sizes and attributes do not fit each other."""
    ended = in_child(RECORDING.replace("MODE", mode), opened=False)  # the doors are made at the first mode
    assert ended.returncode == 0, ended.stderr[-3000:]
    calls, strange = json.loads(ended.stdout.splitlines()[-1])
    assert calls > 100
    assert strange == []


@pytest.fixture
def questions(monkeypatch):
    """The arguments with which native functions were asked for a dtype so far."""
    calls = []
    answer = DtypeRules._answer

    def answering(self, call):
        *_, args, _ = call
        calls.append(args)
        return answer(self, call)

    monkeypatch.setattr(DtypeRules, "_answer", answering)
    return calls


@pytest.fixture
def unlearnt(monkeypatch):
    """No door knows a dtype rule, and none of the shortcuts is taken."""
    monkeypatch.setattr(DtypeRules, "find", lambda self, call: self._learn(call).cast)


MODES = {"reference": padiff_shim.reference, "compare": padiff_shim.compare}


@pytest.mark.parametrize("mode", MODES)
def test_the_programs_own_operands_are_asked_once_for_a_combination(mode, questions):
    x, y = paddle.ones([3, 4]), paddle.ones([3, 4])
    with MODES[mode]("torch"):
        for _ in range(3):
            paddle.atan2(x, y)
            paddle.atan2(paddle.ones([5, 4]), paddle.ones([5, 4]))
    assert len(questions) <= 1  # another test may have asked
    assert all(args[0] is x and args[1] is y for args in questions)


@pytest.mark.parametrize("mode", MODES)
def test_what_a_call_writes_into_is_written_once(mode, unlearnt):
    x, y = np.array([1.0, 2.0], "float32"), np.array([0.5, 0.25], "float32")
    with MODES[mode]("torch"):
        target = paddle.to_tensor(x)
        target.add_(paddle.to_tensor(y))
        mean, variance = paddle.zeros([2]), paddle.ones([2])
        values = np.array([[1.0, 2.0], [3.0, 6.0]], "float32")
        paddle.nn.functional.batch_norm(
            paddle.to_tensor(values), mean, variance, paddle.ones([2]), paddle.zeros([2]), training=True
        )
    assert np.array_equal(target.numpy(), x + y)
    np.testing.assert_allclose(mean.numpy(), 0.1 * values.mean(0), rtol=1e-6)


@pytest.mark.parametrize("function", ["householder_product", "ormqr"])
def test_an_operand_that_paddle_spoils(function):
    """Natively ones are written into it: Torch's formula is given what it held, and under reference mode it stays so."""
    if not hasattr(paddle.linalg, function):
        pytest.skip("this Paddle has no such function")
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype("float32") for shape in ((4, 4), (4,), (4, 2))]
    values = values[: 2 if function == "householder_product" else 3]
    native = getattr(paddle.linalg, function)(*map(paddle.to_tensor, values)).numpy()
    with padiff_shim.reference("torch"):
        operands = [paddle.to_tensor(value) for value in values]
        product = getattr(paddle.linalg, function)(*operands)
    np.testing.assert_allclose(product.numpy(), native, rtol=1e-4, atol=1e-5)
    assert np.array_equal(operands[0].numpy(), values[0])
    with padiff_shim.compare("torch") as run:
        getattr(paddle.linalg, function)(*map(paddle.to_tensor, values))
    [result] = run.calls.filter(op=function, tensor="out")
    assert str(result.verdict) in ("EQUAL", "ROUNDING"), str(result)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("grad", [False, True])
def test_calls_on_tensors_without_elements_are_paddles(mode, grad, questions):
    """Such kernels are those that end the process, and Paddle has its own rules for what they give."""
    x = paddle.zeros([0, 4])
    x.stop_gradient = not grad
    native = paddle.nn.functional.relu(x)
    with MODES[mode]("torch") as run:
        result = paddle.nn.functional.relu(x)
    assert (result.shape, result.dtype, result.stop_gradient) == (native.shape, native.dtype, native.stop_gradient)
    assert questions == []
    assert mode == "compare" or (not run.substituted and set(run.native["relu"]) == {EMPTY.text})
