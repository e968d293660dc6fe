"""torch renorm adds a constant to the norm

Torch adds 1e-7 to the norm by which it divides, also in float64.

Section: Precision
Ops: renorm
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 2e-8 of the result
Known difference: torch's renorm
Under the shim: Torch's result, as in a Torch program; compare names it.
"""

import numpy as np
import torch

x = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
np.testing.assert_allclose(torch.renorm(x, 2, 0, 1.0).numpy(), [[0.6, 0.8]], rtol=1e-9)
