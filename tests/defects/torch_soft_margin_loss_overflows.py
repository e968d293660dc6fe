"""torch soft_margin_loss overflows

In log(1 + exp(-x y)) the exponential overflows where the loss is an ordinary number.

Section: NaN, infinities and the edges of the range
Ops: soft_margin_loss
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: inf instead of 200
Under the shim: Torch's loss, as in a Torch program.
"""

import torch

x, label = torch.tensor([-200.0], requires_grad=True), torch.tensor([1.0])
loss = torch.nn.functional.soft_margin_loss(x, label)

# %% loss
assert abs(loss.item() - 200) < 1e-3
# %% gradient
loss.backward()
assert abs(x.grad.item() + 1) < 1e-6
