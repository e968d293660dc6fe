"""max gives each equal maximum the whole gradient

Each of several equal maxima gets the whole gradient; from Paddle 3.1 on they share it.

Section: Gradients
Ops: max, min
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: as many times too much as there are equal elements
Known difference: whole gradient to each of equal extrema
Under the shim: Torch's gradient, which is shared; compare names it.
"""

import paddle

x = paddle.ones([3])
x.stop_gradient = False
paddle.max(x).backward()

# %% max
assert x.grad.sum() == 1.0
# %% min
x.clear_gradient()
paddle.min(x).backward()
assert x.grad.sum() == 1.0
