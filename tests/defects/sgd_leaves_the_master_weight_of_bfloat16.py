"""SGD leaves the master weight of bfloat16

With multi_precision a step changes the parameter in bfloat16, and not the float32 weight behind it: steps that are smaller than
the parameter's last digit are lost, however many there are.

Section: Precision
Ops: optimizer.SGD
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 1 instead of 0.992
Known difference: master weight that stays as it was
Under the shim: Torch's steps of the master weight; compare names it.
"""

import paddle

layer = paddle.nn.Linear(1, 1, weight_attr=paddle.nn.initializer.Constant(1.0), bias_attr=False).to(dtype="bfloat16")
sgd = paddle.optimizer.SGD(2.0**-10, parameters=layer.parameters(), multi_precision=True)
for _ in range(8):
    layer.weight.astype("float32").sum().backward()
    sgd.step()
    sgd.clear_grad()
assert layer.weight.astype("float32").item() == 1 - 2.0**-7
