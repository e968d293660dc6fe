"""Precision."""

import numpy as np
import paddle
import paddle.nn.functional as F
import torch

# %% arange adds up its step
"""The CPU kernel adds the step again and again: its rounding error grows with the length.

Ops: arange
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0.097 after 10000 steps of 0.1
Known difference: range added up
Under the shim: Torch's range, of as many elements; compare names it.
"""
np.testing.assert_allclose(paddle.arange(0, 1000, 0.1).numpy(), np.arange(10000) * 0.1, rtol=1e-6)

# %% arithmetic with python numbers goes through float32
"""A Python number beside float64 tensors goes through float32, in Paddle 2.6.

Ops: add, subtract, remainder
Seen on: Paddle 2.6.2; CPU
Effect: 1e-8 of the number
Under the shim: Torch's kernels hold it in float64.
"""
unit, zero = (paddle.to_tensor([number], "float64") for number in (1.0, 0.0))


def near(actual, expected):
    np.testing.assert_allclose(actual.item(), expected, rtol=1e-12)


# %%% add
near(zero + 0.1, 0.1)
# %%% subtract
near(0.1 - zero, 0.1)
# %%% remainder
near(unit % 0.3, 1.0 % 0.3)

# %% avg_pool gradient divides in float32
"""The backward holds the reciprocal of the number of averaged elements in float32, also for float64.

Ops: pool2d, pool3d
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 7e-9 of the gradient
Known difference: averages in float32
Under the shim: Torch's gradient; compare names it.
"""


def near(function, axes):
    x = paddle.ones([1, 1] + [3] * axes, "float64")
    x.stop_gradient = False
    function(x, 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(x.shape, 3.0**-axes), rtol=1e-12)


# %%% pool2d
near(paddle.nn.functional.avg_pool2d, 2)
# %%% pool3d
near(paddle.nn.functional.avg_pool3d, 3)

# %% binary_cross_entropy loses small probabilities
"""In log(1 - x) the digits of small probabilities are lost.

Ops: bce_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0.1 % of the loss at x = 1e-5, all of it at 1e-9, in float32
Known difference: expm1 and log1p spelled out
Under the shim: Torch's log1p(-x); compare names it.
"""
x = paddle.to_tensor([1e-5])
loss = paddle.nn.functional.binary_cross_entropy(x, paddle.zeros([1])).item()
np.testing.assert_allclose(loss, -np.log1p(-1e-5), rtol=1e-5)

# %% casts to float16 round toward zero
"""Up to 3.1 Paddle rounds float32 to float16 toward zero; 2.6.2 also to bfloat16.

Ops: cast
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1; CPU
Effect: almost 1 ulp, for half of all numbers
Under the shim: Torch's rounding, to nearest.
"""
assert paddle.to_tensor([1.0009]).astype("float16").item() == 1.0009765625

# %% cov centres only one factor
"""The centred rows are multiplied by the rows as they are.

Ops: cov, corrcoef
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: -0.07 instead of 0.02, around 1000 in float32
Known difference: half-centred covariance
Under the shim: Torch's result; compare names it.
"""
x = np.array([[1000.1, 1000.2, 1000.4]], "float32")
np.testing.assert_allclose(paddle.linalg.cov(paddle.to_tensor(x)).item(), np.cov(x.astype("float64")), rtol=1e-4)

# %% elu gradient loses small slopes
"""The gradient is the result plus alpha: no digit remains once the result has saturated.

Ops: elu
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 0 instead of 2e-9
Known difference: expm1 and log1p spelled out
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.to_tensor([-20.0], "float32", stop_gradient=False)
paddle.nn.functional.elu(x).backward()
np.testing.assert_allclose(x.grad.numpy(), np.exp([-20.0]), rtol=1e-4)

# %% elu loses small numbers
"""In exp(x) - 1 the digits of small numbers are lost.

Ops: elu, celu, selu
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 % of the result at x = -1e-6, in float32
Known difference: expm1 and log1p spelled out
Under the shim: Torch's expm1(x); compare names it.
"""
x = paddle.to_tensor([-1e-6], "float32")
np.testing.assert_allclose(paddle.nn.functional.elu(x).item(), np.expm1(-1e-6), rtol=1e-5)

# %% erfinv loses small numbers
"""The CPU kernel uses a quantile near 1/2, where the digits of a small number are lost.

