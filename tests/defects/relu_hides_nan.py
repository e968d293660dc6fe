"""relu hides NaN

The CPU kernel turns NaN into 0; losses that use it do, too.

Section: NaN, infinities and the edges of the range
Ops: relu, margin_ranking_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU, some processors
Effect: 0 instead of NaN
Known difference: relu of NaN
Under the shim: Torch's relu; compare names it, and says NONFINITE, side paddle, of the loss.
"""

import numpy as np
import paddle

assert np.isnan(paddle.nn.functional.relu(paddle.full([32], float("nan"))).numpy()).all()
