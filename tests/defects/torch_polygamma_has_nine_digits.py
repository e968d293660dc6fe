"""torch polygamma has nine digits

torch.polygamma(1, x), and so the gradient of digamma, is good to nine digits.

Section: Precision
Ops: polygamma, digamma
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 4.8e-10 of the result, in float64
Known difference: torch's trigamma
Under the shim: Torch's result, as in a Torch program; compare names it.
"""

import numpy as np
import torch

x = torch.ones(1, dtype=torch.float64)
np.testing.assert_allclose(torch.polygamma(1, x).numpy(), np.pi**2 / 6, rtol=1e-12)
