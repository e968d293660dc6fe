"""Gradients."""

import contextlib

import numpy as np
import paddle
import paddle.nn.functional as F
import torch

# %% as_strided gradient counts overlapping elements once
"""Where a view shows an element several times, the gradient counts it once.

Ops: as_strided
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 instead of 2
Under the shim: Torch's gradient.
"""
x = paddle.to_tensor([1.0, 2.0, 3.0, 4.0], stop_gradient=False)
paddle.as_strided(x, [3, 2], [1, 1]).sum().backward()

# %%% as_strided
np.testing.assert_array_equal(x.grad.numpy(), [1.0, 2.0, 2.0, 1.0])
# %%% unfold
x.clear_grad()
x.unfold(0, 2, 1).sum().backward()
assert x.grad.numpy().tolist() == [1, 2, 2, 1]

# %% backward from one of several results crashes
"""A backward that starts at one of the results, or at topk's indices, finds no gradient for the others.

Ops: unstack, qr, meshgrid, broadcast_tensors, topk
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward; topk's indices have no gradient. Under compare Paddle's backward runs, and the process ends.
"""
x = paddle.to_tensor([[2.0, 1.0], [1.0, 3.0]], stop_gradient=False)

# %%% unstack
paddle.unstack(x)[0].sum().backward()
# %%% qr
paddle.linalg.qr(x)[0].sum().backward()
# %%% meshgrid
paddle.meshgrid(x[0], x[1])[0].sum().backward()
# %%% broadcast_tensors
paddle.broadcast_tensors([x, x[0]])[0].sum().backward()
# %%% topk
paddle.topk(x, 1)[1].sum().backward()

# %% batch_norm weight has no gradient without that of the bias
"""If weight or bias is absent or needs no gradient, the other one gets none. instance_norm also raises if x needs none.

Ops: batch_norm, instance_norm
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: no gradient at all
Under the shim: Torch's gradient; compare says WRONG, side paddle.
"""
x, weight, bias = paddle.randn([2, 3, 4]), paddle.ones([3]), paddle.zeros([3])
x.stop_gradient = weight.stop_gradient = False
(F.batch_norm(x, paddle.zeros([3]), paddle.ones([3]), weight, bias, training=True) ** 3).sum().backward()
assert weight.grad is not None

# %% binary_cross_entropy_with_logits gradient is wrong at zero
"""Where a logit is exactly 0, as after a last layer of zeros, the gradient is too small by 1.

Ops: binary_cross_entropy_with_logits, sigmoid_cross_entropy_with_logits
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: -0.5 instead of 0.5
Known difference: logits at zero
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.zeros([2])
x.stop_gradient = False
paddle.nn.functional.binary_cross_entropy_with_logits(x, paddle.to_tensor([0.0, 1.0]), reduction="sum").backward()
np.testing.assert_allclose(x.grad.numpy(), [0.5, -0.5], rtol=1e-5)

# %% celu gradient is NaN above 88
"""Above 88 the exponential of the branch not taken overflows.

Ops: celu
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 1
Known difference: expm1 and log1p spelled out
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.to_tensor([200.0], stop_gradient=False)
paddle.nn.functional.celu(x).sum().backward()
np.testing.assert_array_equal(x.grad.numpy(), [1.0])

# %% cholesky_solve backward of the factor alone crashes
"""The backward writes the gradient of the right side, which was not requested, without a buffer.

Ops: cholesky_solve
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's gradient. Under compare Paddle's backward runs, and the process ends.
"""
b, factor = paddle.ones([2, 1]), paddle.eye(2)
factor.stop_gradient = False
paddle.linalg.cholesky_solve(b, factor).sum().backward()

# %% cholesky_solve gradient reads outside the triangle
"""Elements outside the factor's triangle, which the forward does not read, change the gradient inside it.

Ops: cholesky_solve
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a factor of 5
Known difference: whole Cholesky factor
Under the shim: Torch's gradient; compare names it.
"""
grads = []
for outside in (0.0, 5.0):
    b = paddle.to_tensor([[3.0], [4.0]], stop_gradient=False)
    factor = paddle.to_tensor([[2.0, outside], [1.0, 3.0]], stop_gradient=False)
    paddle.linalg.cholesky_solve(b, factor, upper=False).sum().backward()
    grads.append(factor.grad.numpy()[[0, 1, 1], [0, 0, 1]])
