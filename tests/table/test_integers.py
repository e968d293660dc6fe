"""Integer operands: promoted as natively, and left to Paddle where nothing is rounded."""

import numpy as np
import paddle
import pytest
from helpers import same

import padiff_shim

pytestmark = pytest.mark.bitexact
INTEGERS = ("int32", "int64", "bool")


@pytest.mark.compat
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("name", "program"), [
    ("sum", lambda x, y: paddle.sum(x)),
    ("sum", lambda x, y: paddle.sum(x, axis=1, keepdim=True)),
    ("sum", lambda x, y: paddle.sum(x, axis=0, dtype="float64")),
    ("divide", lambda x, y: x / y),
    ("divide", lambda x, y: x / 3),
    ("divide", lambda x, y: 3 / x),
    ("divide", lambda x, y: paddle.divide(x, y)),
])  # fmt: skip
def test_integer_operands_promote_as_natively(name, program, dtype):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(1, 9, (3, 4)).astype(dtype) for _ in range(2)]
    x, y = map(paddle.to_tensor, arrays)
    try:
        expected = program(x, y)
    except Exception as error:
        with padiff_shim.reference("torch") as run, pytest.raises(type(error)):
            program(x, y)
        assert not run.substituted
        return
    with padiff_shim.reference("torch") as run:
        ours = program(x, y)
    assert ours.dtype == expected.dtype
    assert list(ours.shape) == list(expected.shape)
    np.testing.assert_allclose(ours.numpy().astype("float64"), expected.numpy().astype("float64"), rtol=1e-5)
    if name == "sum":
        assert run.substituted == {"sum": 1}
        assert same(ours, expected.numpy())
