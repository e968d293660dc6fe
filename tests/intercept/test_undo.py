"""Leaving a mode undoes the interception exactly."""

import collections
import gc
import inspect
import pickle
import sys

import paddle
import pytest
from paddle.base import core

import padiff_shim
from padiff_shim.errors import InterceptionError
from padiff_shim.intercept import entry_points
from padiff_shim.intercept.locate import python_function
from padiff_shim.patching.functions import AttributePatch, CFunctionPatch, ClassMethodPatch, FunctionGroup, PyFunctionPatch
from padiff_shim.patching.patcher import ABSENT

pytestmark = pytest.mark.compat


def snapshot():
    """Every attribute of every loaded Paddle module, of the patched classes, and the code of every function in them, in order."""
    places = {name: vars(module) for name, module in list(sys.modules.items()) if name.split(".")[0] == "paddle" and module}
    dense = getattr(core, "DenseTensor", None) or core.LoDTensor
    classes = paddle.Tensor, paddle.base.framework.EagerParamBase, paddle.nn.Layer, dense, type(paddle.autograd.PyLayer)
    for owner in classes:
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
    return [*entry_points.OPS._points, *(entry_points.LAYERS._points or ())]


def assert_undone():
    assert not entry_points.OPS.installed
    assert not entry_points.LAYERS.installed
    for point in points():
        if isinstance(point, (CFunctionPatch, ClassMethodPatch, PyFunctionPatch)):
            assert not point.installed
        else:
            assert point.owner.__dict__.get(point.name, ABSENT) is point.native


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
    assert entry_points.OPS.installed
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
        changed = [name for (name, old), (_, new) in zip(items, inside[0][place]) if old is not new]
        # The name by which Paddle's mixed precision looks up the tracer at each call; the function behind it is everybody's.
        assert changed == ["_dygraph_tracer"] * place.startswith(("paddle.amp.auto_cast", "paddle.amp.grad_scaler")), place


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


def facets(function):
    """What can be asked about a function: an answer, or the kind of error."""

    def ask(question):
        try:
            return question(function)
        except Exception as error:
            return type(error)

    named = ("__name__", "__qualname__", "__module__", "__doc__", "__text_signature__", "__objclass__", "__annotations__")
    values = {name: getattr(function, name, None) for name in (*named, "__defaults__", "__kwdefaults__")}
    questions = (inspect.signature, inspect.getfullargspec, inspect.getsource, inspect.getsourcelines, inspect.getdoc, pickle.dumps)
    return values, [ask(question) for question in questions], repr(function) if isinstance(function, type(len)) else None


def test_every_redirected_function_looks_as_natively():
    def looks():
        return {point.path: facets(getattr(point, "function", None) or getattr(point.owner, point.name)) for point in points()}

    leave_nested()
    native = looks()
    with padiff_shim.reference("torch", layers="**"):
        assert all(point.ours() for point in points())
        ours = looks()
    assert len(native) > 500
    assert "x" in native["paddle.nn.functional.linear"][1][0].parameters
    methods = {point.path for point in points() if isinstance(point, AttributePatch)}
    for path, expected in native.items():
        values, answers = ours[path][:2]
        assert values.items() >= {k: v for k, v in expected[0].items() if v is not None}.items(), path
        if path in methods:  # pickle takes the name of a method, inspect the way through __wrapped__
            assert answers[0] == expected[1][0], path
        else:
            assert (answers, ours[path][2]) == expected[1:], path


def test_wrong_arguments_of_a_redirected_function_are_paddles_own_errors():
    def complaint(*args, **kwargs):
        with pytest.raises(TypeError) as caught:
            paddle.nn.functional.linear(*args, **kwargs)
        return str(caught.value)

    x = paddle.ones([2, 2])
    wrong = [((), {}), ((x,), {}), ((x, x, None, None, 1), {}), ((x, x), {"w": 1}), ((x, x), {"x": x})]
    native = [complaint(*args, **kwargs) for args, kwargs in wrong]
    with padiff_shim.reference("torch"):
        assert [complaint(*args, **kwargs) for args, kwargs in wrong] == native


def test_a_redirected_function_takes_every_kind_of_parameter():
    def native(a, b=2, /, c=3, *rest, d, e=5, **more):
        return a, b, c, rest, d, e, more

    def plain(a, *, d=1):
        return a, d

    for function, args, kwargs in ((native, (1,), {"d": 4}), (native, (1, 2, 3, 4), {"d": 5, "f": 6}), (plain, (1,), {})):
        function = type(native)(function.__code__, globals(), function.__name__, function.__defaults__)
        function.__kwdefaults__ = {"d": 1, "e": 5}
        patch = PyFunctionPatch(function)
        expected, signature = function(*args, **kwargs), inspect.signature(function)
        patch.set_hook(lambda *args, patch=patch, **kwargs: ("hook", patch.original(*args, **kwargs)))
        assert patch.install()
        assert function(*args, **kwargs) == ("hook", expected)
        assert inspect.signature(function) == signature
        assert patch.uninstall()
        assert function(*args, **kwargs) == expected


def test_a_function_of_another_kind_is_refused_untouched():
    with pytest.raises(InterceptionError, match="len"):
        CFunctionPatch(len)
    assert len([1]) == 1

    def closure(value=[]):  # noqa: B006
        return native

    native = 1
    with pytest.raises(InterceptionError, match="closure"):
        PyFunctionPatch(closure)


@pytest.mark.parametrize("name", ["cross_entropy", "glu"])
def test_behind_decorators_the_function_that_does_the_work_is_redirected(name):
    """Paddle 3 renames arguments in decorators, which are closures."""
    outer = getattr(paddle.nn.functional, name)
    patch = PyFunctionPatch(python_function(paddle.nn.functional, name))
    patch.set_hook(lambda *args: args)
    assert patch.install()
    assert outer(1, 2)[:2] == (1, 2)
    assert patch.uninstall()
    with pytest.raises((AttributeError, TypeError)):
        outer(1, 2)


def _half(group):
    """A group of C functions of which half are redirected when an error comes."""
    for patch in group._patches[::2]:
        assert patch.install()
    raise ZeroDivisionError


@pytest.mark.parametrize("together", [False, True])
def test_an_error_while_installing_undoes_what_was_done(together, monkeypatch):
    leave_normally()
    before = snapshot()
    if together:
        monkeypatch.setattr(FunctionGroup, "install", _half)
    else:
        broken = next(point for point in points() if type(point).together is not FunctionGroup)
        install = type(broken).install
        monkeypatch.setattr(type(broken), "install", lambda self: install(self) if self is not broken else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        padiff_shim.reference("torch").start()
    assert_same(before, snapshot())
    assert_undone()
