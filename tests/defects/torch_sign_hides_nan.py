"""torch sign hides NaN

The sign of NaN is 0.

Section: NaN, infinities and the edges of the range
Ops: sign
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: 0 instead of NaN
Known difference: torch's sign of NaN
Under the shim: Torch's result, as in a Torch program; compare names it.
"""

import torch

assert torch.sign(torch.tensor([torch.nan])).isnan().all()
