"""Every door of every op is compared: its result, and the gradient of each operand that has one, each as that operand's own."""

import numpy as np
import paddle
import pytest
from helpers import Call, entries, flat, in_turn
from trials import held, loose, near

import padiff_shim

pytestmark = pytest.mark.compat
CASES = [  # what is judged of a further door is judged of the first one
    pytest.param(
        op,
        entry,
        sample,
        id=f"{entry.target.removeprefix('paddle.')}-{number}",
        marks=() if entry is op.entries[0] and not number else pytest.mark.slow,
    )
    for op, entry in entries()
    for number, sample in enumerate(op.samples[: 2 if entry is op.entries[0] else 1])
    if not entry.inplace and not op.exact and not any(0 in shape for shape in sample.shapes if shape is not None)
]


def backward(op, entry, sample):
    """One call and its backward, with an incoming gradient that differs from element to element."""
    call = Call(op, entry, sample, "float32", "contiguous", True)
    results = [result for result in flat(call.run()) if not result.stop_gradient]
    if not results:
        pytest.skip("Paddle has no gradient of this op")
    arriving = [paddle.to_tensor(np.linspace(0.5, 2.0, result.size, dtype="float32").reshape(result.shape)) for result in results]
    paddle.autograd.backward(results, arriving)
    return call, results[0]


def gradients(call):
    """The gradients that a backward left, in the order of the operands. Paddle has none of a target, or of what a door omits."""
    return [tensor.grad for tensor in call.tensors if isinstance(tensor, paddle.Tensor) and tensor.grad is not None]


def astray(native, expected):
    """Which of native Paddle's gradients differ from Torch's by more than rounding."""
    pairs = zip(gradients(native), gradients(expected), strict=True)
    return [not near(result, other, "float32", roundings=4 * loose("float32")) for result, other in pairs]


@pytest.mark.rows(50)
@pytest.mark.parametrize(("op", "entry", "sample", "carry"), in_turn(CASES, ["native", "torch"]))
def test_each_gradient_is_judged_as_the_one_of_its_operand(op, entry, sample, carry):
    try:
        native, _ = backward(op, entry, sample)
    except (TypeError, ValueError):
        pytest.skip("Paddle refuses this sample")
    except RuntimeError as error:
        if "(NotFound)" not in str(error):
            raise
        pytest.skip("Paddle has no kernel for this door's backward")
    with padiff_shim.reference("torch"):
        expected, out = backward(op, entry, sample)
    with padiff_shim.compare("torch", carry=carry) as run:
        call, result = backward(op, entry, sample)
    records = run.calls.filter(op=op.name, phase="backward")
    assert len(records) == len(gradients(native)), [str(record) for record in records]
    unseen = [record for record in records if "nothing to compare" in str(record) or "Paddle's node" in str(record)]
    assert not unseen, [str(record) for record in unseen]
    accused = [str(record.verdict) in ("WRONG", "LOCAL_WRONG", "SEMANTICS") for record in records]
    guilty = [False] * len(records) if held(op, "float32", gradient=True) else astray(native, expected)
    assert accused == guilty, [str(record) for record in records]
    if carry == "torch":
        assert result.equal_all(out)
        assert all(mine.equal_all(theirs) for mine, theirs in zip(gradients(call), gradients(expected), strict=True))
