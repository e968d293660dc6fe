"""cross_entropy mean with smoothing and ignore_index divides by classes

With label_smoothing and an ignore_index of 0 or more, the mean divides by samples times classes.

Section: Values
Ops: cross_entropy
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a quarter of the loss, with four classes
Under the shim: No change, and a warning in the run; Torch's loss with definitions="torch".
"""

import numpy as np
import paddle

x, label = paddle.zeros([2, 4]), paddle.to_tensor([1, 2])
result = paddle.nn.functional.cross_entropy(x, label, ignore_index=0, label_smoothing=0.1).item()
np.testing.assert_allclose(result, np.log(4.0), rtol=1e-5)