np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5)

# %% conv1d and conv2d lose second derivatives of the weight alone
"""Where the gradient of the weight is asked for and that of x is not, it does not depend on the incoming gradient: a penalty on it,
or a layer before the output, gets a part of its gradient or none. conv3d is right, and so is a weight whose x wants a gradient,
too.

Ops: conv1d, conv2d
Seen on: Paddle 3.3.1; CPU
Effect: None instead of x
Under the shim: Torch's second derivative; compare says SEMANTICS (no-second-derivative), side paddle.
"""


def second(convolution, x, weight):
    weight.stop_gradient = False
    y = convolution(x, weight)
    incoming = paddle.ones_like(y)
    incoming.stop_gradient = False
    (grad,) = paddle.grad([y], [weight], [incoming], create_graph=True)
    (result,) = paddle.grad([grad.sum()], [incoming], allow_unused=True)
    assert result is not None
    np.testing.assert_allclose(result.numpy(), y.numpy())


# %%% conv1d
second(F.conv1d, paddle.full([1, 1, 4], 3.0), paddle.ones([1, 1, 1]))
# %%% conv2d
second(F.conv2d, paddle.full([1, 1, 4, 4], 3.0), paddle.ones([1, 1, 1, 1]))

# %% conv2d_transpose gradients with channels last are wrong
"""With padding and channels last, the gradients of x and of the weight are wrong, up to Paddle 3.2.

Ops: conv2d_transpose
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2; CPU
Effect: 6 % of a gradient's element
Under the shim: Torch's gradients.
"""
grads = []
for form, axes in (("NCHW", [0, 1, 2, 3]), ("NHWC", [0, 2, 3, 1])):
    x = paddle.arange(24.0).reshape([1, 2, 4, 3]).transpose(axes).detach()
    weight = paddle.arange(24.0).reshape([2, 3, 2, 2])
    weight.stop_gradient = False
    (F.conv2d_transpose(x, weight, padding=1, data_format=form) ** 2).sum().backward()
    grads.append(weight.grad.numpy())
np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5)

# %% cross_entropy backward overwrites its softmax
"""The backward overwrites the softmax that it reads: after retain_graph=True, the next gradient is wrong.

Ops: cross_entropy, softmax_with_cross_entropy, npair_loss
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: -1 instead of -0.5
Under the shim: Torch's gradient, each time; compare says WRONG, side paddle.
"""
x = paddle.zeros([1, 2])
x.stop_gradient = False
loss = paddle.nn.functional.cross_entropy(x, paddle.to_tensor([0]))
loss.backward(retain_graph=True)
x.clear_grad()
loss.backward()
assert x.grad.tolist() == [[-0.5, 0.5]]

# %% cross_entropy gradient assumes soft labels that sum to one
"""For soft labels of sum s the gradient is s * softmax(x) - label; Paddle's is softmax(x) - label.

Ops: cross_entropy
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0.3 instead of 0
Known difference: shares that do not sum to one
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.to_tensor([[0.0, 0.0]], stop_gradient=False)
label = paddle.to_tensor([[0.2, 0.2]])
paddle.nn.functional.cross_entropy(x, label, soft_label=True).backward()
np.testing.assert_allclose(x.grad.numpy(), [[0.0, 0.0]], atol=1e-6)

# %% cummax of a 0-D tensor has no gradient
"""For a tensor without axes the backward of cummax and cummin gives no gradient; Paddle 3.3 raises an IndexError.

Ops: cummax, cummin
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0 instead of 1
Under the shim: Torch's gradient. Under compare Paddle's backward runs.
"""
x = paddle.to_tensor(2.0, stop_gradient=False)
with contextlib.suppress(IndexError):
    paddle.cummax(x, axis=0)[0].backward()
assert x.grad is not None
assert x.grad.item() == 1.0

# %% cumprod gradient of complex numbers is not conjugated
"""The gradient contains the product of the other elements instead of its conjugate, in Paddle 2.6.

