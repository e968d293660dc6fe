"""Crashes and refusals."""

import contextlib
import signal

import paddle
import torch

# %% binomial of NaN never ends
"""Paddle draws until a number is below a probability, which never happens if that is NaN. An alarm ends the program.

Ops: binomial
Seen on: Paddle 3.3.1; CPU
Effect: the process runs for ever
Ends with: SIGALRM
Under the shim: No change: Paddle's kernel runs for ever.
"""
signal.alarm(2)
paddle.binomial(paddle.to_tensor([5.0]), paddle.to_tensor([float("nan")]))

# %% C functions do not check missing arguments
"""C functions that get too few arguments read what lies behind these in memory.

Ops: p_norm, cumprod
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends, or an error names values that nobody passed
Ends with: SIG*, *Error
Under the shim: No change: the library binds the arguments first, and a call with too few of them is Paddle's.
"""
with contextlib.suppress(TypeError):
    paddle._C_ops.p_norm(paddle.ones([3]))

# %% dlpack alias chain deadlocks
"""Memory goes from Torch to Paddle, to Torch, and to Paddle again: freeing it takes a lock that is already held. An alarm ends the
program.

Ops: from_dlpack
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process waits for ever
Ends with: SIGALRM
Under the shim: No change; the library never hands memory that aliases Paddle's back to Paddle.
"""
signal.alarm(3)
x = paddle.utils.dlpack.from_dlpack(torch.ones(4))
y = paddle.utils.dlpack.from_dlpack(torch.from_dlpack(x))
del x
del y

# %% einsum with two results crashes
"""An equation with two results is not refused: labels behind the comma are looked up beyond the axes.

Ops: einsum
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""
paddle.einsum("ij->ij,jk", paddle.ones([2, 3]))

# %% expand_as of an empty axis crashes
"""An axis without elements is expanded to three, where other axes are refused; the backward divides by it.

Ops: expand_as
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: unwritten values, and the process ends in the backward
Ends with: SIGFPE
Under the shim: No change: Torch refuses, Paddle's kernel runs, and the process ends.
"""
x = paddle.zeros([1, 0])
x.stop_gradient = False
x.expand_as(paddle.zeros([4, 3])).backward(paddle.zeros([4, 3]))

# %% fftshift along one axis fails
"""An integer as axes, which the documentation allows, is passed on beside a list of shifts.

Ops: fftshift, ifftshift
Seen on: Paddle 3.3.1; CPU
Effect: SystemError
Ends with: SystemError
Under the shim: No change: Paddle's error.
"""
# %%% fftshift
paddle.fft.fftshift(paddle.ones([2, 3]), axes=1)
# %%% ifftshift
paddle.fft.ifftshift(paddle.ones([2, 3]), axes=1)

# %% frame of an empty axis crashes
"""Kernels that move another axis to the front divide by the number of elements of an empty tensor.

Ops: frame, overlap_add, spectral_norm
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGFPE
Under the shim: No change: the process ends. spectral_norm on Paddle 3, without gradients, runs on Torch's kernel.
"""
# %%% frame
paddle.signal.frame(paddle.zeros([8, 0]), 4, 2, axis=0)
# %%% overlap_add
paddle.signal.overlap_add(paddle.zeros([3, 4, 0]), 2, axis=0)
# %%% spectral_norm
paddle._C_ops.spectral_norm(paddle.zeros([2, 0]), paddle.ones([0]), paddle.ones([2]), 1, 1, 1e-12)

# %% fused norms crash without AVX-512
"""The CPU kernels use AVX-512 instructions without checking for them.

Ops: fused_bias_residual_layernorm, fused_rms_norm_quant
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU, some processors
Effect: the process ends on a processor without AVX-512
Ends with: SIGILL
Under the shim: Torch's kernel, on every processor. Under compare Paddle's kernel runs, too, and the process ends.
"""
x, weight = paddle.ones([4, 8]), paddle.ones([8])

# %%% fused_layer_norm
paddle.incubate.nn.functional.fused_layer_norm(x, weight, paddle.zeros([8]), 1e-5)
# %%% fused_rms_norm
paddle.incubate.nn.functional.fused_rms_norm(x, weight, None, 1e-5, 1)

# %% grid_sample backward of the grid alone crashes
"""The backward writes the gradient of x, which was not requested, without a buffer.

Ops: grid_sample
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward; a proof's native run lets x need a gradient. Under compare Paddle's backward runs, and the process
    ends.
"""
x, grid = paddle.ones([1, 1, 3, 3]), paddle.zeros([1, 2, 2, 2])
grid.stop_gradient = False
paddle.nn.functional.grid_sample(x, grid).sum().backward()

# %% legacy remainder backward fails
"""The legacy entry point records a gradient node without a kernel.

