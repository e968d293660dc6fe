"""fused norms crash without AVX-512

The CPU kernels use AVX-512 instructions without checking for them.

Section: Crashes and refusals
Ops: fused_bias_residual_layernorm, fused_rms_norm_quant
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU, some processors
Effect: the process ends on a processor without AVX-512
Ends with: SIGILL
Under the shim: Torch's kernel, on every processor. Under compare Paddle's kernel runs, too, and the process ends.
"""

import paddle
from paddle.incubate.nn.functional import fused_layer_norm, fused_rms_norm

x, weight = paddle.ones([4, 8]), paddle.ones([8])

# %% fused_layer_norm
fused_layer_norm(x, weight, paddle.zeros([8]), 1e-5)
# %% fused_rms_norm
fused_rms_norm(x, weight, None, 1e-5, 1)
