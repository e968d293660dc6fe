"""Names: a class name stands for one class, and a binding is called by a noun for what it holds."""

import ast
import builtins
import functools
import importlib
import operator
import re
from collections import defaultdict

import parsed
from parsed import ROOT

BESIDE = ("tests", "benchmarks", "examples")
VAGUE = frozenset({"one", "found", "told", "given", "kept", "asked", "said"})


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
    """{class name: places} of the package's repeated ones, and the places of vague bindings; a place is `file:line name`."""
    classes, bindings = defaultdict(list), []
    for path, nodes in parsed.files(*parsed.PACKAGE, *BESIDE).items():
        file = path.relative_to(ROOT)
        for name, line, is_class in sorted(definitions(nodes), key=lambda item: item[1]):
            if not is_class:
                bindings.append(f"{file}:{line} {name}")
            elif file.parts[0] in parsed.PACKAGE:
                classes[name].append(f"{file}:{line}")
    return {name: files for name, files in classes.items() if len(files) > 1}, bindings


def test_a_class_name_stands_for_one_class():
    assert not places()[0], "give the new class a name of its own"


def test_bindings_are_called_by_nouns():
    assert not places()[1], f"say what a new one holds, not {', '.join(sorted(VAGUE))}"


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
