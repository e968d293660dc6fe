"""grid_sample gradient at the last pixel reads beyond it

With padding_mode="border" or "reflection" the gradient of a coordinate that is exactly that of the last pixel takes the pixel
behind it for 0. The slope before it, or 0 as in Torch, is right there.

Section: Gradients
Ops: grid_sample
Seen on: Paddle 3.3.1; CPU
Effect: -4 instead of 2 or 0
Under the shim: Torch's gradient.
"""

import paddle
import paddle.nn.functional as F

x, grid = paddle.to_tensor([[[[1.0, 2.0, 4.0]]]]), paddle.to_tensor([[[[1.0, 0.0]]]])
x.stop_gradient = grid.stop_gradient = False
F.grid_sample(x, grid, padding_mode="border", align_corners=True).sum().backward()
assert grid.grad[0, 0, 0, 0].item() in (0.0, 2.0)
