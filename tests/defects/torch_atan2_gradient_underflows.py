"""torch atan2 gradient underflows

The squares of both numbers are added unscaled, and their sum leaves the range.

Section: NaN, infinities and the edges of the range
Ops: atan2
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 0 instead of 5e24
Under the shim: Torch's gradient, as in a Torch program; compare says WRONG or NONFINITE, of both sides or one.
"""

import numpy as np
import torch

x = torch.tensor([1e-25], requires_grad=True)
torch.atan2(x, torch.tensor([1e-25])).backward()
np.testing.assert_allclose(x.grad.numpy(), [5e24], rtol=1e-5)