Ops: cumprod
Seen on: Paddle 2.6.2; CPU
Effect: a gradient in the wrong direction
Under the shim: Torch's gradient.
"""
x = paddle.to_tensor(np.array([1 + 2j, 3 - 1j]), stop_gradient=False)
paddle.cumprod(x, 0).backward(paddle.to_tensor(np.array([0, 1 + 0j])))
np.testing.assert_allclose(x.grad.numpy(), [3 + 1j, 1 - 2j], rtol=1e-9)

# %% det gradient is zero for small determinants
"""If the determinant of one matrix of a batch is below a fixed limit, all gradients of the batch are zero.

Ops: det
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0 instead of 1e-10; the limit is 1e-12 in float64, 1e-5 in float32
Known difference: small determinants
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.eye(3, dtype="float64") * 1e-5
x.stop_gradient = False
paddle.linalg.det(x).backward()
np.testing.assert_allclose(x.grad.numpy(), np.eye(3) * 1e-10)

# %% digamma gradient is wrong for large negative numbers
"""In float32 the gradient adds nine terms, too few to reach the range of its series.

Ops: digamma
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: -0.08 instead of 15
Known difference: digamma's slope of large negative numbers
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.to_tensor([-11.3], "float32", stop_gradient=False)
paddle.digamma(x).backward()
np.testing.assert_allclose(x.grad.numpy(), [14.9947], rtol=1e-4)

# %% eigh gradients of a batch are mixed up
"""For a batch of matrices, eigh uses the gradients of the first matrix's eigenvalues for all; eigvalsh uses them in the wrong
order.

Ops: eigh, eigvalsh
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 2 instead of 4
Known difference: eigenvalues of several matrices
Under the shim: Torch's gradient; compare names it.
"""


def near(function):
    x = paddle.to_tensor([[[1.0, 0.0], [0.0, 2.0]], [[3.0, 0.0], [0.0, 5.0]]], "float64", stop_gradient=False)
    function(x).backward(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], "float64"))
    np.testing.assert_allclose(x.grad.numpy()[1], [[3.0, 0.0], [0.0, 4.0]], atol=1e-9)


# %%% eigh
near(lambda x: paddle.linalg.eigh(x)[0])
# %%% eigvalsh
near(paddle.linalg.eigvalsh)

# %% gather gradient of a 0-D index along axis 1 is wrong
"""Along any axis but the first, the gradient for a 0-D index is written to the wrong place, or is zero.

Ops: gather
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 0 instead of 4
Under the shim: Torch's gradient.
"""
x = paddle.zeros([2, 3, 2])
x.stop_gradient = False
paddle.gather(x, paddle.to_tensor(1), axis=1).backward(paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]))
np.testing.assert_array_equal(x.grad.numpy()[:, 1], [[1.0, 2.0], [3.0, 4.0]])

# %% gather gradient of repeated indices along axis 1 is wrong
"""Along any axis but the first, the gradient of repeated indices is wrong, up to Paddle 3.0.

Ops: gather
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: 6 instead of 0
Under the shim: Torch's gradient.
"""
x = paddle.zeros([2, 3])
x.stop_gradient = False
y = paddle.gather(x, paddle.to_tensor([0, 2, 2]), axis=1)
y.backward(paddle.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
np.testing.assert_array_equal(x.grad.numpy(), [[1.0, 0.0, 5.0], [4.0, 0.0, 11.0]])

# %% grid_sample gradient at the edge reads zeros beyond it
"""With padding_mode "border" or "reflection" the gradient of a place that lies exactly on the last point is taken towards a 0
behind it, which is the slope to neither side.

