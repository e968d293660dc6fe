"""Defects of older Paddles that the newest one has not: data in the keys of ``catalogue.defects.Defect``."""

from __future__ import annotations

from typing import Any

from ._defects_precision import NUMBERS
from ._paddles import PADDLES

DEFECTS: tuple[dict[str, Any], ...] = (
    {
        "name": "gradient of gather along another axis",
        "op": "gather",
        "what": "Along another axis than the first, Paddle's gradient of indices that repeat is wrong, up to 3.0.",
        "size": "6 for 0",
        "paddle": PADDLES[:2],
        "shim": "Torch's gradient.",
        "program": """\
import numpy as np, paddle
x = paddle.zeros([2, 3])
x.stop_gradient = False
y = paddle.gather(x, paddle.to_tensor([0, 2, 2]), axis=1)
y.backward(paddle.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
np.testing.assert_array_equal(x.grad.numpy(), [[1.0, 0.0, 5.0], [4.0, 0.0, 11.0]])
""",
    },
    {
        "name": "gradients of conv2d_transpose with channels last",
        "op": "conv2d_transpose",
        "what": "With padding and channels last, Paddle's gradients of x and of the weight are wrong, up to 3.2.",
        "size": "6 % of a gradient's element",
        "paddle": PADDLES[:-1],
        "shim": "Torch's gradients.",
        "program": """\
import numpy as np, paddle
import paddle.nn.functional as F
grads = []
for form, axes in (("NCHW", [0, 1, 2, 3]), ("NHWC", [0, 2, 3, 1])):
    x = paddle.arange(24.0).reshape([1, 2, 4, 3]).transpose(axes).detach()
    weight = paddle.arange(24.0).reshape([2, 3, 2, 2])
    weight.stop_gradient = False
    (F.conv2d_transpose(x, weight, padding=1, data_format=form) ** 2).sum().backward()
    grads.append(weight.grad.numpy())
np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5)
""",
    },
    {
        "name": "gradients of a group norm's parameters alone",
        "op": "group_norm",
        "what": "Where the gradient of x is not asked for, Paddle 3.0's backward refuses.",
        "size": "an error for the gradients",
        "paddle": PADDLES[1:2],
        "shows": "ValueError",
        "shim": "Torch's gradients. Compared, the backward is Paddle's, and raises.",
        "program": """\
import paddle
import paddle.nn.functional as F
weight, bias = paddle.ones([2]), paddle.zeros([2])
weight.stop_gradient = bias.stop_gradient = False
paddle.grad(F.group_norm(paddle.ones([1, 2, 3]), 2, weight=weight, bias=bias), [weight, bias])
""",
    },
    {
        "name": "weights of positives",
        "op": "binary_cross_entropy_with_logits",
        "what": "Where a logit is negative, pos_weight weighs a part of a positive's loss only.",
        "size": "1.3 for 2.6",
        "paddle": ("2.6.2",),
        "shim": "Torch's loss.",
        "program": """\
import numpy as np, paddle
x, label, weight = (paddle.to_tensor([value]) for value in (-1.0, 1.0, 2.0))
found = paddle.nn.functional.binary_cross_entropy_with_logits(x, label, pos_weight=weight).item()
np.testing.assert_allclose(found, 2 * np.log1p(np.exp(1.0)), rtol=1e-5)
""",
    },
    {
        "name": "weights of classes with a margin",
        "op": "multi_margin_loss",
        "what": "The loss of every row is multiplied with the weights of all rows' labels, up to Paddle 3.0.",
        "size": "a factor of 10, or another shape",
        "paddle": PADDLES[:2],
        "shim": "Torch's loss: a row's own weight.",
        "program": """\
import numpy as np, paddle
import paddle.nn.functional as F
x, labels = paddle.to_tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]], "float64"), paddle.to_tensor([0, 1])
weight = paddle.to_tensor([1.0, 10.0, 100.0], "float64")
rows = [F.multi_margin_loss(x[i : i + 1], labels[i : i + 1], weight=weight).item() for i in (0, 1)]
np.testing.assert_allclose(F.multi_margin_loss(x, labels, weight=weight, reduction="none").numpy(), rows)
""",
    },
    {
        "name": "trace with its axes exchanged",
        "op": "trace",
        "what": "With an offset and axis1 behind axis2, Paddle takes the diagonal on the other side, up to 3.0.",
        "size": "another diagonal",
        "paddle": PADDLES[:2],
        "shim": "Torch's trace.",
        "program": """\
import numpy as np, paddle
x = np.arange(9.0).reshape(3, 3)
assert paddle.trace(paddle.to_tensor(x), offset=1, axis1=1, axis2=0).item() == np.trace(x, 1, 1, 0)
""",
    },
    {
        "name": "residuals without full rank",
        "op": "lstsq",
        "what": "Residuals are those of matrices of full rank, and none otherwise. Up to 3.0 Paddle gives what is no residual; 2.6 "
        "gives none of full rank.",
        "size": "5.7e-14 for none",
        "paddle": PADDLES[:2],
        "shim": "None, as Torch.",
        "program": """\
import paddle
assert paddle.linalg.lstsq(paddle.ones([4, 3]), paddle.ones([4, 2]))[1].shape == [0]
""",
    },
    {
        "name": "products of nothing",
        "op": "matmul",
        "what": "Where the axis that is summed over has no elements, the result is memory that was never written.",
        "size": "any value for 0",
        "paddle": PADDLES[1:2],
        "shim": "Torch's zeros.",
        "program": """\
import numpy as np, paddle
paddle.full([64, 64], 7.0)
np.testing.assert_array_equal(paddle.matmul(paddle.zeros([64, 0]), paddle.zeros([0, 64])).numpy(), 0.0)
""",
    },
    {
        "name": "products of nothing by Paddle 2.6",
        "op": "mv, dot, multi_dot",
        "what": "The same of other products.",
        "size": "any value for 0",
        "paddle": PADDLES[:1],
        "shim": "As natively, and listed: there the op of a tensor without elements stays native.",
        "program": """\
import numpy as np, paddle
used = [paddle.full([64, 64], 7.0) for _ in range(9)]
del used
np.testing.assert_array_equal(paddle.mv(paddle.zeros([4096, 0]), paddle.zeros([0])).numpy(), 0.0)
""",
        "others": {
            "dot": "assert not paddle.dot(paddle.zeros([4096, 0]), paddle.zeros([4096, 0])).any()",
            "multi_dot": "assert not paddle.linalg.multi_dot([paddle.zeros([64, 0]), paddle.zeros([0, 64])]).any()",
        },
    },
    {
        "name": "gradient of products of nothing",
        "op": "matmul",
        "what": "In the backward of a product of tensors without elements, Paddle 3.0 writes the gradient that is not asked for.",
        "size": "the process ends",
        "paddle": PADDLES[1:2],
        "shows": "SIGSEGV",
        "shim": "Nothing: gradients of nothing are Paddle's.",
        "program": """\
import paddle
x = paddle.zeros([0, 3])
x.stop_gradient = False
paddle.matmul(x, paddle.ones([3, 2])).sum().backward()
""",
    },
    {
        "name": "casts to float16",
        "op": "cast",
        "what": "Up to 3.1 Paddle rounds float32 to float16 toward zero, 2.6.2 to bfloat16, too.",
        "size": "almost 1 ulp, for half of all numbers",
        "paddle": PADDLES[:3],
        "shim": "Torch's rounding to the nearest, inside of a mode.",
        "program": """\
import paddle
assert paddle.to_tensor([1.0009]).astype("float16").item() == 1.0009765625
""",
    },
    {
        "name": "two indices of a strided tensor",
        "op": "getitem",
        "what": 'As "index of tensors behind a slice, on a strided tensor", without a slice; so is multi_label_margin_loss.',
        "size": "other elements",
        "paddle": PADDLES[2:4],
        "shim": "Torch's elements, of floats and integers.",
        "program": """\
import numpy as np, paddle
x, index = np.arange(12).reshape(3, 4), paddle.to_tensor([0, 2, 1])
np.testing.assert_array_equal(paddle.to_tensor(x).t()[index, index].numpy(), x.T[[0, 2, 1], [0, 2, 1]])
""",
    },
    {
        "name": "index of a strided tensor",
        "op": "getitem",
        "what": "The same with one index, in 3.2.",
        "size": "other elements",
        "paddle": PADDLES[3:4],
        "shim": "Torch's elements, of floats and integers.",
        "program": """\
import numpy as np, paddle
x = np.arange(12).reshape(3, 4)
np.testing.assert_array_equal(paddle.to_tensor(x).t()[paddle.to_tensor([0, 2, 1])].numpy(), x.T[[0, 2, 1]])
""",
    },
    {
        "name": "views of bytes as numbers",
        "op": "Tensor.view",
        "what": "A slice of a tensor of bytes, taken as float32, divides by zero in 3.0.",
        "size": "the process ends",
        "paddle": PADDLES[1:2],
        "shows": "SIGFPE",
        "shim": "Nothing: a view is Paddle's.",
        "program": """\
import paddle
paddle.arange(96, dtype="float32").view("uint8")[2:186].view("float32")
""",
    },
    {
        "name": "DLPack drops strides",
        "op": "to_dlpack",
        "what": "A transposed or sliced view of a Paddle 2.6 tensor arrives in Torch as if it were contiguous.",
        "size": "wrong values, no error",
        "paddle": ("2.6.2",),
        "shim": "Does not use that door on 2.6.",
        "program": """\
import numpy as np, paddle, torch
x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]).t()
y = torch.utils.dlpack.from_dlpack(paddle.utils.dlpack.to_dlpack(x))
np.testing.assert_array_equal(y.numpy(), [[1.0, 3.0], [2.0, 4.0]])
""",
    },
    {
        "name": "products over no elements",
        "op": "matmul, linear",
        "what": "The result of a product over a dimension of size 0 is memory that nothing was written to, in 3.0.",
        "size": "whatever lay there, for 0",
        "paddle": PADDLES[1:2],
        "shim": "Nothing: a call without elements is Paddle's.",
        "program": """\
import numpy as np, paddle
for _ in range(50):
    others = [paddle.full([3, 5], 7.0) for _ in range(50)]
    del others
    found = paddle.matmul(paddle.ones([3, 0]), paddle.ones([0, 5]))
    np.testing.assert_array_equal(found.numpy(), np.zeros([3, 5]))
""",
    },
    {
        "name": "numbers held in float32 by Paddle 2.6",
        "op": "add, subtract, remainder",
        "what": 'As "numbers held in float32", on 2.6.2 alone.',
        "size": "1e-8 of the number",
        "paddle": PADDLES[:1],
        "shim": "Torch's kernels hold it in float64.",
        "program": NUMBERS + "near(zero + 0.1, 0.1)\n",
        "others": {
            "subtract": "near(0.1 - zero, 0.1)",
            "remainder": "near(one % 0.3, 1.0 % 0.3)",
        },
    },
    {
        "name": "numbers held in float32 up to Paddle 3.2",
        "op": "leaky_relu, logit, softplus",
        "what": 'As "numbers held in float32", mended in 3.3.',
        "size": "1e-8 of the number",
        "paddle": PADDLES[:-1],
        "shim": "Torch's kernels hold it in float64.",
        "program": NUMBERS + "near(F.leaky_relu(x, 0.3), -0.3)\n",
        "others": {
            "logit": "near(paddle.logit(zero, 0.3), np.log(0.3 / 0.7))",
            "softplus": "near(F.softplus(one, 0.3), np.log1p(np.exp(0.3)) / 0.3)",
        },
    },
    {
        "name": "gradient of running products of complex numbers",
        "op": "cumprod",
        "what": 'As "gradient of products of complex numbers", in 2.6.',
        "size": "another direction",
        "paddle": PADDLES[:1],
        "shim": "Torch's gradient.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor(np.array([1 + 2j, 3 - 1j]), stop_gradient=False)
paddle.cumprod(x, 0).backward(paddle.to_tensor(np.array([0, 1 + 0j])))
np.testing.assert_allclose(x.grad.numpy(), [3 + 1j, 1 - 2j], rtol=1e-9)
""",
    },
    {
        "name": "gradient of R alone",
        "op": "qr",
        "what": "Of mode='r' there is no gradient; the backward reads the Q that was not computed. Later Paddles refuse it.",
        "size": "the process ends",
        "paddle": PADDLES[:1],
        "shows": "SIGSEGV",
        "shim": "The call is Paddle's.",
        "program": """\
import paddle
x = paddle.eye(3)
x.stop_gradient = False
paddle.linalg.qr(x, mode="r").sum().backward()
""",
    },
    {
        "name": "gradient of equal extrema",
        "op": "max, min",
        "known": "whole gradient to each of equal extrema",
        "what": "Each of several elements that are the largest gets the whole gradient; from 3.1 on they share it.",
        "size": "as many times as there are equal elements",
        "paddle": PADDLES[:2],
        "shim": "Torch's gradient, which is shared; a comparison names it.",
        "program": """\
import paddle
x = paddle.ones([3])
x.stop_gradient = False
paddle.max(x).backward()
assert x.grad.sum() == 1.0
""",
        "others": {"the smallest": "x.clear_gradient(); paddle.min(x).backward(); assert x.grad.sum() == 1.0"},
    },
)
