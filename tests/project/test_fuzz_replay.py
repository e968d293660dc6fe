"""Random programs in plain Torch: what the replay tells apart, and what it leaves out since Torch cannot say it."""

import paddle
import pytest
from fuzz.check import quiet
from fuzz.replay.run import compared

PROGRAM = ["t1 = make([3, 4], 'float32', 1, True)", "t2 = paddle.tanh(t1)", "t2.sum().backward()"]


def unlike_torch(*lines):
    with quiet(), paddle.enable_grad():
        return compared([*PROGRAM[:2], *lines, PROGRAM[2]], {})[1]


# Off by one bit, or at all, under the mode.
UNLIKE_TORCH = {
    "t3.value": "t3 = paddle.tanh(t1) * (1.0 + 2.0**-23 if modes.top() else 1.0)",
    "t1.grad": "t2.register_hook((lambda grad: grad * (1.0 + 2.0**-23)) if modes.top() else (lambda grad: grad))",
    "seen t1 1": "t1.register_hook(watch('t1')) if modes.top() else None",
    "t3: in Torch torch.float32, here paddle.float64": "t3 = t1.astype('float64' if modes.top() else 'float32')",
    "line 4 in Torch: ValueError": "t3 = t1 * 2 if modes.top() else int('x')",
}


@pytest.mark.bitexact
@pytest.mark.parametrize("what", UNLIKE_TORCH)
def test_what_is_not_torchs_is_seen(what):
    lines = ("from padiff_shim.dispatch import frames as modes", UNLIKE_TORCH[what])
    assert any(what in line for line in unlike_torch(*lines))


def test_what_torch_cannot_say_is_taken_out_and_counted():
    counts = {}
    lines = [*PROGRAM[:2], "t3 = paddle.as_strided(t1, [2], [1], 1)", "t4 = t3 * 2.0", "t5 = t1 * 2.0", "t6 = t7 + 1.0"]
    with quiet():
        texts, unexplained = compared(lines, counts)
    assert unexplained == []
    assert [line for line in texts if line in lines] == [*lines[:2], lines[4]]
    assert counts["not in Torch: as_strided between two elements"] == 1
