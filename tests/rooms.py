"""Each room of the tools taken out of a copy of this project, and the tests of all that does not need it run there.

    make rooms                  # each room
    make rooms ROOMS=auditing   # one

With a room go the modules that import it, the tests of all these and the programs that those tests run. If the core is among the
modules, the room is no tool, and that is said instead.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
sys.path.insert(0, str(TESTS / "project"))

from test_layering import SOURCES, TOOLS, between_modules, own_name, room  # noqa: E402

from padiff_shim import _EXPORTS  # noqa: E402

# What these hold is the whole project: its pages, examples, messages and commands.
OF_THE_WHOLE = (
    "project",
    "present/test_languages.py",
    "present/test_chinese.py",
    "present/test_results.py",
    "cli/test_command_line_docs.py",
)


def gone_with(tool):
    """The modules that go with a room: its own, and those that import one of them, at whatever remove."""
    gone = {name for name in SOURCES if room(name) == tool}
    while more := {name for name, targets in between_modules().items() if targets & gone} - gone - {"__init__"}:
        gone |= more
    return gone


def needs(path, gone):
    """Whether a file of the tests names a module, a public name or a command that is gone."""
    public = {name for name, home in _EXPORTS.items() if own_name(f"padiff_shim.{home}") in gone}
    commands = {name.partition("/")[2] for name in gone if name.startswith("cli/")}
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in commands or any(f"{public_name}(" in node.value for public_name in public):
                return True
            names = [node.value] if node.value.startswith("padiff_shim.") else []
        elif isinstance(node, ast.Attribute) and node.attr in public:
            return True
        for name in names:
            if name.startswith("padiff_shim") and (own_name(name) in gone or name.rpartition(".")[2] in public):
                return True
    return False


def tests_gone_with(gone):
    """The files of the tests that need a module that is gone, or a file of the tests that does."""
    files = {path: path.read_text() for path in TESTS.rglob("*.py")}
    lost = {path for path in files if needs(path, gone)}
    while True:
        folders = {path.parent for path in lost if path.name == "conftest.py"}
        more = {path for path in files if path.parent in folders} | {path for path, text in files.items() if _imports(text, lost)}
        if more <= lost:
            return lost
        lost |= more


def _imports(text, lost):
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            imported |= {*(node.module or "").split("."), *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Import):
            imported |= {part for alias in node.names for part in alias.name.split(".")}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".py"):
            imported.add(Path(node.value).stem)
    return any(path.stem in imported and not path.stem.startswith(("test_", "conftest")) for path in lost)


def tried(tool, arguments):
    """Run the tests without a room; whether they pass."""
    gone = gone_with(tool)
    if core := sorted(name for name in gone if room(name) not in TOOLS):
        print(f"{tool}: the core needs it, by {', '.join(core)}")
        return False
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(".*", "__pycache__", "*.egg-info"))
        for name in gone:
            (copy / SOURCES[name].relative_to(ROOT)).unlink()
        lost = tests_gone_with(gone)
        for path in lost:
            (copy / path.relative_to(ROOT)).unlink()
        for name in OF_THE_WHOLE:
            whole = copy / "tests" / name
            shutil.rmtree(whole) if whole.is_dir() else whole.unlink(missing_ok=True)
        left = len(list((copy / "tests").rglob("test_*.py")))
        print(f"{tool}: without {len(gone)} modules, the tests of {left} files", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not long", *arguments]
        environment = os.environ | {"PYTHONPATH": str(copy), "PADIFF_TESTS_ENTRIES": "first"}
        return not subprocess.run(command, cwd=copy, env=environment, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"of {', '.join(TOOLS)}; default: each")
    parser.add_argument("--pytest", default="", help="further arguments of pytest")
    options = parser.parse_args()
    failed = [tool for tool in options.rooms or TOOLS if not tried(tool, options.pytest.split())]
    sys.exit(f"not without {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
