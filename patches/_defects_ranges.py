"""Defects found at the edges of the range: overflow on the way to a number that exists, infinities, NaN, saturation."""

from __future__ import annotations

from typing import Any

from ._paddles import PADDLE_3, PADDLES

_NONFINITE = "Torch's result; a comparison says NONFINITE, side paddle."

DEFECTS: tuple[dict[str, Any], ...] = (
    {
        "name": "maxima begin at the smallest float32",
        "op": "max_pool2d, max_pool3d, maxout",
        "what": "Also in float64, Paddle's maxima begin at -3.4e38: what lies below is not seen, and its index is -1.",
        "size": "-3.4e38 for -1e39",
        "paddle": PADDLES,
        "shim": "Torch's maxima; a comparison says SEMANTICS, and names no side.",
        "program": """\
import numpy as np, paddle
import paddle.nn.functional as F
x = paddle.full([1, 2, 2, 2], -1e39, "float64")
np.testing.assert_array_equal(F.max_pool2d(x, 2).numpy().ravel(), [-1e39] * 2)
""",
        "others": {
            "max_pool3d": "np.testing.assert_array_equal(F.max_pool3d(x.unsqueeze(0), 2).numpy().ravel(), [-1e39])",
            "maxout": "np.testing.assert_array_equal(F.maxout(x, 2).numpy().ravel(), [-1e39] * 4)",
            "indices": "np.testing.assert_array_equal(F.max_pool2d(x, 2, return_mask=True)[1].numpy().ravel(), [0, 0])",
        },
    },
    {
        "name": "the deviation of equal elements",
        "op": "std",
        "what": "Its gradient is 0 / 0 where a standard deviation is 0; Torch's is 0.",
        "size": "NaN for 0",
        "paddle": PADDLES,
        "shim": _NONFINITE,
        "program": """\
import numpy as np, paddle
x = paddle.ones([3])
x.stop_gradient = False
paddle.std(x).backward()
np.testing.assert_array_equal(x.grad.numpy(), [0.0, 0.0, 0.0])
""",
    },
    {
        "name": "maxima hide NaN",
        "op": "maxout, segment_pool, send_u_recv, norms of infinite order",
        "what": "Paddle's maxima pass NaN over: of a row it is seen where it is the last element, of a segment nowhere.",
        "size": "3 for NaN",
        "paddle": PADDLES,
        "shim": _NONFINITE,
        "program": """\
import numpy as np, paddle
import paddle.nn.functional as F
x = paddle.to_tensor([[[[float("nan"), 1.0, 2.0, 3.0]]]])
assert np.isnan(F.maxout(x, 4, axis=3).item())
""",
        "others": {
            "segments": 'assert np.isnan(paddle.geometric.segment_max(x.reshape([4, 1]), paddle.zeros([4], "int32")).item())',
            "edges": "at = paddle.arange(4); assert "
            'np.isnan(paddle.geometric.send_u_recv(x.reshape([4, 1]), 3 - at, at * 0, "max")[0].item())',
            "norms": "assert np.isnan(paddle.linalg.norm(x, np.inf, -1).item())",
        },
    },
    {
        "name": "sinc hides NaN",
        "op": "sinc",
        "what": "Paddle takes NaN for the 0 at which sinc is 1.",
        "size": "1 for NaN",
        "paddle": PADDLE_3,
        "known": "sinc of NaN",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
assert np.isnan(paddle.sinc(paddle.to_tensor([float("nan")])).item())
""",
    },
    {
        "name": "infinities times a mask of 0",
        "op": "softshrink, thresholded_relu, log_sigmoid, binary_cross_entropy_with_logits",
        "what": "Branches that are not taken are multiplied by 0, or taken from each other: an infinity in them is NaN.",
        "size": "NaN for 0 or an infinity",
        "paddle": PADDLES,
        "shim": _NONFINITE,
        "program": """\
import paddle
import paddle.nn.functional as F
inf = paddle.to_tensor([float("inf")])
assert F.softshrink(inf).item() == float("inf")
""",
        "others": {
            "thresholded_relu": "assert F.thresholded_relu(-inf).item() == 0",
            "log_sigmoid": 'assert F.log_sigmoid(-inf).item() == -float("inf")',
            "logits": 'assert F.binary_cross_entropy_with_logits(inf, paddle.zeros([1])).item() == float("inf")',
        },
    },
    {
        "name": "gradients times a mask of 0",
        "op": "abs, sign, floor, minimum, maximum, fmin, fmax, relu6, hardtanh",
        "what": "Where there is no slope a gradient is multiplied by 0: one that is infinite is NaN. That of abs is multiplied by "
        "x / |x|, which is NaN where x is infinite.",
        "size": "NaN for 0 or 1",
        "paddle": ("2.6.2", "3.3.1"),
        "shim": _NONFINITE,
        "program": """\
import paddle
def slope(function, at, grad):
    x = paddle.to_tensor([at], stop_gradient=False)
    function(x).backward(paddle.to_tensor([grad]))
    return x.grad.item()
inf, one = float("inf"), paddle.ones([1])
assert slope(paddle.abs, inf, 1.0) == 1
""",
        "others": {
            "sign": "assert slope(paddle.sign, 2.0, inf) == 0",
            "floor": "assert slope(paddle.floor, 2.5, inf) == 0",
            "maximum": "assert slope(lambda x: paddle.maximum(x, one), 0.5, inf) == 0",
            "fmin": "assert slope(lambda x: paddle.fmin(x, one), 2.0, inf) == 0",
            "relu6": "assert slope(paddle.nn.functional.relu6, -2.0, inf) == 0",
            "hardtanh": "assert slope(paddle.nn.functional.hardtanh, 2.0, inf) == 0",
        },
    },
    {
        "name": "gradient of a saturated GRU",
        "op": "rnn",
        "what": "Where a GRU's gate is so far from 0 that its slope vanishes, Paddle's gradient of everything is NaN.",
        "size": "NaN for 0",
        "paddle": PADDLES,
        "by_processor": True,
        "shim": "Torch's gradient; a comparison says NONFINITE, side paddle.",
        "program": """\
import numpy as np, paddle
layer, x = paddle.nn.GRU(1, 1), paddle.to_tensor([[[100.0]]], stop_gradient=False)
for one in layer.parameters():
    one.set_value(paddle.full_like(one, -1.0))
layer(x)[0].backward()
np.testing.assert_allclose(x.grad.numpy(), [[[0.0]]], atol=1e-6)
""",
    },
    {
        "name": "CTC loss saturates",
        "op": "ctc_loss",
        "what": "Paddle's softmax in front of the CTC loss holds no share below the smallest number of its dtype.",
        "size": "87 for 199",
        "paddle": PADDLES,
        "shim": "Torch's loss; a comparison says WRONG, side paddle.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor(np.float32([[[0, -200, -300]]] * 2))
label, long, short = paddle.to_tensor([[1]], "int32"), paddle.to_tensor([2]), paddle.to_tensor([1])
loss = paddle.nn.functional.ctc_loss(x, label, long, short, reduction="sum").item()
np.testing.assert_allclose(loss, 200.0 - np.log(2.0), rtol=1e-5)
""",
    },
    {
        "name": "gradient of a CTC loss that is NaN",
        "op": "ctc_loss",
        "what": "Of a row whose loss is NaN, classes that no label has get a number for a gradient: a program that looks at them "
        "alone goes on.",
        "size": "0.33 for NaN",
        "paddle": PADDLES,
        "shim": _NONFINITE,
        "program": """\
import paddle
x = paddle.zeros([4, 1, 3])
x[1, 0, 1] = float("inf")
x.stop_gradient = False
label, long, short = paddle.to_tensor([[1]], "int32"), paddle.to_tensor([4]), paddle.to_tensor([1])
loss = paddle.nn.functional.ctc_loss(x, label, long, short, reduction="sum")
loss.backward()
assert loss.isnan() and x.grad.isnan().all()
""",
    },
    {
        "name": "slogdet through the determinant",
        "op": "slogdet",
        "what": "Paddle takes the logarithm of the determinant, which has left the range where its logarithm is a common number.",
        "size": "-inf for -138",
        "paddle": PADDLES,
        "known": "slogdet through the determinant",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
found = paddle.linalg.slogdet(paddle.eye(20) * 1e-3).numpy()
np.testing.assert_allclose(found, [1.0, 20 * np.log(1e-3)], rtol=1e-5)
""",
    },
    {
        "name": "squares that leave the range",
        "op": "hypot, atan2",
        "what": "Paddle adds squares up unscaled: a length is 0 or infinite where it is a common number of the dtype.",
        "size": "inf for 4e30",
        "paddle": PADDLES,
        "known": "powers that leave the range",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([3e30])
np.testing.assert_allclose(paddle.hypot(x, x).numpy(), [3e30 * np.sqrt(2)], rtol=1e-5)
""",
        "others": {
            "small": "np.testing.assert_allclose(paddle.hypot(x * 1e-30 * 1e-30, x * 0).numpy(), [3e-30], rtol=1e-5)",
        },
    },
    {
        "name": "soft margin loss of certain mistakes",
        "op": "soft_margin_loss",
        "what": "Paddle computes log(1 + exp(-x y)), and the exponential overflows where the loss is a common number.",
        "size": "inf for 200",
        "paddle": PADDLES,
        "shim": "Torch's loss, which is infinite, too (below); a comparison calls both equal.",
        "program": """\
import paddle
x, label = paddle.to_tensor([-200.0], stop_gradient=False), paddle.to_tensor([1.0])
loss = paddle.nn.functional.soft_margin_loss(x, label)
assert abs(loss.item() - 200) < 1e-3
""",
        "others": {"gradient": "loss.backward(); assert abs(x.grad.item() + 1) < 1e-6"},
    },
    {
        "name": "torch's soft margin loss of certain mistakes",
        "op": "soft_margin_loss",
        "what": "The same.",
        "size": "inf for 200",
        "torch": ("2.13.0",),
        "shim": "Torch's loss, as in a Torch program.",
        "program": """\
import torch
x, label = torch.tensor([-200.0], requires_grad=True), torch.tensor([1.0])
loss = torch.nn.functional.soft_margin_loss(x, label)
assert abs(loss.item() - 200) < 1e-3
""",
        "others": {"gradient": "loss.backward(); assert abs(x.grad.item() + 1) < 1e-6"},
    },
    {
        "name": "torch's gradient of atan2 near 0",
        "op": "atan2",
        "what": "The squares of both numbers are added up; 0 or infinity over what has left the range.",
        "size": "0 for 5e24",
        "torch": ("2.13.0",),
        "shim": "Torch's gradient, as in a Torch program; a comparison says WRONG or NONFINITE, both sides or one.",
        "program": """\
import numpy as np, torch
x = torch.tensor([1e-25], requires_grad=True)
torch.atan2(x, torch.tensor([1e-25])).backward()
np.testing.assert_allclose(x.grad.numpy(), [5e24], rtol=1e-5)
""",
    },
    {
        "name": "qr of large numbers",
        "op": "qr",
        "what": "Squares are added up unscaled there, too.",
        "size": "NaN for a number below 1",
        "paddle": PADDLES,
        "shim": "Torch's result; a comparison says NONFINITE or WRONG, side paddle.",
        "program": """\
import paddle
x = paddle.to_tensor([3e30])
assert paddle.linalg.qr(x * paddle.to_tensor([[3.0, 1], [4, 1]]))[0].isfinite().all()
""",
    },
    {
        "name": "exponentials beside NaN",
        "op": "matrix_exp",
        "what": "Of a batch of matrices all are NaN where an element of one is NaN or infinite.",
        "size": "NaN for any number",
        "paddle": PADDLE_3,
        "shim": _NONFINITE,
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor(np.stack([np.full([2, 2], np.nan), np.eye(2)]))
assert paddle.linalg.matrix_exp(x)[1].isfinite().all()
""",
    },
    {
        "name": "running logarithms of what is no number",
        "op": "logcumsumexp",
        "what": "A first NaN, or -inf, is -3.4e38, and passed over; of two infinities the difference is taken, which is NaN.",
        "size": "-3.4e38 for NaN, NaN for infinity",
        "paddle": PADDLES,
        "shim": _NONFINITE,
        "program": """\
import numpy as np, paddle
inf = float("inf")
np.testing.assert_array_equal(paddle.logcumsumexp(paddle.to_tensor([float("nan"), 1.0])).numpy(), [np.nan, np.nan])
""",
        "others": {
            "-inf": "np.testing.assert_array_equal(paddle.logcumsumexp(paddle.to_tensor([-inf, 1.0])).numpy(), [-inf, 1.0])",
            "infinities": "np.testing.assert_array_equal(paddle.logcumsumexp(paddle.to_tensor([inf, inf])).numpy(), [inf, inf])",
        },
    },
    {
        "name": "lerp from infinity",
        "op": "lerp",
        "what": "x + w (y - x) takes an infinite x from itself, where (1 - w) x + w y is infinite.",
        "size": "NaN for infinity",
        "paddle": PADDLES,
        "shim": _NONFINITE,
        "program": """\
import paddle
assert paddle.lerp(paddle.to_tensor([float("inf")]), paddle.to_tensor([1.0]), 0.25).item() == float("inf")
""",
    },
)
