"""getitem ignores a list behind a slice and None

A list behind a slice and a None selects nothing: the whole axis is returned.

Section: Values
Ops: getitem
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: shape [5, 1, 3] instead of [5, 1, 1]
Under the shim: Torch's elements. compare continues with Paddle's, because getitem moves values.
"""

import numpy as np
import paddle

x = np.arange(15.0).reshape(5, 3)
np.testing.assert_array_equal(paddle.to_tensor(x)[:, None, [0]].numpy(), x[:, None, [0]])
