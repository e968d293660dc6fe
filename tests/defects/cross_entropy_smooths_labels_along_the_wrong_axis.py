"""cross_entropy smooths labels along the wrong axis

Class indices become shares along the last axis, whatever axis= says.

Section: Values
Ops: cross_entropy
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a wrong loss; an error where the sizes differ
Under the shim: No change; Torch's loss with definitions="torch".
"""

import numpy as np
import paddle
import paddle.nn.functional as F

x, label = paddle.to_tensor(np.arange(9.0).reshape(1, 3, 3) ** 2), paddle.to_tensor([[0, 0, 1]])
last = F.cross_entropy(x.transpose([0, 2, 1]), label, label_smoothing=0.1).item()
np.testing.assert_allclose(F.cross_entropy(x, label, label_smoothing=0.1, axis=1).item(), last, rtol=1e-9)
