"""max_pool hides NaN

Maxima over windows, and extrema of put_along_axis, hide NaN: in a window unless it is the last element, with a mask always. The
maximum of -inf alone is the lowest finite number.

Section: NaN, infinities and the edges of the range
Ops: max_pool, put_along_axis
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a number instead of NaN
Known difference: extrema that pass over NaN
Under the shim: Torch's kernels; compare names it.
"""

import numpy as np
import paddle
import paddle.nn.functional as F

rows = paddle.to_tensor([[[float("nan"), 1.0]]])

# %% last element
assert np.isnan(F.max_pool1d(rows, 2).numpy()).all()
# %% with a mask
assert np.isnan(F.max_pool1d(rows.flip(-1), 2, return_mask=True)[0].numpy()).all()
# %% -inf
assert np.isinf(F.max_pool1d(paddle.full([1, 1, 2], -np.inf), 2).numpy()).all()
# %% put_along_axis
numbers, places = paddle.to_tensor([1.0]), paddle.to_tensor([0])
assert np.isnan(paddle.put_along_axis(numbers, places, rows[0, 0, :1], 0, "amax").numpy()).all()
