"""getitem does not check tensor indices

An index out of range is refused as an integer, but not in a tensor: memory beside the tensor is read.

Section: Unwritten memory
Ops: getitem
Seen on: Paddle 3.3.1; CPU
Effect: foreign memory instead of an error; here the tensor is the first four rows of ten
Under the shim: No change.
"""

import paddle

memory = paddle.arange(20.0).reshape([10, 2])
try:
    row = memory[:4][paddle.to_tensor([9])]
except (IndexError, ValueError):
    row = None
assert row is None
