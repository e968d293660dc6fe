"""What is left of a traceback that went through our frames."""

import traceback

import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.cli.program import tidy

pytestmark = pytest.mark.compat


def interrupted(monkeypatch, calls):
    """A Ctrl-C in Torch's function, after so many calls of it that went well."""

    def interrupt(*_):
        raise KeyboardInterrupt

    layer, x = paddle.nn.LayerNorm(4), paddle.ones([2, 4])
    with padiff_shim.reference("torch") as run:
        for _ in range(calls):
            layer(x)
        assert run.substituted.get("layer_norm", 0) == calls
        monkeypatch.setattr(torch.nn.functional, "layer_norm", interrupt)
        try:
            layer(x)
        except KeyboardInterrupt as error:
            return error
    return None


@pytest.mark.parametrize("calls", [0, 3], ids=["of the first call", "of one that is known"])
def test_ctrl_c_below_a_hook_shows_no_frame_of_ours(monkeypatch, calls):
    error = interrupted(monkeypatch, calls)
    before = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    tidy(error)
    after = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert len(after) < len(before)
    assert after[0] == __file__
    assert after[-2].endswith("norm.py"), "Paddle's function, which called us"
    assert after[-1] == __file__, "the interrupting function"
    assert not [name for name in after if name.startswith("<shortcut") or "padiff_shim" in name.replace(__file__, "")]
    assert not [name for name in after if "patches" in name]


def test_a_users_message_that_looks_like_frames_is_left_as_it_is():
    message = 'it was:\n  /a/train.py(12): main\n  File "/a/train.py", line 12, in main\n    x = 1\n\n  and more (3): so'
    error = ValueError(message, 7)
    tidy(error)
    assert error.args == (message, 7)
