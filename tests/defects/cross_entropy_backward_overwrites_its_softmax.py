"""cross_entropy backward overwrites its softmax

The backward overwrites the softmax that it reads: after retain_graph=True, the next gradient is wrong.

Section: Gradients
Ops: cross_entropy, softmax_with_cross_entropy, npair_loss
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: -1 instead of -0.5
Under the shim: Torch's gradient, each time; compare says WRONG, side paddle.
"""

import paddle

x = paddle.zeros([1, 2])
x.stop_gradient = False
loss = paddle.nn.functional.cross_entropy(x, paddle.to_tensor([0]))
loss.backward(retain_graph=True)
x.clear_grad()
loss.backward()
assert x.grad.tolist() == [[-0.5, 0.5]]
