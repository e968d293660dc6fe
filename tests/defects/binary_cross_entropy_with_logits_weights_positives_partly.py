"""binary_cross_entropy_with_logits weights positives partly

For a negative logit pos_weight multiplies only a part of a positive's loss.

Section: Values
Ops: binary_cross_entropy_with_logits
Seen on: Paddle 2.6.2; CPU
Effect: 1.3 instead of 2.6
Under the shim: Torch's loss.
"""

import numpy as np
import paddle

x, label, weight = (paddle.to_tensor([value]) for value in (-1.0, 1.0, 2.0))
result = paddle.nn.functional.binary_cross_entropy_with_logits(x, label, pos_weight=weight).item()
np.testing.assert_allclose(result, 2 * np.log1p(np.exp(1.0)), rtol=1e-5)
