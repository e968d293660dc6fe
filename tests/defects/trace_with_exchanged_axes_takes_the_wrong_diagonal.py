"""trace with exchanged axes takes the wrong diagonal

With an offset and axis1 above axis2, the diagonal on the other side is taken, up to Paddle 3.0.

Section: Values
Ops: trace
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: the wrong diagonal
Under the shim: Torch's trace.
"""

import numpy as np
import paddle

x = np.arange(9.0).reshape(3, 3)
assert paddle.trace(paddle.to_tensor(x), offset=1, axis1=1, axis2=0).item() == np.trace(x, 1, 1, 0)
