"""frame of an empty axis crashes

Kernels that move another axis to the front divide by the number of elements of an empty tensor.

Section: Crashes and refusals
Ops: frame, overlap_add, spectral_norm
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGFPE
Under the shim: No change: the process ends. spectral_norm on Paddle 3, without gradients, runs on Torch's kernel.
"""

import paddle

# %% frame
paddle.signal.frame(paddle.zeros([8, 0]), 4, 2, axis=0)
# %% overlap_add
paddle.signal.overlap_add(paddle.zeros([3, 4, 0]), 2, axis=0)
# %% spectral_norm
paddle._C_ops.spectral_norm(paddle.zeros([2, 0]), paddle.ones([0]), paddle.ones([2]), 1, 1, 1e-12)
