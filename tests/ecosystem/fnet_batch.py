"""paddlenlp's FNet mixes the sentences of a batch.

Line: paddlenlp 2.8.1, paddlenlp/transformers/fnet/modeling.py:186, `paddle.fft.fftn`, over all axes
Original: transformers 5.3.0, transformers/models/fnet/modeling_fnet.py:149, `partial(torch.fft.fftn, dim=(1, 2))`
Write: `partial(paddle.fft.fftn, axes=(1, 2))`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
draw = np.random.default_rng(0)
x = draw.standard_normal((2, 5, 8))
original = torch.fft.fftn(torch.tensor(x), dim=(1, 2)).real.numpy()
port = paddle.fft.fftn(paddle.to_tensor(x)).real().numpy()
mended = paddle.fft.fftn(paddle.to_tensor(x), axes=(1, 2)).real().numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
