"""view of bytes as floats crashes

A slice of a tensor of bytes, viewed as float32, divides by zero, up to Paddle 3.0.

Section: Crashes and refusals
Ops: Tensor.view
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: the process ends
Ends with: SIGFPE
Under the shim: No change: a view stays on Paddle's kernel.
"""

import paddle

paddle.arange(96, dtype="float32").view("uint8")[2:186].view("float32")
