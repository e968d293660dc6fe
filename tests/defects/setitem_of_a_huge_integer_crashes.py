"""setitem of a huge integer crashes

An integer beyond the range of float64 throws an exception that nothing catches.

Section: Crashes and refusals
Ops: setitem
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGABRT
Under the shim: No change: Torch refuses, Paddle's kernel runs, and the process ends.
"""

import paddle

paddle.zeros([2])[0] = 10**400
