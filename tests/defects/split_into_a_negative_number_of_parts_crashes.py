"""split into a negative number of parts crashes

A negative number that divides the length passes as a number of parts, and throws an exception that nothing catches.

Section: Crashes and refusals
Ops: split
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGABRT
Under the shim: No change: Torch refuses, Paddle's kernel runs, and the process ends.
"""

import paddle

paddle.split(paddle.ones([4]), -2)
