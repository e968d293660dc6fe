"""NaN, infinities and the edges of the range."""

import numpy as np
import paddle
import paddle.nn.functional as F
import torch

# %% activations multiply infinity by zero
"""Branches not taken are multiplied by 0, or subtracted from each other: an infinity in them becomes NaN.

Ops: softshrink, thresholded_relu, log_sigmoid, binary_cross_entropy_with_logits
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 0 or an infinity
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""
inf = paddle.to_tensor([float("inf")])

# %%% softshrink
assert F.softshrink(inf).item() == float("inf")
# %%% thresholded_relu
assert F.thresholded_relu(-inf).item() == 0
# %%% log_sigmoid
assert F.log_sigmoid(-inf).item() == -float("inf")
# %%% binary_cross_entropy_with_logits
assert F.binary_cross_entropy_with_logits(inf, paddle.zeros([1])).item() == float("inf")

# %% argmax passes over NaN
"""A NaN is passed over unless it is the first element; max and topk return it.

Ops: argmax, argmin
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 2 instead of 1
Under the shim: Torch's index, that of the first NaN; compare says UNVERIFIED.
"""
assert paddle.argmax(paddle.to_tensor([0.0, float("nan"), 1.0])).item() == 1

# %% cross_entropy saturates at 64
"""The CPU kernel computes exp(max(x - max, -64)): no loss exceeds 64 plus the logarithm of the number of classes.

Ops: cross_entropy
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 64 instead of 300
Known difference: softmax clipped at -64
Under the shim: Torch's loss; compare names it.
"""
x = paddle.to_tensor([[0.0, 300.0]])
np.testing.assert_allclose(paddle.nn.functional.cross_entropy(x, paddle.to_tensor([0])).item(), 300.0, rtol=1e-5)

# %% ctc_loss gradient hides NaN
"""In a row whose loss is NaN, classes without a label get a finite gradient: a program that looks at these alone continues.

Ops: ctc_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 0.33 instead of NaN
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""
x = paddle.zeros([4, 1, 3])
x[1, 0, 1] = float("inf")
x.stop_gradient = False
label, long, short = paddle.to_tensor([[1]], "int32"), paddle.to_tensor([4]), paddle.to_tensor([1])
loss = paddle.nn.functional.ctc_loss(x, label, long, short, reduction="sum")
loss.backward()
assert loss.isnan()
assert x.grad.isnan().all()

# %% ctc_loss saturates
"""The softmax before the CTC loss has no share below the smallest number of its dtype.

Ops: ctc_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 87 instead of 199
Under the shim: Torch's loss; compare says WRONG, side paddle.
"""
x = paddle.to_tensor(np.array([[[0.0, -200.0, -300.0]]] * 2, "float32"))
label, long, short = paddle.to_tensor([[1]], "int32"), paddle.to_tensor([2]), paddle.to_tensor([1])
loss = paddle.nn.functional.ctc_loss(x, label, long, short, reduction="sum").item()
np.testing.assert_allclose(loss, 200.0 - np.log(2.0), rtol=1e-5)

# %% erfinv beyond 1 is infinite
"""Numbers beyond 1 have no inverse; Paddle returns infinity.

Ops: erfinv
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: inf instead of NaN
Known difference: erfinv by a quantile
Under the shim: Torch's result; compare names it.
"""
assert np.isnan(paddle.erfinv(paddle.to_tensor([2.0])).item())

# %% exp of float16 wraps around
"""Below -53.37 the result is 2**64 times too large.

Ops: exp
Seen on: Paddle 3.2.2, 3.3.1; CPU, some processors
Effect: 2.4e-5 instead of 0
Known difference: float16 exp wraps around
Under the shim: Torch's kernel; compare names it.
"""
np.testing.assert_array_equal(paddle.exp(paddle.full([16], -55.0, "float16")).numpy(), 0.0)

# %% gammainc gradient overflows
"""The density is a power times an exponential over a gamma function, each computed separately: infinity over infinity.

Ops: gammainc, gammaincc
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 0
Known difference: incomplete gamma functions
Under the shim: Torch's gradient; compare names it.
"""


