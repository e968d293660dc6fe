"""unreduced losses of 0-D tensors get an axis

hinge_embedding_loss, and margin_ranking_loss with a margin, return an axis for tensors without axes if they are not reduced.

Section: Values
Ops: hinge_embedding_loss, margin_ranking_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: shape [1] instead of []
Under the shim: No change: Paddle's kernel runs, because Torch has no result of that shape.
"""

import paddle
import paddle.nn.functional as F

x, label = paddle.to_tensor(3.0), paddle.to_tensor(1.0)

# %% hinge_embedding_loss
assert list(F.hinge_embedding_loss(x, label, reduction="none").shape) == []
# %% margin_ranking_loss
assert list(F.margin_ranking_loss(x, label, label, 0.5, reduction="none").shape) == []
