"""Built-in C functions and Python functions redirected *in place*, so that every reference is intercepted; class attributes."""

from __future__ import annotations

import collections
import ctypes
import inspect
import operator
import sys
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from ..errors import InterceptionError
from .patcher import ABSENT, Point, Redirection

# Paddle 3.x hands its raw C functions around by value (``from paddle._C_ops import matmul`` in 22 of its own modules, activation
# functions kept on layers, tables such as ``ACT2FN``, closures, locals). Replacing attributes can never find them all. A built-in
# function, however, is a small struct that says which C function to call and with which ``self``:
#
#     struct PyCFunctionObject { PyObject_HEAD; PyMethodDef *m_ml; PyObject *m_self; ... }   (Include/cpython/methodobject.h)
#
# and CPython calls it as ``m_ml->ml_meth(m_self, args, kwargs)``. ``PyObject_Call(callable, args, kwargs)`` has that very
# signature, so a method definition that names ``PyObject_Call`` with our hook as ``m_self`` makes the built-in call the hook, at
# C speed, with exceptions and keyword arguments intact. Nothing in any namespace changes; undoing restores the two pointers.
#
# The layout is checked before the first write; where it does not hold, :class:`InterceptionError` is raised and nothing is
# touched.

_VARARGS_KEYWORDS, _CLASS = 0x0001 | 0x0002, 0x0010


class _Function(ctypes.Structure):
    """PyCFunctionObject of CPython 3.10-3.13 (release builds with the GIL)."""

    _fields_ = [
        ("ob_refcnt", ctypes.c_ssize_t),
        ("ob_type", ctypes.c_void_p),
        ("m_ml", ctypes.c_void_p),
        ("m_self", ctypes.c_void_p),
        ("m_module", ctypes.c_void_p),
        ("m_weakreflist", ctypes.c_void_p),
        ("vectorcall", ctypes.c_void_p),
    ]


