"""einsum with two results crashes

An equation with two results is not refused: labels behind the comma are looked up beyond the axes.

Section: Crashes and refusals
Ops: einsum
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""

import paddle

paddle.einsum("ij->ij,jk", paddle.ones([2, 3]))
