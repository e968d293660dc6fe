"""Values."""

import numpy as np
import paddle
import paddle.nn.functional as F
import torch

# %% AdaptiveLogSoftmaxWithLoss hides parameters
"""The weights of the tails are in plain lists: parameters() and state_dict() lack them.

Ops: nn.AdaptiveLogSoftmaxWithLoss
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 parameter instead of 5
Under the shim: No change to the layer; what its weights compute runs on Torch's kernels.
"""
layer = paddle.nn.AdaptiveLogSoftmaxWithLoss(8, 12, [4, 8])
assert len(layer.parameters()) == 1 + sum(map(len, layer.tail_weights))

# %% attention ignores its mask with is_causal
"""On a CPU scaled_dot_product_attention ignores a mask if is_causal=True, also one that separates documents or hides padding.

Ops: scaled_dot_product_attention
Seen on: Paddle 3.3.1; CPU
Effect: 1.2 instead of 0
Under the shim: The mask counts, and the run says so; compare says SEMANTICS (mask-ignored), side paddle.
"""
q = paddle.to_tensor(np.random.default_rng(0).standard_normal((1, 6, 2, 8)).astype("float32"))
document = np.array([0, 0, 0, 1, 1, 1])
mask = paddle.to_tensor(np.where(document[:, None] == document, 0.0, -1e9).astype("float32")[None, None])
attend = paddle.nn.functional.scaled_dot_product_attention
result = attend(q, q, q, mask, 0.0, is_causal=True)
np.testing.assert_allclose(result[:, 3:], attend(*[q[:, 3:]] * 3, None, 0.0, is_causal=True), rtol=1e-4, atol=1e-5)

# %% binary_cross_entropy_with_logits weights positives partly
"""For a negative logit pos_weight multiplies only a part of a positive's loss.

Ops: binary_cross_entropy_with_logits
Seen on: Paddle 2.6.2; CPU
Effect: 1.3 instead of 2.6
Under the shim: Torch's loss.
"""
x, label, weight = (paddle.to_tensor([value]) for value in (-1.0, 1.0, 2.0))
result = paddle.nn.functional.binary_cross_entropy_with_logits(x, label, pos_weight=weight).item()
np.testing.assert_allclose(result, 2 * np.log1p(np.exp(1.0)), rtol=1e-5)

# %% contiguous changes the view itself
"""contiguous() of a transposed or sliced view moves the view itself to new memory and returns it. The view no longer shares memory
with its tensor, and a write to the result is a write to the view.

Ops: Tensor.contiguous
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: in-place writes are lost, or appear where Torch has a copy
Under the shim: A copy, as in Torch; the view stays a view. compare does what Paddle does.
"""
view = paddle.zeros([2, 3]).t()
view.contiguous().add_(paddle.ones([3, 2]))
assert view.sum().item() == 0.0

# %% cross_entropy mean counts ignored negative labels
"""With a negative ignore_index the mean divides by all samples, ignored ones included.

Ops: cross_entropy
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: half of the loss if half of the labels are ignored
Under the shim: No change, and a warning in the run; Torch's loss with definitions="torch".
"""
x, label = paddle.zeros([2, 4]), paddle.to_tensor([1, -1])
result = paddle.nn.functional.cross_entropy(x, label, ignore_index=-1).item()
np.testing.assert_allclose(result, np.log(4.0), rtol=1e-5)

# %% cross_entropy mean with smoothing and ignore_index divides by classes
"""With label_smoothing and an ignore_index of 0 or more, the mean divides by samples times classes.

Ops: cross_entropy
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a quarter of the loss, with four classes
Under the shim: No change, and a warning in the run; Torch's loss with definitions="torch".
"""
x, label = paddle.zeros([2, 4]), paddle.to_tensor([1, 2])
result = paddle.nn.functional.cross_entropy(x, label, ignore_index=0, label_smoothing=0.1).item()
np.testing.assert_allclose(result, np.log(4.0), rtol=1e-5)

# %% cross_entropy smooths labels along the wrong axis
"""Class indices become shares along the last axis, whatever axis= says.

Ops: cross_entropy
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a wrong loss; an error where the sizes differ
Under the shim: No change; Torch's loss with definitions="torch".
"""
x, label = paddle.to_tensor(np.arange(9.0).reshape(1, 3, 3) ** 2), paddle.to_tensor([[0, 0, 1]])
last = F.cross_entropy(x.transpose([0, 2, 1]), label, label_smoothing=0.1).item()
np.testing.assert_allclose(F.cross_entropy(x, label, label_smoothing=0.1, axis=1).item(), last, rtol=1e-9)

