"""Unwritten memory."""

import contextlib

import numpy as np
import paddle

# %% amax of no elements returns unwritten memory
"""The largest of no elements, which max, NumPy and Torch refuse, is memory that was never written.

Ops: amax, amin
Seen on: Paddle 3.3.1; CPU
Effect: unwritten memory
Under the shim: No change; Torch refuses, and the run lists the call.
"""


def refused(function):
    try:
        function(paddle.zeros([0, 3]))
    except (IndexError, ValueError):
        return True
    return False


# %%% amax
assert refused(paddle.amax)
# %%% amin
assert refused(paddle.amin)

# %% argmax of no elements returns unwritten memory
"""The index of the largest of no elements, which NumPy and Torch refuse, is memory that was never written.

Ops: argmax, argmin
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: unwritten memory
Under the shim: No change; Torch refuses, and the run lists the call.
"""


def refused(function):
    try:
        function(paddle.zeros([0, 3]))
    except (IndexError, ValueError):
        return True
    return False


# %%% argmax
assert refused(paddle.argmax)
# %%% argmin
assert refused(paddle.argmin)

# %% bmm over an empty axis returns unwritten memory
"""If the axis of the sum has no elements, the result is memory that was never written.

Ops: bmm, bilinear
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: any value instead of 0
Under the shim: No change: a call without elements stays on Paddle's kernel.
"""
used = [paddle.full([64, 64], 7.0) for _ in range(64)]
del used

# %%% bmm
np.testing.assert_array_equal(paddle.bmm(paddle.zeros([1, 64, 0]), paddle.zeros([1, 0, 64])).numpy(), 0.0)
# %%% bilinear
rows, weight = (paddle.zeros([4096, 0]), paddle.ones([4096, 1])), paddle.zeros([1, 0, 1])
assert not paddle.nn.functional.bilinear(*rows, weight).any()

# %% gather from an empty tensor reads unwritten memory
"""An index into a tensor without rows, which index_select, NumPy and Torch refuse, returns unwritten memory.

Ops: gather, gather_nd
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: unwritten memory
Under the shim: No change; Torch refuses, and the run lists the call.
"""


def refused(function, index):
    try:
        function(paddle.zeros([0, 4]), paddle.to_tensor(index))
    except (IndexError, ValueError):
        return True
    return False


# %%% gather
assert refused(paddle.gather, [0])
# %%% gather_nd
assert refused(paddle.gather_nd, [[0]])

# %% getitem does not check tensor indices
"""An index out of range is refused as an integer, but not in a tensor: memory beside the tensor is read.

Ops: getitem
Seen on: Paddle 3.3.1; CPU
Effect: foreign memory instead of an error; here the tensor is the first four rows of ten
Under the shim: No change.
"""
memory = paddle.arange(20.0).reshape([10, 2])
try:
    row = memory[:4][paddle.to_tensor([9])]
except (IndexError, ValueError):
    row = None
assert row is None

# %% kernels read beyond operands of too few elements
"""Operands of too few elements are neither broadcast nor refused: the kernels read beyond their end, and lu_solve writes there. For
lu_solve this is the C op; paddle.linalg.lu_solve refuses.

Ops: gammainc, gammaincc, add_n, triangular_solve, lu_solve
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: foreign memory; the process may end later
Under the shim: No change; Torch refuses, and the run lists the call.
"""


def right(call, *values):
    try:
        result = call()
    except (ValueError, RuntimeError):
        return
    assert values, "an answer of operands that do not fit"
    np.testing.assert_allclose(result.numpy(), values, rtol=1e-5)


x, y = paddle.to_tensor([2.0]), paddle.to_tensor([1.0, 2.0, 3.0])

# %%% gammainc
right(lambda: paddle.gammainc(x, y), 0.2642411, 0.5939942, 0.8008517)
# %%% gammaincc
right(lambda: paddle.gammaincc(x, y), 0.7357589, 0.4060058, 0.1991483)
# %%% add_n
right(lambda: paddle.add_n([x[0], y]), 3.0, 4.0, 5.0)
# %%% triangular_solve
right(lambda: paddle.linalg.triangular_solve(paddle.ones([1, 1]), paddle.ones([3, 1])))
# %%% lu_solve
right(lambda: paddle._C_ops.lu_solve(paddle.ones([1, 1]), *paddle.linalg.lu(paddle.eye(3)), "N"))

