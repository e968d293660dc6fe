"""``padiff-shim run``: a program sees the same world as under ``python``. No Paddle here: see test_run_paddle.py."""

import os
import signal
import subprocess
import sys

import pytest
from helpers import PATIENCE, ROOT

pytestmark = pytest.mark.compat

WORLD = '''"""A docstring."""
import __main__, inspect, pickle, sys

class Kept:
    pass

annotated: int = 3
print(__name__, __file__, __doc__, getattr(__spec__, 'name', None), __package__, __cached__, type(__loader__).__name__)
print(sys.argv, sys.path[0])
print(sorted(globals()), __main__.Kept is Kept, type(pickle.loads(pickle.dumps(Kept()))) is Kept, inspect.getsource(Kept))
'''
ERRORS = {
    "error": "def f():\n    1 / 0\nf()\n",
    "error from another": "try:\n    {}['a']\nexcept KeyError as error:\n    raise ValueError('b') from error\n",
    "error in the first line": "raise OSError(32, 'a broken pipe of its own')\n",
    "end of input": "raise EOFError\n",
    "syntax": "def f(:\n    pass\n",
    "exit 3": "import sys\nsys.exit(3)\n",
    "exit with words": "import sys\nsys.exit('that was it')\n",
    "exit with nothing": "raise SystemExit\n",
    "interrupt": "raise KeyboardInterrupt\n",
    "_exit": "import os\nprint('x', flush=True)\nos._exit(5)\n",
    "terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "assertion": "assert 1 == 2, 'no'\n",
    "own hook": "import sys\nsys.excepthook = lambda kind, e, tb: print(kind, tb.tb_lineno, e.__traceback__ is tb)\n1 / 0\n",
    "hook sees it": "import atexit, sys\natexit.register(lambda: print(sys.last_value, sys.last_traceback.tb_lineno))\n1 / 0\n",
    "thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='t')\nt.start()\nt.join()\n",
    "a thread that goes on": "import threading, time\nthreading.Timer(0.3, print, ['late']).start()\nprint('end')\n",
    "atexit": "import atexit\natexit.register(print, 'first')\natexit.register(print, 'second')\n1 / 0\n",
    "click": "import click\nraise click.UsageError('of the program')\n",
    "warning": "import warnings\nwarnings.warn('w')\n",
    "latin": "# -*- coding: latin-1 -*-\nprint(ascii('\\xe9'))\n",
}  # fmt: skip


def ended(command, cwd, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, timeout=PATIENCE, **options)
    return done.returncode, done.stdout, done.stderr


def same_as_python(arguments, cwd, options=(), **keywords):
    """Exit status, standard output and standard error are those of ``python arguments``."""
    plain = ended([sys.executable, *arguments], cwd, **keywords)
    ours = ended([sys.executable, "-m", "padiff_shim", "run", "--quiet", *options, *arguments], cwd, **keywords)
    assert ours == plain
    return plain


@pytest.mark.rows(2)
@pytest.mark.parametrize("path", ["train.py", "./train.py", "sub/../train.py", "link.py", "/absolute"])
def test_the_world_of_a_script(path, tmp_path):
    (tmp_path / "train.py").write_text(WORLD)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "real.py").write_text(WORLD)
    (tmp_path / "link.py").symlink_to("sub/real.py")
    path = str(tmp_path / "train.py") if path == "/absolute" else path
    status, out, _ = same_as_python([path, "--epochs", "3", "-m", "--compare"], tmp_path)
    assert status == 0
    assert b"--compare" in out


@pytest.mark.rows(1)
@pytest.mark.parametrize("options", [(), ("--compare", "--ops", "linear")])
def test_the_world_of_a_module(options, tmp_path):
    package = tmp_path / "project" / "inner"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("print('package', __name__)\n")
    (package / "train.py").write_text(WORLD + "from . import __name__ as above\nprint(above)\n1 / 0\n")
    (package / "__main__.py").write_text("import sys\nprint(__spec__.name, sys.argv)\n")
    assert same_as_python(["-m", "project.inner.train", "--lr", "1"], tmp_path, options)[0] == 1
    assert same_as_python(["-m", "project.inner", "-x"], tmp_path, options)[0] == 0


