"""Names: a class name stands for one class, and a binding is called by a noun for what it holds.

`CLASSES` and `BINDINGS` are what does not keep to that today. Their figures only fall: more is refused, and whoever makes it less
lowers the figure here. A file that moves to another room takes its figures along.
"""

import ast
import builtins
import functools
import importlib
import operator
import re
from collections import defaultdict

import parsed
import pytest
from parsed import ROOT

BESIDE = ("tests", "benchmarks", "examples")
VAGUE = frozenset({"one", "found", "told", "given", "kept", "asked", "said"})

# Class names of the package with more than one definition -> how many.
CLASSES: dict[str, int] = {}

# Rooms -> how many of their bindings have a vague name.
BINDINGS: dict[str, int] = {}

# Nodes that bind a name -> the name. A field of a dataclass is an annotated name.
BINDERS = {
    ast.Name: lambda node: node.id if isinstance(node.ctx, ast.Store) else None,
    ast.arg: lambda node: node.arg,
    ast.alias: lambda node: node.asname,
    ast.ExceptHandler: lambda node: node.name,
    ast.MatchAs: lambda node: node.name,
    ast.MatchStar: lambda node: node.name,
    ast.MatchMapping: lambda node: node.rest,
}


def definitions(nodes):
    """The classes and the vague bindings among nodes, as (name, line, whether it is a class)."""
    for node in nodes:
        name_of = BINDERS.get(node.__class__)
        if name_of is not None and name_of(node) in VAGUE:
            yield name_of(node), node.lineno, False
        elif node.__class__ is ast.ClassDef:
            yield node.name, node.lineno, True


@functools.cache
def places():
    """{class name: places} of the package's repeated ones, and {room: places} of vague bindings; a place is `file:line name`."""
    classes, bindings = defaultdict(list), defaultdict(list)
    for path, nodes in parsed.files(*parsed.PACKAGE, *BESIDE).items():
        file = path.relative_to(ROOT)
        for name, line, is_class in sorted(definitions(nodes), key=lambda item: item[1]):
            if not is_class:
                bindings[file.parent.as_posix()].append(f"{file}:{line} {name}")
            elif file.parts[0] in parsed.PACKAGE:
                classes[name].append(f"{file}:{line}")
    return {name: files for name, files in classes.items() if len(files) > 1}, dict(bindings)


def complaints(actual, allowed, remedy):
    """What is wrong with {key: places}, against {key: how many are allowed}."""
    lines = []
    for key in sorted({*actual, *allowed}):
        listed, limit = actual.get(key, []), allowed.get(key, 0)
        if len(listed) > limit:
            lines += [f"{key}: {len(listed)}, {limit} are allowed. {remedy}", *(f"  {place}" for place in listed)]
        elif len(listed) < limit:
            lines.append(
                f'{key}: lower the figure to `"{key}": {len(listed)}`' if listed else f"{key}: lower the figure: no entry any more"
            )
    return "\n".join(lines)


def test_a_class_name_stands_for_one_class():
    wrong = complaints(places()[0], CLASSES, "Give the new class a name of its own:")
    assert not wrong, wrong


def test_bindings_are_called_by_nouns():
    wrong = complaints(places()[1], BINDINGS, f"Say what a new one holds, not {', '.join(sorted(VAGUE))}:")
    assert not wrong, wrong


def test_figures_only_fall():
    assert complaints({"room": ["a.py:1", "a.py:2"]}, {"room": 2}, "") == ""
    assert (
        complaints({"room": ["a.py:1", "b.py:2"]}, {"room": 1}, "Name it:")
        == "room: 2, 1 are allowed. Name it:\n  a.py:1\n  b.py:2"
    )
    assert complaints({"room": ["a.py:1"]}, {}, "Name it:") == "room: 1, 0 are allowed. Name it:\n  a.py:1"
    assert complaints({"room": ["a.py:1"]}, {"room": 2}, "") == 'room: lower the figure to `"room": 1`'
    assert complaints({}, {"room": 1}, "") == "room: lower the figure: no entry any more"


BINDS = (
    "{} = 1",
    "{}: int = 1",
    "{} += 1",
    "a, (*{}, b) = x",
    "print({} := 1)",
    "for {} in x: pass",
    "y = [0 for {} in x]",
    "y = {{0: 0 for a, {} in x}}",
    "with x as {}: pass",
    "with x as (a, {}): pass",
    "import x as {}",
    "from x import y as {}",
    "try: pass\nexcept E as {}: pass",
    "def f({}): pass",
    "def f(a, /, *, {}=1): pass",
    "def f(*{}): pass",
    "async def f(**{}): pass",
    "f = lambda {}: 0",
    "class C:\n    {}: int",
    "match x:\n    case {}: pass",
    "match x:\n    case [*{}]: pass",
    "match x:\n    case {{'a': 1, **{}}}: pass",
)
BINDS_NOTHING = (
    "print({})",
    "x.{} = 1",
    "x[{}] = 1",
    "f({}=1)",
    "def {}(): pass",
    "import {}",
    "from x import {}",
    "x = '{}'  # {}",
)


