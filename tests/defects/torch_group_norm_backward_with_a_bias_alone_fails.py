"""torch group_norm backward with a bias alone fails

With a bias, but without a weight, the backward raises.

Section: Crashes and refusals
Ops: group_norm
Seen on: Torch 2.4.1 to 2.13.0; CPU
Effect: RuntimeError
Ends with: RuntimeError
Under the shim: Torch gets a weight of ones.
"""

import torch

x, bias = torch.randn(2, 6, 5, requires_grad=True), torch.zeros(6, requires_grad=True)
torch.nn.functional.group_norm(x, 6, None, bias).sum().backward()
