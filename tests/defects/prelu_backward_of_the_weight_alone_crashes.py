"""prelu backward of the weight alone crashes

The backward writes the gradient of x, which was not requested, without a buffer.

Section: Crashes and refusals
Ops: prelu
Seen on: Paddle 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward; a proof's native run lets x need a gradient. Under compare Paddle's backward runs, and the process
    ends.
"""

import paddle

x, weight = paddle.ones([2, 3]), paddle.ones([1])
weight.stop_gradient = False
paddle.nn.functional.prelu(x, weight).sum().backward()
