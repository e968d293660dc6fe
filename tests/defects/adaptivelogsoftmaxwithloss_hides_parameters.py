"""AdaptiveLogSoftmaxWithLoss hides parameters

The weights of the tails are in plain lists: parameters() and state_dict() lack them.

Section: Values
Ops: nn.AdaptiveLogSoftmaxWithLoss
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 parameter instead of 5
Under the shim: No change to the layer; what its weights compute runs on Torch's kernels.
"""

import paddle

layer = paddle.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8])
assert len(layer.parameters()) == 1 + sum(map(len, layer.tail_weights))
