"""arange adds up its step

The CPU kernel adds the step again and again: its rounding error grows with the length.

Section: Precision
Ops: arange
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0.097 after 10000 steps of 0.1
Known difference: range added up
Under the shim: Torch's range, of as many elements; compare names it.
"""

import numpy as np
import paddle

np.testing.assert_allclose(paddle.arange(0, 1000, 0.1).numpy(), np.arange(10000) * 0.1, rtol=1e-6)
