"""A script or module run as Python itself would run it, with tracebacks as Python alone would show them; ``file.py:name``."""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib.util
import os
import pkgutil
import re
import runpy
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FunctionType, ModuleType, TracebackType
from typing import Any

from ..errors import ArgumentError, FileError, MissingFileError, unknown, unreadable
from ..modes.environment import INSTALL
from ..text import joined, tr


def load(word: str, argument: str) -> Any:
    """The object that ``word`` names.

    Two files in different folders may have modules of one name beside them: each gets its own when it is imported. A file that
    several words name is imported once.

    Raises:
        ArgumentError: ``word`` has another form, or there is no such name (the message names the nearest).
        FileError: there is no such file.

    Exceptions of the file itself are raised unchanged.
    """
    place, _, name = word.rpartition(":")
    modules = place.endswith(".py") or all(part.isidentifier() for part in place.split("."))
    if not modules or not all(part.isidentifier() for part in name.split(".")):
        raise ArgumentError("{argument} is file.py:name or package.module:name, got {word}", argument=argument, word=repr(word))
    target: Any = _file(Path(place), argument) if place.endswith(".py") else _module(place, argument)
    for part in name.split("."):
        if not hasattr(target, part):
            names = [name for name in dir(target) if not name.startswith("_")]
            raise ArgumentError(joined(": ", (argument, unknown(tr("name in {place}", place=place), part, names))))
        target = getattr(target, part)
    return target


def called(target: Callable[..., Any], word: str, **arguments: Any) -> Any:
    """What the object of ``word`` answers; imports inside it find the modules beside its file."""
    place = word.partition("?")[0].rpartition(":")[0]
    with beside(home(Path(place).resolve())[0]) if place.endswith(".py") else contextlib.nullcontext():
        return target(**arguments)


def home(path: Path) -> tuple[Path, str]:
    """The folder in which imports of a file begin, and the file's name as a module there.

    Of a file that imports from its own package (``from .blocks import ...``) it is the folder above the package.
    """
    folder, names = path.parent, [path.stem] if path.stem != "__init__" else []
    while (folder / "__init__.py").is_file():
        folder, names = folder.parent, [folder.name, *names]
    try:
        nodes = list(ast.walk(ast.parse(path.read_bytes()))) if folder != path.parent else []
    except (OSError, SyntaxError, ValueError):  # whoever imports it says so
        nodes = []
    if any(isinstance(node, ast.ImportFrom) and (node.level or f"{node.module}.".startswith(f"{names[0]}.")) for node in nodes):
        return folder, ".".join(names)
    return path.parent, path.stem


def _module(name: str, argument: str) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}.") or error.name in INSTALL:  # one that it imports
            raise
        raise ArgumentError("{argument}: there is no module {name}", argument=argument, name=error.name) from None


def _file(path: Path, argument: str) -> ModuleType:
    if not os.path.isfile(path):  # which takes names of any length
        raise MissingFileError("{argument}: the file {path} does not exist", argument=argument, path=path)
    path = path.resolve()
    state = path.stat()
    key = path, state.st_mtime_ns, state.st_size
    if key not in _IMPORTED:
        folder, name = home(path)
        try:
            if folder == path.parent and name in sys.modules:
                name = f"{folder.name}_{name}".replace("-", "_")
            with beside(folder):
                module = importlib.import_module(name) if folder != path.parent else _executed(name, path)
            sys.modules[name] = module
            sys.path.append(str(folder))  # for imports inside functions that are called later
            _IMPORTED[key] = module
        except SyntaxError as error:
            if error.filename not in (None, str(path)):
                raise
            place = f"{path}:{error.lineno}" if error.lineno else path
            raise FileError("{place} is no Python: {error}", place=place, error=error.msg) from None
    return _IMPORTED[key]


def _executed(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    _SIBLINGS[path.parent][name] = module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_IMPORTED: dict[tuple[Path, int, int], ModuleType] = {}  # files that words named, as they were


_SIBLINGS: dict[Path, dict[str, ModuleType]] = {}  # the modules of each folder of a named file, which others do not see


@contextlib.contextmanager
def forgetting() -> Iterator[dict[Path, dict[str, ModuleType]]]:
    """Named files and their neighbours are imported anew meanwhile; gives those that were by then, by folder and name."""
    imported, siblings = dict(_IMPORTED), dict(_SIBLINGS)
    _IMPORTED.clear()
    _SIBLINGS.update({folder: {} for folder in siblings})
    try:
        yield _SIBLINGS
    finally:
        _IMPORTED.clear()
        _IMPORTED.update(imported)
        _SIBLINGS.clear()
        _SIBLINGS.update(siblings)


@contextlib.contextmanager
def beside(folder: Path) -> Iterator[None]:
    """Imports find the modules of a folder first, though the folder of another named file has modules of these names."""
    siblings = _SIBLINGS.setdefault(folder, {})
    names = {entry.stem for entry in folder.iterdir()}
    namesakes = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}
    hidden = {
        name: module for name, module in namesakes.items() if any(_lies_in(module, other) for other in _SIBLINGS if other != folder)
    }
    for name in hidden:
        del sys.modules[name]
    before = set(sys.modules)
    sys.modules.update(siblings)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if _lies_in(sys.modules[name], folder):
                siblings[name] = sys.modules.pop(name)
        sys.modules.update(hidden)