Ops: erfinv
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1.7e-4 of the result at x = 1e-4, 5 % at 1e-6, in float32
Known difference: erfinv by a quantile
Under the shim: Torch's erfinv; compare names it.
"""
x = np.array([1e-4, 3e-4], "float32")
np.testing.assert_allclose(paddle.erfinv(paddle.to_tensor(x)).numpy(), x * np.sqrt(np.pi) / 2, rtol=1e-5)

# %% gammainc loses digits of large numbers
"""In float32 the power and the exponential before the series hold few digits of large numbers.

Ops: gammainc
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 4.5e-4 of the result at 20,000
Known difference: incomplete gamma functions
Under the shim: Torch's result; compare names it.
"""
a, x = paddle.to_tensor([20000.0]), paddle.to_tensor([20010.0])
np.testing.assert_allclose(paddle.gammainc(a, x).item(), 0.529119152, rtol=1e-5)

# %% gammainc loses small results
"""In 1 - gammaincc the digits of small results are lost.

Ops: gammainc
Seen on: Paddle 3.3.1; CPU
Effect: 0 instead of 6e-14
Known difference: incomplete gamma functions
Under the shim: Torch's result; compare names it.
"""
a, x = paddle.to_tensor([20.0]), paddle.to_tensor([2.0])
np.testing.assert_allclose(paddle.gammainc(a, x).item(), 6.44373e-14, rtol=1e-3)

# %% gammaincc loses digits of small numbers
"""In float32 the result is a difference of numbers near 1.

Ops: gammaincc
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 2.4e-6 of the result
Known difference: incomplete gamma functions
Under the shim: Wrong, too: Torch's result is off by more (torch gammaincc loses digits of small numbers); compare names both.
"""
a = paddle.to_tensor([1e-4])
np.testing.assert_allclose(paddle.gammaincc(a, a).item(), 8.62958112e-4, rtol=1e-6)

# %% gammaln gradient has thirteen digits
"""The digamma in the gradient is good to 1e-13, also in float64.

Ops: gammaln
Seen on: Paddle 3.3.1; CPU
Effect: 1.4e-13 of the gradient
Known difference: gradient of gammaln
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.to_tensor([0.5], "float64", stop_gradient=False)
paddle.gammaln(x).backward()
np.testing.assert_allclose(x.grad.numpy(), [-np.euler_gamma - 2 * np.log(2)], rtol=1e-14)

# %% group_norm variance cancels around a large mean
"""The CPU kernel subtracts the square of the mean from the mean of the squares.

Ops: group_norm
Seen on: Paddle 3.3.1; CPU
Effect: half of the result, around 1000 in float32
Known difference: variance in one pass
Under the shim: Torch's result; compare names it.
"""
x = np.array([[[1000.0, 1000.1, 1000.3, 1000.2]]], "float32")
centred = x.astype("float64") - x.astype("float64").mean()
result = paddle.nn.functional.group_norm(paddle.to_tensor(x), 1).numpy()
np.testing.assert_allclose(result, centred / np.sqrt((centred**2).mean() + 1e-5), rtol=1e-2, atol=1e-2)

# %% interpolate weights are float32
"""Positions and weights are computed in float32, also for float64 images.

Ops: linear_interp, bilinear_interp, trilinear_interp, bicubic_interp
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 4e-8 of the result
Known difference: weights of interpolation in float32
Under the shim: Torch computes them in float64; compare names it.
"""
x = paddle.to_tensor(np.arange(3.0).reshape(1, 1, 3))
result = paddle.nn.functional.interpolate(x, size=[7], mode="linear", align_corners=False, data_format="NCW").numpy()
where = np.clip((np.arange(7) + 0.5) * 3 / 7 - 0.5, 0, 2)
np.testing.assert_allclose(result[0, 0], where, rtol=1e-12)