@pytest.mark.slow
def test_the_world_of_a_folder_and_of_an_archive(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import other, sys\nprint(__name__, __file__, sys.argv, sys.path[0])\n1 / 0\n")
    (tmp_path / "app" / "other.py").write_text("")
    subprocess.run([sys.executable, "-m", "zipapp", "app"], cwd=tmp_path, check=True, timeout=PATIENCE)
    assert same_as_python(["app", "1"], tmp_path)[0] == 1
    assert same_as_python(["app.pyz", "1"], tmp_path)[0] == 1


@pytest.mark.rows(3)
@pytest.mark.parametrize("name", ERRORS)
def test_every_end_is_that_of_python(name, tmp_path):
    (tmp_path / "train.py").write_text(ERRORS[name], encoding="latin-1")
    same_as_python(["train.py"], tmp_path)


def test_a_program_that_reads_its_input(tmp_path):
    (tmp_path / "train.py").write_text("print(input())\nprint(input())\n")
    assert same_as_python(["train.py"], tmp_path, input=b"a line\n")[1] == b"a line\n"


def interrupted(command, cwd):
    """SIGINT at a program that waits. Processes in the background ignore it: the program asks for it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    return process.returncode, out, err


# "ready" is said by a thread that sees the program at its last line: said by the line before, it would still be ending there.
WAITS = """import signal, sys, threading, time
def ready(main=sys._getframe()):
    while main.f_lineno != 8:
        time.sleep(0.01)
    print("ready")
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=ready, daemon=True).start()
time.sleep(1e6)
"""


def test_ctrl_c_is_that_of_python(tmp_path):
    (tmp_path / "train.py").write_text(WAITS)
    plain = interrupted([sys.executable, "train.py"], tmp_path)
    assert interrupted([sys.executable, "-m", "padiff_shim", "run", "--quiet", "train.py"], tmp_path) == plain
    assert plain[0] == -signal.SIGINT
    assert b"line 8, in <module>\n    time.sleep(1e6)\n" in plain[2]


SPAWNING = """
import multiprocessing, os, sys
print("imported as", __name__, flush=True)

class Task:
    def __call__(self, number):
        return number, __name__, sys.argv, [name for name in sys.modules if name.startswith("padiff")]

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(1) as pool:
        print(pool.map(Task(), [1, 2]))
"""


@pytest.mark.rows(1)
@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_processes_that_import_main_again(how, tmp_path):
    (tmp_path / "train.py").write_text(SPAWNING)
    status, out, err = same_as_python(["train.py", how], tmp_path)
    assert (status, out.count(b"__mp_main__")) == (0, 3), err


def test_forked_processes(tmp_path):
    (tmp_path / "train.py").write_text(SPAWNING.replace(', [name for name in sys.modules if name.startswith("padiff")]', ""))
    assert same_as_python(["train.py", "fork"], tmp_path)[0] == 0


# ------------------------------------------------------------------------------------------------ what is refused before it begins


@pytest.mark.rows(2)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.py"], b"the program none.py does not exist"),
        (["--compare", "--strict", "train.py"], b"--strict belongs to reference"),
        (["--every", "3", "train.py"], b"--every belongs to compare"),
        (["--compare", "--reference", "train.py"], b"exclude each other"),
        (["--compare", "--audit", "few", "train.py"], b"audit= is a whole number from 0 on, got 'few' (--audit)"),
        (["--compare", "--html", "train.py/a.html", "train.py"], b"train.py is no folder"),
        (["--markdown", ".", "train.py"], b". cannot be written: it is a folder"),
        (["--json", "/dev/null/all.json", "train.py"], b"/dev/null is no folder"),
        (["--html", "-", "train.py"], b"into a file, not onto standard output"),
        (["--log", "train.py", "train.py"], b"the log train.py cannot be written"),
        (["--compare", "--log", "/proc/none/log", "train.py"], b"the log /proc/none/log cannot be written: /proc is not writable"),
        (["--comapre", "train.py"], b"--compare"),
        ([], b"PROGRAM"),
    ],
)
def test_what_cannot_be_done_is_said_first(arguments, message, tmp_path):
    (tmp_path / "train.py").write_text("print('begun')\n")
    status, out, err = ended([sys.executable, "-m", "padiff_shim", "run", *arguments], tmp_path)
    assert (status, out) == (2, b"")
    assert message in b" ".join(err.split()), err


def test_a_program_without_paddle_is_told(tmp_path):
    (tmp_path / "train.py").write_text("print('done')\n")
    status, out, err = ended([sys.executable, "-m", "padiff_shim", "run", "train.py"], tmp_path)
    assert (status, out) == (0, b"done\n")
    assert b"did not import paddle" in err