def test_every_kind_of_binding_is_seen():
    """Of every name, at its line, and wherever it stands."""
    for text in (*BINDS, *BINDS_NOTHING):
        for name in (*VAGUE, "row"):
            for head in ("", "def g():\n", "class G:\n", "if x:\n    pass\nelse:\n"):
                source = head + "\n".join(f"{'    ' if head else ''}{line}" for line in text.format(name, name).splitlines())
                line = next(number for number, line in enumerate(source.splitlines(), 1) if name in line)
                expected = [(name, line)] if text in BINDS and name in VAGUE else []
                assert [item[:2] for item in definitions(parsed.nodes_of(source)) if not item[2]] == expected, source


# ---- References of docstrings and comments.

REFERENCE = re.compile(r":(mod|class|func|meth|attr|data|exc):`~?([\w.]+)`")


@functools.cache
def defined(path):
    """{name at the top of a module: names inside of it, if it is a class}."""
    names = {}
    for node in parsed.files()[path]:
        if isinstance(node, ast.ClassDef):
            inner = list(ast.walk(node))
            members = {inside.name for inside in inner if isinstance(inside, (ast.FunctionDef, ast.AsyncFunctionDef))}
            members |= {inside.attr for inside in inner if isinstance(inside, ast.Attribute)}
            members |= {inside.id for inside in inner if isinstance(inside, ast.Name)}
            names[node.name] = members
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.setdefault(node.name, set())
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.setdefault(node.id, set())
        elif isinstance(node, ast.alias):
            names.setdefault((node.asname or node.name).split(".")[-1], set())
    return names


@functools.cache
def sources():
    """{dotted name of each module of the package: its file}."""
    paths = [*parsed.files()]
    dotted = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]
    return {f"padiff_shim.{name}" if name.startswith("patches") else name: path for name, path in zip(dotted, paths)}


def refers(target, module, modules):
    """Whether a reference of ``module`` names something: of the package, of the module itself, or of another library."""
    level = len(target) - len(target.lstrip("."))
    if level:
        parts = module.split(".")
        package = parts if modules[module].name == "__init__.py" else parts[:-1]
        target = ".".join([*package[: len(package) - level + 1], target.lstrip(".")])
    parts = target.split(".")
    if parts[0] == "padiff_shim":
        known = next((".".join(parts[:end]) for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in modules), None)
        rest = parts[len(known.split(".")) :] if known else parts
        if known == "padiff_shim" and rest:  # its public names are made on first use
            return rest[0] in modules["padiff_shim"].read_text()
        return known is not None and within(defined(modules[known]), rest)
    names = {**defined(modules[module]), **classes()}
    if within(names, parts) or (len(parts) == 1 and any(parts[0] in members for members in names.values())):
        return True
    try:
        owner = importlib.import_module(parts[0]) if not hasattr(builtins, parts[0]) else builtins
        return not parts[1:] or operator.attrgetter(".".join(parts[1:]))(owner) is not None
    except (ImportError, AttributeError):
        return False


@functools.cache
def classes():
    """{each class of the package: names inside of it}; no two have one name."""
    return {name: members for path in sources().values() for name, members in defined(path).items() if members}


def within(names, rest):
    """Whether a dotted name of one part or two is among the names of a module."""
    return not rest or (rest[0] in names and (len(rest) == 1 or rest[1] in names[rest[0]]))


def test_references_name_something():
    modules = sources()
    wrong = []
    for module, path in modules.items():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            wrong += [
                f"{path.relative_to(ROOT)}:{number} :{role}:`{target}`"
                for role, target in REFERENCE.findall(line)
                if not refers(target, module, modules)
            ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("target", "there"),
    [
        (".trial", True), (".trial.Trial", True), (".trial.Trial.side", True), ("judge", True), ("..verdicts.Judgement", True),
        ("padiff_shim.compare", True), ("padiff_shim.numerics", True), ("torch.equal", True), ("os.PathLike", True), ("json", True),
        (".limits", False), (".trial.Ceiling", False), (".trial.Trial.half", False), ("..trial", False), ("nothing_here", False),
        ("padiff_shim.watch", False), ("torch.equals", False),
    ],
)  # fmt: skip
def test_what_a_reference_names(target, there):
    assert refers(target, "padiff_shim.numerics.verdict", sources()) is there
