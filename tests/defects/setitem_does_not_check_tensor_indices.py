"""setitem does not check tensor indices

An index out of range is refused as an integer, but not in a tensor: memory beside the tensor is written.

Section: Unwritten memory
Ops: setitem
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: foreign memory is overwritten, and the process may end later; here the tensor is the first four rows of ten
Under the shim: No change.
"""

import contextlib

import paddle

memory = paddle.arange(20.0).reshape([10, 2])
with contextlib.suppress(IndexError, ValueError):
    memory[:4][paddle.to_tensor([9])] = -1.0
assert memory[9].tolist() == [18.0, 19.0]
