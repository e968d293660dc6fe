"""softmax of masked entries is not zero

The CPU kernel computes exp(max(x - max, -64)): entries that a mask removes do not become 0.

Section: NaN, infinities and the edges of the range
Ops: softmax, fused_softmax_mask
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1e-29 instead of 0
Known difference: softmax clipped at -64
Under the shim: Torch's softmax; compare names it.
"""

import paddle

x = paddle.to_tensor([[0.0, -1e9] * 16])

# %% softmax
assert (paddle.nn.functional.softmax(x).numpy()[0, 1::2] == 0).all()
# %% fused_softmax_mask
assert (paddle.incubate.softmax_mask_fuse(*x.reshape([2, 1, 1, 1, 16])).numpy()[0, 0, 0, 1::2] == 0).all()
