"""The dependency table of docs/architecture.md is the rule, and the sources keep it.

A row of the table reads `| modules | may import of ours | frameworks |`:
- modules: names with `,` between them; `models/*` is every module of that folder that has no row of its own. Modules of
  one folder may import each other, but not in a circle.
- may import of ours: `nothing`, or names of modules or folders.
- frameworks, among paddle, torch and numpy: their names, `none`, `torch lazily` (inside functions only),
  `none at import` (each, inside functions only). What follows `never`, and anything in parentheses, is a remark.
"""

import ast
import configparser
import functools
import importlib.util
import inspect
import os
import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import parsed
import pytest
from parsed import ROOT

TABLE = ROOT / "docs" / "architecture.md"
HEADER, FRAMEWORKS = ["module", "may import of ours", "frameworks"], {"paddle", "torch", "numpy"}
# The upper floor: rooms that ask with the core's words, and may be taken out (tests/rooms.py). All else is core.
TOOLS = ("weights", "recording", "proof", "auditing", "questions", "cli", "pytest_plugin")


def sources():
    """{name in the table: path}: `op`, `report/html`, `patches/linalg`, `__init__` for the package itself."""
    modules = {}
    for folder, prefix in (("padiff_shim", ""), ("patches", "patches/")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            modules[prefix + path.relative_to(ROOT / folder).with_suffix("").as_posix()] = path
    return modules


SOURCES = sources()


class Import(NamedTuple):
    target: str  # "torch", or the table's name of a module of ours
    line: int
    lazy: bool  # inside a function
    typing: bool  # under `if TYPE_CHECKING:`


class Rule(NamedTuple):
    ours: set  # of names of modules
    eager: set  # frameworks that may be imported anywhere
    lazy: set  # frameworks that may be imported inside functions


def own_name(dotted):
    """`padiff_shim.report.compare_page` -> `report/html`; an attribute of a module counts as that module."""
    parts = dotted.split(".")[1:]
    while parts:
        name = "/".join(parts)
        for candidate in (name, f"{name}/__init__"):
            if candidate in SOURCES:
                return candidate
        parts.pop()
    return "__init__"


def imported_names(node, package):
    """The absolute dotted names that one statement or call imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join([*base, *filter(None, [node.module])])
        names = [f"{base}.{alias.name}" for alias in node.names]
        return names if base.split(".")[0] == "padiff_shim" else [base]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called, name = getattr(node.func, "attr", getattr(node.func, "id", "")), node.args[0].value
        if called in ("import_module", "__import__") and isinstance(name, str):
            if name.startswith("."):
                level = len(name) - len(name.lstrip("."))
                name = ".".join([*package[: len(package) - level + 1], name.lstrip(".")])
            return [name]
    return []


@functools.cache
def imports_of(name):
    """Every import in a module of ours, with `import_module` of a written name."""
    imports = []
    package = ["padiff_shim", *name.split("/")[:-1]]

    def walk(node, lazy, typing):
        for dotted in imported_names(node, package):
            top = dotted.split(".")[0]
            if dotted != "padiff_shim.__version__":
                target = own_name(dotted) if top == "padiff_shim" else top
                imports.append(Import(target, node.lineno, lazy, typing))
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                walk(child, lazy, True)
            for child in node.orelse:
                walk(child, lazy, typing)
            return
        inside = lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            walk(child, inside, typing)

    walk(parsed.files()[SOURCES[name]][0], lazy=False, typing=False)
    return imports


def table_rows():
    """The cells of the table, without backquotes and remarks."""
    lines = iter(TABLE.read_text().splitlines())
    cells_of = (cells(line) for line in lines)
    for row in cells_of:
        if row == HEADER:
            break
    else:
        pytest.fail(f"{TABLE.name} has no table with the header {HEADER}")
    next(cells_of)  # the rule under the header
    rows = []
    for row in cells_of:
        if not row:
            break
        rows.append(row)
    return rows


def cells(line):
    if not line.startswith("|"):
        return []
    return [re.sub(r"\([^)]*\)|`", "", cell).strip() for cell in line.strip().strip("|").split("|")]


def words(cell):
    return [word.strip() for word in re.split(r"[,;]", cell) if word.strip()]


def matching(word):
    """The modules that a word of the table means."""
    return {name for name in SOURCES if name == word or fnmatch(name, word) or name.startswith(f"{word}/")}


def frameworks_of(cell):
    eager, lazy = set(), set()
    for word in words(cell):
        name, _, manner = word.partition(" ")
        if word == "none at import":
            lazy |= FRAMEWORKS
        elif name in FRAMEWORKS and manner in ("", "lazily"):
            (lazy if manner else eager).add(name)
        elif word != "none" and name != "never":
            pytest.fail(f"{TABLE.name}: {word!r} is not in the table's language, see the head of {Path(__file__).name}")
    return eager, lazy | eager


@functools.cache
def rules():
    """{module: Rule} for every module of ours, as the table says."""
    plain = {word for first, *_ in table_rows() for word in words(first) if "*" not in word}
    graph = {}
    for first, second, third in table_rows():
        ours = set()
        for word in words(second):
            if word != "nothing":
                assert matching(word), f"{TABLE.name}, row of {first}: there is no module {word!r}"
                ours |= matching(word)
        for word in words(first):
            meant = matching(word) - (plain if "*" in word else set())
            assert meant, f"{TABLE.name} has a row for {word!r}: there is no such module"
            for name in meant:
                assert name not in graph, f"{TABLE.name} has two rows for {name}"
                graph[name] = Rule(ours, *frameworks_of(third))
    return graph


def test_every_module_has_a_row():
    assert set(SOURCES) == set(rules())


def test_imports_of_ours_keep_to_the_table():
    wrong = set()
    for name in SOURCES:
        folder, allowed = name.rpartition("/")[0], rules()[name].ours
        for item in imports_of(name):
            neighbour = folder and item.target.rpartition("/")[0] == folder
            if item.target in SOURCES and item.target not in allowed and not neighbour:
                wrong.add(place(name, item))
    assert not wrong, "\n".join(sorted(wrong))


def place(name, item):
    return f"{SOURCES[name].relative_to(ROOT)}:{item.line} imports {item.target}"


def room(name):
    return name.partition("/")[0] if "/" in name else name


def circle(arrows):
    """A circle in a graph `{from: {to}}`, as a list of its places; empty if there is none."""
    done, way = set(), []

    def walk(place):
        if place in way:
            return [*way[way.index(place) :], place]
        if place not in done:
            way.append(place)
            for onward in sorted(arrows.get(place, ())):
                if circle := walk(onward):
                    return circle
            way.pop()
            done.add(place)
        return []

    return next(filter(None, map(walk, sorted(arrows))), [])


@functools.cache
def between_modules():
    """Module -> those of ours that it imports. A package's face names its modules, which do not import it."""
    return {
        name: {item.target for item in imports_of(name) if item.target in SOURCES and not item.typing} - {name} for name in SOURCES
    }


def test_rooms_do_not_import_in_a_circle():
    between = {}
    for name, targets in between_modules().items():
        between.setdefault(room(name), set()).update(room(target) for target in targets if room(target) != room(name))
    assert not circle(between)


def test_modules_do_not_import_in_a_circle():
    assert not circle(between_modules())


@functools.cache
def taken_from_the_core():
    """The names of the core that tools use, a line for each module: `measure/distance: Distance distance`."""
    taken = {}
    for name, path in SOURCES.items():
        package = ["padiff_shim", *name.split("/")[:-1]]
        nodes = parsed.files()[path] if room(name) in TOOLS else []
        modules = {}  # imported as a whole: its name here -> its name in the table
        for node in nodes:
            for dotted, alias in zip(imported_names(node, package), node.names) if isinstance(node, ast.ImportFrom) else ():
                module, word = own_name(dotted), alias.asname or alias.name
                if "/" in module and room(module) not in (*TOOLS, "present"):
                    if dotted == f"padiff_shim.{module.replace('/', '.')}":
                        modules[word] = module
                    else:
                        taken.setdefault(module, set()).add(alias.name)
        for node in nodes:
            module = modules.get(node.value.id) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else None
            if module and has("padiff_shim." + module.replace("/", "."), node.attr):  # else a variable of that name
                taken.setdefault(module, set()).add(node.attr)
    return [f"{module}: {' '.join(sorted(names))}" for module, names in sorted(taken.items())]


def test_tools_take_what_is_listed_from_the_core():
    """A reviewer sees in `core_names.txt` what the upper floor asks of the lower one, and each new word of it."""
    listed = Path(__file__).with_name("core_names.txt")
    if "WRITE_CORE_NAMES" in os.environ:
        listed.write_text("\n".join(taken_from_the_core()) + "\n")
    assert taken_from_the_core() == listed.read_text().splitlines(), "WRITE_CORE_NAMES=1 writes the list; is the new name needed?"


def test_the_core_takes_nothing_from_the_tools():
    """Also a room of the tools can be taken out alone: `make rooms` does it."""
    wrong = {
        place(name, item)
        for name in SOURCES
        if "/" in name and room(name) not in TOOLS
        for item in imports_of(name)
        if item.target in SOURCES and room(item.target) in TOOLS
    }
    assert not wrong, "\n".join(sorted(wrong))


def test_names_that_tools_take_are_public_and_say_what_they_are():
    for line in taken_from_the_core():
        module, names = line.split(": ")
        for name in names.split():
            assert not name.startswith("_"), f"{module}.{name}"
            value = getattr(importlib.import_module("padiff_shim." + module.replace("/", ".")), name)
            if getattr(value, "__module__", "").startswith("padiff_shim") and (inspect.isfunction(value) or inspect.isclass(value)):
                assert inspect.getdoc(value), f"{module}.{name} has no docstring"


def test_frameworks_keep_to_the_table():
    wrong = set()
    for name in SOURCES:
        rule = rules()[name]
        for item in imports_of(name):
            if item.target in FRAMEWORKS - (rule.lazy if item.lazy else rule.eager) and not item.typing:
                wrong.add(place(name, item))
    assert not wrong, "\n".join(sorted(wrong))


def test_patches_never_import_paddle():
    wrong = {name for name in SOURCES if name.startswith("patches/") for i in imports_of(name) if i.target == "paddle"}
    assert not sorted(set(wrong))


def test_other_packages_are_declared():
    """Whatever else is imported comes with Python or is in install_requires; in a room of its own, also in its extra."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    declared = _names(config["options"]["install_requires"])
    extras = {"pytest_plugin": "pytest"}  # room -> what it alone needs
    extra = {room: _names(config["options.extras_require"][name]) for room, name in extras.items()}
    known = declared | FRAMEWORKS | set(sys.stdlib_module_names) | set(SOURCES)
    unknown = [(name, imported.target) for name in SOURCES for imported in imports_of(name) if imported.target not in known]
    assert not [(name, target) for name, target in unknown if target not in extra.get(room(name), ())]


def _names(requirements):
    return {re.match(r"[\w-]+", line)[0] for line in requirements.split()}


def test_names_of_ours_that_scripts_use_exist():
    """Also those inside tests and branches that do not run on this machine."""
    used = {}  # (module, name) -> places
    for path, nodes in parsed.files("tests", "benchmarks", "examples").items():
        for node in nodes:
            names = []
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "padiff_shim":
                names = [(node.module, alias.name) for alias in node.names]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "padiff_shim":
                names = [("padiff_shim", node.attr)]
            for key in names:
                used.setdefault(key, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    wrong = [f"{', '.join(places)}: {module} has no {name}" for (module, name), places in used.items() if not has(module, name)]
    assert not wrong, "\n".join(wrong)


def has(module, name):
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not module.startswith(error.name):
            raise
        return False
    if hasattr(imported, name):
        return True
    return hasattr(imported, "__path__") and importlib.util.find_spec(f"{module}.{name}") is not None


OWN_TEXT = {  # what they execute
    "substitution/execute.py",  # a template of ours
    "auditing/cases.py",  # programs that the package declares
    "bits/formulation.py",  # what a port may write instead
    "proof/arguments.py",  # names and attributes in the running program's own line
    "cli/program.py",  # the script that the user names
    "cli/ranks.py",  # a raise
}
UNPICKLERS = {"marshal", "pickle", "shelve", "dill", "joblib", "cloudpickle"}


def test_nothing_is_executed_that_was_read():
    """What is evaluated is no text of a log, a bundle or a page, and none of them is unpickled (weights: checked names alone)."""
    for path, nodes in parsed.files().items():
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec") or path.as_posix().endswith(tuple(OWN_TEXT)), path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner, keywords = getattr(node.func.value, "id", ""), {word.arg: word.value for word in node.keywords}
                assert owner not in UNPICKLERS or node.func.attr not in ("load", "loads"), path
                allowed = keywords.get("allow_pickle")
                assert allowed is None or allowed.value is False, path
