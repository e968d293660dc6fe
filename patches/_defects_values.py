"""Defects found in values: infinities, masks, ignored labels, strides."""

from __future__ import annotations

from typing import Any

from ._paddles import PADDLE_3, PADDLES

DEFECTS: tuple[dict[str, Any], ...] = (
    {
        "name": "gradient of a broadcast product",
        "op": "matmul",
        "what": "Where a batch of matrices is multiplied by one with fewer batch axes, the backward of the smaller one raises.",
        "size": "ValueError",
        "paddle": PADDLES,
        "shows": "ValueError",
        "shim": "Torch's gradient.",
        "program": """\
import numpy as np, paddle
x, y = paddle.ones([2, 3, 4, 5]), paddle.ones([3, 5, 6])
y.stop_gradient = False
paddle.matmul(x, y).sum().backward()
np.testing.assert_array_equal(y.grad.numpy(), np.full([3, 5, 6], 8.0))
""",
    },
    {
        "name": "cross entropy saturates",
        "op": "cross_entropy",
        "what": "Paddle's CPU kernel computes exp(max(x - max, -64)): no loss is larger than 64 and the logarithm of the classes.",
        "size": "64 for 300",
        "paddle": PADDLES,
        "known": "softmax clipped at -64",
        "shim": "Torch's loss; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([[0.0, 300.0]])
np.testing.assert_allclose(paddle.nn.functional.cross_entropy(x, paddle.to_tensor([0])).item(), 300.0, rtol=1e-5)
""",
    },
    {
        "name": "masked entries of softmax",
        "op": "softmax, fused_softmax_mask",
        "known": "softmax clipped at -64",
        "what": "The same: what a mask takes out of a softmax comes out as 1.6e-28 and not as 0.",
        "size": "1e-29 for 0",
        "paddle": PADDLES,
        "shim": "Torch's softmax; a comparison names it.",
        "program": """\
import paddle
x = paddle.to_tensor([[0.0, -1e9] * 16])
assert (paddle.nn.functional.softmax(x).numpy()[0, 1::2] == 0).all()
""",
        "others": {
            "fused": "assert (paddle.incubate.softmax_mask_fuse(*x.reshape([2, 1, 1, 1, 16])).numpy()[0, 0, 0, 1::2] == 0).all()"
        },
    },
    {
        "name": "negative label to ignore",
        "op": "cross_entropy",
        "what": "The mean with a negative ignore_index divides by all samples, ignored ones included.",
        "size": "half of the loss, if half of the labels are ignored",
        "paddle": PADDLE_3,
        "shim": "Paddle's value, and a remark in the run; Torch's with definitions=\"torch\".",
        "program": """\
import numpy as np, paddle
x, label = paddle.zeros([2, 4]), paddle.to_tensor([1, -1])
found = paddle.nn.functional.cross_entropy(x, label, ignore_index=-1).item()
np.testing.assert_allclose(found, np.log(4.0), rtol=1e-5)
""",
    },
    {
        "name": "parameters of an adaptive softmax",
        "op": "nn.AdaptiveLogSoftmaxWithLoss",
        "what": "The weights of the tails are in plain lists: parameters() and state_dict() lack them.",
        "size": "1 parameter for 5",
        "paddle": PADDLE_3,
        "shim": "Paddle's layer as it is; what its weights compute is Torch's.",
        "program": """\
import paddle
layer = paddle.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8])
assert len(layer.parameters()) == 1 + sum(map(len, layer.tail_weights))
""",
    },
    {
        "name": "index of tensors behind a slice, on a strided tensor",
        "op": "getitem",
        "what": "Where a tensor is a transposed or sliced view, Paddle reads its elements as if it were contiguous.",
        "size": "other elements",
        "paddle": PADDLES[2:],
        "shim": "Torch's elements, of floats and integers. A comparison does not see what an index reads.",
        "program": """\
