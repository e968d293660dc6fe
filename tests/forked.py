"""Programs in processes of their own, forked from a process that has imported both frameworks.

Importing Paddle and Torch takes two to four seconds of a processor, and what they and padiff_shim import at their first use
almost two more; a fork takes hundredths of one. A program finds nothing of padiff_shim imported, as in a new interpreter, unless it
is begun ``warm``: then it also finds what a process learns as it opens its first mode, half a second. What a fork cannot
show needs a new interpreter (``subprocess.run([sys.executable, ...])``): variables that the frameworks read as they are imported,
how Python itself ends, and every byte of standard error.
"""

import atexit
import contextlib
import fcntl
import json
import multiprocessing.forkserver
import os
import runpy
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
context = multiprocessing.get_context("forkserver")


class Server(multiprocessing.forkserver.ForkServer):
    """One for all processes that run a suite's tests: the first that needs it starts it, and it ends with the last of them."""

    def __init__(self, opened):
        super().__init__()
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
        self.opened, self.starts = opened, True  # False: another process has started it
        self.notice = run and Path(tempfile.gettempdir()) / f"padiff-shim-tests-{run}-{opened}"

    @contextlib.contextmanager
    def locked_notice(self):
        with open(self.notice, "a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            yield file

    def ensure_running(self):
        if not self.starts:
            return
        if self.notice is None or self._forkserver_pid is not None:
            super().ensure_running()
            return
        with self.locked_notice() as file:
            try:
                address, alive = json.loads(file.read())
                self._forkserver_alive_fd = os.open(alive, os.O_WRONLY)
            except (ValueError, FileNotFoundError):  # there is none, or its process was ended by a test
                super().ensure_running()
                file.truncate(0)
                json.dump([self._forkserver_address, f"/proc/{os.getpid()}/fd/{self._forkserver_alive_fd}"], file)
            else:
                self._forkserver_address, self.starts = address, False

    def _stop(self):
        if not self.starts:
            os.close(self._forkserver_alive_fd)
        elif self.notice is not None and self._forkserver_pid is not None:
            with self.locked_notice() as file:
                file.truncate(0)
                self.notice.unlink()
        super()._stop()


# Whether it has opened a mode -> the server.
SERVERS = {opened: Server(opened) for opened in (True, False)}
# Torch imports its symbolic shapes at the first backward; with them comes sympy.
FRAMEWORKS = ("numpy", "paddle", "torch", "torch.fx.experimental.symbolic_shapes")
OURS, OPENED = "padiff_shim", "opened"
OF_TESTS = ("pytest_plugin", "pytest_plugin.plugin")  # they import pytest
# Read by the frameworks as they are imported, which has happened before the fork.
READ_AT_IMPORT = ("ATEN_", "CUDA_", "FLAGS_", "LD_", "MALLOC_", "MKL_", "OMP_", "ONEDNN_", "PADDLE_", "PYTHON", "TORCH_")
ENVIRONMENT = dict(os.environ)

PATIENCE = 1200
"""Seconds after which a process, a thread or a page counts as hung: the only such limit of the tests.

It only ends a hang, and decides nothing else. No test needs a tenth of it on two quiet cores, so a machine that is busy with other
things passes as well. pytest's own limit, in setup.cfg, is three times as long: a test may wait for several processes in turn.
"""

WATCHDOG = f"import faulthandler; faulthandler.dump_traceback_later({PATIENCE // 2}, exit=True)\n"
"""First line of a program that can hang: it ends itself, with the tracebacks of its threads, before :data:`PATIENCE` is over."""


def modules():
    """The package's modules that a program may import as it runs."""
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sorted((ROOT / OURS).rglob("*.py"))]
    return [name.removesuffix(".__init__") for name in names if not name.endswith(("__main__", *OF_TESTS))]


def serve(opened):
    """Start the server, if it does not run: it has imported both frameworks, and finds the checkout. It makes the next process."""
    SERVERS[opened].set_forkserver_preload([*FRAMEWORKS, *modules(), *[OPENED] * opened])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "tests"), *([before] if before else [])])
    try:
        SERVERS[opened].ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        os.environ.update({"PYTHONPATH": before} if before is not None else {})
    multiprocessing.forkserver.connect_to_new_process = SERVERS[opened].connect_to_new_process