def near(function):
    x = paddle.to_tensor([30.0], stop_gradient=False)
    function(paddle.to_tensor([2000.0]), x).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0.0])


# %%% gammainc
near(paddle.gammainc)
# %%% gammaincc
near(paddle.gammaincc)

# %% gradients multiply infinity by zero
"""Where the slope is 0 the incoming gradient is multiplied by 0: an infinite one becomes NaN. That of abs is multiplied by x / |x|,
which is NaN at an infinite x.

Ops: abs, sign, floor, minimum, maximum, fmin, fmax, relu6, hardtanh
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: NaN instead of 0 or 1
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""


def slope(function, at, grad):
    x = paddle.to_tensor([at], stop_gradient=False)
    function(x).backward(paddle.to_tensor([grad]))
    return x.grad.item()


inf, unit = float("inf"), paddle.ones([1])

# %%% abs
assert slope(paddle.abs, inf, 1.0) == 1
# %%% sign
assert slope(paddle.sign, 2.0, inf) == 0
# %%% floor
assert slope(paddle.floor, 2.5, inf) == 0
# %%% maximum
assert slope(lambda x: paddle.maximum(x, unit), 0.5, inf) == 0
# %%% fmin
assert slope(lambda x: paddle.fmin(x, unit), 2.0, inf) == 0
# %%% relu6
assert slope(paddle.nn.functional.relu6, -2.0, inf) == 0
# %%% hardtanh
assert slope(paddle.nn.functional.hardtanh, 2.0, inf) == 0

# %% gru gradient is NaN when saturated
"""If a gate is so far from 0 that its slope vanishes, all gradients are NaN.

Ops: rnn
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU, some processors
Effect: NaN instead of 0
Under the shim: Torch's gradient; compare says NONFINITE, side paddle.
"""
layer, x = paddle.nn.GRU(1, 1), paddle.to_tensor([[[100.0]]], stop_gradient=False)
for parameter in layer.parameters():
    parameter.set_value(paddle.full_like(parameter, -1.0))
layer(x)[0].backward()
np.testing.assert_allclose(x.grad.numpy(), [[[0.0]]], atol=1e-6)

# %% hypot overflows
"""Squares are added unscaled: a length becomes 0 or infinite where it is an ordinary number of the dtype.

Ops: hypot, atan2
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: inf instead of 4e30
Known difference: powers that leave the range
Under the shim: Torch's result; compare names it.
"""
x = paddle.to_tensor([3e30])

# %%% large numbers
np.testing.assert_allclose(paddle.hypot(x, x).numpy(), [3e30 * np.sqrt(2)], rtol=1e-5)
# %%% small numbers
np.testing.assert_allclose(paddle.hypot(x * 1e-30 * 1e-30, x * 0).numpy(), [3e-30], rtol=1e-5)

# %% lerp from infinity is NaN
"""x + w (y - x) subtracts an infinite x from itself; (1 - w) x + w y is infinite.

Ops: lerp
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of infinity
Under the shim: Torch's result, which is NaN, too, for weights below 0.5; above that compare says NONFINITE, side paddle.
"""
assert paddle.lerp(paddle.to_tensor([float("inf")]), paddle.to_tensor([1.0]), 0.75).item() == float("inf")

# %% log_softmax of minus infinity is finite
"""No result is below -64 minus the logarithm of the sum: entries that are masked by -inf do not become -inf.

Ops: log_softmax, cross_entropy
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: -64 instead of -inf
Known difference: log_softmax of minus infinity
Under the shim: Torch's kernel; compare names it.
"""
x = paddle.to_tensor([1.0, -np.inf])

# %%% log_softmax
assert np.isinf(paddle.nn.functional.log_softmax(x).numpy()[1])
# %%% cross_entropy
assert np.isinf(paddle.nn.functional.cross_entropy(x.reshape([1, 2]), paddle.to_tensor([1])).item())

# %% logaddexp of two equal infinities is NaN
"""It is composed of a maximum and the difference of its operands, and infinity minus infinity is NaN.