import numpy as np, paddle
x = np.arange(12).reshape(3, 4)
found = paddle.to_tensor(x).t()[:, paddle.to_tensor([0, 2, 1])]
np.testing.assert_array_equal(found.numpy(), x.T[:, [0, 2, 1]])
""",
    },
    {
        "name": "contiguous of a view",
        "op": "Tensor.contiguous",
        "what": "A transposed or sliced view is itself laid out anew and given back: it shows its tensor no longer, and a write "
        "into the result is one into it.",
        "size": "what a program writes in place is lost, or written once more than in Torch",
        "paddle": PADDLES,
        "shim": "A copy, as in Torch; the view stays one. A comparison does as Paddle.",
        "program": """\
import paddle
view = paddle.zeros([2, 3]).t()
view.contiguous().add_(paddle.ones([3, 2]))
assert view.sum().item() == 0.0
""",
    },
    {
        "name": "label to ignore beside smoothing",
        "op": "cross_entropy",
        "what": "With label_smoothing and an ignore_index from 0 on, the mean divides by samples times classes.",
        "size": "a quarter of the loss, of four classes",
        "paddle": PADDLE_3,
        "shim": "Paddle's value, and a remark in the run; Torch's with definitions=\"torch\".",
        "program": """\
import numpy as np, paddle
x, label = paddle.zeros([2, 4]), paddle.to_tensor([1, 2])
found = paddle.nn.functional.cross_entropy(x, label, ignore_index=0, label_smoothing=0.1).item()
np.testing.assert_allclose(found, np.log(4.0), rtol=1e-5)
""",
    },
    {
        "name": "smoothing along another axis",
        "op": "cross_entropy",
        "what": "Numbers of classes are made shares along the last axis, whatever axis= says.",
        "size": "another loss; an error where the sizes differ",
        "paddle": PADDLES,
        "shim": "Paddle's value, or its error; Torch's loss with definitions=\"torch\".",
        "program": """\
import numpy as np, paddle
import paddle.nn.functional as F
x, label = paddle.to_tensor(np.arange(9.0).reshape(1, 3, 3) ** 2), paddle.to_tensor([[0, 0, 1]])
last = F.cross_entropy(x.transpose([0, 2, 1]), label, label_smoothing=0.1).item()
np.testing.assert_allclose(F.cross_entropy(x, label, label_smoothing=0.1, axis=1).item(), last, rtol=1e-9)
""",
    },
    {
        "name": "mask beside is_causal",
        "op": "scaled_dot_product_attention",
        "what": "On a CPU a mask beside is_causal=True is ignored, also one that parts two documents or hides a padding.",
        "size": "1.2 for 0",
        "paddle": ("3.3.1",),
        "shim": "The mask counts, and the run says so; a comparison says SEMANTICS (mask-ignored), side paddle.",
        "program": """\
import numpy as np, paddle
q = paddle.to_tensor(np.random.default_rng(0).standard_normal((1, 6, 2, 8)).astype("float32"))
document = np.array([0, 0, 0, 1, 1, 1])
apart = paddle.to_tensor(np.where(document[:, None] == document, 0.0, -1e9).astype("float32")[None, None])
attend = paddle.nn.functional.scaled_dot_product_attention
found = attend(q, q, q, apart, 0.0, is_causal=True)
np.testing.assert_allclose(found[:, 3:], attend(*[q[:, 3:]] * 3, None, 0.0, is_causal=True), rtol=1e-4, atol=1e-5)
""",
    },
    {
        "name": "operand of a product of reflections",
        "op": "householder_product, ormqr",
        "what": "The function writes ones into the diagonal of x, which is an operand: the program goes on with another one.",
        "size": "1 for any value",
        "paddle": ("2.6.2", "3.3.1"),
        "shim": "x stays as it is; a comparison says SEMANTICS (writes-operand), side paddle.",
        "program": """\
