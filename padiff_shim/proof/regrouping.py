"""Expressions of the port whose operations come in another order than the original's: brackets, ``f(a) * b`` for ``f(a * b)``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..dispatch.call_site import CallSite
from .arguments import ApiCall, nodes_of, parsed
from .expressions import Rewrite, ValueSource, assigned_once, modules_of

_TURNS = 2  # exchanges of two operations, one of which reads the other
_MOST = 24  # operations of an expression, all of whose orders are looked through


def regrouped(call: ApiCall, site: CallSite) -> Iterator[tuple[str, Rewrite]]:
    """Expressions around a call of the port's, and changes that make them expressions of the original's line; likely ones first.

    Both are made of the same operations (operators, calls) in another order; what they are called with is not looked at.
    """
    wanted = {part.form for term in _of_line(site) for part in term.parts()}
    node, is_module = call.expression, modules_of(call.file)
    while isinstance(node, ast.expr) and not isinstance(node, (ast.Tuple, ast.List)):
        term = _term(node, {}, is_module)
        orders = latest = {term.text: term}
        for _ in range(_TURNS if len([*term.parts()]) <= _MOST else 0):
            latest = {other.text: other for each in latest.values() for other in each.turned()}
            orders = {**orders, **latest}
        others = [other for other in orders.values() if other.form in wanted and other.form != term.form]
        place = ValueSource(call.file, node, "")
        for other in sorted(others, key=lambda other: other.leaves != term.leaves):
            yield term.text, place.replaced_by(other.text)
        node = place.parent


def _of_line(site: CallSite) -> list[_Term]:
    """What the statements on a line compute; once more with names for what one statement of the file gives them."""
    tree, is_module = parsed(site.file), modules_of(site.file)
    nodes = [node for node in nodes_of(site.file) if isinstance(node, (ast.Assign, ast.AugAssign, ast.Return)) and node.value]
    values = [node.value for node in nodes if node.lineno <= site.line <= (node.end_lineno or 0)]
    return [_term(value, names, is_module) for value in values if value is not None for names in ({}, assigned_once(tree))]


@dataclass(frozen=True)
class _Term:
    """An expression as an operation with its operands; a name and a number have none. ``method``: the first is its owner."""

    head: str
    node: ast.expr
    operands: tuple[_Term, ...] = ()
    method: bool = False

    @property
    def form(self) -> str:
        """Its operations."""
        forms = [operand.form for operand in self.operands]
        forms = sorted(forms) if self.head in ("Add", "Mult") else forms
        return f"{self.head}({', '.join(forms)})" if forms else "_"

    @property
    def leaves(self) -> tuple[str, ...]:
        """What it reads, in its order."""
        return tuple(leaf for operand in self.operands for leaf in operand.leaves) if self.operands else (ast.unparse(self.node),)

    @property
    def text(self) -> str:
        """It as a line has it, with the brackets that its operations need."""
        return ast.unparse(self._written())

    def _written(self) -> ast.expr:
        node, own = self.node, [operand._written() for operand in self.operands]
        if isinstance(node, ast.BinOp):
            return ast.BinOp(own[0], node.op, own[1])
        if isinstance(node, ast.UnaryOp) and own:
            return ast.UnaryOp(node.op, own[0])
        if isinstance(node, ast.Call) and own:
            func = ast.Attribute(own.pop(0), node.func.attr, node.func.ctx) if self.method else node.func  # type: ignore[attr-defined]
            return ast.Call(func, [*own, *node.args[len(own) :]], node.keywords)
        return node

    def parts(self) -> Iterator[_Term]:
        """All operations of it."""
        if self.operands:
            yield self
        for operand in self.operands:
            yield from operand.parts()

    def turned(self) -> Iterator[_Term]:
        """The expressions in which one operation reads what another does, and this what it gives: ``f(a * b)`` of ``f(a) * b``."""
        for at, inner in enumerate(self.operands):
            for place, read in enumerate(inner.operands):
                yield inner._reading(place, self._reading(at, read))
            yield from (self._reading(at, other) for other in inner.turned())

    def _reading(self, at: int, other: _Term) -> _Term:
        return replace(self, operands=(*self.operands[:at], other, *self.operands[at + 1 :]))


# Functions and methods that do what an operator does.
_OPERATORS = {"add": "Add", "subtract": "Sub", "sub": "Sub", "multiply": "Mult", "mul": "Mult", "divide": "Div", "div": "Div"}
_OPERATORS |= {"pow": "Pow", "matmul": "MatMult", "neg": "USub"}


def _term(node: ast.expr, names: Mapping[str, ast.expr], is_module: Callable[[ast.expr], bool]) -> _Term:
    """An expression; names that stand for others are these."""
    head, read, method = "", list[ast.expr](), False
    if isinstance(node, ast.Name) and node.id in names:
        return _term(names[node.id], {name: value for name, value in names.items() if name != node.id}, is_module)
    if isinstance(node, ast.BinOp):
        head, read = type(node.op).__name__, [node.left, node.right]
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        head, read = type(node.op).__name__, [node.operand]
    elif isinstance(node, ast.Call):
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        method = isinstance(func, ast.Attribute) and not (ast.unparse(func.value) == "self" or is_module(func.value))
        read = [func.value, *node.args] if method else list(node.args)  # type: ignore[attr-defined]
        head = _OPERATORS.get(name.strip("_"), name.strip("_"))
        read = [] if any(isinstance(each, ast.Starred) for each in read) else read[: 1 + (head != name and head != "USub")]
    return _Term(head, node, tuple(_term(operand, names, is_module) for operand in read), method)
