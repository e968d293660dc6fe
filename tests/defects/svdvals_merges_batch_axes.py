"""svdvals merges batch axes

Several batch axes become one axis of the result.

Section: Values
Ops: svdvals
Seen on: Paddle 3.3.1; CPU
Effect: shape [6, 4] instead of [2, 3, 4]
Under the shim: Torch's shape; compare says SEMANTICS (one-batch-axis), side paddle.
"""

import paddle

assert paddle.linalg.svdvals(paddle.ones([2, 3, 4, 4])).shape == [2, 3, 4]
