"""gammainc gradient overflows

The density is a power times an exponential over a gamma function, each computed separately: infinity over infinity.

Section: NaN, infinities and the edges of the range
Ops: gammainc, gammaincc
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 0
Known difference: incomplete gamma functions
Under the shim: Torch's gradient; compare names it.
"""

import numpy as np
import paddle


def near(function):
    x = paddle.to_tensor([30.0], stop_gradient=False)
    function(paddle.to_tensor([2000.0]), x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0.0])


# %% gammainc
near(paddle.gammainc)
# %% gammaincc
near(paddle.gammaincc)