Ops: logaddexp
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: NaN instead of infinity
Under the shim: Torch's logaddexp; compare says NONFINITE, side paddle.
"""
infinities = paddle.to_tensor([np.inf, -np.inf])
assert not np.isnan(paddle.logaddexp(infinities, infinities).numpy()).any()

# %% logcumsumexp hides NaN
"""A leading NaN or -inf counts as -3.4e38. Two infinities are subtracted, which gives NaN.

Ops: logcumsumexp
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: -3.4e38 instead of NaN, NaN instead of infinity
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""
inf = float("inf")

# %%% NaN
np.testing.assert_array_equal(paddle.logcumsumexp(paddle.to_tensor([float("nan"), 1.0])).numpy(), [np.nan, np.nan])
# %%% -inf
np.testing.assert_array_equal(paddle.logcumsumexp(paddle.to_tensor([-inf, 1.0])).numpy(), [-inf, 1.0])
# %%% infinities
np.testing.assert_array_equal(paddle.logcumsumexp(paddle.to_tensor([inf, inf])).numpy(), [inf, inf])

# %% logsumexp of infinite rows is NaN
"""An infinite maximum is subtracted from itself.

Ops: logsumexp
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of -inf and +inf
Known difference: logsumexp of infinities
Under the shim: Torch's result; compare names it.
"""
x = paddle.to_tensor([[float("-inf")] * 2, [float("inf"), 0.0]])
np.testing.assert_array_equal(paddle.logsumexp(x, axis=1).numpy(), [-np.inf, np.inf])

# %% matrix_exp spreads NaN over a batch
"""If one matrix of a batch has a NaN or an infinity, all results are NaN.

Ops: matrix_exp
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of any number
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""
x = paddle.to_tensor(np.stack([np.full([2, 2], np.nan), np.eye(2)]))
assert paddle.linalg.matrix_exp(x)[1].isfinite().all()

# %% max_pool hides NaN
"""Maxima over windows, and extrema of put_along_axis, hide NaN: in a window unless it is the last element, with a mask always. The
maximum of -inf alone is the lowest finite number.

Ops: max_pool, put_along_axis
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: a number instead of NaN
Known difference: extrema that pass over NaN
Under the shim: Torch's kernels; compare names it.
"""
rows = paddle.to_tensor([[[float("nan"), 1.0]]])

# %%% last element
assert np.isnan(F.max_pool1d(rows, 2).numpy()).all()
# %%% with a mask
assert np.isnan(F.max_pool1d(rows.flip(-1), 2, return_mask=True)[0].numpy()).all()
# %%% -inf
assert np.isinf(F.max_pool1d(paddle.full([1, 1, 2], -np.inf), 2).numpy()).all()
# %%% put_along_axis
numbers, places = paddle.to_tensor([1.0]), paddle.to_tensor([0])
assert np.isnan(paddle.put_along_axis(numbers, places, rows[0, 0, :1], 0, "amax").numpy()).all()

# %% max_pool of float64 starts at the lowest float32
"""Even in float64 maxima start at -3.4e38: lower numbers are not seen, and their index is -1.

Ops: max_pool2d, max_pool3d, maxout
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: -3.4e38 instead of -1e39
Under the shim: Torch's maxima; compare says SEMANTICS, and names no side.
"""
x = paddle.full([1, 2, 2, 2], -1e39, "float64")

# %%% max_pool2d
np.testing.assert_array_equal(F.max_pool2d(x, 2).numpy().ravel(), [-1e39] * 2)
# %%% max_pool3d
np.testing.assert_array_equal(F.max_pool3d(x.unsqueeze(0), 2).numpy().ravel(), [-1e39])
# %%% maxout
np.testing.assert_array_equal(F.maxout(x, 2).numpy().ravel(), [-1e39] * 4)
# %%% indices
np.testing.assert_array_equal(F.max_pool2d(x, 2, return_mask=True)[1].numpy().ravel(), [0, 0])

# %% maxout and segment_max hide NaN
"""Maxima pass over NaN: in a row unless it is the last element, in a segment always.

