"""The calls of a program are seen with their attributes, and a value by one number wherever it stands."""

from contextlib import contextmanager

import paddle

from padiff_shim.proof.bits.calls import CallRecorder, NotesCalls
from padiff_shim.proof.plans import opened
from padiff_shim.substitution.plan import Substituting


class Noting(NotesCalls, Substituting):
    def __init__(self, recorder):
        super().__init__("torch", draws=True)
        self.recorder = recorder


@contextmanager
def recording():
    recorder = CallRecorder()
    with opened(Noting(recorder)):
        yield recorder


def test_calls_say_what_a_program_does():
    with recording() as recorder:
        paddle.matmul(paddle.ones([2, 5, 8]) + 1.0, paddle.ones([2, 6, 8]), transpose_y=True) * 0.3
    product = next(call for call in recorder.calls if call.op == "matmul")
    assert product.attributes == {"transpose_x": False, "transpose_y": True}
    assert [name for name, _ in product.inputs] == ["x", "y"]
    scaled = next(call for call in recorder.calls if call.inputs and call.inputs[0][1] == product.outputs[0])
    assert (scaled.op, scaled.attributes) == ("multiply", {"y": 0.3})


def test_a_tensor_behind_detach_is_the_same_value():
    x = paddle.ones([3])
    with recording() as recorder:
        y = x.detach() + x
    assert {value for _, value in recorder.calls[0].inputs} == {recorder.value(x)}
    assert recorder.value(y) == recorder.calls[0].outputs[0]


def test_what_is_written_in_place_is_another_value():
    x = paddle.ones([3])
    with recording() as recorder:
        before = recorder.value(x)
        x.add_(paddle.ones([3]))
        after = recorder.value(x.detach())
    assert after != before
    assert after in recorder.calls[-1].outputs