# %% matmul over an empty axis returns unwritten memory
"""If the axis of the sum has no elements, the result is memory that was never written, in Paddle 3.0.

Ops: matmul
Seen on: Paddle 3.0.0; CPU
Effect: any value instead of 0
Under the shim: No change: a call without elements stays on Paddle's kernel.
"""
paddle.full([64, 64], 7.0)
np.testing.assert_array_equal(paddle.matmul(paddle.zeros([64, 0]), paddle.zeros([0, 64])).numpy(), 0.0)

# %% mv and dot over an empty axis return unwritten memory
"""If the axis of the sum has no elements, the result is memory that was never written, in Paddle 2.6.

Ops: mv, dot, multi_dot
Seen on: Paddle 2.6.2; CPU
Effect: any value instead of 0
Under the shim: No change: a call without elements stays on Paddle's kernel.
"""
used = [paddle.full([64, 64], 7.0) for _ in range(64)]
del used

# %%% mv
np.testing.assert_array_equal(paddle.mv(paddle.zeros([4096, 0]), paddle.zeros([0])).numpy(), 0.0)
# %%% dot
assert not paddle.dot(paddle.zeros([4096, 0]), paddle.zeros([4096, 0])).any()
# %%% multi_dot
assert not paddle.linalg.multi_dot([paddle.zeros([64, 0]), paddle.zeros([0, 64])]).any()

# %% out that is a smaller operand reads unwritten memory
"""If out is an operand smaller than the result, its new memory is read before it is written.

Ops: add, subtract, multiply, maximum and others
Seen on: Paddle 3.2.2, 3.3.1; CPU
Effect: unwritten memory
Under the shim: No change: a call with out stays on Paddle's kernel, and the run lists it.
"""
x = paddle.full([4], 7.25)
paddle.multiply(x, paddle.full([3, 4], 2.0), out=x)
assert x.tolist() == [[14.5] * 4] * 3

# %% setitem by an index copies gradients in pieces of four bytes
"""x[index] = y with a mask, a list or a tensor of indices, alone or beside slices: whatever the dtype is, the gradient of y is
copied in pieces of 4 bytes. Of float64 and complex64 half of it is whatever was in its memory before; of float16 and bfloat16 the
kernel writes beyond its memory, and the program hangs or ends sooner or later; of complex128 it ends at once. Slices and integers
alone, index_put and masked_scatter are right.

Ops: setitem
Seen on: Paddle 3.3.1; CPU
Effect: unwritten memory
Under the shim: Torch's gradient; compare names the call.
"""


def gradient(index, dtype="float64"):
    y = paddle.full([4], 2.0, dtype)
    y.stop_gradient = False
    x = paddle.zeros([8], dtype)
    x[index] = y * 3
    x.sum().backward()
    np.testing.assert_array_equal(y.grad.astype("complex128").numpy(), [3.0] * 4)


# %%% a mask
gradient(paddle.to_tensor([False] * 4 + [True] * 4))
# %%% a tensor of indices
gradient(paddle.to_tensor([4, 5, 6, 7]))
# %%% a list
gradient([4, 5, 6, 7])
# %%% complex numbers
gradient([4, 5, 6, 7], "complex64")

# %% setitem does not check tensor indices
"""An index out of range is refused as an integer, but not in a tensor: memory beside the tensor is written.

Ops: setitem
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: foreign memory is overwritten, and the process may end later; here the tensor is the first four rows of ten
Under the shim: No change.
"""
memory = paddle.arange(20.0).reshape([10, 2])
with contextlib.suppress(IndexError, ValueError):
    memory[:4][paddle.to_tensor([9])] = -1.0
assert memory[9].tolist() == [18.0, 19.0]

# %% setitem of an empty value reads unwritten memory
"""x[:] = y with an empty y, which NumPy and Torch refuse, fills x with unwritten memory.

Ops: setitem
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: unwritten memory
Under the shim: No change.
"""
x = paddle.full([3, 1], 7.25)
with contextlib.suppress(ValueError):
    x[:] = paddle.zeros([0])
assert x.tolist() == [[7.25]] * 3