# %% leaky_relu, logit and softplus hold numbers in float32
"""A Python number beside float64 tensors goes through float32, up to Paddle 3.2.

Ops: leaky_relu, logit, softplus
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2; CPU
Effect: 1e-8 of the number
Under the shim: Torch's kernels hold it in float64.
"""
x, unit, zero = (paddle.to_tensor([number], "float64") for number in (-1.0, 1.0, 0.0))


def near(actual, expected):
    np.testing.assert_allclose(actual.item(), expected, rtol=1e-12)


# %%% leaky_relu
near(F.leaky_relu(x, 0.3), -0.3)
# %%% logit
near(paddle.logit(zero, 0.3), np.log(0.3 / 0.7))
# %%% softplus
near(F.softplus(unit, 0.3), np.log1p(np.exp(0.3)) / 0.3)

# %% log_sigmoid and mish lose small results
"""In log(1 + exp(x)) the digits of small results are lost.

Ops: log_sigmoid, mish
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 0 instead of -2e-9, in float32
Known difference: expm1 and log1p spelled out
Under the shim: Torch's result; compare names it.
"""
x = paddle.to_tensor([20.0], "float32")

# %%% log_sigmoid
np.testing.assert_allclose(paddle.nn.functional.log_sigmoid(x).item(), -np.log1p(np.exp(-20.0)), rtol=1e-4)
# %%% mish
np.testing.assert_allclose(paddle.nn.functional.mish(-x).item() / -20, np.log1p(np.exp(-20.0)), rtol=1e-4)

# %% lp_pool2d adds powers in float32
"""The float64 kernel adds powers in float32.

Ops: lp_pool2d
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 3e-8 of the result
Known difference: power means in float32
Under the shim: Torch adds in float64; compare names it.
"""
x = paddle.to_tensor(np.array([0.1, 0.2, 0.3, 0.7]).reshape(1, 1, 2, 2))
np.testing.assert_allclose(paddle.nn.functional.lp_pool2d(x, 2.0, 2).item(), np.sqrt(0.63), rtol=1e-12)

# %% matrix_exp halves once too few
"""The matrix is halved once too few before the Pade approximant, which is not made for such norms.

Ops: matrix_exp
Seen on: Paddle 3.3.1; CPU
Effect: 0.2 % of the result, in float32
Known difference: one squaring too few
Under the shim: Torch's result; compare names it.
"""
x = np.array([[4.4, -0.4], [0.6, 6.9]])
expected = np.linalg.matrix_power(sum(np.linalg.matrix_power(x / 64, k) / np.prod(np.arange(1.0, k + 1)) for k in range(20)), 64)
np.testing.assert_allclose(paddle.linalg.matrix_exp(paddle.to_tensor(x, "float32")).numpy(), expected, rtol=1e-4)

# %% multi_margin_loss cancels small losses
"""The kernel adds up all classes and subtracts the label's own part.

Ops: multi_margin_loss
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 5 % of a loss of 5e-7, in float32
Known difference: label's part taken off
Under the shim: Torch's result; compare names it.
"""
x = np.array([[0.0, -0.999]], "float32")
loss = paddle.nn.functional.multi_margin_loss(paddle.to_tensor(x), paddle.to_tensor([0]), p=2).item()
np.testing.assert_allclose(loss, (1 + x[0, 1].astype("float64")) ** 2 / 2, rtol=1e-3)

# %% python numbers go through float32
"""A Python number (or a constant) beside float64 tensors goes through float32, in the forward and in the backward.

Ops: elu, celu, selu, softshrink, hardtanh, hardsigmoid, stanh, rrelu, pow, addmm, smooth_l1_loss, label_smooth, cross_entropy,
    batch_norm, instance_norm, layer_norm, local_response_norm, p_norm, dist
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1e-8 of the result for most; for x ** 8.94 at x = 10 the relative error is 9.7e-7, the absolute error 842
Known difference: number in float32
Under the shim: Torch's kernels hold it in float64; compare names it.
"""
x, unit, zero = (paddle.to_tensor([number], "float64") for number in (-1.0, 1.0, 0.0))
row = paddle.to_tensor([[-1.0, 1.0]], "float64")


def near(actual, expected):
    np.testing.assert_allclose(actual.item(), expected, rtol=1e-12)


