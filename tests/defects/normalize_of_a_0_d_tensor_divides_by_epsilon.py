"""normalize of a 0-D tensor divides by epsilon

A tensor without axes is divided by the norm of no elements, and gets an axis.

Section: Values
Ops: normalize
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 2e12 instead of 1
Under the shim: No change: Paddle's kernel runs, because Torch has no result of that shape.
"""

import paddle

assert paddle.nn.functional.normalize(paddle.to_tensor(2.0), axis=0).item() == 1.0
