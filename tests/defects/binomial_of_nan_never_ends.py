"""binomial of NaN never ends

Paddle draws until a number is below a probability, which never happens if that is NaN. An alarm ends the program.

Section: Crashes and refusals
Ops: binomial
Seen on: Paddle 3.3.1; CPU
Effect: the process runs for ever
Ends with: SIGALRM
Under the shim: No change: Paddle's kernel runs for ever.
"""

import signal

import paddle

signal.alarm(2)
paddle.binomial(paddle.to_tensor([5.0]), paddle.to_tensor([float("nan")]))
