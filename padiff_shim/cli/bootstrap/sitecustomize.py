"""How ranks of a program under ``padiff-shim run`` come into its mode: this folder stands first on ``PYTHONPATH`` of what the
program starts, so that every Python among it runs this module when it begins, in place of the site's own ``sitecustomize``.

It takes its folder off ``sys.path``, looks out for the import of Paddle, and hands over to the site's own module. A process that
never imports Paddle does nothing else; nor does one that is no rank: a data loader's worker, a launcher, whatever the program
executes. A rank is told by its environment: at once if a launcher made it, and by ``paddle.distributed.spawn`` when it has begun.

Nothing of ours is imported here before a rank has imported Paddle, and the text keeps to what every Python 3 understands: it is the
program that chooses which one it starts.
"""

import os
import sys

VARIABLE = "PADIFF_SHIM_RUN"  # holds what padiff_shim/cli/ranks.py wrote; modes/options.py takes it for no setting
SPAWN = "paddle.distributed.spawn"  # the module; the function of that name hides it
_RANK = ("PADDLE_TRAINER_ID", "RANK")
_OF_A_RANK = (*_RANK, "PADDLE_CURRENT_ENDPOINT", "PADDLE_MASTER", "LOCAL_RANK", "MASTER_PORT")


def rank():
    """What makes this process a rank of a distributed program; nothing where it is none."""
    if not any(os.environ.get(name) for name in _RANK):
        return []
    return [os.environ.get(name, "") for name in _OF_A_RANK]


def after(module, name, action):
    """Have ``action()`` called after each call of a function of a module that is imported; False where there is none."""
    import functools

    native = getattr(sys.modules.get(module), name, None)
    if native is None:
        return False

    @functools.wraps(native)
    def called(*args, **kwargs):
        result = native(*args, **kwargs)
        action()
        return result

    setattr(sys.modules[module], name, called)
    return True


def _imported():
    """Paddle is there."""
    if not _entered():
        after(SPAWN, "_set_trainer_env", _entered)


def _entered():
    """Open the mode, if this process is a rank, and one that the process with the mode was not."""
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
    """Finds Paddle as it would be found without, and sees when its import has ended."""

    def find_spec(self, name, path=None, target=None):
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
    """The loader of Paddle, for the time of its import."""

    def __init__(self, lookout, spec):
        self._lookout, self._spec, self._native = lookout, spec, spec.loader

    def __getattr__(self, name):
        return getattr(self._native, name)

    def create_module(self, spec):
        return self._native.create_module(spec)

    def exec_module(self, module):
        self._spec.loader = module.__loader__ = self._native
        try:
            self._native.exec_module(module)
        except BaseException:
            sys.meta_path.insert(0, self._lookout)  # the program may try again
            raise
        _imported()


def _begin():
    here = os.path.dirname(__file__)
    sys.path[:] = [place for place in sys.path if place != here]
    if os.environ.get(VARIABLE):
        sys.meta_path.insert(0, _Lookout())
    del sys.modules[__name__]
    __import__(__name__)  # the site's own. That there is none is what the interpreter expects to be told


if __name__ == "sitecustomize":
    _begin()