Ops: grid_sample
Seen on: Paddle 3.3.1; CPU
Effect: -5 instead of 3 or 0
Under the shim: Torch's gradient; compare names the call.
"""
x = paddle.to_tensor(np.tile(np.array([1.0, 2.0, 5.0], "float32"), (1, 1, 3, 1)), stop_gradient=False)
grid = paddle.to_tensor([[[[1.0, 0.1]]]], stop_gradient=False)
# %%% border
paddle.nn.functional.grid_sample(x, grid, padding_mode="border").sum().backward()
assert grid.grad[0, 0, 0, 0] in (0.0, 3.0)
# %%% reflection
grid.clear_grad()
paddle.nn.functional.grid_sample(x, grid, padding_mode="reflection").sum().backward()
assert grid.grad[0, 0, 0, 0] in (-3.0, 0.0, 3.0)

# %% grid_sample gradient at the last pixel reads beyond it
"""With padding_mode="border" or "reflection" the gradient of a coordinate that is exactly that of the last pixel takes the pixel
behind it for 0. The slope before it, or 0 as in Torch, is right there.

Ops: grid_sample
Seen on: Paddle 3.3.1; CPU
Effect: -4 instead of 2 or 0
Under the shim: Torch's gradient.
"""
x, grid = paddle.to_tensor([[[[1.0, 2.0, 4.0]]]]), paddle.to_tensor([[[[1.0, 0.0]]]])
x.stop_gradient = grid.stop_gradient = False
F.grid_sample(x, grid, padding_mode="border", align_corners=True).sum().backward()
assert grid.grad[0, 0, 0, 0].item() in (0.0, 2.0)

# %% group_norm backward of the parameters alone fails
"""If x needs no gradient, the backward of Paddle 3.0 raises.

Ops: group_norm
Seen on: Paddle 3.0.0; CPU
Effect: ValueError, no gradient
Ends with: ValueError
Under the shim: Torch's gradients. Under compare Paddle's backward runs, and raises.
"""
weight, bias = paddle.ones([2]), paddle.zeros([2])
weight.stop_gradient = bias.stop_gradient = False
paddle.grad(F.group_norm(paddle.ones([1, 2, 3]), 2, weight=weight, bias=bias), [weight, bias])

# %% group_norm gradient is wrong without a weight
"""Without a weight, the CPU kernel's gradient of x differs from the gradient with a weight of ones.

Ops: group_norm
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 38 % of a gradient's element
Known difference: group norm without a weight
Under the shim: Torch's gradient; compare names it.
"""
grads = []
for weight in (None, paddle.ones([4], "float64")):
    x = paddle.to_tensor(np.arange(12.0).reshape(1, 4, 3) ** 2, stop_gradient=False)
    F.group_norm(x, 2, weight=weight).backward(paddle.to_tensor(np.sin(np.arange(12.0)).reshape(1, 4, 3)))
    grads.append(x.grad.numpy())
np.testing.assert_allclose(grads[0], grads[1], rtol=1e-9)

# %% infinity norm gives each equal maximum the whole gradient
"""Each of several equal maxima gets the whole gradient. Right is all of it for one of them, or a share for each.

Ops: norm of infinite order, send_u_recv, segment_max
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: as many times too much as there are equal elements
Known difference: whole gradient to each of equal elements
Under the shim: Torch's gradient, which is shared; compare names it.
"""
x = paddle.to_tensor([[1.0], [1.0], [1.0]], stop_gradient=False)
rows = paddle.to_tensor([0, 0, 0])


def shared(y):
    x.clear_grad()
    y.sum().backward()
    return abs(x.grad.sum().item() - 1.0) < 1e-6


# %%% norm
assert shared(paddle.linalg.norm(x, float("inf"), 0))
# %%% send_u_recv
assert shared(paddle.geometric.send_u_recv(x, paddle.arange(3), rows, "max"))
# %%% segment_max
assert shared(paddle.geometric.segment_max(x, rows))

# %% layer_norm gradient lacks a frozen weight
"""If the weight's own gradient is not requested, the CPU kernel leaves the weight out of x's gradient.

Ops: layer_norm
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 74 % of a gradient's element
Known difference: scale lost in the gradient
Under the shim: Torch's gradient; compare names it.
"""
grads = []
for frozen in (True, False):
    x = paddle.to_tensor(np.arange(6.0).reshape(2, 3) ** 2, stop_gradient=False)
    weight = paddle.to_tensor(np.array([1.0, 2.0, 3.0]), stop_gradient=frozen)
    (F.layer_norm(x, [3], weight=weight) ** 2).sum().backward()
    grads.append(x.grad.numpy())
np.testing.assert_allclose(grads[0], grads[1], rtol=1e-9)

# %% lu_solve gradient is wrong when transposed
"""With trans="T" the gradient of the factors is not the slope of the function.

