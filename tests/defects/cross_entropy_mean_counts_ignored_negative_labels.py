"""cross_entropy mean counts ignored negative labels

With a negative ignore_index the mean divides by all samples, ignored ones included.

Section: Values
Ops: cross_entropy
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: half of the loss if half of the labels are ignored
Under the shim: No change, and a warning in the run; Torch's loss with definitions="torch".
"""

import numpy as np
import paddle

x, label = paddle.zeros([2, 4]), paddle.to_tensor([1, -1])
result = paddle.nn.functional.cross_entropy(x, label, ignore_index=-1).item()
np.testing.assert_allclose(result, np.log(4.0), rtol=1e-5)
