"""paddle.grad of an excluded input crashes

An input that is also in no_grad_vars, or that is reached only through those, is looked up although it was left out.

Section: The autograd engine
Ops: paddle.grad
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: The input is not in the graph: None with allow_unused, otherwise Paddle's error. Under compare the process ends.
"""

import paddle

x = paddle.ones([2])
x.stop_gradient = False

# %% the input itself
paddle.grad([(x / 2).sum()], [x], no_grad_vars=[x], allow_unused=True)
# %% a value on the way
paddle.grad([((y := x / 2) - 1.0).sum()], [x], no_grad_vars=[y], allow_unused=True)
