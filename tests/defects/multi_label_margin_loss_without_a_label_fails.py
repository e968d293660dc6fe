"""multi_label_margin_loss without a label fails

If no sample has a label, the call raises.

Section: Crashes and refusals
Ops: multi_label_margin_loss
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: ValueError instead of 0
Ends with: ValueError
Under the shim: No change: Paddle's error.
"""

import paddle

x, label = paddle.ones([2, 3]), paddle.full([2, 3], -1, "int64")
paddle.nn.functional.multi_label_margin_loss(x, label)
