"""casts to float16 round toward zero

Up to 3.1 Paddle rounds float32 to float16 toward zero; 2.6.2 also to bfloat16.

Section: Precision
Ops: cast
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1; CPU
Effect: almost 1 ulp, for half of all numbers
Under the shim: Torch's rounding, to nearest.
"""

import paddle

assert paddle.to_tensor([1.0009]).astype("float16").item() == 1.0009765625
