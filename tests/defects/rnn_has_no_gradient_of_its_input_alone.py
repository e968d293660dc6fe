"""rnn has no gradient of its input alone

paddle.grad of a SimpleRNN, LSTM or GRU with respect to its input, without its weights, raises: Required tensor shall not be
nullptr.

Section: Gradients
Ops: rnn
Seen on: Paddle 2.6.2, 3.3.1; CPU
Effect: ValueError
Ends with: ValueError
Under the shim: Torch's gradient.
"""

import paddle

x = paddle.ones([2, 3, 4])
x.stop_gradient = False
assert paddle.grad([paddle.nn.GRU(4, 3)(x)[0].sum()], [x])[0].shape == [2, 3, 4]
