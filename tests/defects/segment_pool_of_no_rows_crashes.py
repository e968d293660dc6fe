"""segment_pool of no rows crashes

Without rows the kernel reads the number of segments from outside its memory.

Section: Crashes and refusals
Ops: segment_pool
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""

import paddle

paddle.geometric.segment_sum(paddle.zeros([0, 3]), paddle.zeros([0], "int64"))
