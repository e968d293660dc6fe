"""lerp from infinity is NaN

x + w (y - x) subtracts an infinite x from itself; (1 - w) x + w y is infinite.

Section: NaN, infinities and the edges of the range
Ops: lerp
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of infinity
Under the shim: Torch's result, which is NaN, too, for weights below 0.5; above that compare says NONFINITE, side paddle.
"""

import paddle

assert paddle.lerp(paddle.to_tensor([float("inf")]), paddle.to_tensor([1.0]), 0.75).item() == float("inf")
