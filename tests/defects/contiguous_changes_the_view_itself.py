"""contiguous changes the view itself

contiguous() of a transposed or sliced view moves the view itself to new memory and returns it. The view no longer shares memory
with its tensor, and a write to the result is a write to the view.

Section: Values
Ops: Tensor.contiguous
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: in-place writes are lost, or appear where Torch has a copy
Under the shim: A copy, as in Torch; the view stays a view. compare does what Paddle does.
"""

import paddle

view = paddle.zeros([2, 3]).t()
view.contiguous().add_(paddle.ones([3, 2]))
assert view.sum().item() == 0.0
