"""log_softmax of minus infinity is finite

No result is below -64 minus the logarithm of the sum: entries that are masked by -inf do not become -inf.

Section: NaN, infinities and the edges of the range
Ops: log_softmax, cross_entropy
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: -64 instead of -inf
Known difference: log_softmax of minus infinity
Under the shim: Torch's kernel; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([1.0, -np.inf])

# %% log_softmax
assert np.isinf(paddle.nn.functional.log_softmax(x).numpy()[1])
# %% cross_entropy
assert np.isinf(paddle.nn.functional.cross_entropy(x.reshape([1, 2]), paddle.to_tensor([1])).item())
