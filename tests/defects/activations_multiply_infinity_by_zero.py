"""activations multiply infinity by zero

Branches not taken are multiplied by 0, or subtracted from each other: an infinity in them becomes NaN.

Section: NaN, infinities and the edges of the range
Ops: softshrink, thresholded_relu, log_sigmoid, binary_cross_entropy_with_logits
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 0 or an infinity
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""

import paddle
import paddle.nn.functional as F

inf = paddle.to_tensor([float("inf")])

# %% softshrink
assert F.softshrink(inf).item() == float("inf")
# %% thresholded_relu
assert F.thresholded_relu(-inf).item() == 0
# %% log_sigmoid
assert F.log_sigmoid(-inf).item() == -float("inf")
# %% binary_cross_entropy_with_logits
assert F.binary_cross_entropy_with_logits(inf, paddle.zeros([1])).item() == float("inf")
