"""paddlenlp's ProphetNet mixes sentences and places where it looks up the positions of its n-grams.

Line: paddlenlp 2.8.1, paddlenlp/transformers/prophetnet/modeling.py:518, `(self.ngram, sequence_length, batch_size, hidden_size)`
Original: transformers 5.3.0, transformers/models/prophetnet/modeling_prophetnet.py:664,
    `torch.stack(hidden_states_predict_list, dim=2)`
Write: `paddle.stack(hidden_states_predict_list, axis=0).transpose([0, 2, 1, 3])`
"""

import numpy as np
import paddle
import torch

paddle.set_device("cpu")
paddle.set_default_dtype("float64")
ngram, batch, length, hidden = 2, 3, 4, 5
streams = list(np.random.default_rng(0).standard_normal((ngram, batch, length, hidden)))  # batch first, as both decoders have them
original = torch.stack([torch.tensor(stream) for stream in streams], dim=2).permute(2, 1, 0, 3).numpy()  # [ngram, T, B, C]
tensors = [paddle.to_tensor(stream) for stream in streams]
port = paddle.reshape(paddle.concat(tensors, axis=0), (ngram, length, batch, hidden)).numpy()
mended = paddle.stack(tensors, axis=0).transpose([0, 2, 1, 3]).numpy()
print(f"{abs(port - original).max():.1e} apart as it is, {abs(mended - original).max():.1e} as it is to be written")
raise SystemExit(int(not np.allclose(port, original, 0, 1e-9)))
