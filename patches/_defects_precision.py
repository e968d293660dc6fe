"""Defects found in precision: numbers and sums that a kernel holds to fewer digits than its operands."""

from __future__ import annotations

from typing import Any

from ._paddles import PADDLE_3, PADDLES

NUMBERS = """\
import numpy as np, paddle
import paddle.nn.functional as F
x, one, zero = (paddle.to_tensor([number], "float64") for number in (-1.0, 1.0, 0.0))
row = paddle.to_tensor([[-1.0, 1.0]], "float64")
def near(found, right):
    np.testing.assert_allclose(found.item(), right, rtol=1e-12)
"""

DEFECTS: tuple[dict[str, Any], ...] = (
    {
        "name": "range of floats",
        "op": "arange",
        "what": "Paddle's CPU kernel adds the step up, so that its rounding error grows with the length.",
        "size": "0.097 after 10000 steps of 0.1",
        "paddle": PADDLES,
        "known": "range added up",
        "shim": "Torch's range, of as many elements. A comparison names it.",
        "program": """\
import numpy as np, paddle
np.testing.assert_allclose(paddle.arange(0, 1000, 0.1).numpy(), np.arange(10000) * 0.1, rtol=1e-6)
""",
    },
    {
        "name": "numbers held in float32",
        "op": "elu, celu, selu, softshrink, hardtanh, hardsigmoid, stanh, rrelu, pow, addmm, smooth_l1_loss, label_smooth, "
        "cross_entropy, batch_norm, instance_norm, layer_norm, local_response_norm, p_norm, dist",
        "known": "number in float32",
        "what": "A Python number (or a constant) beside float64 tensors goes through float32, in the forward and in the backward.",
        "size": "1e-8 of the result for most; of x ** 8.94 at x = 10 the relative error is 9.7e-7, the absolute one 842",
        "paddle": PADDLES,
        "shim": "Torch's kernels hold it in float64. A comparison names it.",
        "program": NUMBERS + "near(F.elu(x, 0.3), 0.3 * np.expm1(-1.0))\n",
        "others": {
            "celu": "near(F.celu(x, 0.3), 0.3 * np.expm1(-1.0 / 0.3))",
            "selu": "near(F.selu(one), 1.0507009873554804934)",
            "softshrink": "near(F.softshrink(one, 0.3), 0.7)",
            "hardtanh": "near(F.hardtanh(x, -0.3, 0.3), -0.3)",
            "hardsigmoid": "near(F.hardsigmoid(x, 1 / 6, 0.5), 1 / 3)",
            "stanh": "near(paddle.stanh(one, 0.67, 1.7159), 1.7159 * np.tanh(0.67))",
            "rrelu": "near(F.rrelu(x, 0.1, 0.3, training=False), -0.2)",
            "pow": "near((one * 10) ** 8.94, 10**8.94)",
            "addmm": "near(paddle.addmm(*[one.reshape([1, 1])] * 3, 0.3, 0.4), 0.7)",
            "smooth_l1_loss": "near(F.smooth_l1_loss(one, zero, delta=0.3), 0.255)",
            "label_smooth": "near(F.label_smooth(paddle.eye(2, dtype='float64'), epsilon=0.1)[0, 1], 0.05)",
            "cross_entropy": "near(F.cross_entropy(row, paddle.to_tensor([1]), label_smoothing=0.1), np.log1p(np.exp(-2)) + 0.1)",
            "batch_norm": "near(F.batch_norm(row.t() * 1e-3, zero, one, training=True)[0], -1e-3 / np.sqrt(1.1e-5))",
            "instance_norm": "near(F.instance_norm(row.reshape([1, 1, 2]) * 1e-3)[0, 0, 0], -1e-3 / np.sqrt(1.1e-5))",
            "layer_norm": "near(F.layer_norm(row * 1e-3, [2])[0, 0], -1e-3 / np.sqrt(1.1e-5))",
            "local_response_norm": "near(F.local_response_norm(one.reshape([1, 1, 1]), 1, alpha=0.3, beta=0.7), 1.3**-0.7)",
            "p_norm": "near(paddle.linalg.norm(one.expand([2]), p=3.3, axis=0), 2 ** (1 / 3.3))",
            "dist": "near(paddle.dist(one.expand([2]), zero, 3.0), 2 ** (1 / 3))",
        },
    },
    {
        "name": "gradient of averages in float32",
        "op": "pool2d, pool3d",
        "what": "One over the number of elements that an average is of is held in float32 in the backward, also of float64.",
        "size": "7e-9 of the gradient",
        "paddle": PADDLES,
        "known": "averages in float32",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
def near(function, axes):
    x = paddle.ones([1, 1] + [3] * axes, "float64")
    x.stop_gradient = False
    function(x, 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(x.shape, 3.0**-axes), rtol=1e-12)
near(paddle.nn.functional.avg_pool2d, 2)
""",
        "others": {"pool3d": "near(paddle.nn.functional.avg_pool3d, 3)"},
    },
    {
        "name": "weights of interpolation in float32",
        "op": "linear_interp, bilinear_interp, trilinear_interp, bicubic_interp",
        "what": "Positions and weights are computed in float32 for float64 images, too.",
        "size": "4e-8 of the result",
        "paddle": PADDLES,
        "known": "weights of interpolation in float32",
        "shim": "Torch computes them in float64; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor(np.arange(3.0).reshape(1, 1, 3))
found = paddle.nn.functional.interpolate(x, size=[7], mode="linear", align_corners=False, data_format="NCW").numpy()
where = np.clip((np.arange(7) + 0.5) * 3 / 7 - 0.5, 0, 2)
np.testing.assert_allclose(found[0, 0], where, rtol=1e-12)
""",
    },
    {
        "name": "power means in float32",
        "op": "lp_pool2d",
        "what": "The kernel for float64 adds powers in float32.",
        "size": "3e-8 of the result",
        "paddle": PADDLE_3,
        "known": "power means in float32",
        "shim": "Torch adds in float64; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor(np.array([0.1, 0.2, 0.3, 0.7]).reshape(1, 1, 2, 2))
np.testing.assert_allclose(paddle.nn.functional.lp_pool2d(x, 2.0, 2).item(), np.sqrt(0.63), rtol=1e-12)
""",
    },
    {
        "name": "softplus of negative numbers",
        "op": "softplus",
        "what": "Paddle computes log(1 + exp(x)): where exp(x) is small its digits are lost in the sum.",
        "size": "0 for 2e-9 at x = -20, in float32",
        "paddle": PADDLES,
        "known": "expm1 and log1p spelled out",
        "shim": "Torch's log1p(exp(x)); a comparison names it, `negligible` beside larger results.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([-20.0], "float32")
np.testing.assert_allclose(paddle.nn.functional.softplus(x).item(), np.log1p(np.exp(-20.0)), rtol=1e-5)
""",
    },
    {
        "name": "erfinv of small numbers",
        "op": "erfinv",
        "known": "erfinv by a quantile",
        "what": "Paddle's CPU kernel goes through a quantile near 1/2, in which the digits of a small number are lost.",
        "size": "1.7e-4 of the result at x = 1e-4, 5 % at 1e-6, in float32",
        "paddle": PADDLES,
        "shim": "Torch's erfinv; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = np.array([1e-4, 3e-4], "float32")
np.testing.assert_allclose(paddle.erfinv(paddle.to_tensor(x)).numpy(), x * np.sqrt(np.pi) / 2, rtol=1e-5)
""",
    },
    {
        "name": "sums of one term after the other",
        "op": "sum, mean",
        "known": "sequential sum",
        "what": "Sums over an axis, and gradients of what was broadcast, are added one term after the other.",
        "size": "1 % of the sum of 2**20 equal numbers, in float32",
        "paddle": PADDLES,
        "shim": "Torch adds in a tree; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = np.full([2, 2**20], 0.1, "float32")
np.testing.assert_allclose(paddle.to_tensor(x).sum(1).numpy(), x.astype("float64").sum(1), rtol=1e-5)
""",
    },
    {
        "name": "torch's gradient of hardsigmoid",
        "op": "hardsigmoid",
        "known": "torch's gradient of hardsigmoid",
        "what": "Torch's backward for float64 multiplies by 1/6 in float32.",
        "size": "3e-8 of the gradient",
        "torch": ("2.13.0",),
        "shim": "Torch's gradient, as in a Torch program; a comparison names Paddle's number in float32, which spells 1/6 as "
        "0.1666667, and Torch's beside it.",
        "program": """\
import numpy as np, torch
x = torch.zeros(8, dtype=torch.float64, requires_grad=True)
torch.nn.functional.hardsigmoid(x).sum().backward()
np.testing.assert_allclose(x.grad.numpy(), 1 / 6, rtol=1e-12)
""",
    },
    {
        "name": "torch's trigamma",
        "op": "polygamma, digamma",
        "what": "torch.polygamma(1, x), and with it the gradient of digamma, is good to nine digits.",
        "size": "4.8e-10 of the result, in float64",
        "torch": ("2.13.0",),
        "known": "torch's trigamma",
        "shim": "Torch's result, as in a Torch program; a comparison names it.",
        "program": """\
import numpy as np, torch
x = torch.ones(1, dtype=torch.float64)
np.testing.assert_allclose(torch.polygamma(1, x).numpy(), np.pi**2 / 6, rtol=1e-12)
""",
    },
    {
        "name": "torch's renorm",
        "op": "renorm",
        "what": "Torch adds 1e-7 to the norm by which it divides, in float64, too.",
        "size": "2e-8 of the result",
        "torch": ("2.13.0",),
        "known": "torch's renorm",
        "shim": "Torch's result, as in a Torch program; a comparison names it.",
        "program": """\
import numpy as np, torch
x = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
np.testing.assert_allclose(torch.renorm(x, 2, 0, 1.0).numpy(), [[0.6, 0.8]], rtol=1e-9)
""",
    },
    {
        "name": "elu of small numbers",
        "op": "elu, celu, selu",
        "known": "expm1 and log1p spelled out",
        "what": "Paddle computes exp(x) - 1: of small numbers the digits are lost in the difference.",
        "size": "1 % of the result at x = -1e-6, in float32",
        "paddle": PADDLES,
        "shim": "Torch's expm1(x); a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([-1e-6], "float32")
np.testing.assert_allclose(paddle.nn.functional.elu(x).item(), np.expm1(-1e-6), rtol=1e-5)
""",
    },
    {
        "name": "binary cross entropy of small probabilities",
        "op": "bce_loss",
        "what": "Paddle computes log(1 - x): of small probabilities the digits are lost in the difference.",
        "size": "0.1 % of the loss at x = 1e-5, all of it at 1e-9, in float32",
        "paddle": PADDLES,
        "known": "expm1 and log1p spelled out",
        "shim": "Torch's log1p(-x); a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([1e-5])
loss = paddle.nn.functional.binary_cross_entropy(x, paddle.zeros([1])).item()
np.testing.assert_allclose(loss, -np.log1p(-1e-5), rtol=1e-5)
""",
    },
    {
        "name": "gammainc of large numbers",
        "op": "gammainc",
        "what": "In float32 the power and the exponential before the series hold few digits of large numbers.",
        "size": "4.5e-4 of the result at 20,000",
        "paddle": PADDLE_3,
        "known": "incomplete gamma functions",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
a, x = paddle.to_tensor([20000.0]), paddle.to_tensor([20010.0])
np.testing.assert_allclose(paddle.gammainc(a, x).item(), 0.529119152, rtol=1e-5)
""",
    },
    {
        "name": "gammaincc of small numbers",
        "op": "gammaincc",
        "what": "In float32 the result is the difference of numbers near 1.",
        "size": "2.4e-6 of the result",
        "paddle": PADDLE_3,
        "known": "incomplete gamma functions",
        "shim": "Torch's result, which is off by more (below); a comparison names both.",
        "program": """\
import numpy as np, paddle
a = paddle.to_tensor([1e-4])
np.testing.assert_allclose(paddle.gammaincc(a, a).item(), 8.62958112e-4, rtol=1e-6)
""",
    },
    {
        "name": "torch's gammaincc of small numbers",
        "op": "gammaincc",
        "what": "The same.",
        "size": "1.1e-5 of the result",
        "torch": ("2.13.0",),
        "known": "incomplete gamma functions",
        "shim": "Torch's result, as in a Torch program; a comparison names both.",
        "program": """\
import numpy as np, torch
a = torch.tensor([1e-4])
np.testing.assert_allclose(torch.special.gammaincc(a, a).item(), 8.62958112e-4, rtol=1e-6)
""",
    },
    {
        "name": "torch's gradient of the binary cross entropy",
        "op": "bce_loss",
        "what": "The 1e-12 below which no denominator goes is held in float32, in float64, too.",
        "size": "4e-9 of the gradient at x = 0",
        "torch": ("2.13.0",),
        "shim": "Torch's gradient, as in a Torch program; a comparison says WRONG, side torch.",
        "program": """\
import numpy as np, torch
x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
torch.nn.functional.binary_cross_entropy(x, torch.ones(1, dtype=torch.float64)).backward()
np.testing.assert_allclose(x.grad.numpy(), [-1e12], rtol=1e-12)
""",
    },
    {
        "name": "exponential of a matrix",
        "op": "matrix_exp",
        "what": "Paddle halves a matrix once too few before the Pade approximant, which is not made for such norms.",
        "size": "0.2 % of the result, in float32",
        "paddle": ("3.3.1",),
        "known": "one squaring too few",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = np.array([[4.4, -0.4], [0.6, 6.9]])
right = np.linalg.matrix_power(sum(np.linalg.matrix_power(x / 64, k) / np.prod(np.arange(1.0, k + 1)) for k in range(20)), 64)
np.testing.assert_allclose(paddle.linalg.matrix_exp(paddle.to_tensor(x, "float32")).numpy(), right, rtol=1e-4)
""",
    },
    {
        "name": "torch's exponential of a matrix",
        "op": "matrix_exp",
        "what": "For one matrix of a norm of 0.05 to 0.58 (in float64 of 0.0003 to 0.05) Torch takes a polynomial of degree 8, of "
        "which a coefficient divides by 5040 * 2 / 3, not by 5040 * 4 / 9: x ** 5 and what follows is wrong.",
        "size": "3.5e-5 of the result in float32, 1e-10 in float64",
        "torch": ("2.13.0",),
        "known": "torch's exponential of degree 8",
        "shim": "Torch's result, as in a Torch program; a comparison names it.",
        "program": """\
import numpy as np, torch
np.testing.assert_allclose(torch.matrix_exp(torch.eye(2) / 2).diagonal().numpy(), np.exp(0.5), rtol=1e-6)
""",
    },
    {
        "name": "gradient of gammaln",
        "op": "gammaln",
        "what": "The digamma in it is good to 1e-13, in float64, too.",
        "size": "1.4e-13",
        "paddle": ("3.3.1",),
        "known": "gradient of gammaln",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([0.5], "float64", stop_gradient=False)
paddle.gammaln(x).backward()
np.testing.assert_allclose(x.grad.numpy(), [-np.euler_gamma - 2 * np.log(2)], rtol=1e-14)
""",
    },
    {
        "name": "gammainc of small results",
        "op": "gammainc",
        "what": "Paddle computes 1 - gammaincc: of small results no digit is left.",
        "size": "0 for 6e-14",
        "paddle": ("3.3.1",),
        "known": "incomplete gamma functions",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
a, x = paddle.to_tensor([20.0]), paddle.to_tensor([2.0])
np.testing.assert_allclose(paddle.gammainc(a, x).item(), 6.44373e-14, rtol=1e-3)
""",
    },
    {
        "name": "torch's gammainc of large numbers",
        "op": "gammainc, gammaincc",
        "what": "The series for large operands that are near one another is good to nine digits, in float64, too.",
        "size": "1e-9 of the result",
        "torch": ("2.13.0",),
        "known": "torch's incomplete gamma functions",
        "shim": "Torch's result, as in a Torch program; a comparison names it.",
        "program": """\
import numpy as np, torch
a, x = (torch.tensor([number], dtype=torch.float64) for number in (25.0, 19.0))
np.testing.assert_allclose(torch.special.gammainc(a, x).numpy(), 0.1067456724699609, rtol=1e-12)
""",
        "others": {
            "gammaincc": "np.testing.assert_allclose(torch.special.gammaincc(a, x).numpy(), 0.8932543275300391, rtol=1e-12)"
        },
    },
    {
        "name": "covariance around a large mean",
        "op": "cov, corrcoef",
        "what": "Paddle multiplies the centred rows by the rows as they are.",
        "size": "-0.07 for 0.02, around 1000 in float32",
        "paddle": ("2.6.2", "3.3.1"),
        "known": "half-centred covariance",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = np.array([[1000.1, 1000.2, 1000.4]], "float32")
np.testing.assert_allclose(paddle.linalg.cov(paddle.to_tensor(x)).item(), np.cov(x.astype("float64")), rtol=1e-4)
""",
    },
    {
        "name": "group norm around a large mean",
        "op": "group_norm",
        "what": "Paddle's CPU kernel takes the square of the mean from the mean of the squares.",
        "size": "half of the result, around 1000 in float32",
        "paddle": ("3.3.1",),
        "known": "variance in one pass",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = np.array([[[1000.0, 1000.1, 1000.3, 1000.2]]], "float32")
centred = x.astype("float64") - x.astype("float64").mean()
found = paddle.nn.functional.group_norm(paddle.to_tensor(x), 1).numpy()
np.testing.assert_allclose(found, centred / np.sqrt((centred**2).mean() + 1e-5), rtol=1e-2, atol=1e-2)
""",
    },
    {
        "name": "small multi margin losses",
        "op": "multi_margin_loss",
        "what": "Paddle adds up all classes and takes the label's own part off.",
        "size": "5 % of a loss of 5e-7, in float32",
        "paddle": ("2.6.2", "3.3.1"),
        "known": "label's part taken off",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = np.array([[0.0, -0.999]], "float32")
loss = paddle.nn.functional.multi_margin_loss(paddle.to_tensor(x), paddle.to_tensor([0]), p=2).item()
np.testing.assert_allclose(loss, (1 + x[0, 1].astype("float64")) ** 2 / 2, rtol=1e-3)
""",
    },
    {
        "name": "slope of elu",
        "op": "elu",
        "what": "The gradient is the result plus alpha: where the result has saturated no digit is left.",
        "size": "0 for 2e-9",
        "paddle": ("2.6.2", "3.3.1"),
        "known": "expm1 and log1p spelled out",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([-20.0], "float32", stop_gradient=False)
paddle.nn.functional.elu(x).backward()
np.testing.assert_allclose(x.grad.numpy(), np.exp([-20.0]), rtol=1e-4)
""",
    },
    {
        "name": "log_sigmoid and mish without log1p",
        "op": "log_sigmoid, mish",
        "what": "Paddle computes log(1 + exp(x)): of small results the digits are lost.",
        "size": "0 for -2e-9, in float32",
        "paddle": ("2.6.2", "3.3.1"),
        "known": "expm1 and log1p spelled out",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([20.0], "float32")
np.testing.assert_allclose(paddle.nn.functional.log_sigmoid(x).item(), -np.log1p(np.exp(-20.0)), rtol=1e-4)
""",
        "others": {
            "mish": "np.testing.assert_allclose(paddle.nn.functional.mish(-x).item() / -20, np.log1p(np.exp(-20.0)), rtol=1e-4)",
        },
    },
)
