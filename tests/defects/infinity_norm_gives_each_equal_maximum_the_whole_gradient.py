"""infinity norm gives each equal maximum the whole gradient

Each of several equal maxima gets the whole gradient. Right is all of it for one of them, or a share for each.

Section: Gradients
Ops: norm of infinite order, send_u_recv, segment_max
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: as many times too much as there are equal elements
Known difference: whole gradient to each of equal elements
Under the shim: Torch's gradient, which is shared; compare names it.
"""

import paddle

x = paddle.to_tensor([[1.0], [1.0], [1.0]], stop_gradient=False)
rows = paddle.to_tensor([0, 0, 0])


def shared(y):
    x.clear_grad()
    y.sum().backward()
    return abs(x.grad.sum().item() - 1.0) < 1e-6


# %% norm
assert shared(paddle.linalg.norm(x, float("inf"), 0))
# %% send_u_recv
assert shared(paddle.geometric.send_u_recv(x, paddle.arange(3), rows, "max"))
# %% segment_max
assert shared(paddle.geometric.segment_max(x, rows))
