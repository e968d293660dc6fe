"""In-place ops whose other operand shares the target's memory are compared on the values before the write."""

import numpy as np
import paddle
import pytest

import padiff_shim
from padiff_shim.dialect import IS_3
from padiff_shim.verdicts import Verdict

pytestmark = [pytest.mark.usefixtures("undone"), pytest.mark.compat]

NAMES = [name for name in ("add_", "subtract_", "multiply_", "divide_") if hasattr(paddle.Tensor, name)]
ALIASES = {
    "itself": lambda y: (y, y),
    "detached": lambda y: (y, y.detach()),
    "reshaped": lambda y: (y, y.reshape([3, 3])),
    "target is a view": lambda y: (y.reshape([9])[:], y.reshape([9])),
}
if IS_3:  # views share memory there
    ALIASES["row"] = lambda y: (y, y[0])
    ALIASES["element"] = lambda y: (y, y[1, 1])
    ALIASES["transposed"] = lambda y: (y, y.t())
    ALIASES["shifted"] = lambda y: (y[1:], y[:-1])


def result(name, alias):
    y = paddle.to_tensor(np.random.default_rng(0).uniform(0.5, 2.0, (3, 3)).astype("float32"))
    target, other = ALIASES[alias](y)
    getattr(target, name)(other)
    return target.numpy(), y.numpy()


@pytest.mark.parametrize("alias", sorted(ALIASES))
@pytest.mark.parametrize("name", NAMES)
def test_an_operand_that_shares_memory_is_read_before_the_write(name, alias):
    native = result(name, alias)
    with padiff_shim.compare("torch") as run:
        ours = result(name, alias)
    assert [a.tobytes() for a in ours] == [a.tobytes() for a in native]
    assert {call.verdict for call in run.calls} <= {Verdict.EQUAL, Verdict.ROUNDING}, list(map(str, run.calls))


@pytest.mark.skipif(not IS_3, reason="views are copies there")
@pytest.mark.parametrize("alias", ["row", "element", "shifted"])
@pytest.mark.parametrize("name", NAMES)
def test_where_the_order_of_writing_decides_paddle_s_kernel_writes(name, alias):
    """Its kernel reads what it has written already; Torch refuses such a call."""
    native = result(name, alias)
    with padiff_shim.reference("torch") as run:
        ours = result(name, alias)
    assert [a.tobytes() for a in ours] == [a.tobytes() for a in native]
    assert not run.substituted
    assert all("overlaps the target" in reason for reason in run.native[name.rstrip("_")])