def run(arguments, *, cwd=None, timeout=PATIENCE, together=False, warm=False, opened=True, **variables):
    """What ``python *arguments`` prints, and how it ends: ``["-c", source, ...]``, ``["-m", module, ...]`` or ``["file.py", ...]``.

    ``variables``: of the environment, beside this process's; the checkout is on PYTHONPATH. ``together``: standard error goes into
    ``stdout``, too. ``warm``: the package's modules are imported already. ``opened=False``: where it matters that no mode was ever
    open in the process that it is forked from. ValueError: a variable comes too late for the frameworks.
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    names = {name for name in {*env, *ENVIRONMENT} if name.startswith(READ_AT_IMPORT)} - {"PYTHONPATH"}
    late = sorted(name for name in names if env.get(name) != ENVIRONMENT.get(name))
    if late:
        raise ValueError(f"a forked process cannot show what {', '.join(late)} would do: run a new interpreter")
    with started(arguments, env, cwd=cwd, together=together, warm=warm, opened=opened) as ended:
        return ended(timeout)


@contextlib.contextmanager
def started(arguments, env, *, cwd=None, together=False, warm=False, opened=True):
    """A program begins, with this environment: a function that waits for its end. It does not outlive the block.

    The function's ``process`` can be sent signals, and its ``printed`` awaited: :func:`until_printed`.
    """
    serve(opened)
    arguments = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder) / "stdout", Path(folder) / ("stdout" if together else "stderr")]
        process = context.Process(target=_begin, args=(arguments, str(cwd or os.getcwd()), env, warm, *map(str, streams)))
        process.start()

        def ended(timeout=PATIENCE):
            process.join(timeout)
            if process.exitcode is None:
                raise subprocess.TimeoutExpired(arguments, timeout, *(stream.read_bytes() for stream in streams))
            texts = [stream.read_text("utf-8", "replace") for stream in streams]
            return subprocess.CompletedProcess(["python", *arguments], process.exitcode, *texts)

        ended.process, ended.printed = process, streams[0]
        ended.printed.touch()
        try:
            yield ended
        finally:
            process.kill()
            process.join()


def until_printed(line, ended):
    """Wait until a program that was :func:`started` has printed a line; if it ends before, its error is the message."""
    until = time.monotonic() + PATIENCE
    while line not in ended.printed.read_text().splitlines() and time.monotonic() < until:
        assert ended.process.exitcode is None, ended().stderr
        time.sleep(0.01)


def stop():
    """End the servers, and wait for them, so that what their programs took is counted as this process's."""
    for server in SERVERS.values():
        server._stop()


def _begin(arguments, cwd, env, warm, *streams):
    """In the forked process: the world of a program as a new interpreter makes it, then the program."""
    multiprocessing.set_start_method("fork", force=True)
    for number, path in enumerate(streams, 1):
        with open(path, "ab") as stream:
            os.dup2(stream.fileno(), number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - until the process ends
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    tempfile.tempdir = None  # TMPDIR is read anew
    sys.orig_argv = [sys.executable, *arguments]
    own = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:] = own + [entry for entry in sys.path if entry.startswith((sys.prefix, sys.base_prefix))]
    if warm:
        sys.modules[f"{OURS}.dispatch.frames"].forked = False  # no child of the program's: it begins here
    for name in [__name__, OPENED, *(name for name in sys.modules if not warm and name.partition(".")[0] == OURS)]:
        sys.modules.pop(name, None)
    try:
        _program(*arguments)
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.run_path.__code__.co_filename):
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None
    finally:
        atexit._run_exitfuncs()  # multiprocessing ends a process without them


def _program(first, *others):
    sys.path.insert(0, "" if first == "-c" else os.getcwd() if first == "-m" else str(Path(first).resolve().parent))
    if first == "-c":
        source, *others = others
        sys.argv = ["-c", *others]
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(source, "<string>", "exec"), main.__dict__)
    elif first == "-m":
        module, *others = others
        sys.argv = [module, *others]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *others]
        runpy.run_path(first, run_name="__main__")
