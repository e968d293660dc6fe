"""What somebody else changed in Paddle is theirs: it is called, it stays, and the run says so."""

import ctypes
import functools

import paddle
import paddle.nn.functional as F
import pytest

import padiff_shim
from padiff_shim.intercept import entry_points
from padiff_shim.patching.functions import CFunctionPatch

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]

MODE = {
    "reference": functools.partial(padiff_shim.reference, layers="**"),
    "compare": functools.partial(padiff_shim.compare, progress=False),
}
Tensor, Layer = paddle.Tensor, paddle.nn.Layer
X = paddle.ones([2, 2])


class AttributeOfAClass:
    path = "paddle.Tensor.__add__"

    def replace(self):
        self.saved, self.calls = Tensor.__dict__["__add__"], 0

        def mine(x, y):
            self.calls += 1
            return self.saved(x, y)

        self.mine = Tensor.__add__ = mine

    def restore(self):
        Tensor.__add__ = self.saved

    def stands(self):
        return Tensor.__dict__["__add__"] is self.mine

    def native(self):
        return type(Tensor.__dict__["__add__"]) is not type(work)


def counting(function, count):
    """The code of ``function``, which may stand in any function: what it calls to be counted is among its constants."""
    code = function.__code__
    return code.replace(co_consts=tuple(count if constant == "count" else constant for constant in code.co_consts))


class CodeOfAFunction:
    path, function = "paddle.nn.functional.linear", staticmethod(F.linear)

    def replace(self):
        self.saved, self.calls = self.function.__code__, 0
        self.mine = self.function.__code__ = counting(self.code(), self.count)

    def code(self):
        def linear(x, weight, bias=None, name=None):
            count = "count"
            count()
            return x.matmul(weight)

        return linear

    def count(self):
        self.calls += 1

    def restore(self):
        self.function.__code__ = self.saved

    def stands(self):
        return self.function.__code__ is self.mine

    def native(self):
        return self.function.__code__.co_varnames[-1] != "_padiff_shim_hook"


class CodeOfLayerCall(CodeOfAFunction):
    path, function = "paddle.nn.Layer.__call__", staticmethod(Layer.__call__)

    def code(self):
        def call(self, *inputs, **kwargs):
            count = "count"
            count()
            return self.forward(*inputs, **kwargs)

        return call


class CFunction:
    """Another tool that redirects the same C function by the same means."""

    path = "paddle._C_ops.exp"

    def replace(self):
        self.calls = 0
        function = paddle._C_ops.exp
        offset = 2 * ctypes.sizeof(ctypes.c_void_p)
        self.pair = (ctypes.c_char * offset).from_address(id(function) + offset)
        self.saved = bytes(self.pair.raw)
        points = entry_points.OPS._points or ()
        native = next((point.native for point in points if point.path == self.path), self.saved)
        self.pair.raw = native
        theirs = CFunctionPatch(function)
        theirs.native = native

        def hook(*args, **kwargs):
            self.calls += 1
            return theirs.original(*args, **kwargs)

        theirs.set_hook(hook)
        self.theirs, self.mine = theirs, theirs.hooked
        self.pair.raw = theirs.hooked

    def restore(self):
        self.pair.raw = self.saved

    def stands(self):
        return self.pair.raw == self.mine

    def native(self):
        return self.pair.raw == self.theirs.native


KINDS = [AttributeOfAClass, CodeOfAFunction, CodeOfLayerCall, CFunction]


def work():
    return paddle.exp(F.linear(X, X) + X) + paddle.nn.Identity()(X)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def theirs(request):
    """Somebody who changes Paddle; afterwards everything is Paddle's own again."""
    with padiff_shim.compare("torch", progress=False):
        work()
    theirs = request.param()
    yield theirs
    theirs.restore()
    with padiff_shim.compare("torch", progress=False):
        work()  # a hook of ours that was saved and put back is Paddle's own after the next mode
    assert theirs.native()


