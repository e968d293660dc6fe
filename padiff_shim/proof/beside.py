"""The port's statements beside the original's: which name, number or part of them is another, to be tried in the port."""

from __future__ import annotations

import ast
import copy
import difflib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ..dispatch.call_site import CallSite, is_library
from .arguments import nodes_of
from .expressions import Rewrite, ValueSource, assigned_once, modules_of

_WORDS = {"dim": "axis", "keepdims": "keepdim", "eps": "epsilon"}  # Torch's names of arguments: Paddle's
_IsModule = Callable[[ast.expr], bool]
_Pair = tuple[ast.expr, ast.expr]  # of the port, of the original


class Otherwise(NamedTuple):
    """What the port has, and the original in its place; both lines, the change of the port's, and whether numbers alone differ."""

    own: str
    wanted: str
    line: int
    original: int
    rewrite: Rewrite
    numbers: bool


def otherwise(port: CallSite, original: CallSite) -> Iterator[Otherwise]:
    """What the port's functions have otherwise than those of the original, that of the two lines first.

    A name that stands for another one everywhere is no difference; what is written has the port's names.
    """
    own, other = ({} if is_library(site.file) else _functions(site.file) for site in (port, original))
    here, there = (_around(site, functions) for site, functions in ((port, own), (original, other)))
    common = [name for name in own if name in other and not name.endswith(".__init__")]  # layers are not made anew
    pairs = [(name, name) for name in common if name in (here, there)] + ([(here, there)] if here and there else [])
    pairs += [(name, name) for name in common]
    modules = modules_of(port.file), modules_of(original.file)
    for first, second in dict.fromkeys(pairs):
        if own[first] is other[second]:
            continue  # both programs call it
        statements = list(_paired(_statements(own[first]), _statements(other[second])))
        both = [list(_parts(a, b, *modules)) for a, b in statements]
        names = _names(pair for parts in both for pair in parts)
        known = _read(own[first])
        named = {name: value for name, value in assigned_once(other[second]).items() if name not in known}
        named |= {name: _expression(text) for name, text in names.items()}
        for (statement, twin), parts in zip(statements, both):
            if not {names.get(name, name) for name in _read(twin)} & _read(statement):
                continue  # another statement
            texts = ((node, _text(node, wanted, named, modules[1])) for node, wanted in parts)
            unlike = {node: text for node, text in texts if text}
            choices = [{node: text} for node, text in unlike.items()]
            if len(unlike) > 1:  # parts that are exchanged are one change; otherwise the fewest are tried first
                exchanged = sorted(map(ast.unparse, unlike)) == sorted(unlike.values())
                choices.insert(0 if exchanged else len(choices), unlike)
            for chosen in choices:
                places = [ValueSource(port.file, node, "") for node in chosen]
                edits = [place.replaced_by(text).edits for place, text in zip(places, chosen.values())]
                words = [f"{place.parent.arg}=" if isinstance(place.parent, ast.keyword) else "" for place in places]
                shown = [", ".join(map("".join, zip(words, texts))) for texts in (map(ast.unparse, chosen), chosen.values())]
                rewrite = Rewrite(port.file, frozenset(itertools.chain(*edits)))
                numbers = all(isinstance(node, ast.Constant) for node in chosen)
                yield Otherwise(shown[0], shown[1], statement.lineno, twin.lineno, rewrite, numbers)


def _functions(file: str) -> dict[str, ast.FunctionDef]:
    """The functions and methods of a file by their names."""
    owners = [node for node in nodes_of(file) if isinstance(node, (ast.Module, ast.ClassDef))]
    functions = ((owner, node) for owner in owners for node in owner.body if isinstance(node, ast.FunctionDef))
    return {f"{getattr(owner, 'name', '')}.{node.name}": node for owner, node in functions}


def _around(site: CallSite, functions: Mapping[str, ast.FunctionDef]) -> str:
    """The function of a line; "" if there is none."""
    return next((name for name, node in functions.items() if node.lineno <= site.line <= (node.end_lineno or 0)), "")


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    return [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function]


def _paired(own: list[ast.stmt], other: list[ast.stmt]) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """The statements that stand for one another, for they give the same names; those of a kind between such, if as many."""
    names, expected = ([_gives(node) for node in nodes] for nodes in (own, other))
    matcher = difflib.SequenceMatcher(None, names, expected, autojunk=False)
    for _, begin, end, first, last in matcher.get_opcodes():
        for kind in dict.fromkeys(_gives(node)[0] for node in own[begin:end]):
            alike = [[node for node in nodes if _gives(node)[0] == kind] for nodes in (own[begin:end], other[first:last])]
            if len(alike[0]) == len(alike[1]):
                yield from zip(*alike)


