"""The assertions for users' tests: they pass where they should, and tell what they found where not."""

import paddle
import pytest

from padiff_shim import testing
from padiff_shim.errors import PadiffShimError

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


def product(x):
    (x @ x.t()).sum().backward()


def leaf():
    x = paddle.ones([3, 4])
    x.stop_gradient = False
    return x


def test_sound_kernels_are_the_same():
    run = testing.assert_same_kernels(product, leaf())
    assert run.counts.records >= 3


def test_a_wrong_kernel_is_told_with_its_line():
    with testing.planted("matmul", lambda out, *_: out * 1.01), pytest.raises(AssertionError) as caught:
        testing.assert_same_kernels(product, leaf(), ops="matmul")
    message = str(caught.value)
    assert "test_assertions.py" in message


def test_below_says_what_is_accepted():
    with testing.planted("matmul", lambda out, *_: out * 1.01):
        with pytest.raises(AssertionError, match="from WRONG up"):
            testing.assert_same_kernels(product, leaf(), below="WRONG")
        with pytest.raises(PadiffShimError, match="Did you mean 'WRONG'"):
            testing.assert_same_kernels(product, leaf(), below="WRNG")


def test_what_the_program_raises_is_its_own():
    with pytest.raises(ZeroDivisionError):
        testing.assert_same_kernels(lambda: 1 / 0)


def test_on_torch():
    run = testing.assert_on_torch(product, leaf())
    assert run.substituted["matmul"] == 1


def test_a_call_that_stays_native_is_told():
    boxes = paddle.to_tensor([[0.0, 0.0, 1.0, 1.0]])
    with pytest.raises(AssertionError, match=r"nms: .*\(1\)"):
        testing.assert_on_torch(paddle.vision.ops.nms, boxes, 0.5)


def test_settings_from_outside_are_not_asked(monkeypatch):
    monkeypatch.setenv("PADIFF_SHIM_OPS", "linear")
    assert testing.assert_on_torch(product, leaf()).substituted["matmul"] == 1
