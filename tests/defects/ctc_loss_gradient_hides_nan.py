"""ctc_loss gradient hides NaN

In a row whose loss is NaN, classes without a label get a finite gradient: a program that looks at these alone continues.

Section: NaN, infinities and the edges of the range
Ops: ctc_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0.33 instead of NaN
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""

import paddle

x = paddle.zeros([4, 1, 3])
x[1, 0, 1] = float("inf")
x.stop_gradient = False
label, long, short = paddle.to_tensor([[1]], "int32"), paddle.to_tensor([4]), paddle.to_tensor([1])
loss = paddle.nn.functional.ctc_loss(x, label, long, short, reduction="sum")
loss.backward()
assert loss.isnan()
assert x.grad.isnan().all()