def _lies_in(module: ModuleType, folder: Path) -> bool:
    """Whether a module lies in a folder, but in no environment below it."""
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder) and "site-packages" not in Path(file).parts


# Tracebacks as Python alone would show them, without this library's frames. A call that Paddle refuses reaches it through our
# hooks, on Torch's kernels or beside them; neither the hooks' frames nor earlier attempts belong to the program. An error of this
# library, or one that Torch raised below it, keeps its frames: they explain it. Paddle writes frames into messages, too: of errors
# in a hook or a PyLayer, and of programs that ``to_static`` refuses.

_LIBRARY = __name__.partition(".")[0]
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_BEGUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program.py")  # what stands above it are ours, and runpy
_TORCHS = os.sep + "torch" + os.sep
# An error of Paddle's C++ begins with its kind, or ends with its own source file.
_PADDLES = re.compile(
    r"\((InvalidArgument|NotFound|OutOfRange|AlreadyExists|ResourceExhausted|PreconditionNotMet|PermissionDenied|ExecutionTimeout"
    r"|Unimplemented|Unavailable|Fatal|External|InvalidType)\) |.*\(at /paddle/",
    re.DOTALL,
)
# A frame in a message: of C++ ("  /a/file.py(12): name"), innermost first, and of Python ('  File "/a/file.py", line 12, in name').
_LISTED = re.compile(r"\s+(?P<file>\S.*)\(\d+\): \S+$")
_SHOWN = re.compile(r'(?P<indent>\s*)File "(?P<file>.+)", line \d+, in .+$')


def tidy(error: BaseException) -> None:
    """Remove our frames from ``error``, its causes and its contexts."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        raised = waiting.pop()
        if raised is not None and id(raised) not in seen:
            seen.add(id(raised))
            raised.__traceback__ = _without_ours(raised)
            message = raised.args[0] if raised.args and type(raised.args[0]) is str else ""
            if message != (own_message := "\n".join(_said(message.split("\n")))):
                raised.args = (own_message, *raised.args[1:])
            waiting += [raised.__cause__, raised.__context__]


def _without_ours(error: BaseException) -> TracebackType | None:
    frames = []
    place = error.__traceback__
    while place is not None:
        frames.append(place)
        place = place.tb_next
    through = isinstance(error, KeyboardInterrupt) or bool(_PADDLES.match(str(error)))  # it only passed through our frames
    programs = [at for at, place in enumerate(frames) if not _is_ours(place) and _TORCHS not in place.tb_frame.f_code.co_filename]
    below = max(programs, default=-1)  # what Torch calls above a line of the program is the program's
    shown: list[TracebackType] = []
    left_out: list[TracebackType] = []  # our frames since the last other one
    for at, place in enumerate(frames):
        torchs = _TORCHS in place.tb_frame.f_code.co_filename
        if _is_ours(place) or (torchs and left_out and through):
            left_out.append(place)
            continue
        if torchs and at > below:
            shown += left_out
        shown.append(place)
        left_out = []
    if not shown or not through:
        shown += left_out
    for place, after in zip(shown, [*shown[1:], None]):
        place.tb_next = after
    return shown[0] if shown else None


def _is_ours(place: TracebackType) -> bool:
    """Whether a frame belongs to a hook, a formula, a command, or the code that replaces that of a Paddle function (the hook is a
    constant of that code)."""
    code, module = place.tb_frame.f_code, str(place.tb_frame.f_globals.get("__name__"))
    in_library = code.co_filename.startswith(_OURS) or module.partition(".")[0] in (_LIBRARY, "click", "contextlib")
    return in_library or any(type(constant) is FunctionType for constant in code.co_consts)


def _said(lines: list[str]) -> Iterator[str]:
    """The lines of a message without those of our frames."""
    at = 0
    while at < len(lines):
        if (listed := _LISTED.match(lines[at])) is not None:
            below = at
            while listed is not None:
                at += 1
                listed = _LISTED.match(lines[at]) if at < len(lines) else None
            yield from _listed(lines[below:at])
        elif (shown := _SHOWN.match(lines[at])) is not None and _of_ours(shown["file"]):
            at += 1
            while at < len(lines) and lines[at].startswith(shown["indent"] + " "):  # the line itself, and its marks
                at += 1
            at += at < len(lines) and not lines[at].strip()
        else:
            yield lines[at]
            at += 1


def _listed(frames: list[str]) -> Iterator[str]:
    """The frames to show, from the innermost on: without ours, those of Torch's engine between them, and those that began ours."""
    files = [frame.strip().rpartition("(")[0] for frame in frames]
    for place, (frame, file) in enumerate(zip(frames, files)):
        if file == _BEGUN:
            return
        above = files[place + 1] if place + 1 < len(files) else ""
        if not (_of_ours(file) or (_TORCHS in file and _of_ours(above))):
            yield frame