# %% dlpack drops strides
"""A transposed or sliced view of a Paddle 2.6 tensor arrives in Torch as if it were contiguous.

Ops: to_dlpack
Seen on: Paddle 2.6.2; CPU
Effect: wrong values, no error
Under the shim: No change; the library does not use this function on 2.6.
"""
x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]]).t()
y = torch.utils.dlpack.from_dlpack(paddle.utils.dlpack.to_dlpack(x))
np.testing.assert_array_equal(y.numpy(), [[1.0, 3.0], [2.0, 4.0]])

# %% eig returns wrong vectors near the real axis
"""Eigenvalues less than 1e-6 off the real axis count as real, however small the matrix: the real and the imaginary part of a vector
are returned as two vectors.

Ops: eig
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0.71 of a vector
Known difference: vectors of eigenvalues near the real axis
Under the shim: Torch's vectors; compare names it.
"""
x = np.array([[0.0, 1e-7], [-1e-7, 0.0]])
values, vectors = paddle.linalg.eig(paddle.to_tensor(x))
np.testing.assert_allclose(x @ vectors.numpy(), vectors.numpy() * values.numpy(), atol=1e-12)

# %% getitem ignores a list behind a slice and None
"""A list behind a slice and a None selects nothing: the whole axis is returned.

Ops: getitem
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: shape [5, 1, 3] instead of [5, 1, 1]
Under the shim: Torch's elements. compare continues with Paddle's, because getitem moves values.
"""
x = np.arange(15.0).reshape(5, 3)
np.testing.assert_array_equal(paddle.to_tensor(x)[:, None, [0]].numpy(), x[:, None, [0]])

# %% getitem misreads a strided tensor behind a slice
"""A transposed or sliced view, indexed by a tensor behind a slice, is read as if it were contiguous.

Ops: getitem
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the wrong elements
Under the shim: Torch's elements, of floats and integers. compare names it, of floats.
"""
x = np.arange(12).reshape(3, 4)
result = paddle.to_tensor(x).t()[:, paddle.to_tensor([0, 2, 1])]
np.testing.assert_array_equal(result.numpy(), x.T[:, [0, 2, 1]])

# %% getitem misreads a strided tensor by one index
"""A transposed or sliced view, indexed by a tensor, is read as if it were contiguous, in Paddle 3.2.

Ops: getitem
Seen on: Paddle 3.2.2; CPU
Effect: the wrong elements
Under the shim: Torch's elements, of floats and integers.
"""
x = np.arange(12).reshape(3, 4)
np.testing.assert_array_equal(paddle.to_tensor(x).t()[paddle.to_tensor([0, 2, 1])].numpy(), x.T[[0, 2, 1]])

# %% getitem misreads a strided tensor by two indices
"""A transposed or sliced view, indexed by two tensors, is read as if it were contiguous; so is the input of
multi_label_margin_loss.

Ops: getitem
Seen on: Paddle 3.1.1, 3.2.2; CPU
Effect: the wrong elements
Under the shim: Torch's elements, of floats and integers.
"""
x, index = np.arange(12).reshape(3, 4), paddle.to_tensor([0, 2, 1])
np.testing.assert_array_equal(paddle.to_tensor(x).t()[index, index].numpy(), x.T[[0, 2, 1], [0, 2, 1]])

# %% getitem misreads what rot90 made
"""An index of integers behind a slice, of the result of rot90, reads the tensor in the shape that it had before it was turned.

Ops: getitem, rot90
Seen on: Paddle 3.3.1; CPU
Effect: shape [3, 2] instead of [4, 2]
Under the shim: Torch's elements.
"""
turned = paddle.rot90(paddle.arange(12.0).reshape([3, 4]))
assert turned[:, [0, 0]].shape == turned.contiguous()[:, [0, 0]].shape

# %% householder_product writes to its operand
"""The function writes ones to the diagonal of its operand x.

Ops: householder_product, ormqr
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 1 instead of any value
Under the shim: x keeps its values; compare says SEMANTICS (writes-operand), side paddle.
"""
x = paddle.to_tensor([[2.0, 3.0], [4.0, 5.0]])
paddle.linalg.householder_product(x, paddle.to_tensor([0.5, 0.5]))
assert x.tolist() == [[2.0, 3.0], [4.0, 5.0]]

# %% interpolate to one pixel takes the first pixel
"""For one pixel along an axis Paddle takes the first pixel (bicubic: the one before it) instead of the middle. On Paddle 3, linear
does so in the gradient only, and trilinear no longer does.

Ops: linear_interp, bilinear_interp, bicubic_interp, trilinear_interp
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 0 instead of 7
Known difference: interpolation to one pixel
Under the shim: Torch's pixel; compare names it.
"""
x = paddle.to_tensor(np.arange(15.0).reshape(1, 1, 3, 5), "float32")


