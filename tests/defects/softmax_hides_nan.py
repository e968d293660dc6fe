"""softmax hides NaN

The vectorised kernel replaces a NaN in x - max by -64.

Section: NaN, infinities and the edges of the range
Ops: softmax
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU, some processors
Effect: a finite row instead of NaN
Known difference: softmax of NaN
Under the shim: Torch's softmax; compare names it.
"""

import numpy as np
import paddle

x = paddle.to_tensor([[1.0] * 8 + [float("nan")] + [1.0] * 7])
assert np.isnan(paddle.nn.functional.softmax(x).numpy()).all()