# %%% elu
near(F.elu(x, 0.3), 0.3 * np.expm1(-1.0))
# %%% celu
near(F.celu(x, 0.3), 0.3 * np.expm1(-1.0 / 0.3))
# %%% selu
near(F.selu(unit), 1.0507009873554804934)
# %%% softshrink
near(F.softshrink(unit, 0.3), 0.7)
# %%% hardtanh
near(F.hardtanh(x, -0.3, 0.3), -0.3)
# %%% hardsigmoid
near(F.hardsigmoid(x, 1 / 6, 0.5), 1 / 3)
# %%% stanh
near(paddle.stanh(unit, 0.67, 1.7159), 1.7159 * np.tanh(0.67))
# %%% rrelu
near(F.rrelu(x, 0.1, 0.3, training=False), -0.2)
# %%% pow
near((unit * 10) ** 8.94, 10**8.94)
# %%% addmm
near(paddle.addmm(*[unit.reshape([1, 1])] * 3, 0.3, 0.4), 0.7)
# %%% smooth_l1_loss
near(F.smooth_l1_loss(unit, zero, delta=0.3), 0.255)
# %%% label_smooth
near(F.label_smooth(paddle.eye(2, dtype="float64"), epsilon=0.1)[0, 1], 0.05)
# %%% cross_entropy
near(F.cross_entropy(row, paddle.to_tensor([1]), label_smoothing=0.1), np.log1p(np.exp(-2)) + 0.1)
# %%% batch_norm
near(F.batch_norm(row.t() * 1e-3, zero, unit, training=True)[0], -1e-3 / np.sqrt(1.1e-5))
# %%% instance_norm
near(F.instance_norm(row.reshape([1, 1, 2]) * 1e-3)[0, 0, 0], -1e-3 / np.sqrt(1.1e-5))
# %%% layer_norm
near(F.layer_norm(row * 1e-3, [2])[0, 0], -1e-3 / np.sqrt(1.1e-5))
# %%% local_response_norm
near(F.local_response_norm(unit.reshape([1, 1, 1]), 1, alpha=0.3, beta=0.7), 1.3**-0.7)
# %%% p_norm
near(paddle.linalg.norm(unit.expand([2]), p=3.3, axis=0), 2 ** (1 / 3.3))
# %%% dist
near(paddle.dist(unit.expand([2]), zero, 3.0), 2 ** (1 / 3))

# %% SGD leaves the master weight of bfloat16
"""With multi_precision a step changes the parameter in bfloat16, and not the float32 weight behind it: steps that are smaller than
the parameter's last digit are lost, however many there are.

Ops: optimizer.SGD
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 1 instead of 0.992
Known difference: master weight that stays as it was
Under the shim: Torch's steps of the master weight; compare names it.
"""
layer = paddle.nn.Linear(1, 1, weight_attr=paddle.nn.initializer.Constant(1.0), bias_attr=False).to(dtype="bfloat16")
sgd = paddle.optimizer.SGD(2.0**-10, parameters=layer.parameters(), multi_precision=True)
for _ in range(8):
    layer.weight.astype("float32").sum().backward()
    sgd.step()
    sgd.clear_grad()
assert layer.weight.astype("float32").item() == 1 - 2.0**-7

# %% softplus loses small results
"""In log(1 + exp(x)) the digits of a small exp(x) are lost in the sum.

Ops: softplus
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0 instead of 2e-9 at x = -20, in float32
Known difference: expm1 and log1p spelled out
Under the shim: Torch's log1p(exp(x)); compare names it, `negligible` beside larger results.
"""
x = paddle.to_tensor([-20.0], "float32")
np.testing.assert_allclose(paddle.nn.functional.softplus(x).item(), np.log1p(np.exp(-20.0)), rtol=1e-5)

# %% sum adds terms one after the other
"""Sums over an axis, and gradients of broadcast operands, add one term after the other.

Ops: sum, mean
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 % of the sum of 2**20 equal numbers, in float32
Known difference: sequential sum
Under the shim: Torch adds in a tree; compare names it.
"""
x = np.full([2, 2**20], 0.1, "float32")
np.testing.assert_allclose(paddle.to_tensor(x).sum(1).numpy(), x.astype("float64").sum(1), rtol=1e-5)