import paddle
x = paddle.to_tensor([[2.0, 3.0], [4.0, 5.0]])
paddle.linalg.householder_product(x, paddle.to_tensor([0.5, 0.5]))
assert x.tolist() == [[2.0, 3.0], [4.0, 5.0]]
""",
    },
    {
        "name": "singular values of several batch axes",
        "op": "svdvals",
        "what": "Of matrices with several axes before them the result has one axis for all of these.",
        "size": "shape [6, 4] for [2, 3, 4]",
        "paddle": ("3.3.1",),
        "shim": "Torch's shape; a comparison says SEMANTICS (one-batch-axis), side paddle.",
        "program": """\
import paddle
assert paddle.linalg.svdvals(paddle.ones([2, 3, 4, 4])).shape == [2, 3, 4]
""",
    },
    {
        "name": "norm along an axis that is not there",
        "op": "norm, vector_norm",
        "what": "Of a tensor without axes the norm along one is that of nothing, and of its last one the process may end.",
        "size": "0 for 0.8, and -inf with p=inf",
        "paddle": ("3.3.1",),
        "alone": True,
        "shim": "Torch's norm; a comparison says SEMANTICS (no-element-seen), side paddle.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor(0.8)
np.testing.assert_allclose(paddle.norm(x, p=2, axis=0).item(), 0.8, rtol=1e-6)
""",
        "others": {"inf": 'np.testing.assert_allclose(paddle.norm(x, p=float("inf"), axis=0).item(), 0.8, rtol=1e-6)'},
    },
    {
        "name": "a number normalised",
        "op": "normalize",
        "what": "A tensor without axes is divided by that norm of nothing, and comes out with an axis.",
        "size": "2e12 for 1",
        "paddle": PADDLE_3,
        "shim": "The call is Paddle's in both modes: Torch has no result of that shape.",
        "program": """\
import paddle
assert paddle.nn.functional.normalize(paddle.to_tensor(2.0), axis=0).item() == 1.0
""",
    },
    {
        "name": "losses of a number",
        "op": "hinge_embedding_loss, margin_ranking_loss",
        "what": "Of tensors without axes the losses that are not reduced, the second one's beside a margin, come out with an axis.",
        "size": "shape [1] for []",
        "paddle": PADDLES,
        "shim": "The call is Paddle's in both modes: Torch has no result of that shape.",
        "program": """\
import paddle
F, x, label = paddle.nn.functional, paddle.to_tensor(3.0), paddle.to_tensor(1.0)
assert list(F.hinge_embedding_loss(x, label, reduction="none").shape) == []
""",
        "others": {
            "margin_ranking_loss": 'assert list(F.margin_ranking_loss(x, label, label, 0.5, reduction="none").shape) == []',
        },
    },
    {
        "name": "index of an axis behind a new one",
        "op": "getitem",
        "what": "A list that stands behind a slice and a None indexes nothing: all of that axis comes out.",
        "size": "shape [5, 1, 3] for [5, 1, 1]",
        "paddle": ("2.6.2", "3.3.1"),
        "shim": "Torch's elements under reference; a comparison goes on with Paddle's, for it moves values.",
        "program": """\
import numpy as np, paddle
x = np.arange(15.0).reshape(5, 3)
np.testing.assert_array_equal(paddle.to_tensor(x)[:, None, [0]].numpy(), x[:, None, [0]])
""",
    },
    {
        "name": "softmax of a row with NaN",
        "op": "softmax",
        "known": "softmax of NaN",
        "what": "The vectorised kernel takes a NaN in x - max for -64.",
        "size": "a finite row for NaN",
        "paddle": PADDLES,
        "by_processor": True,
        "shim": "Torch's softmax; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([[1.0] * 8 + [float("nan")] + [1.0] * 7])
assert np.isnan(paddle.nn.functional.softmax(x).numpy()).all()
""",
    },
    {
        "name": "logsumexp of infinite rows",
        "op": "logsumexp",
        "known": "logsumexp of infinities",
        "what": "An infinite maximum is subtracted.",
        "size": "NaN for -inf and +inf",
        "paddle": PADDLES,
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([[float("-inf")] * 2, [float("inf"), 0.0]])
np.testing.assert_array_equal(paddle.logsumexp(x, axis=1).numpy(), [-np.inf, np.inf])
""",
    },
    {
        "name": "places that pass over NaN",
        "op": "argmax, argmin",
        "what": "NaN is passed over, unless it is the first element; max and topk give it.",
        "size": "2 for 1",
        "paddle": ("2.6.2", "3.3.1"),
        "shim": "Torch's place, that of the first NaN; a comparison says UNVERIFIED.",
        "program": """\
import paddle
assert paddle.argmax(paddle.to_tensor([0.0, float("nan"), 1.0])).item() == 1
""",
    },
    {
        "name": "relu hides NaN",
        "op": "relu, margin_ranking_loss",
        "known": "relu of NaN",
        "what": "Paddle's CPU kernel turns NaN into 0, and so does what is made of it.",
        "size": "0 for NaN",
        "paddle": PADDLES,
        "by_processor": True,
        "shim": "Torch's relu; a comparison names it, and says NONFINITE, side paddle, of the loss.",
        "program": """\
import numpy as np, paddle
assert np.isnan(paddle.nn.functional.relu(paddle.full([32], float("nan"))).numpy()).all()
""",
    },
    {
        "name": "the gradient of a smooth loss hides NaN",
        "op": "smooth_l1_loss",
        "what": "Of an operand that is NaN, and of equal infinities, the gradient is that of a large difference.",
        "size": "1 for NaN",
        "paddle": PADDLES,
        "shim": "Torch's gradient; a comparison says NONFINITE, side paddle.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([float("nan")], stop_gradient=False)
paddle.nn.functional.smooth_l1_loss(x, paddle.zeros([1])).backward()
assert np.isnan(x.grad.numpy()).all()
""",
    },
    {
        "name": "square root of infinity",
        "op": "sqrt",
        "known": "sqrt of infinity and of denormals",
        "what": "The vectorised float32 kernel gives NaN; as rsqrt does, it takes denormal numbers for 0.",
        "size": "NaN for +inf",
        "paddle": PADDLES,
        "by_processor": True,
        "shim": "Torch's kernel; a comparison names it.",
        "program": """\
import numpy as np, paddle
np.testing.assert_array_equal(paddle.sqrt(paddle.full([32], float("inf"))).numpy(), np.inf)
""",
    },
    {
        "name": "exp of float16",
        "op": "exp",
        "known": "float16 exp wraps around",
        "what": "Below -53.37 the result is 2**64 times too large.",
        "size": "2.4e-5 for 0",
        "paddle": ("3.2.2", "3.3.1"),
        "by_processor": True,
        "shim": "Torch's kernel; a comparison names it.",
        "program": """\
import numpy as np, paddle
np.testing.assert_array_equal(paddle.exp(paddle.full([16], -55.0, "float16")).numpy(), 0.0)
""",
    },
    {
        "name": "extrema that pass over NaN",
        "op": "max_pool, put_along_axis",
        "known": "extrema that pass over NaN",
        "what": "Maxima over windows, and extrema that are put along an axis, hide NaN: of a window it is seen where it is the "
        "last element, with a mask nowhere. Of -inf alone the maximum is the lowest finite number.",
        "size": "a number for NaN",
        "paddle": PADDLES,
        "shim": "Torch's kernels; a comparison names it.",
        "program": """\
import numpy as np, paddle
F = paddle.nn.functional
rows = paddle.to_tensor([[[float("nan"), 1.0]]])
assert np.isnan(F.max_pool1d(rows, 2).numpy()).all()
""",
        "others": {
            "with a mask": "assert np.isnan(F.max_pool1d(rows.flip(-1), 2, return_mask=True)[0].numpy()).all()",
            "of -inf": "assert np.isinf(F.max_pool1d(paddle.full([1, 1, 2], -np.inf), 2).numpy()).all()",
            "put along an axis": """\
numbers, places = paddle.to_tensor([1.0]), paddle.to_tensor([0])
assert np.isnan(paddle.put_along_axis(numbers, places, rows[0, 0, :1], 0, "amax").numpy()).all()
""",
        },
    },
    {
        "name": "log_softmax of minus infinity",
        "op": "log_softmax, cross_entropy",
        "known": "log_softmax of minus infinity",
        "what": "No logarithm is less than -64 and that of the sum: what is masked by -inf does not come out as -inf.",
        "size": "-64 for -inf",
        "paddle": PADDLES,
        "shim": "Torch's kernel; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([1.0, -np.inf])
assert np.isinf(paddle.nn.functional.log_softmax(x).numpy()[1])
""",
        "others": {
            "cross entropy": "assert np.isinf(paddle.nn.functional.cross_entropy(x.reshape([1, 2]), paddle.to_tensor([1])).item())",
        },
    },
    {
        "name": "an infinite triplet loss",
        "op": "triplet_margin_loss",
        "what": "A distance that is infinite gives a loss of the largest finite number: what is clipped from below is clipped from "
        "above, too.",
        "size": "3.4e38 for infinity",
        "paddle": PADDLES,
        "shim": "Torch's infinity; a comparison says NONFINITE, side paddle.",
        "program": """\
import numpy as np, paddle
a, b, c = (paddle.to_tensor([[number, 1.0]]) for number in (np.inf, 1.0, 2.0))
loss = paddle.nn.functional.triplet_margin_loss(a, b, c, swap=True)
assert np.isinf(loss.item()), loss.item()
""",
    },
    {
        "name": "torch hides NaN in a sign",
        "op": "sign",
        "known": "torch's sign of NaN",
        "what": "Torch's sign of NaN is 0.",
        "size": "0 for NaN",
        "torch": ("2.13.0",),
        "shim": "Torch's result, as in a Torch program; a comparison names it.",
        "program": """\
import torch
assert torch.sign(torch.tensor([torch.nan])).isnan().all()
""",
    },
    {
        "name": "torch hides NaN in a largest distance",
        "op": "cdist",
        "what": "With p=inf, Torch's distance passes over NaN.",
        "size": "1 for NaN",
        "torch": ("2.13.0",),
        "shim": "Torch's result, as in a Torch program; a comparison says UNVERIFIED.",
        "program": """\
import torch
assert torch.cdist(torch.tensor([[torch.nan, 1.0]]), torch.zeros(1, 2), p=torch.inf).isnan()
""",
    },
    {
        "name": "torch's root of minus infinity",
        "op": "pow",
        "known": "torch's sqrt for pow",
        "what": "Torch computes x ** 0.5 as sqrt(x), which is NaN at -inf; C's pow(-inf, 0.5) is +inf.",
        "size": "NaN for +inf",
        "torch": ("2.13.0",),
        "shim": "Torch's result, as in a Torch program; a comparison names it.",
        "program": """\
import torch
x = torch.full([8], -torch.inf, dtype=torch.float64)
assert (x**0.5 == torch.inf).all()
""",
    },
    {
        "name": "slope of gammainc where a power overflows",
        "op": "gammainc, gammaincc",
        "what": "The density is a power times an exponential over a gamma function, each by itself: infinity over infinity.",
        "size": "NaN for 0",
        "paddle": PADDLE_3,
        "known": "incomplete gamma functions",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
def near(function):
    x = paddle.to_tensor([30.0], stop_gradient=False)
    function(paddle.to_tensor([2000.0]), x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0.0])
