"""Every door of every op is compared: its result, and the gradient of each operand that wants one, each as that operand's own."""

import paddle
import pytest
from helpers import Call, entries, flat

import padiff_shim

pytestmark = pytest.mark.compat
CASES = [
    pytest.param(op, entry, sample, id=f"{entry.target.removeprefix('paddle.')}-{number}")
    for op, entry in entries()
    for number, sample in enumerate(op.samples[: 3 if entry is op.entries[0] else 1])
    if not entry.inplace and not op.exact and not any(0 in shape for shape in sample.shapes if shape is not None)
]


def backward(op, entry, sample):
    """One call and its backward, with an incoming gradient that differs from element to element."""
    call = Call(op, entry, sample, "float32", "contiguous", True)
    results = [result for result in flat(call.run()) if not result.stop_gradient]
    arriving = [paddle.linspace(0.5, 2.0, result.size, dtype="float32").reshape(result.shape) for result in results]
    paddle.autograd.backward(results, arriving)
    return call, results[0]


@pytest.mark.parametrize("carry", ["native", "torch"])
@pytest.mark.parametrize(("op", "entry", "sample"), CASES)
def test_each_gradient_is_judged_as_the_one_of_its_operand(op, entry, sample, carry):
    try:
        backward(op, entry, sample)
    except (TypeError, ValueError):
        pytest.skip("Paddle refuses this sample")
    with padiff_shim.reference("torch"):
        expected, out = backward(op, entry, sample)
    with padiff_shim.compare("torch", carry=carry) as run:
        call, result = backward(op, entry, sample)
    records = run.calls.filter(op=op.name, phase="backward")
    wanted = [tensor for tensor in call.tensors if isinstance(tensor, paddle.Tensor) and not tensor.stop_gradient]
    assert len(records) == len(wanted), [str(record) for record in records]
    accused = [str(record) for record in records if str(record.verdict) in ("WRONG", "LOCAL_WRONG")]
    assert not accused + [str(record) for record in records if "nothing to compare" in str(record)]
    if carry == "torch":
        assert result.equal_all(out)
        for mine, theirs in zip(call.tensors, expected.tensors):
            assert not isinstance(mine, paddle.Tensor) or mine.stop_gradient or mine.grad.equal_all(theirs.grad)
