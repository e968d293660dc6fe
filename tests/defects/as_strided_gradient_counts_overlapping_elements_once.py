"""as_strided gradient counts overlapping elements once

Where a view shows an element several times, the gradient counts it once.

Section: Gradients
Ops: as_strided
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 instead of 2
Under the shim: Torch's gradient.
"""

import numpy as np
import paddle

x = paddle.to_tensor([1.0, 2.0, 3.0, 4.0], stop_gradient=False)
paddle.as_strided(x, [3, 2], [1, 1]).sum().backward()

# %% as_strided
np.testing.assert_array_equal(x.grad.numpy(), [1.0, 2.0, 2.0, 1.0])
# %% unfold
x.clear_grad()
x.unfold(0, 2, 1).sum().backward()
assert x.grad.numpy().tolist() == [1, 2, 2, 1]