Ops: lu_solve
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 24 times the gradient
Under the shim: Torch's gradient; compare says WRONG, side paddle.
"""
b, pivots = paddle.to_tensor([[1.0], [2.0]], "float64"), paddle.to_tensor([1, 2], "int32")
lu = paddle.to_tensor([[2.0, 1.0], [0.5, 3.0]], "float64", stop_gradient=False)


def loss(factors):
    return paddle.linalg.lu_solve(b, factors, pivots, trans="T").sum()


loss(lu).backward()
step = paddle.to_tensor([[0.0, 1e-6], [0.0, 0.0]], "float64")
slope = (loss(lu.detach() + step) - loss(lu.detach() - step)).item() / 2e-6
np.testing.assert_allclose(lu.grad.numpy()[0, 1], slope, rtol=1e-5)

# %% masked_fill gradient of the value is wrong
"""If x needs a gradient, too, the value's gradient is zero, or lacks an element where x is broadcast: it is read from memory that
already holds x's gradient, unless a hook keeps the incoming gradient. Of several values, those not used get unwritten memory.
x[mask] = value with a single value is this op, and has zero for its gradient whether x needs one or not.

Ops: masked_fill, setitem
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0 instead of 2
Under the shim: Torch's gradient; compare names the call.
"""
x, mask = paddle.ones([3]), paddle.to_tensor([True, False, True])
value = paddle.to_tensor(5.0, stop_gradient=False)
x.stop_gradient = False
paddle.masked_fill(x, mask, value).sum().backward()
np.testing.assert_array_equal(value.grad.numpy(), 2.0)

# %% matmul backward of a broadcast matrix fails
"""If a batch of matrices is multiplied by an operand with fewer batch axes, the backward of the smaller one raises.

Ops: matmul
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: ValueError
Ends with: ValueError
Under the shim: Torch's gradient.
"""
x, y = paddle.ones([2, 3, 4, 5]), paddle.ones([3, 5, 6])
y.stop_gradient = False
paddle.matmul(x, y).sum().backward()
np.testing.assert_array_equal(y.grad.numpy(), np.full([3, 5, 6], 8.0))

# %% matmul backward of an empty tensor crashes
"""In Paddle 3.0 the backward of a product of empty tensors writes the gradient that was not requested, without a buffer.

Ops: matmul
Seen on: Paddle 3.0.0; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: a call without elements stays on Paddle's kernel.
"""
x = paddle.zeros([0, 3])
x.stop_gradient = False
paddle.matmul(x, paddle.ones([3, 2])).sum().backward()

# %% max gives each equal maximum the whole gradient
"""Each of several equal maxima gets the whole gradient; from Paddle 3.1 on they share it.

Ops: max, min
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: as many times too much as there are equal elements
Known difference: whole gradient to each of equal extrema
Under the shim: Torch's gradient, which is shared; compare names it.
"""
x = paddle.ones([3])
x.stop_gradient = False
paddle.max(x).backward()

# %%% max
assert x.grad.sum() == 1.0
# %%% min
x.clear_gradient()
paddle.min(x).backward()
assert x.grad.sum() == 1.0

# %% median gradient is wrong beside a row with NaN
"""If a row has a NaN, the gradient of the row before it goes to elements that are not in its middle.

Ops: median
Seen on: Paddle 3.2.2, 3.3.1; CPU
Effect: the gradient goes to the wrong elements
Under the shim: Torch's gradient; compare says WRONG, side paddle.
"""
rows = [[0.1, -0.1, 0.6, 0.2], [-0.5, 0.3, 1.3, 0.9], [float("nan"), -1.2, -0.6, 0.0]]
x = paddle.to_tensor(rows, stop_gradient=False)
paddle.median(x, axis=-1)[:2].sum().backward()
np.testing.assert_array_equal(x.grad.numpy()[1], [0.0, 0.5, 0.0, 0.5])

# %% multi_dot backward fails with a frozen matrix
"""If some of the matrices need no gradient, the backward raises: a tensor for their gradient is missing.

