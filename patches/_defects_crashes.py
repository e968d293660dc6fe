"""Defects that end the process, corrupt its memory, wait for ever, fail inside of a framework, or leave something switched off."""

from __future__ import annotations

from typing import Any

from ._paddles import PADDLE_3, PADDLES

SIGSEGV, SIGFPE, SIGILL = "SIGSEGV", "SIGFPE", "SIGILL"
KILLED = "killed or hangs"

DEFECTS: tuple[dict[str, Any], ...] = (
    {
        "name": "ignored labels in float64",
        "op": "nll_loss",
        "what": "The float64 kernel writes outside of its memory where a label is ignored: the process ends, or waits, later.",
        "size": "the process ends within some hundred calls",
        "paddle": PADDLES,
        "shows": KILLED,
        "shim": "Torch's kernel. Compared, the call runs on Paddle's kernel, too.",
        "program": """\
import paddle
x, label = paddle.ones([5, 4], "float64"), paddle.to_tensor([0, 1, 2, 3, 1])
for _ in range(3000):
    paddle.nn.functional.nll_loss(x, label, ignore_index=1)
""",
    },
    {
        "name": "rows of a strided view written by a tensor",
        "op": "setitem",
        "what": "Through x[:, :2][index] = y, with an index in a tensor or a list, the kernel writes at the strides of the view "
        "into memory for its elements alone, and outside of that: the process ends, or waits, sooner or later.",
        "size": "the process ends within some ten calls",
        "paddle": PADDLES[-1:],
        "shows": KILLED,
        "shim": "Under reference the elements are set in a copy, which is written back; compared, the call is Paddle's.",
        "program": """\
import paddle
x = paddle.zeros([64, 2048])
for _ in range(64):
    x[:, :2][paddle.to_tensor([63])] = paddle.ones([1, 2])
""",
    },
    {
        "name": "edges between numbers",
        "op": "send_uv",
        "what": "Features without axes are neither refused nor gathered.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": "SIGABRT",
        "shim": "The call is Paddle's: the process ends under it, too.",
        "program": """\
import paddle
number, index = paddle.to_tensor(2.0), paddle.to_tensor([0])
paddle.geometric.send_uv(number, number, index, index)
""",
    },
    {
        "name": "a spectrum shifted along one axis",
        "op": "fftshift, ifftshift",
        "what": "An axis that is an integer, as the documentation has it, is handed on with its shift as a list.",
        "size": "SystemError",
        "paddle": PADDLES[-1:],
        "shows": "SystemError",
        "shim": "Torch's roll under reference; compared, Paddle's error.",
        "program": """\
import paddle
paddle.fft.fftshift(paddle.ones([2, 3]), axes=1)
""",
        "others": {"ifftshift": "paddle.fft.ifftshift(paddle.ones([2, 3]), axes=1)"},
    },
    {
        "name": "no label at all",
        "op": "multi_label_margin_loss",
        "what": "Where no sample has a label, the loss of nothing is refused.",
        "size": "ValueError for 0",
        "paddle": PADDLES[2:],
        "shows": "ValueError",
        "shim": "Torch's loss under reference; compared, Paddle's error.",
        "program": """\
import paddle
x, label = paddle.ones([2, 3]), paddle.full([2, 3], -1, "int64")
paddle.nn.functional.multi_label_margin_loss(x, label)
""",
    },
    {
        "name": "an axis without elements",
        "op": "frame, overlap_add, spectral_norm",
        "what": "Kernels that put another axis first divide by the number of elements of an empty tensor.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": SIGFPE,
        "shim": "The process ends under it, too, but for spectral_norm on Paddle 3 without gradients, which is Torch's.",
        "program": """\
import paddle
paddle.signal.frame(paddle.zeros([8, 0]), 4, 2, axis=0)
""",
        "others": {
            "overlap_add": "paddle.signal.overlap_add(paddle.zeros([3, 4, 0]), 2, axis=0)",
            "spectral_norm": "paddle._C_ops.spectral_norm(paddle.zeros([2, 0]), paddle.ones([0]), paddle.ones([2]), 1, 1, 1e-12)",
        },
    },
    {
        "name": "nothing expanded",
        "op": "expand_as",
        "what": "An axis of no elements is expanded to three, where other axes are refused; the backward divides by it.",
        "size": "the process ends in the backward; before it, values that nobody wrote",
        "paddle": PADDLES[2:],
        "shows": SIGFPE,
        "shim": "Torch refuses, so that the call is Paddle's: the process ends, too.",
        "program": """\
import paddle
x = paddle.zeros([1, 0])
x.stop_gradient = False
x.expand_as(paddle.zeros([4, 3])).backward(paddle.zeros([4, 3]))
""",
    },
    {
        "name": "missing arguments",
        "op": "p_norm, cumprod",
        "what": "C functions that are called with too few arguments read what lies behind them in memory.",
        "size": "the process ends, or an error speaks of values that nobody gave",
        "paddle": PADDLES,
        "shows": "anything but a TypeError",
        "shim": "Binds the arguments first; a call with too few of them is Paddle's.",
        "program": """\
import paddle
paddle._C_ops.p_norm(paddle.ones([3]))
""",
    },
    {
        "name": "a chain of DLPack aliases",
        "op": "from_dlpack",
        "what": "Torch's memory, seen by Paddle, seen by Torch, seen by Paddle: freeing it takes a lock that is already held.",
        "size": "waits for ever",
        "paddle": PADDLE_3,
        "shows": "hangs",
        "shim": "Nothing that aliases Paddle's memory is handed back to Paddle.",
        "program": """\
import paddle, torch
x = paddle.utils.dlpack.from_dlpack(torch.ones(4))
y = paddle.utils.dlpack.from_dlpack(torch.from_dlpack(x))
del x
del y
""",
    },
    {
        "name": "binomial of NaN",
        "op": "binomial",
        "what": "Paddle draws until a number lies below a probability, which none does where that is NaN. Here an alarm ends it.",
        "size": "goes on for ever",
        "paddle": PADDLES[-1:],
        "shows": "hangs",
        "shim": "The call is Paddle's, and hangs.",
        "program": """\
import signal, paddle
signal.alarm(2)
paddle.binomial(paddle.to_tensor([5.0]), paddle.to_tensor([float("nan")]))
""",
    },
    {
        "name": "torch's group norm, channels last",
        "op": "group_norm",
        "what": "With channels last, a backward in which the gradient of x is not asked for writes it all the same, to nowhere.",
        "size": "the process ends",
        "torch": ("2.13.0",),
        "shows": SIGSEGV,
        "shim": "x's gradient is always asked for there.",
        "program": """\
import torch
x = torch.randn(2, 6, 3, 4).contiguous(memory_format=torch.channels_last)
weight, bias = torch.ones(6, requires_grad=True), torch.zeros(6, requires_grad=True)
torch.nn.functional.group_norm(x, 2, weight, bias).sum().backward()
""",
    },
    {
        "name": "torch's group norm with a bias alone",
        "op": "group_norm",
        "what": "Without a weight, but with a bias, the backward fails inside of Torch.",
        "size": "RuntimeError",
        "torch": ("2.13.0",),
        "shows": "RuntimeError",
        "shim": "Torch gets a weight of ones.",
        "program": """\
import torch
x, bias = torch.randn(2, 6, 5, requires_grad=True), torch.zeros(6, requires_grad=True)
torch.nn.functional.group_norm(x, 6, None, bias).sum().backward()
""",
    },
    {
        "name": "norms of all axes but one",
        "op": "norm_except_dim",
        "what": "The backward of the norms that weight_norm computes reads what its forward did not keep.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": "SIGSEGV",
        "shim": "Torch's backward. Compared, the backward is Paddle's, and ends the process.",
        "program": """\
import paddle
x = paddle.ones([4, 5])
x.stop_gradient = False
paddle.nn.utils.weight_norm_hook.norm_except_dim(x, 0).sum().backward()
""",
    },
    {
        "name": "one factor alone",
        "op": "qr",
        "what": "The backward of Q and R reads the gradients of both, also where one of them has none.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": SIGSEGV,
        "shim": "Torch's gradient. Compared, Paddle's backward ends the process.",
        "program": """\
import paddle
x = paddle.to_tensor([[2.0, 1.0], [0.0, 3.0]], stop_gradient=False)
paddle.linalg.qr(x)[0].sum().backward()
""",
    },
    {
        "name": "the gradient of a grid alone",
        "op": "grid_sample",
        "what": "The backward writes the gradient of x where x wants none, to nowhere.",
        "size": "the process ends",
        "paddle": PADDLES[-1:],
        "shows": SIGSEGV,
        "shim": "Torch's backward; a proof's native run lets x want a gradient. Compared, Paddle's backward ends the process.",
        "program": """\
import paddle
x, grid = paddle.ones([1, 1, 3, 3]), paddle.zeros([1, 2, 2, 2])
grid.stop_gradient = False
paddle.nn.functional.grid_sample(x, grid).sum().backward()
""",
    },
    {
        "name": "the gradient of one operand alone",
        "op": "solve, cross",
        "what": "The backward writes the gradient of the other operand where that one wants none, to nowhere.",
        "size": "the process ends",
        "paddle": (PADDLES[0], PADDLES[-1]),
        "shows": SIGSEGV,
        "shim": "Torch's backward. Compared, Paddle's backward ends the process.",
        "program": """\
import paddle
x, y = paddle.eye(3), paddle.ones([3, 3])
y.stop_gradient = False
paddle.linalg.solve(x, y).sum().backward()
""",
        "others": {"cross": "paddle.cross(x, y).sum().backward()", "cross, the first": "paddle.cross(y, x).sum().backward()"},
    },
    {
        "name": "the gradient of a slope alone",
        "op": "prelu",
        "what": "The backward writes the gradient of x where x wants none, to nowhere.",
        "size": "the process ends",
        "paddle": PADDLES[-1:],
        "shows": SIGSEGV,
        "shim": "Torch's backward; a proof's native run lets x want a gradient. Compared, Paddle's backward ends the process.",
        "program": """\
import paddle
x, weight = paddle.ones([2, 3]), paddle.ones([1])
weight.stop_gradient = False
paddle.nn.functional.prelu(x, weight).sum().backward()
""",
    },
    {
        "name": "some of several operands",
        "op": "broadcast_tensors, meshgrid",
        "what": "The backward writes the gradients of all operands where only some want one, to nowhere.",
        "size": "the process ends",
        "paddle": (PADDLES[0], PADDLES[-1]),
        "shows": SIGSEGV,
        "shim": "Torch's backward. Compared, Paddle's backward ends the process.",
        "program": """\
import paddle
x, y = paddle.ones([3]), paddle.ones([3])
x.stop_gradient = False
sum(paddle.broadcast_tensors([x, y])).sum().backward()
""",
        "others": {"meshgrid": "sum(paddle.meshgrid(x, y)).sum().backward()"},
    },
    {
        "name": "segments of nothing",
        "op": "segment_pool",
        "what": "Without any rows the kernel reads the number of segments from behind its memory.",
        "size": "the process ends",
        "paddle": PADDLE_3[1:],
        "shows": "SIGSEGV",
        "shim": "Such a call stays native, and ends the process.",
        "program": """\
import paddle
paddle.geometric.segment_sum(paddle.zeros([0, 3]), paddle.zeros([0], "int64"))
""",
    },
    {
        "name": "the real part of nothing",
        "op": "real, imag",
        "what": "Of a complex tensor without elements it is a view without memory and without strides. Whoever asks for them ends "
        "the process; unsqueeze, and with it conv1d_transpose, writes behind them.",
        "size": "the process ends, also later",
        "paddle": PADDLES[2:],
        "shows": "SIGABRT",
        "shim": "As natively: the view is Paddle's. The modes themselves never ask for its strides.",
        "program": """\
import paddle
paddle.real(paddle.zeros([0, 3], "complex64")).strides
""",
        "others": {"imag": 'paddle.imag(paddle.zeros([0, 3], "complex64")).strides'},
    },
    {
        "name": "sequences of no steps",
        "op": "rnn",
        "what": "Without any steps the kernels read the last one, or divide by their number.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": KILLED,
        "shim": "The process ends under it, too.",
        "program": """\
import paddle
paddle.nn.SimpleRNN(4, 3)(paddle.zeros([2, 0, 4]))
""",
        "others": {"LSTM": "paddle.nn.LSTM(4, 3)(paddle.zeros([2, 0, 4]))"},
    },
    {
        "name": "torch's weight norm of nothing",
        "op": "weight_norm",
        "what": "Torch's kernel divides by the number of elements.",
        "size": "the process ends",
        "torch": ("2.13.0",),
        "shows": KILLED,
        "shim": "A weight without elements stays native.",
        "program": """\
import torch
torch._weight_norm(torch.zeros(4, 0), torch.zeros(1, 0), 1)
""",
    },
    {
        "name": "legacy sign without backward",
        "op": "sign",
        "what": "The backward of the legacy entry point fails inside of Paddle.",
        "size": "SystemError",
        "paddle": PADDLES,
        "shows": "SystemError",
        "shim": "The legacy entry point stays native; the other one is Torch's.",
        "program": """\
import paddle
x = paddle.ones([3])
x.stop_gradient = False
paddle._legacy_C_ops.sign(x).sum().backward()
""",
    },
    {
        "name": "legacy remainder without backward",
        "op": "remainder",
        "what": "The legacy entry point records a gradient node that has no kernel.",
        "size": "RuntimeError",
        "paddle": PADDLE_3,
        "shows": "RuntimeError",
        "shim": "Torch's backward.",
        "program": """\
import paddle
x = paddle.ones([3])
x.stop_gradient = False
paddle._legacy_C_ops.elementwise_mod(x, paddle.full([3], 2.0), "axis", -1).sum().backward()
""",
    },
    {
        "name": "a number that no float holds",
        "op": "setitem",
        "what": "An item is set to an integer beyond float64: an error that nobody catches.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": "SIGABRT",
        "shim": "Torch refuses, so that the call is Paddle's: the process ends, too.",
        "program": """\
import paddle
paddle.zeros([2])[0] = 10**400
""",
    },
    {
        "name": "a negative number of parts",
        "op": "split",
        "what": "A negative number of parts that divides the length is taken for one: an error that nobody catches.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": "SIGABRT",
        "shim": "Torch refuses, so that the call is Paddle's: the process ends, too.",
        "program": """\
import paddle
paddle.split(paddle.ones([4]), -2)
""",
    },
    {
        "name": "fused norms without AVX-512",
        "op": "fused_bias_residual_layernorm, fused_rms_norm_quant",
        "what": "The CPU kernels are made of AVX-512 instructions, and do not ask whether the processor has them.",
        "size": "the process ends on a processor without AVX-512",
        "paddle": PADDLE_3,
        "shows": SIGILL,
        "by_processor": True,
        "shim": "Torch's kernel, on every processor. Compared, the call runs on Paddle's kernel, too, and the process ends.",
        "program": """\
import paddle
from paddle.incubate.nn.functional import fused_layer_norm, fused_rms_norm
x, weight = paddle.ones([4, 8]), paddle.ones([8])
fused_layer_norm(x, weight, paddle.zeros([8]), 1e-5)
""",
        "others": {"fused_rms_norm": "fused_rms_norm(x, weight, None, 1e-5, 1)"},
    },
    {
        "name": "more rows of indices than rows",
        "op": "take_along_axis",
        "what": "The C function takes indices with more rows than the operand; its backward writes behind the gradient.",
        "size": "the process ends, there or later",
        "paddle": PADDLES,
        "shows": KILLED,
        "shim": "The call is Paddle's: the process ends under it, too.",
        "program": """\
import paddle
x = paddle.ones([2, 3])
x.stop_gradient = False
paddle._C_ops.take_along_axis(x, paddle.zeros([3000000, 3], "int64"), 1).sum().backward()
""",
    },
    {
        "name": "an axis that renorm has not",
        "op": "renorm",
        "what": "The C functions do not ask whether the operand has the axis, as paddle.renorm does.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": "SIGSEGV",
        "shim": "The call is Paddle's: the process ends under it, too.",
        "program": """\
import paddle
paddle._C_ops.renorm(paddle.ones([3, 4]), 2.0, 7, 1.0)
""",
    },
    {
        "name": "a comma behind the arrow",
        "op": "einsum",
        "what": "An equation with two results is not refused: the labels behind the comma are read from behind the axes.",
        "size": "the process ends",
        "paddle": PADDLES,
        "shows": "SIGSEGV",
        "shim": "The call is Paddle's: the process ends under it, too.",
        "program": """\
import paddle
paddle.einsum("ij->ij,jk", paddle.ones([2, 3]))
""",
    },
)