class _MethodDef(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [
        ("ml_name", ctypes.c_char_p),
        ("ml_meth", ctypes.c_void_p),
        ("ml_flags", ctypes.c_int),
        ("ml_doc", ctypes.c_char_p),
    ]


_PAIR = 2 * ctypes.sizeof(ctypes.c_void_p)
_Pair = ctypes.c_char * _PAIR
_read: Callable[[Any], bytes] = operator.attrgetter("raw")
_write: Callable[[Any, bytes], None] = _Pair.raw.__set__  # type: ignore[attr-defined]
_OBJECT_CALL = ctypes.cast(ctypes.pythonapi.PyObject_Call, ctypes.c_void_p).value

_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
_incref = ctypes.pythonapi.Py_IncRef
_incref.argtypes, _incref.restype = [ctypes.py_object], None


def _check_layout(function: BuiltinFunctionType, flags: int = _VARARGS_KEYWORDS) -> tuple[_Function, _MethodDef]:
    """The struct behind ``function``, after proof that it is laid out as expected."""
    name = getattr(function, "__name__", repr(function))
    if sys.implementation.name != "cpython" or type(function).__basicsize__ != ctypes.sizeof(_Function):
        raise InterceptionError(
            "cannot intercept {name}: this interpreter ({python} {version}) lays out built-in functions in a way "
            "padiff_shim does not know; CPython 3.10 to 3.13 with the GIL is supported",
            name=name,
            python=sys.implementation.name,
            version=sys.version.split()[0],
        )
    view = _Function.from_address(id(function))
    if view.ob_type != id(type(function)) or not view.m_ml or view.m_self != id(function.__self__):
        raise InterceptionError("cannot intercept {name}: it is not laid out as a built-in function of this CPython", name=name)
    definition = _MethodDef.from_address(view.m_ml)
    if definition.ml_name != name.encode() or definition.ml_flags & 0xFFFF != flags:
        raise InterceptionError("cannot intercept {name}: it is not a (*args, **kwargs) function", name=name)
    return view, definition


class FunctionGroup:
    """Many built-in functions that are switched in one go, by loops in C.

    A thousand are hardly ever touched between two switches: what has to be fetched from memory counts, not what is computed. So
    their states are laid out anew, side by side, in the order in which the functions lie.
    """

    def __init__(self, patches: Sequence[CFunctionPatch]) -> None:
        self._patches = patches
        self._pairs: list[Any] = []

    def install(self) -> list[Point]:
        """Redirect all; those where somebody else's is, which is left."""
        if not self._pairs:
            ordered = sorted(self._patches, key=lambda patch: ctypes.addressof(patch._pair))
            self._pairs = [_Pair.from_address(ctypes.addressof(patch._pair)) for patch in ordered]
            self._native = [bytes(bytearray(patch.native)) for patch in ordered]
            self._hooked = [bytes(bytearray(patch.hooked)) for patch in ordered]
            self._all_native, self._all_hooked = b"".join(self._native), b"".join(self._hooked)
        if b"".join(map(_read, self._pairs)) != self._all_native:
            return [patch for patch in self._patches if not patch.install()]
        collections.deque(map(_write, self._pairs, self._hooked), 0)
        return []

    def uninstall(self) -> list[Point]:
        """Restore all; those where somebody else's is, which is left."""
        if b"".join(map(_read, self._pairs)) != self._all_hooked:
            return [patch for patch in reversed(self._patches) if not patch.uninstall()]
        collections.deque(map(_write, self._pairs, self._native), 0)
        return []


class CFunctionPatch(Redirection):
    """One built-in function that can be redirected to ``hook`` and back.

    ``original`` is a second built-in over the same C code: it always runs the native op.
    """

    cheap = False  # more than a thousand
    together = FunctionGroup

    def __init__(self, function: BuiltinFunctionType, path: str = "") -> None:
        view, definition = _check_layout(function)
        self.function, self.path = function, path or function.__name__
        self.original: Callable[..., Any] = _new_function(view.m_ml, view.m_self, view.m_module)
        # m_ml and m_self are neighbours: one memory copy under the GIL switches both at once, so that no thread ever sees
        # the new method with the old self.
        self._pair = _Pair.from_address(id(function) + _Function.m_ml.offset)
        self.native = bytes(self._pair.raw)
        self._definition = _MethodDef(definition.ml_name, _OBJECT_CALL, definition.ml_flags, definition.ml_doc)

    def set_hook(self, hook: Callable[..., Any]) -> None:
        """What calls are redirected to after :meth:`install`."""
        # As `m_self` a module leaves a built-in function what it was, a function of a module: to `repr`, to pickle and by its
        # `__qualname__`.
        module = type("redirected", (ModuleType,), {"__call__": staticmethod(hook)})  # called from its type, without a frame
        standing = module(getattr(self.function.__self__, "__name__", ""))
        pointers = (ctypes.addressof(self._definition), id(standing))
        # While redirected the struct owns a reference to the hook, as CPython's garbage collector expects; it is taken once and
        # kept, so that switching costs one memory copy.
        _incref(standing)
        self.hooked = b"".join(p.to_bytes(_PAIR // 2, sys.byteorder) for p in pointers)

    def read(self) -> bytes:
        """The two pointers."""
        return self._pair.raw

    def write(self, state: bytes) -> None:
        """Exchange the two pointers."""
        self._pair.raw = state

    def install(self) -> bool:
        """As for any redirection, without the detours."""
        pair = self._pair
        if pair.raw == self.native:
            pair.raw = self.hooked
            return True
        return pair.raw == self.hooked

    def uninstall(self) -> bool:
        """As :meth:`install`."""
        pair = self._pair
        if pair.raw == self.hooked:
            pair.raw = self.native
            return True
        return pair.raw == self.native

    def is_state(self, now: bytes, state: bytes) -> bool:
        """Pointers are compared by value."""
        return now == state

    def describe(self, state: bytes) -> str:
        """Somebody else's redirection of the C function."""
        return "a built-in function that was redirected in place"


def redirected(function: BuiltinFunctionType) -> bool:
    """Whether somebody has redirected a C function of a module in place: it no longer belongs to a plain module then."""
    return type(function.__self__) is not ModuleType


# ---- Redirects a plain Python function *in place* (the counterpart of the above).
#
# The function's code object is exchanged for one that calls the hook, so that references taken earlier (``from
# paddle.nn.functional import linear``) are intercepted too; undoing puts the very code object back. The new code has the
# parameters of the old one: signature, defaults and the errors for wrong arguments are the function's own.

_HOOK = "_padiff_shim_hook"


def _source(code: CodeType) -> str:
    """A function with the parameters of ``code`` that passes all of them on to the constant ``_HOOK``."""
    count = code.co_argcount
    names = list(code.co_varnames[: count + code.co_kwonlyargcount])
    positional, keywords = names[:count], names[count:]
    rest = list(code.co_varnames[len(names) :])
    declared, passed = list(positional), list(positional)
    if code.co_posonlyargcount:
        declared.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        star = f"*{rest.pop(0)}"
        declared.append(star)
        passed.append(star)
    elif keywords:
        declared.append("*")
    declared += keywords
    passed += [f"{name}={name}" for name in keywords]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        declared.append(f"**{rest[0]}")
        passed.append(f"**{rest[0]}")
    # The hook is a constant of the code: nothing is looked up in the globals of Paddle's module.
    return f"def redirect({', '.join(declared)}):\n {_HOOK} = {_HOOK!r}\n return {_HOOK}({', '.join(passed)})\n"


class PyFunctionPatch(Redirection):
    """One Python function that can be redirected to a hook and back; ``original`` always runs the native code."""

    def __init__(self, function: FunctionType, path: str = "") -> None:
        if function.__closure__:
            raise InterceptionError("cannot intercept {qualname}: it is a closure", qualname=function.__qualname__)
        self.function, self.path = function, path or f"{function.__module__}.{function.__qualname__}"
        self.native = function.__code__
        self.original: Callable[..., Any] = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.original.__kwdefaults__ = function.__kwdefaults__

    def set_hook(self, hook: Callable[..., Any]) -> None:
        """What calls are redirected to after :meth:`install`."""
        # Code with the parameters, name and place of `native` that calls `hook`
        compiled = compile(_source(self.native), self.native.co_filename, "exec")
        code = next(constant for constant in compiled.co_consts if isinstance(constant, CodeType))
        # New in 3.11
        named: dict[str, Any] = {"co_qualname": self.native.co_qualname} if hasattr(self.native, "co_qualname") else {}
        self.hooked = code.replace(
            co_consts=tuple(hook if constant == _HOOK else constant for constant in code.co_consts),
            co_name=self.native.co_name,
            co_filename=self.native.co_filename,
            co_firstlineno=self.native.co_firstlineno,
            **named,
        )

    def read(self) -> CodeType:
        """The function's code."""
        return self.function.__code__

    def write(self, state: CodeType) -> None:
        """Exchange the function's code."""
        self.function.__code__ = state

    def ours(self) -> bool:
        """As for any redirection, without the detours."""
        return self.function.__code__ is self.hooked

    def install(self) -> bool:
        """As for any redirection, without the detours."""
        function = self.function
        now = function.__code__
        if now is self.native:
            function.__code__ = self.hooked
            return True
        return now is self.hooked

    def uninstall(self) -> bool:
        """As :meth:`install`."""
        function = self.function
        now = function.__code__
        if now is self.hooked:
            function.__code__ = self.native
            return True
        return now is self.native

    def describe(self, state: CodeType) -> str:
        """Somebody else's code, by its place."""
        return f"the code of {state.co_name} at {state.co_filename}:{state.co_firstlineno}"


# ---- Exchanges an attribute of a class: an operator's descriptor, a method.


class AttributePatch(Redirection):
    """An attribute of a class (an operator descriptor, a method), exchanged and put back as the very object."""

    rests = sys.version_info < (3, 13)  # from there on each change uses up one of a class's version tags

    def __init__(self, owner: type, name: str, path: str = "") -> None:
        self.owner, self.name, self.path = owner, name, path or f"{owner.__qualname__}.{name}"
        self.native = owner.__dict__[name]
        self.original: Callable[..., Any] = self.native

    def set_hook(self, hook: Callable[..., Any]) -> None:
        """What the attribute is exchanged for: it looks like the native one to whoever asks for its name, text or signature."""
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__objclass__", "__text_signature__"):
            if hasattr(self.native, attribute):
                setattr(hook, attribute, getattr(self.native, attribute))
        hook.__wrapped__ = self.native  # type: ignore[attr-defined]
        self.hooked = hook

    def read(self) -> Any:
        """The object in the class."""
        return self.owner.__dict__.get(self.name, ABSENT)

    def ours(self) -> bool:
        """As for any redirection, without the detours."""
        return self.owner.__dict__.get(self.name, ABSENT) is self.hooked

    def write(self, state: Any) -> None:
        """Exchange the object in the class."""
        setattr(self.owner, self.name, state)


class ClassMethodPatch(Redirection):
    """A class method in C, redirected in its definition, so that methods that were bound to a class earlier are intercepted, too.

    They share one PyMethodDef, and CPython calls each as ``ml_meth(class, args, kwargs)``. With ``PyObject_Call`` there the class
    is called; the hook is the ``__call__`` of its metaclass, a class of Python's.
    """

    rests = AttributePatch.rests

    def __init__(self, owner: type, name: str, path: str) -> None:
        self.owner, self.name, self.path = owner, name, path
        _, self._definition = _check_layout(getattr(owner, name), _VARARGS_KEYWORDS | _CLASS)
        shared = self._definition
        self._copy = _MethodDef(shared.ml_name, shared.ml_meth, shared.ml_flags, shared.ml_doc)
        self.native, self.hooked = shared.ml_meth, _OBJECT_CALL

    def original(self, kind: type) -> Any:
        """The native method of a class."""
        return _new_function(ctypes.addressof(self._copy), id(kind), None)

    def set_hook(self, hook: Callable[..., Any]) -> None:
        """What is called, with the class, after :meth:`install`."""
        self._hook = hook

    def read(self) -> Any:
        """The address of the C code."""
        return self._definition.ml_meth

    def write(self, state: Any) -> None:
        """Exchange it; the metaclass has the hook as long as the class is called."""
        if state == self.hooked:
            type(self.owner).__call__ = self._hook  # type: ignore[method-assign]
            self._definition.ml_meth = state
        else:
            self._definition.ml_meth = state
            del type(self.owner).__call__

    def is_state(self, now: Any, state: Any) -> bool:
        """Addresses are compared by value."""
        return bool(now == state)

    def describe(self, state: Any) -> str:
        """Somebody else's redirection of the C code."""
        return "a class method that was redirected in place"
