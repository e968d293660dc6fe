"""grid_sample gradient at the edge reads zeros beyond it

With padding_mode "border" or "reflection" the gradient of a place that lies exactly on the last point is taken towards a 0 behind
it, which is the slope to neither side.

Section: Gradients
Ops: grid_sample
Seen on: Paddle 3.3.1; CPU
Effect: -5 instead of 3 or 0
Under the shim: Torch's gradient; compare names the call.
"""

import numpy as np
import paddle

x = paddle.to_tensor(np.tile(np.array([1.0, 2.0, 5.0], "float32"), (1, 1, 3, 1)), stop_gradient=False)
grid = paddle.to_tensor([[[[1.0, 0.1]]]], stop_gradient=False)
# %% border
paddle.nn.functional.grid_sample(x, grid, padding_mode="border").sum().backward()
assert grid.grad[0, 0, 0, 0] in (0.0, 3.0)
# %% reflection
grid.clear_grad()
paddle.nn.functional.grid_sample(x, grid, padding_mode="reflection").sum().backward()
assert grid.grad[0, 0, 0, 0] in (-3.0, 0.0, 3.0)
