"""backward of an empty tensor crashes

The gradient of an empty tensor is left without memory, and the backward of the op before, of whichever kind, reads it:
``nan_to_num(x)`` is two ops.

Section: The autograd engine
Ops: nan_to_num, scale
Seen on: Paddle 2.6.2; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: a call without elements stays on Paddle's kernel.
"""

import paddle

x = paddle.zeros([0, 3])
x.stop_gradient = False
paddle.autograd.backward([paddle.nan_to_num(x)], [paddle.zeros([0, 3])])