Ops: maxout, segment_pool, send_u_recv, norms of infinite order
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 3 instead of NaN
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""
x = paddle.to_tensor([[[[float("nan"), 1.0, 2.0, 3.0]]]])

# %%% maxout
assert np.isnan(F.maxout(x, 4, axis=3).item())
# %%% segment_max
assert np.isnan(paddle.geometric.segment_max(x.reshape([4, 1]), paddle.zeros([4], "int32")).item())
# %%% send_u_recv
at = paddle.arange(4)
assert np.isnan(paddle.geometric.send_u_recv(x.reshape([4, 1]), 3 - at, at * 0, "max")[0].item())
# %%% norm
assert np.isnan(paddle.linalg.norm(x, np.inf, -1).item())

# %% qr overflows
"""Squares are added unscaled, and their sum leaves the range.

Ops: qr
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of a number below 1
Under the shim: Torch's result; compare says NONFINITE or WRONG, side paddle.
"""
x = paddle.to_tensor([3e30])
assert paddle.linalg.qr(x * paddle.to_tensor([[3.0, 1], [4, 1]]))[0].isfinite().all()

# %% relu hides NaN
"""The CPU kernel turns NaN into 0; losses that use it do, too.

Ops: relu, margin_ranking_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU, some processors
Effect: 0 instead of NaN
Known difference: relu of NaN
Under the shim: Torch's relu; compare names it, and says NONFINITE, side paddle, of the loss.
"""
assert np.isnan(paddle.nn.functional.relu(paddle.full([32], float("nan"))).numpy()).all()

# %% sinc hides NaN
"""NaN counts as 0, where sinc is 1.

Ops: sinc
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 instead of NaN
Known difference: sinc of NaN
Under the shim: Torch's result; compare names it.
"""
assert np.isnan(paddle.sinc(paddle.to_tensor([float("nan")])).item())

# %% slogdet overflows in the determinant
"""slogdet takes the logarithm of the determinant, which is 0 or infinite where the logarithm is an ordinary number.

Ops: slogdet
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: -inf instead of -138
Known difference: slogdet through the determinant
Under the shim: Torch's result; compare names it.
"""
result = paddle.linalg.slogdet(paddle.eye(20) * 1e-3).numpy()
np.testing.assert_allclose(result, [1.0, 20 * np.log(1e-3)], rtol=1e-5)

# %% smooth_l1_loss gradient hides NaN
"""For a NaN operand, and for equal infinities, the gradient is that of a large difference.

Ops: smooth_l1_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1 instead of NaN
Under the shim: Torch's gradient; compare says NONFINITE, side paddle.
"""
x = paddle.to_tensor([float("nan")], stop_gradient=False)
paddle.nn.functional.smooth_l1_loss(x, paddle.zeros([1])).backward()
assert np.isnan(x.grad.numpy()).all()

# %% soft_margin_loss overflows
"""In log(1 + exp(-x y)) the exponential overflows where the loss is an ordinary number.

Ops: soft_margin_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: inf instead of 200
Under the shim: Wrong, too: Torch's loss overflows; compare says EQUAL.
"""
x, label = paddle.to_tensor([-200.0], stop_gradient=False), paddle.to_tensor([1.0])
loss = paddle.nn.functional.soft_margin_loss(x, label)

# %%% loss
assert abs(loss.item() - 200) < 1e-3
# %%% gradient
loss.backward()
assert abs(x.grad.item() + 1) < 1e-6

# %% softmax hides NaN
"""The vectorised kernel replaces a NaN in x - max by -64.

Ops: softmax
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU, some processors
Effect: a finite row instead of NaN
Known difference: softmax of NaN
Under the shim: Torch's softmax; compare names it.
"""
x = paddle.to_tensor([[1.0] * 8 + [float("nan")] + [1.0] * 7])
assert np.isnan(paddle.nn.functional.softmax(x).numpy()).all()

