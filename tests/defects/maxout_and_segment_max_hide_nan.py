"""maxout and segment_max hide NaN

Maxima pass over NaN: in a row unless it is the last element, in a segment always.

Section: NaN, infinities and the edges of the range
Ops: maxout, segment_pool, send_u_recv, norms of infinite order
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 3 instead of NaN
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""

import numpy as np
import paddle
import paddle.nn.functional as F

x = paddle.to_tensor([[[[float("nan"), 1.0, 2.0, 3.0]]]])

# %% maxout
assert np.isnan(F.maxout(x, 4, axis=3).item())
# %% segment_max
assert np.isnan(paddle.geometric.segment_max(x.reshape([4, 1]), paddle.zeros([4], "int32")).item())
# %% send_u_recv
at = paddle.arange(4)
assert np.isnan(paddle.geometric.send_u_recv(x.reshape([4, 1]), 3 - at, at * 0, "max")[0].item())
# %% norm
assert np.isnan(paddle.linalg.norm(x, np.inf, -1).item())
