"""setitem of an empty value reads unwritten memory

x[:] = y with an empty y, which NumPy and Torch refuse, fills x with unwritten memory.

Section: Unwritten memory
Ops: setitem
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: unwritten memory
Under the shim: No change.
"""

import contextlib

import paddle

x = paddle.full([3, 1], 7.25)
with contextlib.suppress(ValueError):
    x[:] = paddle.zeros([0])
assert x.tolist() == [[7.25]] * 3
