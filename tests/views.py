"""Program of test_strides: views of every kind as operands of a few ops, in the mode that the command line names."""

import sys

import numpy as np
import paddle
import paddle.nn.functional as F
from helpers import has_defect

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

VIEWS = {
    "last axis reversed": lambda b: b.reshape([4, 24])[..., ::-1],
    "first axis reversed": lambda b: b.reshape([4, 24])[::-1],
    "reversed steps": lambda b: b.reshape([4, 24])[::-1, ::-3],
    "reversed transpose": lambda b: b.reshape([4, 24]).t()[::-1],
    "reversed vector": lambda b: b[::-1],
    "reversed one": lambda b: b.reshape([4, 24])[:, :1][:, ::-1],
    "reversed inner": lambda b: b.reshape([2, 4, 12])[:, ::-1, 2:8],
    "negative as_strided": lambda b: paddle.as_strided(b, [4, 6], [-1, 1], 40),
    "zero stride": lambda b: paddle.as_strided(b, [4, 6], [0, 1]),
    "all zero": lambda b: paddle.as_strided(b, [4, 6], [0, 0]),
    "overlapping": lambda b: paddle.as_strided(b, [4, 6], [2, 1], 8),
    "unfolded": lambda b: paddle.as_strided(b, [5, 4], [3, 1]),
    "far stride of one": lambda b: paddle.as_strided(b, [1, 6], [2**40, 1]),
    "offset": lambda b: b[1:25].reshape([4, 6]),
    "one element": lambda b: b[3],
    "expanded": lambda b: b[:24].reshape([1, 24]).expand([4, 24]),
    "diagonal": lambda b: paddle.diagonal(b[:81].reshape([9, 9])),
}
if IS_3 and not has_defect("matmul backward of an empty tensor crashes"):  # 2.6 itself ends the process, too
    VIEWS["empty"] = lambda b: b.reshape([4, 24])[4:]
    VIEWS["reversed empty"] = lambda b: b.reshape([4, 24])[0:0, ::-1]
if IS_3 and not has_defect("view of bytes as floats crashes"):
    VIEWS["unaligned"] = lambda b: paddle.assign(b).view("uint8")[2:186].view("float32")

# Natively the gradient of elements that lie in one place is that of the last one (docs/defects.md); on Torch it is their sum.
# After an in-place op the backward of as_strided is natively refused.
OVERLAPPING = ("zero stride", "all zero", "overlapping", "unfolded", "far stride of one")

OPS = {
    "exp": paddle.exp,
    "add": lambda v: v + v,
    "softmax": lambda v: F.softmax(v, -1) if v.ndim else v * 1.0,
    "matmul": lambda v: paddle.matmul(v, v, transpose_y=True) if v.ndim > 1 else v * 2.0,
    "sum": lambda v: paddle.sum(v, 0) if v.ndim else paddle.sum(v),
    "linear": lambda v: F.linear(v, paddle.ones([v.shape[-1], 3])) if v.ndim > 1 else v * 2.0,
    "linear weight": lambda v: F.linear(paddle.ones([2, v.shape[0]]), v) if v.ndim == 2 else v * 2.0,
    "exp_": lambda v: v.exp_(),
    "add_": lambda v: v.add_(paddle.ones_like(v)),
}


def outcome(view, op, grad):
    """What the program gets: the result, what an in-place op left in the memory, the gradient; or the type of the error."""
    base = paddle.to_tensor((np.arange(96) % 13 * 0.25 + 0.5).astype("float32"))
    base.stop_gradient = not grad
    try:
        result = OPS[op](VIEWS[view](base * 1.0 if grad else base))
        arrays = [result.numpy(), base.numpy()]
        if grad:
            incoming = paddle.to_tensor((np.arange(result.size) % 5 * 0.5 + 0.25).reshape(result.shape).astype("float32"))
            result.backward(incoming[..., ::-1] if result.ndim else incoming)
            arrays.append(base.grad.numpy())
        return arrays
    except Exception as error:
        return type(error).__name__


def agree(ours, native):
    if isinstance(ours, str) or isinstance(native, str):
        return ours is native or ours == native
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True) for a, b in zip(ours, native))


def main(mode):
    differences = 0
    for view in VIEWS:
        for op in OPS:
            for grad in (False, True):
                if view == "unaligned" and grad:
                    continue  # the gradient of reinterpreted bits
                native = outcome(view, op, grad)
                with getattr(padiff_shim, mode)("torch"):
                    ours = outcome(view, op, grad)
                if mode == "reference" and grad and view in OVERLAPPING:
                    ours, native = (arrays if isinstance(arrays, str) else arrays[:-1] for arrays in (ours, native))
                    if native == "RuntimeError":
                        continue
                if not agree(ours, native):
                    differences += 1
                    print(
                        view, op, grad, native if isinstance(native, str) else "", ours if isinstance(ours, str) else "", flush=True
                    )
    print(differences, "differences")


main(sys.argv[1])
