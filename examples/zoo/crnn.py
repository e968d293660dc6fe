"""A recogniser of lines of text (CRNN; Shi et al., 2015): convolutions, two recurrences over the columns, CTC loss."""

import numpy as np
import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

LETTERS, HEIGHT, COLUMNS, WRITTEN = 12, 16, 40, 5  # letter 0 is CTC's blank


class PaddleCrnn(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = pnn.Conv2D(1, 8, 3, padding=1), pnn.Conv2D(8, 16, 3, padding=1, bias_attr=False)
        self.bn = pnn.BatchNorm2D(16)
        self.rnn = pnn.LSTM(16 * 4, 16, num_layers=2, direction="bidirect", time_major=True)
        self.head = pnn.Linear(32, LETTERS)

    def forward(self, image):
        x = PF.max_pool2d(PF.relu(self.conv1(image)), 2)
        x = PF.max_pool2d(PF.relu(self.bn(self.conv2(x))), (2, 1), (2, 1))
        return self.head(self.rnn(x.flatten(1, 2).transpose([2, 0, 1]))[0])  # [columns, batch, letters]


class TorchCrnn(tnn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = tnn.Conv2d(1, 8, 3, padding=1), tnn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.bn = tnn.BatchNorm2d(16)
        self.rnn = tnn.LSTM(16 * 4, 16, num_layers=2, bidirectional=True)
        self.head = tnn.Linear(32, LETTERS)

    def forward(self, image):
        x = TF.max_pool2d(TF.relu(self.conv1(image)), 2)
        x = TF.max_pool2d(TF.relu(self.bn(self.conv2(x))), (2, 1), (2, 1))
        return self.head(self.rnn(x.flatten(1, 2).permute(2, 0, 1))[0])


paddle_model, torch_model = PaddleCrnn, TorchCrnn
LABELS = np.random.default_rng(1).integers(1, LETTERS, (2, WRITTEN))
LENGTHS = (np.full(2, COLUMNS // 2), np.full(2, WRITTEN))


def paddle_loss(logits):
    """Paddle's CTC loss takes the softmax itself."""
    labels, columns, written = (paddle.to_tensor(array) for array in (LABELS.astype("int32"), *LENGTHS))
    return PF.ctc_loss(logits, labels, columns, written)


def torch_loss(logits):
    """Torch's takes logarithms of probabilities."""
    labels, columns, written = (torch.from_numpy(array) for array in (LABELS, *LENGTHS))
    return TF.ctc_loss(TF.log_softmax(logits, dim=-1), labels, columns, written)


def batch(rng):
    return {"image": rng.standard_normal((2, 1, HEIGHT, COLUMNS))}
