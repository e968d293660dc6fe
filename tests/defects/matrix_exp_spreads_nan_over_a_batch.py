"""matrix_exp spreads NaN over a batch

If one matrix of a batch has a NaN or an infinity, all results are NaN.

Section: NaN, infinities and the edges of the range
Ops: matrix_exp
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of any number
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""

import numpy as np
import paddle

x = paddle.to_tensor(np.stack([np.full([2, 2], np.nan), np.eye(2)]))
assert paddle.linalg.matrix_exp(x)[1].isfinite().all()