def _of_ours(file: str) -> bool:
    patches = getattr(sys.modules.get(f"{_LIBRARY}.patches"), "__file__", None)
    return file.startswith(_OURS if patches is None else (_OURS, os.path.dirname(patches) + os.sep, "<shortcut for "))


# A script or module run as Python itself would run it: ``python train.py ...``, ``python -m package.train ...``. The program sees
# its own ``__main__``, ``sys.argv``, ``sys.path[0]``, exit status, signals, ``atexit``, and tracebacks that begin in its own code.
# So its exceptions are not caught here: they reach the interpreter, which shows them without our frames.

_MAIN = "__main__"


def script(path: str, arguments: Sequence[str]) -> Callable[[], None]:
    """``python path arguments...``, ready to be called; also a folder or an archive with a ``__main__``.

    Raises:
        FileError: there is no such file, or it cannot be read.
    """
    if not os.path.exists(path):
        raise MissingFileError("the program {path} does not exist", path=path)
    if pkgutil.get_importer(path) is not None:

        def folder() -> None:
            _take_over([path, *arguments], os.path.join(os.getcwd(), path))
            _execute(functools.partial(_as_main, _MAIN, False))

        return folder
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise unreadable(tr("the program"), path, error) from None

    def program() -> None:
        name = os.path.join(os.getcwd(), path)
        main = _take_over([path, *arguments], os.path.dirname(os.path.realpath(path)))
        vars(main).update(__file__=name, __cached__=None, __loader__=SourceFileLoader(_MAIN, name))
        _execute(lambda: exec(compile(source, name, "exec", dont_inherit=True), vars(main)))

    return program


def module(name: str, arguments: Sequence[str]) -> Callable[[], None]:
    """``python -m name arguments...``, ready to be called."""

    def program() -> None:
        _take_over(["-m", *arguments], os.getcwd())
        _execute(functools.partial(_as_main, name, True))

    return program


def _as_main(name: str, alter_argv: bool) -> None:
    """The function that ``python -m`` calls."""
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _take_over(argv: list[str], folder: str) -> types.ModuleType:
    """An empty ``__main__``, ``sys.argv`` and ``sys.path[0]``, as the interpreter makes them."""
    main = types.ModuleType(_MAIN)
    vars(main).update(__builtins__=builtins, __package__=None, __loader__=None, __spec__=None)
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules[_MAIN], sys.argv = main, argv
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder
    return main


def _execute(program: Callable[[], Any]) -> None:
    """Call ``program``; its exceptions, and those of its threads, are raised on, and shown without the frames above it."""
    threading.excepthook = functools.partial(_show_of_thread, threading.excepthook)
    try:
        program()
    except SystemExit as end:
        _failures.append(end)
        raise
    except BaseException:
        sys.excepthook = functools.partial(_show, sys.excepthook)  # the program's own, if it has set one
        raise


_failures: list[SystemExit] = []


def failure() -> BaseException | None:
    """What ended the program: an error that nobody caught, or ``sys.exit``; None where neither did."""
    return next(iter(_failures), None) or getattr(sys, "last_value", None)


def leave_frames_out() -> None:
    """From now on show uncaught exceptions of every thread without our frames; for a program that did not begin here."""
    sys.excepthook = functools.partial(_show, sys.excepthook)
    threading.excepthook = functools.partial(_show_of_thread, threading.excepthook)


def _show(hook: Callable[..., Any], kind: Any, error: BaseException, traceback: Any) -> None:
    # The frames below those of this module; all of them if it has none
    last, place = None, traceback
    while place is not None:
        if place.tb_frame.f_code.co_filename == __file__:
            last = place
        place = place.tb_next
    error.__traceback__ = traceback if last is None else last.tb_next
    tidy(error)
    sys.last_traceback = own_frames = error.__traceback__
    hook(kind, error, own_frames)


def _show_of_thread(hook: Callable[..., Any], raised: threading.ExceptHookArgs) -> None:
    if raised.exc_value is not None:
        tidy(raised.exc_value)
        raised = threading.ExceptHookArgs((raised.exc_type, raised.exc_value, raised.exc_value.__traceback__, raised.thread))
    hook(raised)
