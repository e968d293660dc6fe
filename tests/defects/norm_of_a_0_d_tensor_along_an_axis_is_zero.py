"""norm of a 0-D tensor along an axis is zero

Along axis 0 the norm of a tensor without axes is that of no elements; along axis -1 the process may end.

Section: Values
Ops: norm, vector_norm
Seen on: Paddle 3.3.1; CPU
Effect: 0 instead of 0.8, and -inf with p=inf
Under the shim: Torch's norm; compare says SEMANTICS (no-element-seen), side paddle.
"""

import numpy as np
import paddle

x = paddle.to_tensor(0.8)

# %% p=2
np.testing.assert_allclose(paddle.norm(x, p=2, axis=0).item(), 0.8, rtol=1e-6)
# %% p=inf
np.testing.assert_allclose(paddle.norm(x, p=float("inf"), axis=0).item(), 0.8, rtol=1e-6)
