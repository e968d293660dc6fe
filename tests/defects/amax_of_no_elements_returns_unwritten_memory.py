"""amax of no elements returns unwritten memory

The largest of no elements, which max, NumPy and Torch refuse, is memory that was never written.

Section: Unwritten memory
Ops: amax, amin
Seen on: Paddle 3.3.1; CPU
Effect: unwritten memory
Under the shim: No change; Torch refuses, and the run lists the call.
"""

import paddle


def refused(function):
    try:
        function(paddle.zeros([0, 3]))
    except (IndexError, ValueError):
        return True
    return False


# %% amax
assert refused(paddle.amax)
# %% amin
assert refused(paddle.amin)