near(paddle.gammainc)
""",
        "others": {"gammaincc": "near(paddle.gammaincc)"},
    },
    {
        "name": "gradient of a value that is set in several rows",
        "op": "setitem",
        "what": "Where a tensor of as many axes is broadcast as it is set, the backward ends in an error.",
        "size": "no gradient",
        "paddle": PADDLES[-1:],
        "shows": "ValueError",
        "shim": "Torch's gradient.",
        "program": """\
import numpy as np, paddle
x, y = paddle.ones([2, 3]), paddle.ones([1, 3])
y.stop_gradient = False
x[:] = y
x.sum().backward()
np.testing.assert_array_equal(y.grad.numpy(), [[2.0, 2.0, 2.0]])
""",
    },
    {
        "name": "gradient of what fills a mask",
        "op": "masked_fill",
        "what": "Where x wants its gradient, too, that of the value is zero, or lacks an element where x is broadcast: it is read "
        "from memory that x's has been written into, unless a hook or a comparison holds the incoming gradient. Of several values, "
        "those not taken get unwritten memory.",
        "size": "0 for 2",
        "paddle": PADDLES[2:],
        "shim": "Torch's gradient.",
        "program": """\
import numpy as np, paddle
x, mask = paddle.ones([3]), paddle.to_tensor([True, False, True])
value = paddle.to_tensor(5.0, stop_gradient=False)
x.stop_gradient = False
paddle.masked_fill(x, mask, value).sum().backward()
np.testing.assert_array_equal(value.grad.numpy(), 2.0)
""",
    },
    {
        "name": "interpolation to one pixel",
        "op": "linear_interp, bilinear_interp, bicubic_interp, trilinear_interp",
        "what": "Where one pixel is wanted along an axis, Paddle takes the first one (of bicubic: what lies before "
        "it), and not the middle; of linear Paddle 3 does so in the gradient alone, of trilinear no more.",
        "size": "0 for 7",
        "paddle": ("2.6.2", "3.3.1"),
        "known": "interpolation to one pixel",
        "shim": "Torch's pixel; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor(np.arange(15.0).reshape(1, 1, 3, 5), "float32")
def near(mode):
    found = paddle.nn.functional.interpolate(x, size=[1, 1], mode=mode, align_corners=False)
    np.testing.assert_allclose(found.numpy().ravel(), [7.0], rtol=1e-5)
near("bilinear")
""",
        "others": {
            "bicubic": 'near("bicubic")',
            "gradient of linear": "row = paddle.ones([1, 1, 3]); row.stop_gradient = False; paddle.nn.functional.interpolate("
            'row, size=[1], mode="linear", data_format="NCW").backward(); assert row.grad.tolist() == [[[0.0, 1.0, 0.0]]]',
        },
    },
    {
        "name": "erfinv beyond 1",
        "op": "erfinv",
        "what": "Of numbers beyond 1, which have no inverse, Paddle gives an infinity.",
        "size": "inf for NaN",
        "paddle": ("2.6.2", "3.3.1"),
        "known": "erfinv by a quantile",
        "shim": "Torch's result; a comparison names it.",
        "program": """\
import numpy as np, paddle
assert np.isnan(paddle.erfinv(paddle.to_tensor([2.0])).item())
""",
    },
    {
        "name": "vectors of eigenvalues near the real axis",
        "op": "eig",
        "what": "Eigenvalues that are less than 1e-6 off the real axis count as real ones, however small the matrix is: "
        "the real and the imaginary part of their vectors are given for two vectors.",
        "size": "0.71 of a vector",
        "paddle": PADDLES,
        "known": "vectors of eigenvalues near the real axis",
        "shim": "Torch's vectors; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = np.array([[0.0, 1e-7], [-1e-7, 0.0]])
values, vectors = paddle.linalg.eig(paddle.to_tensor(x))
np.testing.assert_allclose(x @ vectors.numpy(), vectors.numpy() * values.numpy(), atol=1e-12)
""",
    },
)
