"""getitem misreads what rot90 made

An index of integers behind a slice, of the result of rot90, reads the tensor in the shape that it had before it was turned.

Section: Values
Ops: getitem, rot90
Seen on: Paddle 3.3.1; CPU
Effect: shape [3, 2] instead of [4, 2]
Under the shim: Torch's elements.
"""

import paddle

turned = paddle.rot90(paddle.arange(12.0).reshape([3, 4]))
assert turned[:, [0, 0]].shape == turned.contiguous()[:, [0, 0]].shape
