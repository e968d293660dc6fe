"""householder_product writes to its operand

The function writes ones to the diagonal of its operand x.

Section: Values
Ops: householder_product, ormqr
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: 1 instead of any value
Under the shim: x keeps its values; compare says SEMANTICS (writes-operand), side paddle.
"""

import paddle

x = paddle.to_tensor([[2.0, 3.0], [4.0, 5.0]])
paddle.linalg.householder_product(x, paddle.to_tensor([0.5, 0.5]))
assert x.tolist() == [[2.0, 3.0], [4.0, 5.0]]
