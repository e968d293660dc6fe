"""ppdiffusers' AutoencoderTiny multiplies latents by their magnitude.

Line: ppdiffusers 0.29.0, ppdiffusers/models/autoencoder_tiny.py:160, `((x / 2 * self.latent_magnitude) +
    self.latent_shift).clip(0, 1)`
Original: diffusers 0.29.2, diffusers/models/autoencoders/autoencoder_tiny.py:162, `x.div(2 * self.latent_magnitude)`
Write: `(x / (2 * self.latent_magnitude) + self.latent_shift).clip(0, 1)`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
x, MAGNITUDE, SHIFT = draw.standard_normal((2, 4)), 3, 0.5
original = torch.tensor(x).div(2 * MAGNITUDE).add(SHIFT).clamp(0, 1).numpy()
port = ((paddle.to_tensor(x) / 2 * MAGNITUDE) + SHIFT).clip(0, 1).numpy()
mended = (paddle.to_tensor(x) / (2 * MAGNITUDE) + SHIFT).clip(0, 1).numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
