"""argmax of no elements returns unwritten memory

The index of the largest of no elements, which NumPy and Torch refuse, is memory that was never written.

Section: Unwritten memory
Ops: argmax, argmin
Seen on: Paddle 3.1.1, 3.2.2, 3.3.1; CPU
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


# %% argmax
assert refused(paddle.argmax)
# %% argmin
assert refused(paddle.argmin)
