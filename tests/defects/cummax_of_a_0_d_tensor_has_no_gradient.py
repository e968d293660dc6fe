"""cummax of a 0-D tensor has no gradient

For a tensor without axes the backward of cummax and cummin gives no gradient; Paddle 3.3 raises an IndexError.

Section: Gradients
Ops: cummax, cummin
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0 instead of 1
Under the shim: Torch's gradient. Under compare Paddle's backward runs.
"""

import contextlib

import paddle

x = paddle.to_tensor(2.0, stop_gradient=False)
with contextlib.suppress(IndexError):
    paddle.cummax(x, axis=0)[0].backward()
assert x.grad is not None
assert x.grad.item() == 1.0
