"""rnn of no steps crashes

Without steps the kernels read the last one, or divide by their number.

Section: Crashes and refusals
Ops: rnn
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIG*
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""

import signal

import paddle

signal.alarm(10)

# %% SimpleRNN
paddle.nn.SimpleRNN(4, 3)(paddle.zeros([2, 0, 4]))
# %% LSTM
paddle.nn.LSTM(4, 3)(paddle.zeros([2, 0, 4]))
