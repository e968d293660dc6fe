"""torch gammainc has nine digits for large numbers

The series for large operands that are close to each other is good to nine digits, also in float64.

Section: Precision
Ops: gammainc, gammaincc
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 1e-9 of the result
Known difference: torch's incomplete gamma functions
Under the shim: Torch's result, as in a Torch program; compare names it.
"""

import numpy as np
import torch

a, x = (torch.tensor([number], dtype=torch.float64) for number in (25.0, 19.0))

# %% gammainc
np.testing.assert_allclose(torch.special.gammainc(a, x).numpy(), 0.1067456724699609, rtol=1e-12)
# %% gammaincc
np.testing.assert_allclose(torch.special.gammaincc(a, x).numpy(), 0.8932543275300391, rtol=1e-12)
