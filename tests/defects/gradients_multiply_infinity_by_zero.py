"""gradients multiply infinity by zero

Where the slope is 0 the incoming gradient is multiplied by 0: an infinite one becomes NaN. That of abs is multiplied by x / |x|,
which is NaN at an infinite x.

Section: NaN, infinities and the edges of the range
Ops: abs, sign, floor, minimum, maximum, fmin, fmax, relu6, hardtanh
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: NaN instead of 0 or 1
Under the shim: Torch's result; compare says NONFINITE, side paddle.
"""

import paddle


def slope(function, at, grad):
    x = paddle.to_tensor([at], stop_gradient=False)
    function(x).backward(paddle.to_tensor([grad]))
    return x.grad.item()


inf, unit = float("inf"), paddle.ones([1])

# %% abs
assert slope(paddle.abs, inf, 1.0) == 1
# %% sign
assert slope(paddle.sign, 2.0, inf) == 0
# %% floor
assert slope(paddle.floor, 2.5, inf) == 0
# %% maximum
assert slope(lambda x: paddle.maximum(x, unit), 0.5, inf) == 0
# %% fmin
assert slope(lambda x: paddle.fmin(x, unit), 2.0, inf) == 0
# %% relu6
assert slope(paddle.nn.functional.relu6, -2.0, inf) == 0
# %% hardtanh
assert slope(paddle.nn.functional.hardtanh, 2.0, inf) == 0