def said(run, theirs):
    return [warning for warning in run.warnings if warning.startswith(f"{theirs.path} was changed by somebody else")]


@pytest.mark.parametrize("mode", MODE)
def test_changed_between_two_openings(theirs, mode):
    theirs.replace()
    work()
    before = theirs.calls
    with MODE[mode]("torch") as run:
        work()
    assert theirs.calls > before
    assert theirs.stands()
    assert len(said(run, theirs)) == 1


@pytest.mark.parametrize("mode", MODE)
def test_changed_inside_a_mode(theirs, mode):
    with MODE[mode]("torch") as run:
        theirs.replace()
        work()
    inside = theirs.calls
    assert inside
    assert theirs.stands()
    assert len(said(run, theirs)) == 1
    work()
    assert theirs.calls > inside
    theirs.restore()  # to our own hook, which was there when it was saved
    assert paddle.allclose(work(), paddle.exp(paddle.full([2, 2], 3.0)) + 1)
    with MODE[mode]("torch") as run:
        work()
    assert not said(run, theirs)


def test_changed_and_restored_inside_a_mode_leaves_nothing(theirs):
    with padiff_shim.compare("torch", progress=False) as run:
        theirs.replace()
        theirs.restore()
        work()
    assert not said(run, theirs)
    assert theirs.native()


def test_changed_inside_a_mode_that_ends_by_an_exception(theirs):
    with pytest.raises(ZeroDivisionError), padiff_shim.compare("torch", progress=False):  # noqa: PT012
        theirs.replace()
        raise ZeroDivisionError
    assert theirs.stands()


def test_changed_between_nested_modes(theirs):
    with padiff_shim.compare("torch", progress=False) as outer:
        theirs.replace()
        with padiff_shim.compare("torch", progress=False) as inner:
            work()
        assert theirs.stands()
    assert theirs.calls
    assert theirs.stands()
    assert said(outer, theirs)
    assert said(inner, theirs) or isinstance(theirs, CFunction)  # a thousand C functions are looked at when the last mode closes


def test_changed_while_installed(theirs):
    padiff_shim.install()
    try:
        theirs.replace()
        with padiff_shim.reference("torch") as run:
            work()
        assert said(run, theirs) or isinstance(theirs, (CFunction, CodeOfLayerCall))
    finally:
        padiff_shim.uninstall()
    assert theirs.calls
    assert theirs.stands()


def test_what_was_saved_in_a_mode_is_substituted_and_passes_through_outside():
    with padiff_shim.reference("torch"):
        saved = Tensor.__add__
    theirs = AttributeOfAClass()
    theirs.replace()
    theirs.saved, native = saved, theirs.saved
    try:
        with padiff_shim.reference("torch") as run:
            X + X
        assert run.substituted == {"add": 1}
        assert (X + X).numpy().tolist() == [[2, 2], [2, 2]]
        assert theirs.calls == 2
    finally:
        Tensor.__add__ = native


def test_a_name_given_to_another_function_keeps_it_and_reaches_ours():
    native, calls = F.linear, []

    def mine(*args, **kwargs):
        calls.append(args)
        return native(*args, **kwargs)

    F.linear = mine
    try:
        with padiff_shim.reference("torch") as run:
            F.linear(X, X)
        assert F.linear is mine
    finally:
        F.linear = native
    assert len(calls) == 1
    assert run.substituted == {"linear": 1}
    assert not run.warnings


def test_overrides_of_subclasses_are_called_and_reach_ours():
    class Doubling(paddle.nn.Linear):
        def __call__(self, *args):
            return super().__call__(*args) * 2

        def forward(self, x):
            return super().forward(x)

    layer = Doubling(2, 2)
    native = layer(X)
    with padiff_shim.compare("torch", progress=False) as run:
        assert paddle.allclose(layer(X), native)
    assert {call.layer for call in run.calls.filter(op="linear")} == {""}
    assert not run.warnings
