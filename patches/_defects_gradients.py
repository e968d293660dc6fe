"""Defects found in gradients, and what ends the process in a backward: data in the keys of ``catalogue.defects.Defect``."""

from __future__ import annotations

from typing import Any

from ._paddles import PADDLE_3, PADDLES

SIGSEGV = "SIGSEGV"

DEFECTS: tuple[dict[str, Any], ...] = (
    {
        "name": "gradient of the largest of one number",
        "op": "cummax, cummin",
        "what": "Of a tensor without axes the backward along one gives nothing, and raises an IndexError on 3.3.",
        "size": "0 for 1",
        "paddle": PADDLES,
        "shim": "Torch's gradient under reference; compared, the backward is Paddle's.",
        "program": """\
import paddle
x = paddle.to_tensor(2.0, stop_gradient=False)
try:
    paddle.cummax(x, axis=0)[0].backward()
except IndexError:
    pass
assert x.grad is not None and x.grad.item() == 1.0
""",
    },
    {
        "name": "gradient of elements that overlap",
        "op": "as_strided",
        "what": "Where a view shows an element several times, Paddle's gradient counts it once.",
        "size": "1 for 2",
        "paddle": PADDLES,
        "shim": "Torch's gradient.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([1.0, 2.0, 3.0, 4.0], stop_gradient=False)
paddle.as_strided(x, [3, 2], [1, 1]).sum().backward()
np.testing.assert_array_equal(x.grad.numpy(), [1.0, 2.0, 2.0, 1.0])
""",
        "others": {"unfold": "x.clear_grad(); x.unfold(0, 2, 1).sum().backward(); assert x.grad.numpy().tolist() == [1, 2, 2, 1]"},
    },
    {
        "name": "gradient of gather at a 0-D index along another axis",
        "op": "gather",
        "what": "Along another axis than the first, Paddle's gradient of a 0-D index is written to the wrong place, or is zero.",
        "size": "0 for 4",
        "paddle": (PADDLES[0], PADDLES[-1]),
        "shim": "Torch's gradient.",
        "program": """\
import numpy as np, paddle
x = paddle.zeros([2, 3, 2])
x.stop_gradient = False
paddle.gather(x, paddle.to_tensor(1), axis=1).backward(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]))
np.testing.assert_array_equal(x.grad.numpy()[:, 1], [[1.0, 2.0], [3.0, 4.0]])
""",
    },
    {
        "name": "group norm without a weight",
        "op": "group_norm",
        "known": "group norm without a weight",
        "what": "Without a weight Paddle's CPU kernel gives another gradient of x than with a weight of ones.",
        "size": "38 % of a gradient's element",
        "paddle": PADDLE_3,
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
import paddle.nn.functional as F
grads = []
for weight in (None, paddle.ones([4], "float64")):
    x = paddle.to_tensor(np.arange(12.0).reshape(1, 4, 3) ** 2, stop_gradient=False)
    F.group_norm(x, 2, weight=weight).backward(paddle.to_tensor(np.sin(np.arange(12.0)).reshape(1, 4, 3)))
    grads.append(x.grad.numpy())
np.testing.assert_allclose(grads[0], grads[1], rtol=1e-9)
""",
    },
    {
        "name": "frozen layer norm",
        "op": "layer_norm",
        "known": "scale lost in the gradient",
        "what": "Where the weight's own gradient is not asked for, Paddle's CPU kernel leaves the weight out of x's gradient.",
        "size": "74 % of a gradient's element",
        "paddle": PADDLES,
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
import paddle.nn.functional as F
grads = []
for frozen in (True, False):
    x = paddle.to_tensor(np.arange(6.0).reshape(2, 3) ** 2, stop_gradient=False)
    weight = paddle.to_tensor(np.array([1.0, 2.0, 3.0]), stop_gradient=frozen)
    (F.layer_norm(x, [3], weight=weight) ** 2).sum().backward()
    grads.append(x.grad.numpy())
np.testing.assert_allclose(grads[0], grads[1], rtol=1e-9)
""",
    },
    {
        "name": "a product of several matrices, some frozen",
        "op": "multi_dot",
        "what": "Where some of the matrices want no gradient the backward is refused: a tensor is missing for theirs.",
        "size": "no gradient at all",
        "paddle": PADDLES,
        "shows": "ValueError",
        "shim": "Torch's gradient. Compared, Paddle's backward is refused.",
        "program": """\
import paddle
x, y = paddle.ones([3, 4]), paddle.ones([4, 2])
x.stop_gradient = False
paddle.linalg.multi_dot([x, y]).sum().backward()
""",
    },
    {
        "name": "norms with a frozen weight or bias",
        "op": "batch_norm, instance_norm",
        "what": "Where one of weight and bias is absent, or wants no gradient, the other one gets none; `instance_norm` of an "
        "x that wants none raises besides.",
        "size": "no gradient at all",
        "paddle": (PADDLES[0], PADDLES[-1]),
        "shim": "Torch's gradient; a comparison says WRONG, side paddle.",
        "program": """\
import paddle
import paddle.nn.functional as F
x, weight, bias = paddle.randn([2, 3, 4]), paddle.ones([3]), paddle.zeros([3])
x.stop_gradient = weight.stop_gradient = False
(F.batch_norm(x, paddle.zeros([3]), paddle.ones([3]), weight, bias, training=True) ** 3).sum().backward()
assert weight.grad is not None
""",
    },
    {
        "name": "gradient of spectral norm",
        "op": "spectral_norm",
        "what": "Paddle's gradient is not the slope of the function, u and v held.",
        "size": "9 % of a gradient's element",
        "paddle": PADDLES,
        "known": "gradient of spectral norm",
        "shim": "Torch's gradient of the function with u and v as constants; a comparison names it.",
        "program": """\
import numpy as np, paddle
u, v = paddle.to_tensor([1.0, 2.0], "float64"), paddle.to_tensor([3.0, -1.0, 2.0], "float64")
def loss(w):
    return (paddle._C_ops.spectral_norm(w, u, v, 0, 0, 0.0) ** 2).sum()
w = paddle.to_tensor([[1.0, 2.0, -1.0], [0.5, 1.5, 3.0]], "float64", stop_gradient=False)
loss(w).backward()
step = paddle.to_tensor([[0.0, 1e-6, 0.0], [0.0, 0.0, 0.0]], "float64")
slope = (loss(w.detach() + step) - loss(w.detach() - step)).item() / 2e-6
np.testing.assert_allclose(w.grad.numpy()[0, 1], slope, rtol=1e-5)
""",
    },
    {
        "name": "gradient of a product with a zero",
        "op": "prod",
        "known": "gradient of a product with a zero",
        "what": "Paddle divides the product by the element: 0 / 0.",
        "size": "NaN for 6",
        "paddle": PADDLES,
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([2.0, 0.0, 3.0], stop_gradient=False)
x.prod().backward()
np.testing.assert_array_equal(x.grad.numpy(), [0.0, 6.0, 0.0])
""",
    },
    {
        "name": "gradient of a triangular matrix alone",
        "op": "triangular_solve",
        "what": "Where y wants no gradient, that of x is computed from memory that nothing was written to.",
        "size": "another one at each call, up to infinities",
        "paddle": PADDLES,
        "shim": "Torch's gradient; a comparison says WRONG or NONFINITE, side paddle.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([[1.0, 2.0], [0.0, 1.0]], stop_gradient=False)
y = paddle.to_tensor([[3.0], [4.0]])
paddle.linalg.triangular_solve(x, y, upper=True, unitriangular=True).sum().backward()
np.testing.assert_array_equal(x.grad.numpy(), [[0.0, -4.0], [0.0, 0.0]])
""",
    },
    {
        "name": "gradient of a Cholesky factor",
        "op": "cholesky_solve",
        "what": "What lies outside of the factor's triangle is not read in the forward, and changes the gradient inside of it.",
        "size": "a factor of 5",
        "paddle": PADDLES,
        "known": "whole Cholesky factor",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
grads = []
for outside in (0.0, 5.0):
    b = paddle.to_tensor([[3.0], [4.0]], stop_gradient=False)
    factor = paddle.to_tensor([[2.0, outside], [1.0, 3.0]], stop_gradient=False)
    paddle.linalg.cholesky_solve(b, factor, upper=False).sum().backward()
    grads.append(factor.grad.numpy()[[0, 1, 1], [0, 0, 1]])
np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5)
""",
    },
    {
        "name": "gradient of a Cholesky factor alone",
        "op": "cholesky_solve",
        "what": "Where the gradient of the right side is not asked for, Paddle's kernel writes it all the same, to nowhere.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": SIGSEGV,
        "shim": "Torch's gradient. Compared, the call runs on Paddle's kernel and ends the process.",
        "program": """\
import paddle
b, factor = paddle.ones([2, 1]), paddle.eye(2)
factor.stop_gradient = False
paddle.linalg.cholesky_solve(b, factor).sum().backward()
""",
    },
    {
        "name": "gradient of shares that do not sum to one",
        "op": "cross_entropy",
        "what": "Of soft labels that sum to s, the gradient is s * softmax(x) - label; Paddle's is softmax(x) - label.",
        "size": "0.3 for 0",
        "paddle": PADDLES,
        "known": "shares that do not sum to one",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([[0.0, 0.0]], stop_gradient=False)
label = paddle.to_tensor([[0.2, 0.2]])
paddle.nn.functional.cross_entropy(x, label, soft_label=True).backward()
np.testing.assert_allclose(x.grad.numpy(), [[0.0, 0.0]], atol=1e-6)
""",
    },
    {
        "name": "numbers added to norms",
        "op": "p_norm, frobenius_norm, dist",
        "known": "number added to a norm",
        "what": "Paddle's gradients divide by the norm plus a constant (1e-12), which is felt where the norm is small.",
        "size": "2e-8 of a norm of 5e-5, in float64",
        "paddle": PADDLES,
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([3e-5, 4e-5], "float64", stop_gradient=False)
paddle.linalg.norm(x, p=2, axis=0).backward()
np.testing.assert_allclose(x.grad.numpy(), [0.6, 0.8], rtol=1e-9)
""",
    },
    {
        "name": "backward through one of several results",
        "op": "unstack, qr, meshgrid, broadcast_tensors, topk",
        "what": "A backward that begins at one of the results, or at topk's indices, meets no gradient for the others.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": SIGSEGV,
        "shim": "Torch's backward; topk's indices have no gradient. Compared, the backward is Paddle's, and ends the process.",
        "program": """\
import paddle
x = paddle.to_tensor([[2.0, 1.0], [1.0, 3.0]], stop_gradient=False)
paddle.unstack(x)[0].sum().backward()
""",
        "others": {
            "qr": "paddle.linalg.qr(x)[0].sum().backward()",
            "meshgrid": "paddle.meshgrid(x[0], x[1])[0].sum().backward()",
            "broadcast_tensors": "paddle.broadcast_tensors([x, x[0]])[0].sum().backward()",
            "topk": "paddle.topk(x, 1)[1].sum().backward()",
        },
    },
    {
        "name": "gradient of logits at zero",
        "op": "binary_cross_entropy_with_logits, sigmoid_cross_entropy_with_logits",
        "what": "Where a logit is exactly 0, as under a last layer of zeros, Paddle's gradient is too small by 1.",
        "size": "-0.5 for 0.5",
        "paddle": PADDLE_3,
        "known": "logits at zero",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.zeros([2])
x.stop_gradient = False
paddle.nn.functional.binary_cross_entropy_with_logits(x, paddle.to_tensor([0.0, 1.0]), reduction="sum").backward()
np.testing.assert_allclose(x.grad.numpy(), [0.5, -0.5], rtol=1e-5)
""",
    },
    {
        "name": "gradient of silu of negative numbers",
        "op": "silu",
        "what": "Below -88 exp(-x) overflows, and the gradient is NaN or infinite.",
        "size": "NaN for 0",
        "paddle": PADDLES,
        "known": "gradient of silu",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([-100.0], stop_gradient=False)
paddle.nn.functional.silu(x).sum().backward()
np.testing.assert_allclose(x.grad.numpy(), [0.0], atol=1e-6)
""",
    },
    {
        "name": "gradient of celu of large numbers",
        "op": "celu",
        "what": "Above 88 the exponential of the branch that is not taken overflows, and the gradient is NaN.",
        "size": "NaN for 1",
        "paddle": PADDLES,
        "known": "expm1 and log1p spelled out",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([200.0], stop_gradient=False)
paddle.nn.functional.celu(x).sum().backward()
np.testing.assert_array_equal(x.grad.numpy(), [1.0])
""",
    },
    {
        "name": "gradient of a transposed lu_solve",
        "op": "lu_solve",
        "what": 'With trans="T", Paddle\'s gradient of the factors is not the slope of the function.',
        "size": "24 times the gradient",
        "paddle": PADDLE_3,
        "shim": "Torch's gradient; a comparison says WRONG, side paddle.",
        "program": """\
import numpy as np, paddle
b, pivots = paddle.to_tensor([[1.0], [2.0]], "float64"), paddle.to_tensor([1, 2], "int32")
lu = paddle.to_tensor([[2.0, 1.0], [0.5, 3.0]], "float64", stop_gradient=False)
def loss(factors):
    return paddle.linalg.lu_solve(b, factors, pivots, trans="T").sum()
loss(lu).backward()
step = paddle.to_tensor([[0.0, 1e-6], [0.0, 0.0]], "float64")
slope = (loss(lu.detach() + step) - loss(lu.detach() - step)).item() / 2e-6
np.testing.assert_allclose(lu.grad.numpy()[0, 1], slope, rtol=1e-5)
""",
    },
    {
        "name": "gradient of a small determinant",
        "op": "det",
        "what": "Where a determinant, of one matrix of a batch at least, is below a fixed limit, the gradient of all "
        "of them is zero.",
        "size": "0 for 1e-10; below a determinant of 1e-12 in float64, of 1e-5 in float32",
        "paddle": PADDLES[2:],
        "known": "small determinants",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.eye(3, dtype="float64") * 1e-5
x.stop_gradient = False
paddle.linalg.det(x).backward()
np.testing.assert_allclose(x.grad.numpy(), np.eye(3) * 1e-10)
""",
    },
    {
        "name": "gradient of products of complex numbers",
        "op": "prod",
        "what": "Paddle leaves the product of the others as it is, where its conjugate belongs.",
        "size": "another direction",
        "paddle": PADDLE_3,
        "shim": "Torch's gradient; a comparison says WRONG, side paddle.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor(np.array([1 + 2j, 3 - 1j]), stop_gradient=False)
paddle.prod(x).real().backward()
np.testing.assert_allclose(x.grad.numpy(), [3 + 1j, 1 - 2j], rtol=1e-9)
""",
    },
    {
        "name": "gradient of equal elements in a norm",
        "op": "norm of infinite order, send_u_recv, segment_max",
        "known": "whole gradient to each of equal elements",
        "what": "Each of several elements that are the largest gets the whole gradient: their sum is a multiple of what arrived, "
        "where one of them may have it, or all a share.",
        "size": "as many times as there are equal elements",
        "paddle": PADDLES,
        "shim": "Torch's gradient, which is shared; a comparison names it.",
        "program": """\
import paddle
x = paddle.to_tensor([[1.0], [1.0], [1.0]], stop_gradient=False)
rows = paddle.to_tensor([0, 0, 0])
def shared(y):
    y.sum().backward()
    return abs(x.grad.sum().item() - 1.0) < 1e-6
assert shared(paddle.linalg.norm(x, float("inf"), 0))
""",
        "others": {
            "rows sent along edges": 'assert shared(paddle.geometric.send_u_recv(x, paddle.arange(3), rows, "max"))',
            "rows of a segment": "assert shared(paddle.geometric.segment_max(x, rows))",
        },
    },
    {
        "name": "gradient of a median beside NaN",
        "op": "median",
        "what": "Where a row has a NaN, the gradient of the row before it goes to elements that are not in its middle.",
        "size": "the gradient of another element",
        "paddle": PADDLES[3:],
        "shim": "Torch's gradient; a comparison says WRONG, side paddle.",
        "program": """\
import numpy as np, paddle
rows = [[0.1, -0.1, 0.6, 0.2], [-0.5, 0.3, 1.3, 0.9], [float("nan"), -1.2, -0.6, 0.0]]
x = paddle.to_tensor(rows, stop_gradient=False)
paddle.median(x, axis=-1)[:2].sum().backward()
np.testing.assert_array_equal(x.grad.numpy()[1], [0.0, 0.5, 0.0, 0.5])
""",
    },
    {
        "name": "eigenvalues of several matrices",
        "op": "eigh, eigvalsh",
        "what": "Of a batch of matrices, the gradients of the first one's eigenvalues count for all (eigh), or those "
        "of all in another order (eigvalsh).",
        "size": "2 for 4",
        "paddle": ("2.6.2", "3.3.1"),
        "known": "eigenvalues of several matrices",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
def near(function):
    x = paddle.to_tensor([[[1.0, 0.0], [0.0, 2.0]], [[3.0, 0.0], [0.0, 5.0]]], "float64", stop_gradient=False)
    function(x).backward(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], "float64"))
    np.testing.assert_allclose(x.grad.numpy()[1], [[3.0, 0.0], [0.0, 4.0]], atol=1e-9)
near(lambda x: paddle.linalg.eigh(x)[0])
""",
        "others": {"eigvalsh": "near(paddle.linalg.eigvalsh)"},
    },
    {
        "name": "pseudo-inverse with equal values",
        "op": "pinv",
        "what": "The gradient is that of the singular vectors or eigenvectors, of which equal values have none.",
        "size": "NaN for -1",
        "paddle": ("2.6.2", "3.3.1"),
        "known": "pinv through vectors",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.eye(2, dtype="float64")
x.stop_gradient = False
paddle.linalg.pinv(x, hermitian=True).sum().backward()
np.testing.assert_allclose(x.grad.numpy(), -np.ones([2, 2]))
""",
    },
    {
        "name": "digamma of large negative numbers",
        "op": "digamma",
        "what": "In float32 the gradient adds nine terms, which do not come to where its series begins.",
        "size": "-0.08 for 15",
        "paddle": ("2.6.2", "3.3.1"),
        "known": "digamma's slope of large negative numbers",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([-11.3], "float32", stop_gradient=False)
paddle.digamma(x).backward()
np.testing.assert_allclose(x.grad.numpy(), [14.9947], rtol=1e-4)
""",
    },
    {
        "name": "epsilon of normalize in its gradient",
        "op": "normalize",
        "what": "The epsilon that bounds the norm is added to it in the gradient.",
        "size": "0.1 % of the gradient, of a norm of 5 with epsilon 0.01",
        "paddle": ("2.6.2", "3.3.1"),
        "known": "number added to a norm",
        "shim": "Torch's gradient; a comparison names it.",
        "program": """\
import numpy as np, paddle
x = paddle.to_tensor([[3.0, 4.0]], "float64", stop_gradient=False)
paddle.nn.functional.normalize(x, epsilon=1e-2)[0, 0].backward()
np.testing.assert_allclose(x.grad.numpy(), [[0.128, -0.096]], rtol=1e-9)
""",
    },
    {
        "name": "second backward of a cross entropy",
        "op": "cross_entropy, softmax_with_cross_entropy, npair_loss",
        "what": "The backward writes over the softmax that it reads: behind retain_graph=True the next gradient is another.",
        "size": "-1 for -0.5",
        "paddle": ("2.6.2", "3.3.1"),
        "shim": "Torch's gradient, each time; a comparison says WRONG, side paddle.",
        "program": """\
import paddle
x = paddle.zeros([1, 2])
x.stop_gradient = False
loss = paddle.nn.functional.cross_entropy(x, paddle.to_tensor([0]))
loss.backward(retain_graph=True)
x.clear_grad()
loss.backward()
assert x.grad.tolist() == [[-0.5, 0.5]]
""",
    },
    {
        "name": "gradient of a recurrence by its input alone",
        "op": "rnn",
        "what": "paddle.grad of a SimpleRNN, LSTM or GRU by its input, without its weights, ends in an error: Required tensor "
        "shall not be nullptr.",
        "size": "an error",
        "paddle": ("2.6.2", "3.3.1"),
        "shows": "ValueError",
        "shim": "The gradient.",
        "program": """\
import paddle
x = paddle.ones([2, 3, 4])
x.stop_gradient = False
assert paddle.grad([paddle.nn.GRU(4, 3)(x)[0].sum()], [x])[0].shape == [2, 3, 4]
""",
    },
)
