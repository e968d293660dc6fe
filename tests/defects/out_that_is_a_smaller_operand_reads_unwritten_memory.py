"""out that is a smaller operand reads unwritten memory

If out is an operand smaller than the result, its new memory is read before it is written.

Section: Unwritten memory
Ops: add, subtract, multiply, maximum and others
Seen on: Paddle 3.2.2, 3.3.1; CPU
Effect: unwritten memory
Under the shim: No change: a call with out stays on Paddle's kernel, and the run lists it.
"""

import paddle

x = paddle.full([4], 7.25)
paddle.multiply(x, paddle.full([3, 4], 2.0), out=x)
assert x.tolist() == [[14.5] * 4] * 3
