"""torch group_norm backward with channels last crashes

With channels last the backward writes the gradient of x, which was not requested, without a buffer.

Section: Crashes and refusals
Ops: group_norm
Seen on: Torch 2.4.1 to 2.13.0; CPU
Effect: the process ends
Ends with: SIGSEGV
Under the shim: x's gradient is always requested there.
"""

import torch

x = torch.randn(2, 6, 3, 4).contiguous(memory_format=torch.channels_last)
weight, bias = torch.ones(6, requires_grad=True), torch.zeros(6, requires_grad=True)
torch.nn.functional.group_norm(x, 2, weight, bias).sum().backward()
