"""real of an empty tensor has no strides

The real or imaginary part of an empty complex tensor is a view without memory and strides. Reading its strides ends the process;
unsqueeze, and so conv1d_transpose, writes behind them.

Section: Crashes and refusals
Ops: real, imag
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends, also later
Ends with: SIGABRT
Under the shim: No change; the modes never read its strides.
"""

import paddle

# %% real
_ = paddle.real(paddle.zeros([0, 3], "complex64")).strides
# %% imag
_ = paddle.imag(paddle.zeros([0, 3], "complex64")).strides
