"""soft_margin_loss overflows

In log(1 + exp(-x y)) the exponential overflows where the loss is an ordinary number.

Section: NaN, infinities and the edges of the range
Ops: soft_margin_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: inf instead of 200
Under the shim: Wrong, too: Torch's loss overflows; compare says EQUAL.
"""

import paddle

x, label = paddle.to_tensor([-200.0], stop_gradient=False), paddle.to_tensor([1.0])
loss = paddle.nn.functional.soft_margin_loss(x, label)

# %% loss
assert abs(loss.item() - 200) < 1e-3
# %% gradient
loss.backward()
assert abs(x.grad.item() + 1) < 1e-6
