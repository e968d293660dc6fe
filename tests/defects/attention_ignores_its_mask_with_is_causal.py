"""attention ignores its mask with is_causal

On a CPU scaled_dot_product_attention ignores a mask if is_causal=True, also one that separates documents or hides padding.

Section: Values
Ops: scaled_dot_product_attention
Seen on: Paddle 3.3.1; CPU
Effect: 1.2 instead of 0
Under the shim: The mask counts, and the run says so; compare says SEMANTICS (mask-ignored), side paddle.
"""

import numpy as np
import paddle

q = paddle.to_tensor(np.random.default_rng(0).standard_normal((1, 6, 2, 8)).astype("float32"))
document = np.array([0, 0, 0, 1, 1, 1])
mask = paddle.to_tensor(np.where(document[:, None] == document, 0.0, -1e9).astype("float32")[None, None])
attend = paddle.nn.functional.scaled_dot_product_attention
result = attend(q, q, q, mask, 0.0, is_causal=True)
np.testing.assert_allclose(result[:, 3:], attend(*[q[:, 3:]] * 3, None, 0.0, is_causal=True), rtol=1e-4, atol=1e-5)