Ops: multi_dot
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: ValueError, no gradient at all
Ends with: ValueError
Under the shim: Torch's gradient. Under compare Paddle's backward runs, and raises.
"""
x, y = paddle.ones([3, 4]), paddle.ones([4, 2])
x.stop_gradient = False
paddle.linalg.multi_dot([x, y]).sum().backward()

# %% norm gradient adds a constant to the norm
"""The gradient divides by the norm plus a constant (1e-12), which matters where the norm is small.

Ops: p_norm, frobenius_norm, dist
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 2e-8 of the gradient at a norm of 5e-5, in float64
Known difference: number added to a norm
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.to_tensor([3e-5, 4e-5], "float64", stop_gradient=False)
paddle.linalg.norm(x, p=2, axis=0).backward()
np.testing.assert_allclose(x.grad.numpy(), [0.6, 0.8], rtol=1e-9)

# %% normalize gradient adds epsilon to the norm
"""In the forward epsilon is a lower bound of the norm; the gradient adds it to the norm.

Ops: normalize
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 0.1 % of the gradient at a norm of 5 with an epsilon of 0.01
Known difference: number added to a norm
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.to_tensor([[3.0, 4.0]], "float64", stop_gradient=False)
paddle.nn.functional.normalize(x, epsilon=1e-2)[0, 0].backward()
np.testing.assert_allclose(x.grad.numpy(), [[0.128, -0.096]], rtol=1e-9)

# %% pad puts its value into the second derivative
"""The second derivative of a tensor that was padded with a number is padded with that number, where it is 0.

Ops: pad
Seen on: Paddle 3.3.1; CPU
Effect: 2.5 instead of 0
Under the shim: Torch's second derivative; compare says WRONG, side paddle.
"""
x = paddle.ones([1, 1, 2])
x.stop_gradient = False
y = F.pad(x, [1, 0], value=2.5, data_format="NCL")
incoming = paddle.ones_like(y)
incoming.stop_gradient = False
(grad,) = paddle.grad([y], [x], [incoming], create_graph=True)
(second,) = paddle.grad([grad.sum()], [incoming])
np.testing.assert_array_equal(second.numpy(), [[[0.0, 1.0, 1.0]]])

# %% pinv gradient is NaN for equal eigenvalues
"""The gradient goes through singular vectors or eigenvectors, which have no gradient where values are equal.

Ops: pinv
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: NaN instead of -1
Known difference: pinv through vectors
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.eye(2, dtype="float64")
x.stop_gradient = False
paddle.linalg.pinv(x, hermitian=True).sum().backward()
np.testing.assert_allclose(x.grad.numpy(), -np.ones([2, 2]))

# %% prod gradient is NaN at a zero
"""The gradient divides the product by the element: 0 / 0.

Ops: prod
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 6
Known difference: gradient of a product with a zero
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.to_tensor([2.0, 0.0, 3.0], stop_gradient=False)
x.prod().backward()
np.testing.assert_array_equal(x.grad.numpy(), [0.0, 6.0, 0.0])

# %% prod gradient of complex numbers is not conjugated
"""The gradient contains the product of the other elements instead of its conjugate.

Ops: prod
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a gradient in the wrong direction
Under the shim: Torch's gradient; compare says WRONG, side paddle.
"""
x = paddle.to_tensor(np.array([1 + 2j, 3 - 1j]), stop_gradient=False)
paddle.prod(x).real().backward()
np.testing.assert_allclose(x.grad.numpy(), [3 + 1j, 1 - 2j], rtol=1e-9)

# %% rnn has no gradient of its input alone
"""paddle.grad of a SimpleRNN, LSTM or GRU with respect to its input, without its weights, raises: Required tensor shall not be
nullptr.

Ops: rnn
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: ValueError
Ends with: ValueError
Under the shim: Torch's gradient.
"""
x = paddle.ones([2, 3, 4])
x.stop_gradient = False
assert paddle.grad([paddle.nn.GRU(4, 3)(x)[0].sum()], [x])[0].shape == [2, 3, 4]

# %% setitem at one place twice gives the gradient to the first value
"""x[index] = y where the index has a place several times: the last value stays, and the gradient goes to the first one.

