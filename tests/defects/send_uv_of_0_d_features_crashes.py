"""send_uv of 0-D features crashes

Features without axes are neither refused nor gathered.

Section: Crashes and refusals
Ops: send_uv
Seen on: Paddle 2.6.2, 3.0.0, 3.1.1, 3.2.2, 3.3.1; CPU
Effect: the process ends
Ends with: SIGABRT
Under the shim: No change: Paddle's kernel runs, and the process ends.
"""

import paddle

number, index = paddle.to_tensor(2.0), paddle.to_tensor([0])
paddle.geometric.send_uv(number, number, index, index)