# %% torch binary_cross_entropy gradient clips in float32
"""The lower bound of the denominator, 1e-12, is held in float32, also for float64.

Ops: bce_loss
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 4e-9 of the gradient at x = 0
Under the shim: Torch's gradient, as in a Torch program; compare says WRONG, side torch.
"""
x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
torch.nn.functional.binary_cross_entropy(x, torch.ones(1, dtype=torch.float64)).backward()
np.testing.assert_allclose(x.grad.numpy(), [-1e12], rtol=1e-12)

# %% torch gammainc has nine digits for large numbers
"""The series for large operands that are close to each other is good to nine digits, also in float64.

Ops: gammainc, gammaincc
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 1e-9 of the result
Known difference: torch's incomplete gamma functions
Under the shim: Torch's result, as in a Torch program; compare names it.
"""
a, x = (torch.tensor([number], dtype=torch.float64) for number in (25.0, 19.0))

# %%% gammainc
np.testing.assert_allclose(torch.special.gammainc(a, x).numpy(), 0.1067456724699609, rtol=1e-12)
# %%% gammaincc
np.testing.assert_allclose(torch.special.gammaincc(a, x).numpy(), 0.8932543275300391, rtol=1e-12)

# %% torch gammaincc loses digits of small numbers
"""In float32 the result is a difference of numbers near 1.

Ops: gammaincc
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 1.1e-5 of the result
Known difference: incomplete gamma functions
Under the shim: Torch's result, as in a Torch program; compare names both.
"""
a = torch.tensor([1e-4])
np.testing.assert_allclose(torch.special.gammaincc(a, a).item(), 8.62958112e-4, rtol=1e-6)

# %% torch hardsigmoid gradient multiplies in float32
"""The backward for float64 multiplies by 1/6 in float32.

Ops: hardsigmoid
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 3e-8 of the gradient
Known difference: torch's gradient of hardsigmoid
Under the shim: Torch's gradient, as in a Torch program; compare names it, and Paddle's 0.1666667 for 1/6, too.
"""
x = torch.zeros(8, dtype=torch.float64, requires_grad=True)
torch.nn.functional.hardsigmoid(x).sum().backward()
np.testing.assert_allclose(x.grad.numpy(), 1 / 6, rtol=1e-12)

# %% torch matrix_exp has a wrong coefficient
"""For one matrix of a norm of 0.05 to 0.58 (in float64 of 0.0003 to 0.05) Torch uses a polynomial of degree 8 in which one
coefficient divides by 5040 * 2 / 3 instead of 5040 * 4 / 9: the terms from x ** 5 on are wrong.

Ops: matrix_exp
Seen on: Torch 2.4.1 to 2.13.0; CPU
Effect: 3.5e-5 of the result in float32, 1e-10 in float64
Known difference: torch's exponential of degree 8
Under the shim: Torch's result, as in a Torch program; compare names it.
"""
np.testing.assert_allclose(torch.matrix_exp(torch.eye(2) / 2).diagonal().numpy(), np.exp(0.5), rtol=1e-6)

# %% torch polygamma has nine digits
"""torch.polygamma(1, x), and so the gradient of digamma, is good to nine digits.

Ops: polygamma, digamma
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 4.8e-10 of the result, in float64
Known difference: torch's trigamma
Under the shim: Torch's result, as in a Torch program; compare names it.
"""
x = torch.ones(1, dtype=torch.float64)
np.testing.assert_allclose(torch.polygamma(1, x).numpy(), np.pi**2 / 6, rtol=1e-12)

# %% torch renorm adds a constant to the norm
"""Torch adds 1e-7 to the norm by which it divides, also in float64.

Ops: renorm
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 2e-8 of the result
Known difference: torch's renorm
Under the shim: Torch's result, as in a Torch program; compare names it.
"""
x = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
np.testing.assert_allclose(torch.renorm(x, 2, 0, 1.0).numpy(), [[0.6, 0.8]], rtol=1e-9)
