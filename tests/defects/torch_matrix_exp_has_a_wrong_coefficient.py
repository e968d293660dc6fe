"""torch matrix_exp has a wrong coefficient

For one matrix of a norm of 0.05 to 0.58 (in float64 of 0.0003 to 0.05) Torch uses a polynomial of degree 8 in which one coefficient
divides by 5040 * 2 / 3 instead of 5040 * 4 / 9: the terms from x ** 5 on are wrong.

Section: Precision
Ops: matrix_exp
Seen on: Torch 2.4.1 to 2.13.0; CPU
Effect: 3.5e-5 of the result in float32, 1e-10 in float64
Known difference: torch's exponential of degree 8
Under the shim: Torch's result, as in a Torch program; compare names it.
"""

import numpy as np
import torch

np.testing.assert_allclose(torch.matrix_exp(torch.eye(2) / 2).diagonal().numpy(), np.exp(0.5), rtol=1e-6)