def _gives(statement: ast.stmt) -> tuple[str, ...]:
    """The kind of a statement, and the names that it gives."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    kind = type(statement).__name__
    return (kind.removeprefix("Aug").removeprefix("Ann"), *(_spelt(target) for target in targets if target is not None))


def _spelt(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else ast.unparse(node)  # most are names, in a hundredth of the time


def _read(node: ast.stmt) -> set[str]:
    """The names in a statement, and not in those within it; in a function all."""
    parts = ast.walk(node) if isinstance(node, ast.FunctionDef) else _expressions(node)
    return {_spelt(part) for part in parts if isinstance(part, (ast.Name, ast.Attribute))} - {"self"}


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """All parts of a statement's own expressions, and not those of the statements within it."""
    for part in ast.iter_child_nodes(statement):
        if isinstance(part, ast.expr):
            yield from ast.walk(part)


def _parts(own: ast.AST, other: ast.AST, port: _IsModule, original: _IsModule) -> Iterator[_Pair]:
    """The names, numbers and parts that stand for one another in two statements or expressions, equal ones included."""
    within = [_operands(node) for node in (own, other)]
    if isinstance(own, ast.expr) and isinstance(other, ast.expr):
        if port(own) or original(other):
            return
        leaf = isinstance(own, (ast.Name, ast.Constant)) or (isinstance(own, ast.Attribute) and isinstance(own.value, ast.Name))
        if type(own) is not type(other) or leaf or len(within[0]) != len(within[1]):
            if not isinstance(own, ast.Call) or type(own) is not type(other):
                yield own, other
                return
        elif [type(each) for each in _operators(own)] != [type(each) for each in _operators(other)]:
            yield own, other
    if isinstance(own, ast.Call) and isinstance(other, ast.Call):
        if len(own.args) != len(other.args) and ast.unparse(own.func) == ast.unparse(other.func):
            yield own, other
        words = {_WORDS.get(str(each.arg), each.arg): each.value for each in other.keywords}
        within[0] = [own.func, *own.args] if len(own.args) == len(other.args) else [own.func]
        within[1] = [other.func, *other.args]
        named = [(each.value, words[each.arg]) for each in own.keywords if each.arg in words]
    else:
        named = []
    for first, second in (*zip(*within), *named):
        yield from _parts(first, second, port, original)


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.AugAssign):  # `a += b` as `a = a + b`
        return [node.target, ast.BinOp(node.target, node.op, node.value)]
    return [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]


def _operators(node: ast.AST) -> list[ast.AST]:
    return [part for part in ast.iter_child_nodes(node) if isinstance(part, (ast.operator, ast.unaryop, ast.cmpop, ast.boolop))]


def _names(pairs: Iterator[_Pair]) -> Mapping[str, str]:
    """How the port calls what the original has a name for, which the port has not."""
    counts = defaultdict[str, Counter[str]](Counter)
    for own, other in pairs:
        if isinstance(own, (ast.Name, ast.Attribute)) and isinstance(other, (ast.Name, ast.Attribute)):
            counts[_spelt(other)][_spelt(own)] += 1
    renamed = {name: [own for own, _ in count.most_common() if own not in counts] for name, count in counts.items()}
    return {name: owns[0] for name, owns in renamed.items() if owns}


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class _InPort(ast.NodeTransformer):
    """Names of the original's as what the port has for them, and its calls as those within an expression of the port's."""

    def __init__(self, names: Mapping[str, ast.expr], calls: Mapping[str, ast.Call]) -> None:
        self._names, self._calls = names, calls

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, (ast.Name, ast.Attribute)) and (text := _spelt(node)) in self._names:
            value = self._names[text]
            if isinstance(value, (ast.Name, ast.Attribute)):
                return value
            others = {name: other for name, other in self._names.items() if name != text}  # it may be made of what it was before
            return _InPort(others, self._calls).visit(copy.deepcopy(value))
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func).rpartition(".")[2]) in self._calls:
            return self._calls[name]
        return self.generic_visit(node)


def _text(own: ast.expr, other: ast.expr, names: Mapping[str, ast.expr], original: _IsModule) -> str:
    """What the original has, in the port's words; "" where it is what the port has, or calls what the port does not."""
    kinds = [type(each.value) if isinstance(each, ast.Constant) else None for each in (own, other)]
    parts = other.elts if isinstance(other, ast.Tuple) else [other]
    unwritten = any(isinstance(part, (ast.Slice, ast.Starred)) for part in parts)
    unwritten |= isinstance(getattr(own, "ctx", None), ast.Store)
    if unwritten or not hasattr(own, "lineno") or (kinds[0] and kinds[0] is not kinds[1]):
        return ""
    calls = [node for node in ast.walk(own) if isinstance(node, ast.Call)]
    renamed = _InPort(names, {ast.unparse(call.func).rpartition(".")[2]: call for call in reversed(calls)})
    tree = _expression(ast.unparse(other))
    changed = renamed.generic_visit(tree) if isinstance(tree, ast.Call) else renamed.visit(tree)
    foreign = any(isinstance(node, ast.expr) and original(node) for node in ast.walk(changed))
    text = ast.unparse(changed)
    return "" if foreign or text == ast.unparse(own) else text
