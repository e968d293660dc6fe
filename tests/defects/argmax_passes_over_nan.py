"""argmax passes over NaN

A NaN is passed over unless it is the first element; max and topk return it.

Section: NaN, infinities and the edges of the range
Ops: argmax, argmin
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 2 instead of 1
Under the shim: Torch's index, that of the first NaN; compare says UNVERIFIED.
"""

import paddle

assert paddle.argmax(paddle.to_tensor([0.0, float("nan"), 1.0])).item() == 1
