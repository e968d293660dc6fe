"""lstsq returns residuals without full rank

Only matrices of full rank have residuals. Up to 3.0 Paddle returns numbers that are none; 2.6 returns none for full rank.

Section: Values
Ops: lstsq
Seen on: Paddle 2.6.2, 3.0.0; CPU
Effect: 5.7e-14 instead of none
Under the shim: None, as in Torch.
"""

import paddle

assert paddle.linalg.lstsq(paddle.ones([4, 3]), paddle.ones([4, 2]))[1].shape == [0]
