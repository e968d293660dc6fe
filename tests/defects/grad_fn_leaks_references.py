"""grad_fn leaks references

Each read of grad_fn leaves a reference to the node, and so to all that the node holds.

Section: The autograd engine
Ops: Tensor.grad_fn
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: one node for each tensor that was read
Under the shim: No change; the library gives its own references back.
"""

import sys

import paddle

x = paddle.ones([3])
x.stop_gradient = False
y = x * 2
node = y.grad_fn
before = sys.getrefcount(node)
y.grad_fn  # noqa: B018
assert sys.getrefcount(node) == before