Ops: remainder
Seen on: Paddle 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: RuntimeError
Ends with: RuntimeError
Under the shim: Torch's backward.
"""
x = paddle.ones([3])
x.stop_gradient = False
paddle._legacy_C_ops.elementwise_mod(x, paddle.full([3], 2.0), "axis", -1).sum().backward()

# %% legacy sign backward fails
"""The backward of the legacy entry point raises.

Ops: sign
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: SystemError
Ends with: SystemError
Under the shim: No change: the legacy entry point stays on Paddle's kernel; the other one runs on Torch's.
"""
x = paddle.ones([3])
x.stop_gradient = False
paddle._legacy_C_ops.sign(x).sum().backward()

# %% meshgrid backward of some operands crashes
"""The backward writes the gradient of the other operands, which was not requested, without a buffer.

Ops: broadcast_tensors, meshgrid
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward. Under compare Paddle's backward runs, and the process ends.
"""
x, y = paddle.ones([3]), paddle.ones([3])
x.stop_gradient = False

# %%% broadcast_tensors
sum(paddle.broadcast_tensors([x, y])).sum().backward()
# %%% meshgrid
sum(paddle.meshgrid(x, y)).sum().backward()

# %% multi_label_margin_loss without a label fails
"""If no sample has a label, the call raises.

Ops: multi_label_margin_loss
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: ValueError instead of 0
Ends with: ValueError
Under the shim: No change: Paddle's error.
"""
x, label = paddle.ones([2, 3]), paddle.full([2, 3], -1, "int64")
paddle.nn.functional.multi_label_margin_loss(x, label)

# %% nll_loss of float64 writes outside its memory
"""The float64 kernel writes outside its memory where a label is ignored: the process ends, or hangs, later.

Ops: nll_loss
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends within some hundred calls
Ends with: SIG*
Under the shim: No change at the first call of a kind, which runs on Paddle's kernel, too; after that Torch's kernel. Under compare
    Paddle's kernel runs at each call.
"""
signal.alarm(10)
x, label = paddle.ones([5, 4], "float64"), paddle.to_tensor([0, 1, 2, 3, 1])
for _ in range(3000):
    paddle.nn.functional.nll_loss(x, label, ignore_index=1)

# %% norm_except_dim backward crashes
"""The backward of the norms in weight_norm reads what its forward did not keep.

Ops: norm_except_dim
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward. Under compare Paddle's backward runs, and the process ends.
"""
x = paddle.ones([4, 5])
x.stop_gradient = False
paddle.nn.utils.weight_norm_hook.norm_except_dim(x, 0).sum().backward()

# %% prelu backward of the weight alone crashes
"""The backward writes the gradient of x, which was not requested, without a buffer.

Ops: prelu
Seen on: Paddle 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward; a proof's native run lets x need a gradient. Under compare Paddle's backward runs, and the process
    ends.
"""
x, weight = paddle.ones([2, 3]), paddle.ones([1])
weight.stop_gradient = False
paddle.nn.functional.prelu(x, weight).sum().backward()

# %% qr backward of R alone crashes
"""mode="r" has no gradient; the backward reads the Q that was not computed. Later Paddles refuse it.

Ops: qr
Seen on: Paddle 2.6.2; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: Paddle's kernel runs.
"""
x = paddle.eye(3)
x.stop_gradient = False
paddle.linalg.qr(x, mode="r").sum().backward()

# %% real of an empty tensor has no strides
"""The real or imaginary part of an empty complex tensor is a view without memory and strides. Reading its strides ends the process;
unsqueeze, and so conv1d_transpose, writes behind them.

Ops: real, imag
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends, also later
Ends with: SIGABRT
Under the shim: No change; the modes never read its strides.
"""
# %%% real
_ = paddle.real(paddle.zeros([0, 3], "complex64")).strides
# %%% imag
_ = paddle.imag(paddle.zeros([0, 3], "complex64")).strides

# %% renorm does not check its axis
"""Unlike paddle.renorm, the C functions do not check whether the operand has the axis.

Ops: renorm
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""
paddle._C_ops.renorm(paddle.ones([3, 4]), 2.0, 7, 1.0)

# %% rnn of no steps crashes
"""Without steps the kernels read the last one, or divide by their number.

Ops: rnn
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIG*
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""
signal.alarm(10)

# %%% SimpleRNN
paddle.nn.SimpleRNN(4, 3)(paddle.zeros([2, 0, 4]))
# %%% LSTM
paddle.nn.LSTM(4, 3)(paddle.zeros([2, 0, 4]))

# %% segment_pool of no rows crashes
"""Without rows the kernel reads the number of segments from outside its memory.

Ops: segment_pool
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""
paddle.geometric.segment_sum(paddle.zeros([0, 3]), paddle.zeros([0], "int64"))

