"""C functions do not check missing arguments

C functions that get too few arguments read what lies behind these in memory.

Section: Crashes and refusals
Ops: p_norm, cumprod
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends, or an error names values that nobody passed
Ends with: SIG*, *Error
Under the shim: No change: the library binds the arguments first, and a call with too few of them is Paddle's.
"""

import contextlib

import paddle

with contextlib.suppress(TypeError):
    paddle._C_ops.p_norm(paddle.ones([3]))
