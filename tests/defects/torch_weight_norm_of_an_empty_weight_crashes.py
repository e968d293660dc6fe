"""torch weight_norm of an empty weight crashes

The kernel divides by the number of elements.

Section: Crashes and refusals
Ops: weight_norm
Seen on: Torch 2.4.1 to 2.13.0; CPU
Effect: the process ends
Ends with: SIG*
Under the shim: A weight without elements stays on Paddle's kernel.
"""

import signal

import torch

signal.alarm(10)
torch._weight_norm(torch.zeros(4, 0), torch.zeros(1, 0), 1)
