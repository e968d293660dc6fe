"""Lets the ranks of a program under ``padiff-shim run`` enter its mode.

This folder is the first on ``PYTHONPATH`` of the program's processes, so that every Python among them runs this module when it
begins, in place of the site's own ``sitecustomize``. The module takes its folder off ``sys.path``, waits for the import of Paddle,
and runs the site's own module. A process that never imports Paddle does nothing else, nor does one that is no rank: a data loader's
worker, a launcher, or any other program. The environment tells whether a process is a rank: from the beginning if a launcher
started it, and later under ``paddle.distributed.spawn``.

This library is not imported before a rank has imported Paddle, and the source runs on every Python 3 with annotations and
f-strings: the program chooses its Python.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType

VARIABLE = "PADIFF_SHIM_RUN"  # written by padiff_shim/cli/ranks.py; modes/options.py ignores it
SPAWN = "paddle.distributed.spawn"  # the module; the function of that name hides it
_RANK = ("PADDLE_TRAINER_ID", "RANK")
_OF_A_RANK = (*_RANK, "PADDLE_CURRENT_ENDPOINT", "PADDLE_MASTER", "LOCAL_RANK", "MASTER_PORT")


def rank() -> "list[str]":
    """The values that make this process a rank of a distributed program; [] if it is none."""
    if not any(os.environ.get(name) for name in _RANK):
        return []
    return [os.environ.get(name, "") for name in _OF_A_RANK]


def after(module: str, name: str, action: "Callable[[], object]") -> bool:
    """Call ``action()`` after each call of a function of an imported module; False if there is no such function."""
    import functools

    native = getattr(sys.modules.get(module), name, None)
    if native is None:
        return False

    @functools.wraps(native)
    def called(*args: object, **kwargs: object) -> object:
        result = native(*args, **kwargs)
        action()
        return result

    setattr(sys.modules[module], name, called)
    return True


def _entered() -> bool:
    """Open the mode, if this process is a rank, and not the one that the run itself is."""
    import json

    text, here = os.environ.get(VARIABLE), rank()
    if not text or not here:
        return False
    run = json.loads(text)
    if here == run["inside"]:
        return False
    try:
        sys.path.insert(0, run["root"])
        try:
            __import__(run["package"])
        finally:
            sys.path.remove(run["root"])
        __import__(run["module"])
    except ImportError as error:
        sys.stderr.write(f"padiff-shim: this rank's Python, {sys.executable}, cannot enter the mode: {error}\n")
        raise SystemExit(2) from None
    sys.modules[run["module"]].enter(run)
    return True


class _Lookout:
    """Finds Paddle as without this module, and observes the end of its import."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        if name != "paddle":
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is None or not hasattr(spec.loader, "exec_module"):
            sys.meta_path.insert(0, self)
        else:
            spec.loader = _Loader(self, spec)  # type: ignore[assignment]
        return spec


class _Loader:
    """The loader of Paddle during its import."""

    def __init__(self, lookout: _Lookout, spec: "ModuleSpec") -> None:
        self._lookout, self._spec, self._native = lookout, spec, spec.loader

    def __getattr__(self, name: str) -> object:
        return getattr(self._native, name)

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        return self._native.create_module(spec)  # type: ignore[union-attr]

    def exec_module(self, module: "ModuleType") -> None:
        self._spec.loader = module.__loader__ = self._native
        try:
            self._native.exec_module(module)  # type: ignore[union-attr]
        except BaseException:
            sys.meta_path.insert(0, self._lookout)  # the program may try again
            raise
        # Paddle has been imported
        if not _entered():
            after(SPAWN, "_set_trainer_env", _entered)


def _begin() -> None:
    here = os.path.dirname(__file__)
    sys.path[:] = [place for place in sys.path if place != here]
    if os.environ.get(VARIABLE):
        sys.meta_path.insert(0, _Lookout())
    del sys.modules[__name__]
    __import__(__name__)  # the site's own; the interpreter expects ImportError if there is none


if __name__ == "sitecustomize":
    _begin()
