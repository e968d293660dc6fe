"""torch cdist hides NaN

With p=inf the distance passes over NaN.

Section: NaN, infinities and the edges of the range
Ops: cdist
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 1 instead of NaN
Under the shim: Torch's result, as in a Torch program; compare says UNVERIFIED.
"""

import torch

assert torch.cdist(torch.tensor([[torch.nan, 1.0]]), torch.zeros(1, 2), p=torch.inf).isnan()
