"""A function's source with everything of its module that it uses, to be put into another file."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import PadiffShimError

_HOMES = ("operator", "math", "torch", "torch.nn.functional", "torch.linalg", "torch.special", "numpy")
_ALWAYS = ("import json", "import sys", "from pathlib import Path", "from typing import Any, NamedTuple", "import numpy as np")


class Excerpt:
    """Pieces of source and the imports that they need; ``prefix`` is put before the names of what is defined."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.imports: set[str] = {*_ALWAYS, "import paddle", "import torch"}
        self._pieces: dict[tuple[str, int], str] = {}

    def add(self, module: str, line: int, text: str) -> None:
        """One definition of a module, from its place there."""
        self._pieces[module, line] = text

    def text(self) -> str:
        """All definitions in the order of their modules."""
        return "\n\n\n".join(text for _, text in sorted(self._pieces.items()))

    def header(self) -> str:
        """The imports; plain ones first, as is usual."""
        ordered = sorted(self.imports, key=lambda line: (line.startswith("from"), line))
        return "\n".join(["", "from __future__ import annotations", "", *ordered, "", ""])


def expression(function: Callable[..., Any], excerpt: Excerpt) -> str:
    """Source by which ``function`` is called; what it needs is added to ``excerpt``.

    Raises:
        PadiffShimError: the function has neither a public name nor a definition at the top of a module.
    """
    name = getattr(function, "__name__", "")
    for home in _HOMES:
        framework = importlib.import_module(home)
        public = name if getattr(framework, name, None) is function else next(_public(framework, function), "")
        if public:
            excerpt.imports.add("import numpy as np" if home == "numpy" else f"import {home}")
            return f"{'np' if home == 'numpy' else home}.{public}"
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    held = getattr(module, name, None)
    if held is not function and getattr(held, "reference", None) is not function:  # an op is known by its formula's name
        raise PadiffShimError(f"the source of {function!r} cannot be written out: it is not defined by name in a module")
    _collect(module, name, excerpt)
    return excerpt.prefix + name


def _public(module: Any, function: Callable[..., Any]) -> Iterator[str]:
    """The names that a module gives a function which calls itself otherwise: ``torch.linalg.inv`` says ``linalg_inv``."""
    return (name for name, value in vars(module).items() if value is function and not name.startswith("_"))


def _collect(module: Any, start: str, excerpt: Excerpt) -> None:
    """Add the definition of ``start`` and of all names of the module that it reaches."""
    source = inspect.getsource(module)
    known = _definitions(ast.parse(source))
    lines, queue, taken = source.splitlines(), [start], set()
    imported = set()
    while queue:
        name = queue.pop()
        if name in taken or name not in known:
            continue
        taken.add(name)
        node = known[name]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            shared = _shared(node, name, module)
            if shared is None:
                excerpt.imports.add(_import(node, name, module))
                imported.add(name)
            else:
                _collect(shared, name, excerpt)
            continue
        if isinstance(node, ast.FunctionDef) and hasattr(getattr(module, name, None), "reference"):
            node.decorator_list = []  # the declaration of an op: a script needs the formula alone
        queue += [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
    chosen = {id(known[name]): known[name] for name in taken if not isinstance(known[name], (ast.Import, ast.ImportFrom))}
    for node in chosen.values():
        excerpt.add(module.__name__, node.lineno, _text(node, lines, taken - imported, excerpt.prefix))


def _definitions(tree: ast.Module) -> dict[str, Any]:
    """Name -> the statement at the top of a module that binds it."""
    found: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update({alias.asname or alias.name.partition(".")[0]: node for alias in node.names})
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({one.id: node for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)})
    return found


def _shared(node: Any, name: str, module: Any) -> Any:
    """The module of the same package from which ``name`` is imported, if it is: what it defines is written out too."""
    if not isinstance(node, ast.ImportFrom) or node.level != 1 or node.module is None or not module.__package__:
        return None
    if any(alias.name == name and alias.asname is None for alias in node.names):
        return importlib.import_module(f"{module.__package__}.{node.module}")
    return None


def _import(node: Any, name: str, module: Any) -> str:
    """The import of one name alone, in absolute terms."""
    (alias,) = (one for one in node.names if (one.asname or one.name.partition(".")[0]) == name)
    own = module.__name__.partition(".")[0]
    origin = (own if node.level else node.module) if isinstance(node, ast.ImportFrom) else alias.name
    if str(origin).partition(".")[0] == "padiff_shim":
        raise PadiffShimError(f"{module.__name__} uses {name} of this library, which a script of its own cannot")
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import([alias]))
    return ast.unparse(ast.ImportFrom(node.module, [alias], 0))


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: set[str], prefix: str) -> None:
        self.names, self.prefix = names, prefix

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.prefix + node.id, node.ctx) if node.id in self.names else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.name = self.prefix + node.name if node.name in self.names else node.name
        return self.generic_visit(node)


def _text(node: Any, lines: list[str], names: set[str], prefix: str) -> str:
    """A definition's source: as written, or with the prefix before these names, which the excerpt defines."""
    if not prefix:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        return "\n".join(lines[first - 1 : node.end_lineno])
    return ast.unparse(_Renamed(names, prefix).visit(node))
