"""Where a call is made: the user's line, also where another file reads the same."""

import inspect
import types

import paddle
import pytest

import padiff_shim
from padiff_shim.dispatch import call_site

pytestmark = pytest.mark.compat


def loaded(path, source, package=""):
    """A module of a file of this text."""
    path.write_text(source)
    module = types.ModuleType(path.stem)
    module.__package__ = package
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module


def test_a_copy_of_a_file_is_another_place(tmp_path):
    """To Python, functions that read the same on the same lines of two files are equal."""
    source = "import paddle\n\n\ndef block(x):\n    return paddle.exp(x).sum()\n"
    modules = [loaded(tmp_path / name, source) for name in ("old.py", "new.py")]
    assert modules[0].block.__code__ == modules[1].block.__code__
    x = paddle.to_tensor([0.5, 1.5], stop_gradient=False)
    with padiff_shim.compare("torch", progress=False) as run:
        for module in modules * 2:
            module.block(x).backward()
    for phase in ("forward", "backward"):
        called = [call for call in run.calls.filter(op="exp") if call.phase == phase]
        assert [call.file for call in called] == [str(tmp_path / name) for name in ("old.py", "new.py")] * 2


def test_a_copy_of_a_frameworks_file_is_the_users(tmp_path):
    """Paddle's own function was seen before its copy."""
    theirs = paddle.nn.functional.activation
    copied = loaded(tmp_path / "activation.py", inspect.getsource(theirs), package="paddle.nn.functional")
    assert copied.selu.__code__ == theirs.selu.__code__
    x = paddle.to_tensor([0.5, -1.5])
    with padiff_shim.compare("torch", progress=False) as run:
        theirs.selu(x)
        copied.selu(x)
    assert [call.file for call in run.calls] == [__file__, str(tmp_path / "activation.py")]


def test_a_model_of_paddles_own_has_its_own_lines():
    """As a model of another package: the line of the layer that it calls would be the same for each of its convolutions."""
    lenet = paddle.vision.models.LeNet()
    with padiff_shim.compare("torch", progress=False) as run:
        lenet(paddle.ones([1, 1, 28, 28]))
    files = {call.file for call in run.calls}
    assert files == {inspect.getfile(type(lenet))}
    assert {call.op for call in run.calls} >= {"conv2d", "relu"}


def test_a_caller_is_the_fields_of_its_site():
    assert tuple(call_site.call_site()) == call_site.caller()