def near(mode):
    result = paddle.nn.functional.interpolate(x, size=[1, 1], mode=mode, align_corners=False)
    np.testing.assert_allclose(result.numpy().ravel(), [7.0], rtol=1e-5)


# %%% bilinear
near("bilinear")
# %%% bicubic
near("bicubic")
# %%% gradient of linear
row = paddle.ones([1, 1, 3])
row.stop_gradient = False
paddle.nn.functional.interpolate(row, size=[1], mode="linear", data_format="NCW").backward()
assert row.grad.tolist() == [[[0.0, 1.0, 0.0]]]

# %% lstsq returns residuals without full rank
"""Only matrices of full rank have residuals. Up to 3.0 Paddle returns numbers that are none; 2.6 returns none for full rank.

Ops: lstsq
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: 5.7e-14 instead of none
Under the shim: None, as in Torch.
"""
assert paddle.linalg.lstsq(paddle.ones([4, 3]), paddle.ones([4, 2]))[1].shape == [0]

# %% multi_margin_loss multiplies the weights of all labels
"""The loss of each row is multiplied by the weights of all rows' labels, up to Paddle 3.0.

Ops: multi_margin_loss
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: a factor of 10, or another shape
Under the shim: Torch's loss: each row's own weight.
"""
x, labels = paddle.to_tensor([[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]], "float64"), paddle.to_tensor([0, 1])
weight = paddle.to_tensor([1.0, 10.0, 100.0], "float64")
rows = [F.multi_margin_loss(x[i : i + 1], labels[i : i + 1], weight=weight).item() for i in (0, 1)]
np.testing.assert_allclose(F.multi_margin_loss(x, labels, weight=weight, reduction="none").numpy(), rows)

# %% norm of a 0-D tensor along an axis is zero
"""Along axis 0 the norm of a tensor without axes is that of no elements; along axis -1 the process may end.

Ops: norm, vector_norm
Seen on: Paddle 3.3.1; CPU
Effect: 0 instead of 0.8, and -inf with p=inf
Under the shim: Torch's norm; compare says SEMANTICS (no-element-seen), side paddle.
"""
x = paddle.to_tensor(0.8)

# %%% p=2
np.testing.assert_allclose(paddle.norm(x, p=2, axis=0).item(), 0.8, rtol=1e-6)
# %%% p=inf
np.testing.assert_allclose(paddle.norm(x, p=float("inf"), axis=0).item(), 0.8, rtol=1e-6)

# %% normalize of a 0-D tensor divides by epsilon
"""A tensor without axes is divided by the norm of no elements, and gets an axis.

Ops: normalize
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 2e12 instead of 1
Under the shim: No change: Paddle's kernel runs, because Torch has no result of that shape.
"""
assert paddle.nn.functional.normalize(paddle.to_tensor(2.0), axis=0).item() == 1.0

# %% svdvals merges batch axes
"""Several batch axes become one axis of the result.

Ops: svdvals
Seen on: Paddle 3.3.1; CPU
Effect: shape [6, 4] instead of [2, 3, 4]
Under the shim: Torch's shape; compare says SEMANTICS (one-batch-axis), side paddle.
"""
assert paddle.linalg.svdvals(paddle.ones([2, 3, 4, 4])).shape == [2, 3, 4]

# %% trace with exchanged axes takes the wrong diagonal
"""With an offset and axis1 above axis2, the diagonal on the other side is taken, up to Paddle 3.0.

Ops: trace
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: the wrong diagonal
Under the shim: Torch's trace.
"""
x = np.arange(9.0).reshape(3, 3)
assert paddle.trace(paddle.to_tensor(x), offset=1, axis1=1, axis2=0).item() == np.trace(x, 1, 1, 0)

# %% unreduced losses of 0-D tensors get an axis
"""hinge_embedding_loss, and margin_ranking_loss with a margin, return an axis for tensors without axes if they are not reduced.

Ops: hinge_embedding_loss, margin_ranking_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: shape [1] instead of []
Under the shim: No change: Paddle's kernel runs, because Torch has no result of that shape.
"""
x, label = paddle.to_tensor(3.0), paddle.to_tensor(1.0)

# %%% hinge_embedding_loss
assert list(F.hinge_embedding_loss(x, label, reduction="none").shape) == []
# %%% margin_ranking_loss
assert list(F.margin_ranking_loss(x, label, label, 0.5, reduction="none").shape) == []
