"""torch binary_cross_entropy gradient clips in float32

The lower bound of the denominator, 1e-12, is held in float32, also for float64.

Section: Precision
Ops: bce_loss
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 4e-9 of the gradient at x = 0
Under the shim: Torch's gradient, as in a Torch program; compare says WRONG, side torch.
"""

import numpy as np
import torch

x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
torch.nn.functional.binary_cross_entropy(x, torch.ones(1, dtype=torch.float64)).backward()
np.testing.assert_allclose(x.grad.numpy(), [-1e12], rtol=1e-12)