Ops: setitem
Seen on: Paddle 3.3.1; CPU
Effect: another value's gradient
Under the shim: Wrong, too: Torch's gradient goes to all values of the place; compare names the call, on both sides.
"""
y = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
x = paddle.zeros([3])
x[paddle.to_tensor([1, 1])] = y * 1
assert x.tolist() == [0.0, 2.0, 0.0]
x.sum().backward()
np.testing.assert_array_equal(y.grad.numpy(), [0.0, 1.0])

# %% setitem has no gradient of a broadcast value
"""If a tensor with as many axes is broadcast when it is set, the backward raises.

Ops: setitem
Seen on: Paddle 3.3.1; CPU
Effect: ValueError, no gradient
Ends with: ValueError
Under the shim: Torch's gradient.
"""
x, y = paddle.ones([2, 3]), paddle.ones([1, 3])
y.stop_gradient = False
x[:] = y
x.sum().backward()
np.testing.assert_array_equal(y.grad.numpy(), [[2.0, 2.0, 2.0]])

# %% silu gradient is NaN below -88
"""Below -88 exp(-x) overflows, and the gradient is NaN or infinite.

Ops: silu
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 0
Known difference: gradient of silu
Under the shim: Torch's gradient; compare names it.
"""
x = paddle.to_tensor([-100.0], stop_gradient=False)
paddle.nn.functional.silu(x).sum().backward()
np.testing.assert_allclose(x.grad.numpy(), [0.0], atol=1e-6)

# %% spectral_norm gradient is not the slope
"""With u and v constant, the gradient is not the slope of the function.

Ops: spectral_norm
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 9 % of a gradient's element
Known difference: gradient of spectral norm
Under the shim: Torch's gradient, with u and v constant; compare names it.
"""
u, v = paddle.to_tensor([1.0, 2.0], "float64"), paddle.to_tensor([3.0, -1.0, 2.0], "float64")


def loss(w):
    return (paddle._C_ops.spectral_norm(w, u, v, 0, 0, 0.0) ** 2).sum()


w = paddle.to_tensor([[1.0, 2.0, -1.0], [0.5, 1.5, 3.0]], "float64", stop_gradient=False)
loss(w).backward()
step = paddle.to_tensor([[0.0, 1e-6, 0.0], [0.0, 0.0, 0.0]], "float64")
slope = (loss(w.detach() + step) - loss(w.detach() - step)).item() / 2e-6
np.testing.assert_allclose(w.grad.numpy()[0, 1], slope, rtol=1e-5)

# %% torch batch_norm gradients are wrong where x and the incoming gradient lie unlike
"""Where an axis has one element, a transposed x counts as channels last, and the gradient is read in that order, too.

Ops: batch_norm, instance_norm
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: another gradient
Under the shim: The right gradient; by Torch's definition, as in a proof, Torch's.
"""
x = torch.arange(12.0).reshape(1, 4, 3, 1) ** 2
gradients = []
for values in (x, x.transpose(1, 3).contiguous().transpose(1, 3)):
    weight, bias = torch.ones(4, requires_grad=True), torch.zeros(4, requires_grad=True)
    torch.nn.functional.batch_norm(values, None, None, weight, bias, training=True).backward(x)
    gradients.append(weight.grad.tolist())
np.testing.assert_allclose(*gradients, rtol=1e-4)

# %% triangular_solve gradient reads unwritten memory
"""If y needs no gradient, the gradient of x is computed from memory that was never written.

Ops: triangular_solve
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a different gradient at each call, up to infinities
Under the shim: Torch's gradient; compare says WRONG or NONFINITE, side paddle.
"""
x = paddle.to_tensor([[1.0, 2.0], [0.0, 1.0]], stop_gradient=False)
y = paddle.to_tensor([[3.0], [4.0]])
paddle.linalg.triangular_solve(x, y, upper=True, unitriangular=True).sum().backward()
np.testing.assert_array_equal(x.grad.numpy(), [[0.0, -4.0], [0.0, 0.0]])