# %% softmax of masked entries is not zero
"""The CPU kernel computes exp(max(x - max, -64)): entries that a mask removes do not become 0.

Ops: softmax, fused_softmax_mask
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 1e-29 instead of 0
Known difference: softmax clipped at -64
Under the shim: Torch's softmax; compare names it.
"""
x = paddle.to_tensor([[0.0, -1e9] * 16])

# %%% softmax
assert (paddle.nn.functional.softmax(x).numpy()[0, 1::2] == 0).all()
# %%% fused_softmax_mask
assert (paddle.incubate.softmax_mask_fuse(*x.reshape([2, 1, 1, 1, 16])).numpy()[0, 0, 0, 1::2] == 0).all()

# %% sqrt of infinity is NaN
"""The vectorised float32 kernel returns NaN. Like rsqrt, it takes denormal numbers for 0.

Ops: sqrt
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU, some processors
Effect: NaN instead of +inf
Known difference: sqrt of infinity and of denormals
Under the shim: Torch's kernel; compare names it.
"""
np.testing.assert_array_equal(paddle.sqrt(paddle.full([32], float("inf"))).numpy(), np.inf)

# %% std gradient of equal elements is NaN
"""At a standard deviation of 0 the gradient is 0 / 0; Torch's is 0.

Ops: std
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: NaN instead of 0
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""
x = paddle.ones([3])
x.stop_gradient = False
paddle.std(x).backward()
np.testing.assert_array_equal(x.grad.numpy(), [0.0, 0.0, 0.0])

# %% torch atan2 gradient underflows
"""The squares of both numbers are added unscaled, and their sum leaves the range.

Ops: atan2
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 0 instead of 5e24
Under the shim: Torch's gradient, as in a Torch program; compare says WRONG or NONFINITE, of both sides or one.
"""
x = torch.tensor([1e-25], requires_grad=True)
torch.atan2(x, torch.tensor([1e-25])).backward()
np.testing.assert_allclose(x.grad.numpy(), [5e24], rtol=1e-5)

# %% torch cdist hides NaN
"""With p=inf the distance passes over NaN.

Ops: cdist
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 1 instead of NaN
Under the shim: Torch's result, as in a Torch program; compare says UNVERIFIED.
"""
assert torch.cdist(torch.tensor([[torch.nan, 1.0]]), torch.zeros(1, 2), p=torch.inf).isnan()

# %% torch pow of minus infinity is NaN
"""x ** 0.5 is computed as sqrt(x), which is NaN at -inf; C's pow(-inf, 0.5) is +inf.

Ops: pow
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: NaN instead of +inf
Known difference: torch's sqrt for pow
Under the shim: Torch's result, as in a Torch program; compare names it.
"""
x = torch.full([8], -torch.inf, dtype=torch.float64)
assert (x**0.5 == torch.inf).all()

# %% torch sign hides NaN
"""The sign of NaN is 0.

Ops: sign
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 0 instead of NaN
Known difference: torch's sign of NaN
Under the shim: Torch's result, as in a Torch program; compare names it.
"""
assert torch.sign(torch.tensor([torch.nan])).isnan().all()

# %% torch soft_margin_loss overflows
"""In log(1 + exp(-x y)) the exponential overflows where the loss is an ordinary number.

Ops: soft_margin_loss
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: inf instead of 200
Under the shim: Torch's loss, as in a Torch program.
"""
x, label = torch.tensor([-200.0], requires_grad=True), torch.tensor([1.0])
loss = torch.nn.functional.soft_margin_loss(x, label)

# %%% loss
assert abs(loss.item() - 200) < 1e-3
# %%% gradient
loss.backward()
assert abs(x.grad.item() + 1) < 1e-6

# %% triplet_margin_loss clips infinity
"""For an infinite distance the loss is the largest finite number: the clip from below clips from above, too.

Ops: triplet_margin_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: 3.4e38 instead of infinity
Under the shim: Torch's infinity; compare says NONFINITE, side paddle.
"""
a, b, c = (paddle.to_tensor([[number, 1.0]]) for number in (np.inf, 1.0, 2.0))
loss = paddle.nn.functional.triplet_margin_loss(a, b, c, swap=True)
assert np.isinf(loss.item()), loss.item()
