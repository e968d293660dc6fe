"""torch hardsigmoid gradient multiplies in float32

The backward for float64 multiplies by 1/6 in float32.

Section: Precision
Ops: hardsigmoid
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 3e-8 of the gradient
Known difference: torch's gradient of hardsigmoid
Under the shim: Torch's gradient, as in a Torch program; compare names it, and Paddle's 0.1666667 for 1/6, too.
"""

import numpy as np
import torch

x = torch.zeros(8, dtype=torch.float64, requires_grad=True)
torch.nn.functional.hardsigmoid(x).sum().backward()
np.testing.assert_allclose(x.grad.numpy(), 1 / 6, rtol=1e-12)
