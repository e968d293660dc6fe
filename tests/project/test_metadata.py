"""What setup.cfg says of versions and systems is what was tried: on Pythons other than the suite's, what depends on them."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import PATIENCE

from padiff_shim.tested import OLDEST, PADDLES, PYTHONS, TORCHES

ROOT = Path(__file__).resolve().parents[2]
CONFIG = configparser.ConfigParser(interpolation=None)
CONFIG.read(ROOT / "setup.cfg")
PINNED = "\n".join(path.read_text() for path in sorted((ROOT / "requirements").glob("*.txt")))
OTHERS = ("3.10", "3.12", "3.13")

# On an interpreter without any framework: all sources compile, and the redirection of a C function, which is all that depends on
# how the interpreter lays out its objects, works and is undone. The function is of the kind that Paddle's are: (*args, **kwargs),
# of a module.
TRIED = """
import ctypes, pathlib, sys, types
root = sys.argv[1]
sys.path.insert(0, root)
for folder in ("padiff_shim", "patches"):
    for path in pathlib.Path(root, folder).rglob("*.py"):
        compile(path.read_text(encoding="utf-8"), str(path), "exec")
from padiff_shim.patching import functions

class Native(types.ModuleType):
    def __call__(self, *args, **kwargs):
        return "native", args, kwargs

owner = Native("owner")
definition = functions._MethodDef(b"probe", functions._OBJECT_CALL, 3, None)
probe = functions._new_function(ctypes.addressof(definition), id(owner), None)
functions._incref(owner)
assert probe(1, a=2) == ("native", (1,), {"a": 2})
patch = functions.CFunctionPatch(probe)
patch.set_hook(lambda *args, **kwargs: ("hook", patch.original(*args, **kwargs)))
for _ in range(3):
    assert patch.install()
    assert probe(1, a=2) == ("hook", ("native", (1,), {"a": 2}))
    assert patch.uninstall()
    assert probe(1, a=2) == ("native", (1,), {"a": 2})
print("tried on", "%d.%d" % sys.version_info[:2])
"""


def classifiers(beginning):
    lines = CONFIG["metadata"]["classifiers"].split("\n")
    return [line.rpartition(" :: ")[2] for line in lines if line.startswith(beginning)]


def pinned(name):
    return re.findall(rf"^{name}==(\S+)", PINNED, re.MULTILINE)


def within(version, condition):
    """Whether a version lies in a range such as ``>=2.5,<3.4``."""

    def number(text):
        return [int(part) for part in text.split(".")]

    bounds = re.findall(r"(>=|<)([\d.]+)", condition)
    assert len(bounds) == 2, condition
    return all(number(version) >= number(bound) if sign == ">=" else number(version) < number(bound) for sign, bound in bounds)


def test_the_pythons_and_the_system_are_those_that_were_tried():
    assert classifiers("Programming Language :: Python :: 3.") == list(PYTHONS)
    assert classifiers("Operating System") == ["Linux"]
    assert not any(name in CONFIG["metadata"] for name in ("url", "project_urls", "download_url")), "there is no address to name"
    assert CONFIG["metadata"]["author"]


@pytest.mark.parametrize(("extra", "package"), [("torch", "torch"), ("paddle", "paddlepaddle")])
def test_frameworks_range_from_the_oldest_to_the_newest_that_was_tried(extra, package):
    (requirement,) = CONFIG["options.extras_require"][extra].split()
    tried = PADDLES if extra == "paddle" else TORCHES
    assert set(pinned(package)) <= set(tried)
    assert all(within(version, requirement) for version in tried)
    lowest, highest = re.search(r">=([\d.]+)", requirement)[1], tried[-1].split(".")
    assert lowest in (tried[0], OLDEST["Torch"])
    assert requirement.endswith(f"<{highest[0]}.{int(highest[1]) + 1}"), "the next one was not"


def test_the_range_of_pythons_is_that_of_the_sources():
    oldest = OLDEST["Python"]
    assert CONFIG["options"]["python_requires"] == f">={oldest}"
    assert f'target-version = "py{oldest.replace(".", "")}"' in (ROOT / "ruff.toml").read_text()
    assert f"sys.version_info < ({oldest.replace('.', ', ')})" in (ROOT / "padiff_shim" / "__init__.py").read_text()


@pytest.mark.parametrize("version", [OTHERS[0], *(pytest.param(other, marks=pytest.mark.slow) for other in ("", *OTHERS[1:]))])
def test_sources_compile_and_functions_are_redirected(version, tmp_path):
    python = sys.executable if not version else shutil.which(f"python{version}") or f"python{version}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYENV_VERSION"] = version  # pyenv's stand-ins ask for it
    command = [python, "-c", TRIED, str(ROOT)]
    try:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    except OSError:
        pytest.skip(f"there is no Python {version} here")
    if done.returncode == 127:  # such a stand-in without the version itself
        pytest.skip(f"there is no Python {version} here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"tried on {version or '.'.join(map(str, sys.version_info[:2]))}\n"


def test_the_limits_of_the_tests_stand_in_one_place():
    """A busy machine trips over a limit of somebody's own: tests/helpers.py."""
    assert int(CONFIG["tool:pytest"]["timeout"]) == 3 * PATIENCE
    for path in sorted((ROOT / "tests").rglob("*.py")):
        own = re.search(r"(timeout=|\b(wait|result)\()[1-9][\d_.]*[,)]", path.read_text(encoding="utf-8"))
        assert not own, (path.name, own[0])
