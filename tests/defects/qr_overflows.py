"""qr overflows

Squares are added unscaled, and their sum leaves the range.

Section: NaN, infinities and the edges of the range
Ops: qr
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of a number below 1
Under the shim: Torch's result; compare says NONFINITE or WRONG, side paddle.
"""

import paddle

x = paddle.to_tensor([3e30])
assert paddle.linalg.qr(x * paddle.to_tensor([[3.0, 1], [4, 1]]))[0].isfinite().all()
