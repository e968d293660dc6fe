"""backward from one of several results crashes

A backward that starts at one of the results, or at topk's indices, finds no gradient for the others.

Section: Gradients
Ops: unstack, qr, meshgrid, broadcast_tensors, topk
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: Torch's backward; topk's indices have no gradient. Under compare Paddle's backward runs, and the process ends.
"""

import paddle

x = paddle.to_tensor([[2.0, 1.0], [1.0, 3.0]], stop_gradient=False)

# %% unstack
paddle.unstack(x)[0].sum().backward()
# %% qr
paddle.linalg.qr(x)[0].sum().backward()
# %% meshgrid
paddle.meshgrid(x[0], x[1])[0].sum().backward()
# %% broadcast_tensors
paddle.broadcast_tensors([x, x[0]])[0].sum().backward()
# %% topk
paddle.topk(x, 1)[1].sum().backward()
