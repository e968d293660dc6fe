"""fftshift along one axis fails

An integer as axes, which the documentation allows, is passed on beside a list of shifts.

Section: Crashes and refusals
Ops: fftshift, ifftshift
Seen on: Paddle 3.3.1; CPU
Effect: SystemError
Ends with: SystemError
Under the shim: No change: Paddle's error.
"""

import paddle

# %% fftshift
paddle.fft.fftshift(paddle.ones([2, 3]), axes=1)
# %% ifftshift
paddle.fft.ifftshift(paddle.ones([2, 3]), axes=1)
