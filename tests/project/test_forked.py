"""A program in a forked process meets the world of a new interpreter, and ends as it would end there."""

import subprocess
import sys
from pathlib import Path

import forked
import pytest

WORLD = """
import sys, __main__
loaded = [name for name in ("paddle", "torch", "padiff_shim", "pytest", "helpers", "forked") if name in sys.modules]
print(__name__, __main__.__dict__ is globals(), sys.argv, sys.path[0], loaded)
"""


def ended(program, *arguments, **options):
    done = forked.run(["-c", program, *arguments], **options)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("form", ["-c", "-m", "file"])
def test_the_world_of_a_program(form, tmp_path):
    (tmp_path / "program.py").write_text(WORLD)
    words, name, first = {
        "-c": (["-c", WORLD], "-c", ""),
        "-m": (["-m", "program"], str(tmp_path / "program.py"), str(tmp_path)),
        "file": (["program.py"], "program.py", str(tmp_path)),
    }[form]
    done = forked.run([*words, 3], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"__main__ True {[name, '3']} {first} ['paddle', 'torch']\n"), done.stderr


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(3)",
        "import sys; sys.exit('words')",
        "1 / 0",
        "import atexit; atexit.register(print, 'last'); print('first')",
        "import os; os._exit(5)",
        "import sys; print('out'); print('err', file=sys.stderr)",
    ],
)
def test_it_ends_as_in_a_new_interpreter(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=forked.PATIENCE)
    assert ended(program) == (done.returncode, done.stdout, done.stderr)


def test_the_checkout_is_found_and_nothing_of_the_tests():
    _, out, _ = ended("import importlib.util as u; print([bool(u.find_spec(n)) for n in ('padiff_shim', 'helpers')])")
    assert out == "[True, False]\n"
    assert ended("import padiff_shim", PYTHONPATH="", cwd=Path("/"))[0] == 1


def test_what_comes_too_late_for_the_frameworks_is_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"what FLAGS_check_nan_inf would do: run a new interpreter"):
        ended("", FLAGS_check_nan_inf="1")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    with pytest.raises(ValueError, match="OMP_NUM_THREADS"):
        ended("")