# %% send_uv of 0-D features crashes
"""Features without axes are neither refused nor gathered.

Ops: send_uv
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGABRT
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""
number, index = paddle.to_tensor(2.0), paddle.to_tensor([0])
paddle.geometric.send_uv(number, number, index, index)

# %% setitem of a huge integer crashes
"""An integer beyond the range of float64 throws an exception that nothing catches.

Ops: setitem
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGABRT
Under the shim: No change: Torch refuses, Paddle's kernel runs, and the process ends.
"""
paddle.zeros([2])[0] = 10**400

# %% getitem's gradient behind a slice and None writes outside its memory
"""For x[:, None, [0, 2]], of which the list is ignored in the forward, the backward writes more elements than the gradient has.

Ops: getitem
Seen on: Paddle 3.3.1; CPU
Effect: the process ends within some ten calls, or hangs
Ends with: SIG*
Under the shim: Torch's backward. Under compare Paddle's backward runs.
"""
signal.alarm(10)
for _ in range(30):
    x = paddle.randn([4, 4])
    x.stop_gradient = False
    (x[:, None, [0, 2]] * 3).sum().backward()

# %% setitem of a strided view writes outside its memory
"""For x[:, :2][index] = y, with an index in a tensor or a list, the kernel allocates memory for the elements of the view, but
writes at the view's strides: the process ends, or hangs, sooner or later.

Ops: setitem
Seen on: Paddle 3.3.1; CPU
Effect: the process ends within some ten calls
Ends with: SIG*
Under the shim: reference sets the elements in a copy and writes it back; under compare Paddle's kernel runs.
"""
signal.alarm(10)
x = paddle.zeros([64, 2048])
for _ in range(64):
    x[:, :2][paddle.to_tensor([63])] = paddle.ones([1, 2])

# %% solve and cross backward of one operand alone crash
"""The backward writes the gradient of the other operand, which was not requested, without a buffer.

Ops: solve, cross
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward. Under compare Paddle's backward runs, and the process ends.
"""
x, y = paddle.eye(3), paddle.ones([3, 3])
y.stop_gradient = False

# %%% solve
paddle.linalg.solve(x, y).sum().backward()
# %%% cross
paddle.cross(x, y).sum().backward()
# %%% cross, first operand
paddle.cross(y, x).sum().backward()

# %% split into a negative number of parts crashes
"""A negative number that divides the length passes as a number of parts, and throws an exception that nothing catches.

Ops: split
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGABRT
Under the shim: No change: Torch refuses, Paddle's kernel runs, and the process ends.
"""
paddle.split(paddle.ones([4]), -2)

# %% take_along_axis backward writes outside its memory
"""The C function accepts indices with more rows than the operand; its backward writes behind the gradient.

Ops: take_along_axis
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends, at once or later
Ends with: SIG*
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""
signal.alarm(10)
x = paddle.ones([2, 3])
x.stop_gradient = False
paddle._C_ops.take_along_axis(x, paddle.zeros([3000000, 3], "int64"), 1).sum().backward()

# %% torch group_norm backward with a bias alone fails
"""With a bias, but without a weight, the backward raises.

Ops: group_norm
Seen on: Torch 2.4.1 to 2.13.0; CPU
Effect: RuntimeError
Ends with: RuntimeError
Under the shim: Torch gets a weight of ones.
"""
x, bias = torch.randn(2, 6, 5, requires_grad=True), torch.zeros(6, requires_grad=True)
torch.nn.functional.group_norm(x, 6, None, bias).sum().backward()

# %% torch group_norm backward with channels last crashes
"""With channels last the backward writes the gradient of x, which was not requested, without a buffer.

Ops: group_norm
Seen on: Torch 2.4.1 to 2.13.0; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: x's gradient is always requested there.
"""
x = torch.randn(2, 6, 3, 4).contiguous(memory_format=torch.channels_last)
weight, bias = torch.ones(6, requires_grad=True), torch.zeros(6, requires_grad=True)
torch.nn.functional.group_norm(x, 2, weight, bias).sum().backward()

# %% torch weight_norm of an empty weight crashes
"""The kernel divides by the number of elements.

Ops: weight_norm
Seen on: Torch 2.4.1 to 2.13.0; CPU
Effect: the process ends
Ends with: SIG*
Under the shim: A weight without elements stays on Paddle's kernel.
"""
signal.alarm(10)
torch._weight_norm(torch.zeros(4, 0), torch.zeros(1, 0), 1)

# %% view of bytes as floats crashes
"""A slice of a tensor of bytes, viewed as float32, divides by zero, up to Paddle 3.0.

Ops: Tensor.view
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: the process ends
Ends with: SIGFPE
Under the shim: No change: a view stays on Paddle's kernel.
"""
paddle.arange(96, dtype="float32").view("uint8")[2:186].view("float32")
