"""torch pow of minus infinity is NaN

x ** 0.5 is computed as sqrt(x), which is NaN at -inf; C's pow(-inf, 0.5) is +inf.

Section: NaN, infinities and the edges of the range
Ops: pow
Seen on: Torch 2.4.1 to 2.15.0; CPU
Effect: NaN instead of +inf
Known difference: torch's sqrt for pow
Under the shim: Torch's result, as in a Torch program; compare names it.
"""

import torch

x = torch.full([8], -torch.inf, dtype=torch.float64)
assert (x**0.5 == torch.inf).all()
