"""python numbers go through float32

A Python number (or a constant) beside float64 tensors goes through float32, in the forward and in the backward.

Section: Precision
Ops: elu, celu, selu, softshrink, hardtanh, hardsigmoid, stanh, rrelu, pow, addmm, smooth_l1_loss, label_smooth, cross_entropy,
    batch_norm, instance_norm, layer_norm, local_response_norm, p_norm, dist
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1e-8 of the result for most; for x ** 8.94 at x = 10 the relative error is 9.7e-7, the absolute error 842
Known difference: number in float32
Under the shim: Torch's kernels hold it in float64; compare names it.
"""

import numpy as np
import paddle
import paddle.nn.functional as F

x, unit, zero = (paddle.to_tensor([number], "float64") for number in (-1.0, 1.0, 0.0))
row = paddle.to_tensor([[-1.0, 1.0]], "float64")


def near(actual, expected):
    np.testing.assert_allclose(actual.item(), expected, rtol=1e-12)


# %% elu
near(F.elu(x, 0.3), 0.3 * np.expm1(-1.0))
# %% celu
near(F.celu(x, 0.3), 0.3 * np.expm1(-1.0 / 0.3))
# %% selu
near(F.selu(unit), 1.0507009873554804934)
# %% softshrink
near(F.softshrink(unit, 0.3), 0.7)
# %% hardtanh
near(F.hardtanh(x, -0.3, 0.3), -0.3)
# %% hardsigmoid
near(F.hardsigmoid(x, 1 / 6, 0.5), 1 / 3)
# %% stanh
near(paddle.stanh(unit, 0.67, 1.7159), 1.7159 * np.tanh(0.67))
# %% rrelu
near(F.rrelu(x, 0.1, 0.3, training=False), -0.2)
# %% pow
near((unit * 10) ** 8.94, 10**8.94)
# %% addmm
near(paddle.addmm(*[unit.reshape([1, 1])] * 3, 0.3, 0.4), 0.7)
# %% smooth_l1_loss
near(F.smooth_l1_loss(unit, zero, delta=0.3), 0.255)
# %% label_smooth
near(F.label_smooth(paddle.eye(2, dtype="float64"), epsilon=0.1)[0, 1], 0.05)
# %% cross_entropy
near(F.cross_entropy(row, paddle.to_tensor([1]), label_smoothing=0.1), np.log1p(np.exp(-2)) + 0.1)
# %% batch_norm
near(F.batch_norm(row.t() * 1e-3, zero, unit, training=True)[0], -1e-3 / np.sqrt(1.1e-5))
# %% instance_norm
near(F.instance_norm(row.reshape([1, 1, 2]) * 1e-3)[0, 0, 0], -1e-3 / np.sqrt(1.1e-5))
# %% layer_norm
near(F.layer_norm(row * 1e-3, [2])[0, 0], -1e-3 / np.sqrt(1.1e-5))
# %% local_response_norm
near(F.local_response_norm(unit.reshape([1, 1, 1]), 1, alpha=0.3, beta=0.7), 1.3**-0.7)
# %% p_norm
near(paddle.linalg.norm(unit.expand([2]), p=3.3, axis=0), 2 ** (1 / 3.3))
# %% dist
near(paddle.dist(unit.expand([2]), zero, 3.0), 2 ** (1 / 3))
