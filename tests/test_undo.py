"""Leaving a mode undoes the interception exactly."""

import collections
import gc
import pickle
import sys

import paddle
import pytest
from paddle.base import core

import padiff_shim
from padiff_shim import hooks
from padiff_shim.cfunction import CFunctionPatch
from padiff_shim.errors import InterceptionError
from padiff_shim.pyfunction import PyFunctionPatch

pytestmark = pytest.mark.compat


def snapshot():
    """Every attribute of every loaded Paddle module, of the patched classes, and the code of every function in them, in order."""
    places = {name: vars(module) for name, module in list(sys.modules.items()) if name.split(".")[0] == "paddle" and module}
    dense = getattr(core, "DenseTensor", None) or core.LoDTensor
    for owner in (paddle.Tensor, paddle.base.framework.EagerParamBase, paddle.nn.Layer, dense):
        places[owner.__qualname__] = owner.__dict__
    places["_C_ops"] = {name: getattr(paddle._C_ops, name) for name in dir(paddle._C_ops)}
    places["engine"] = vars(core.eager)
    held = {place: list(attributes.items()) for place, attributes in places.items()}
    codes = [(f, f.__code__) for items in held.values() for _, f in items if isinstance(f, type(snapshot))]
    selves = [(f, id(f.__self__)) for _, f in held["_C_ops"] if isinstance(f, type(len))]
    return held, codes, selves


def assert_same(before, after):
    assert before[0].keys() == after[0].keys()
    for place, items in before[0].items():
        now = after[0][place]
        assert [name for name, _ in items] == [name for name, _ in now], place
        changed = [name for (name, old), (_, new) in zip(items, now) if old is not new and name != "__warningregistry__"]
        assert not changed, (place, changed)
    assert all(function.__code__ is code for function, code in before[1])
    assert all(id(function.__self__) == owner for function, owner in before[2])


def points():
    return [*hooks.OPS._points, *(hooks.LAYERS._points or ())]


def assert_undone():
    assert not hooks.OPS.installed
    assert not hooks.LAYERS.installed
    for point in points():
        if isinstance(point, (CFunctionPatch, PyFunctionPatch)):
            assert not point.installed
        else:
            assert point.owner.__dict__[point.name] is point.native


def work():
    x = paddle.ones([2, 2])
    return paddle.nn.functional.linear(x @ x, x / 3)


def leave_normally():
    with padiff_shim.reference("torch"):
        work()


def leave_by(error):
    def leave():
        with pytest.raises(error), padiff_shim.reference("torch", layers="**"):  # noqa: PT012
            work()
            raise error

    return leave


def leave_nested():
    with padiff_shim.reference("torch"), padiff_shim.reference("torch", ops="linear"), padiff_shim.reference("torch"):
        work()


def leave_in_another_order():
    first, second, third = (padiff_shim.reference("torch", layers=layers) for layers in (None, "**", None))
    first.start()
    second.start()
    first.stop()
    third.start()
    work()
    second.stop()
    third.stop()


def leave_through_a_generator():
    def steps():
        with padiff_shim.reference("torch"):
            yield work()

    generator = steps()
    next(generator)
    del generator
    gc.collect()


def leave_installed():
    padiff_shim.install()
    padiff_shim.install()
    work()
    with padiff_shim.reference("torch"):
        work()
    assert hooks.OPS.installed
    padiff_shim.uninstall()
    padiff_shim.uninstall()


def leave_by_an_error_of_paddle():
    with pytest.raises(ValueError), padiff_shim.reference("torch"):
        paddle.matmul(paddle.ones([2, 3]), paddle.ones([2, 3]))


@pytest.mark.parametrize(
    "leave",
    [
        leave_normally,
        leave_by(RuntimeError),
        leave_by(KeyboardInterrupt),
        leave_by(SystemExit),
        leave_nested,
        leave_in_another_order,
        leave_through_a_generator,
        leave_installed,
        leave_by_an_error_of_paddle,
    ],
    ids=lambda leave: getattr(leave, "__name__", "?"),
)
def test_leaving_puts_the_very_objects_back(leave):
    leave()  # whatever is imported lazily is imported now
    with padiff_shim.reference("torch", layers="**"):
        work()
    before = snapshot()
    leave()
    assert_same(before, snapshot())
    assert_undone()
    with padiff_shim.reference("torch") as run:  # and it can be entered again
        work()
    assert run.substituted == {"matmul": 1, "divide": 1, "linear": 1}
    assert_undone()


def test_inside_a_mode_no_namespace_changes_but_tensor_descriptors():
    leave_normally()
    before = snapshot()
    with padiff_shim.reference("torch"):
        inside = snapshot()
    for place, items in before[0].items():
        if place in ("Tensor", "DenseTensor", "LoDTensor"):
            continue
        assert not [name for (name, old), (_, new) in zip(items, inside[0][place]) if old is not new], place


def test_no_function_is_watched_twice():
    leave_normally()
    seen = collections.Counter(id(point.function) for point in points() if hasattr(point, "function"))
    seen.update((id(point.owner), point.name) for point in points() if hasattr(point, "owner"))
    assert not [key for key, times in seen.items() if times > 1]


def test_functions_pickle_and_introspect_as_before():
    native = pickle.dumps(paddle.nn.functional.linear)
    name = paddle.nn.functional.linear.__code__.co_name
    with padiff_shim.reference("torch"):
        assert pickle.dumps(paddle.nn.functional.linear) == native
        assert paddle.nn.functional.linear.__code__.co_name == name
        assert paddle._C_ops.matmul.__name__ == "matmul"
        assert pickle.loads(native) is paddle.nn.functional.linear


def test_a_function_of_another_kind_is_refused_untouched():
    with pytest.raises(InterceptionError, match="len"):
        CFunctionPatch(len)
    assert len([1]) == 1

    def closure(value=[]):  # noqa: B006
        return native

    native = 1
    with pytest.raises(InterceptionError, match="closure"):
        PyFunctionPatch(closure)


def test_an_error_while_installing_undoes_what_was_done():
    leave_normally()
    before = snapshot()
    broken = points()[40]
    install = type(broken).install
    try:
        type(broken).install = lambda self: install(self) if self is not broken else 1 / 0
        with pytest.raises(ZeroDivisionError):
            padiff_shim.reference("torch").start()
    finally:
        type(broken).install = install
    assert_same(before, snapshot())
    assert_undone()
