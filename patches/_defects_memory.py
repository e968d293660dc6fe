"""Defects found in values that lay in memory that nobody had written: data in the keys of ``catalogue.defects.Defect``."""

from __future__ import annotations

from typing import Any

from ._paddles import PADDLE_3, PADDLES

DEFECTS: tuple[dict[str, Any], ...] = (
    {
        "name": "out is an operand that grows",
        "op": "add, subtract, multiply, maximum and others",
        "what": "Where out is an operand that is smaller than the result, its new memory is read before anything is written there.",
        "size": "any: unwritten memory",
        "paddle": PADDLES[3:],
        "shim": "As natively: a call with out stays native, and is listed.",
        "program": """\
import paddle
x = paddle.full([4], 7.25)
paddle.multiply(x, paddle.full([3, 4], 2.0), out=x)
assert x.tolist() == [[14.5] * 4] * 3
""",
    },
    {
        "name": "a value without elements",
        "op": "setitem",
        "what": "x[:] = y with a y that has none, for which NumPy and Torch raise an error, writes what lay in unwritten memory.",
        "size": "any: unwritten memory",
        "paddle": PADDLES,
        "shim": "As natively.",
        "program": """\
import paddle
x = paddle.full([3, 1], 7.25)
try:
    x[:] = paddle.zeros([0])
except ValueError:
    pass
assert x.tolist() == [[7.25]] * 3
""",
    },
    {
        "name": "rows of what has none",
        "op": "gather, gather_nd",
        "what": "An index into a tensor without rows, which index_select, NumPy and Torch refuse, gives unwritten memory.",
        "size": "any: unwritten memory",
        "paddle": PADDLES,
        "shim": "As natively, and listed: Torch refuses.",
        "program": """\
import paddle
try:
    found = paddle.gather(paddle.zeros([0, 4]), paddle.to_tensor([0]))
except (ValueError, IndexError):
    found = None
assert found is None
""",
        "others": {
            "gather_nd": "assert paddle.gather_nd(paddle.zeros([0, 4]), paddle.to_tensor([[0]])).size == 0",
        },
    },
    {
        "name": "an index beyond the axis",
        "op": "getitem, setitem",
        "what": "An index in a tensor that no element has is not refused, as an integer is: what lies beside the tensor is read, "
        "or written.",
        "size": "any: unwritten memory; the process may end later",
        "paddle": PADDLES[-1:],
        "shim": "As natively.",
        "alone": True,
        "program": """\
import paddle
x, place = paddle.zeros([4, 2]), paddle.to_tensor([9])
x[place]; raise AssertionError("an element that is none")
""",
        "others": {"setitem": 'x[place] = 1.0; raise AssertionError("an element that is none")'},
    },
    {
        "name": "batched products of nothing",
        "op": "bmm, bilinear",
        "what": "Where the axis that is summed over has no elements, the result is memory that was never written.",
        "size": "any value for 0",
        "paddle": ("2.6.2", "3.3.1"),
        "shim": "Torch's zeros; a comparison accuses Paddle.",
        "program": """\
import numpy as np, paddle
used = [paddle.full([64, 64], 7.0) for _ in range(9)]
del used
np.testing.assert_array_equal(paddle.bmm(paddle.zeros([1, 64, 0]), paddle.zeros([1, 0, 64])).numpy(), 0.0)
""",
        "others": {
            "bilinear": "f = paddle.nn.functional.bilinear; assert not f(paddle.zeros([4096, 0]), paddle.ones([4096, 1]), "
            "paddle.zeros([1, 0, 1])).any()",
        },
    },
    {
        "name": "extremes of nothing",
        "op": "amax, amin",
        "what": "The largest of no elements, which max, NumPy and Torch refuse, is memory that was never written.",
        "size": "any: unwritten memory",
        "paddle": ("3.3.1",),
        "shim": "As natively, and listed: Torch refuses.",
        "program": """\
import paddle
try:
    found = paddle.amax(paddle.zeros([0, 3]))
except (ValueError, IndexError):
    found = None
assert found is None
""",
        "others": {"amin": "paddle.amin(paddle.zeros([0, 3])); raise AssertionError('the least of nothing')"},
    },
    {
        "name": "the place of an extreme of nothing",
        "op": "argmax, argmin",
        "what": "The place of the largest of no elements, which NumPy and Torch refuse, is memory that was never written.",
        "size": "any: unwritten memory",
        "paddle": PADDLES[2:],
        "shim": "As natively, and listed: Torch refuses.",
        "program": """\
import paddle
try:
    place = paddle.argmax(paddle.zeros([0, 3]))
except (ValueError, IndexError):
    place = None
assert place is None
""",
        "others": {"argmin": "paddle.argmin(paddle.zeros([0, 3])); raise AssertionError('the least of nothing')"},
    },
    {
        "name": "operands that do not fit",
        "op": "gammainc, gammaincc, add_n, triangular_solve, lu_solve",
        "what": "Operands of fewer elements are neither broadcast nor refused: the kernels read, lu_solve also writes, what lies "
        "behind them. Of lu_solve it is the op itself that does it; paddle.linalg.lu_solve refuses.",
        "size": "any: unwritten memory; the process may end later",
        "paddle": PADDLE_3,
        "shim": "As natively, and listed: Torch refuses.",
        "alone": True,
        "program": """\
import numpy as np, paddle
def right(call, *values):
    try:
        result = call()
    except (ValueError, RuntimeError):
        return
    assert values, "an answer of operands that do not fit"
    np.testing.assert_allclose(result.numpy(), values, rtol=1e-5)
x, y = paddle.to_tensor([2.0]), paddle.to_tensor([1.0, 2.0, 3.0])
right(lambda: paddle.gammainc(x, y), 0.2642411, 0.5939942, 0.8008517)
""",
        "others": {
            "gammaincc": "right(lambda: paddle.gammaincc(x, y), 0.7357589, 0.4060058, 0.1991483)",
            "add_n": "right(lambda: paddle.add_n([x[0], y]), 3.0, 4.0, 5.0)",
            "triangular_solve": "right(lambda: paddle.linalg.triangular_solve(paddle.ones([1, 1]), paddle.ones([3, 1])))",
            "lu_solve": 'right(lambda: paddle._C_ops.lu_solve(paddle.ones([1, 1]), *paddle.linalg.lu(paddle.eye(3)), "N"))',
        },
    },
)
