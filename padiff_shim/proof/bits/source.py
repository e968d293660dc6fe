"""The port's source: the expression that a call stands in, and a change as lines to write in their place."""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import linecache
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple

import paddle

from ...dispatch.call_site import is_library
from ...present.annotations import Patch
from .calls import ValueId


class Span(NamedTuple):
    """An expression in a source file, and what can be named there.

    Attributes:
        line, end_line, column, end_column: lines from 1, columns in bytes from 0, as in Python's syntax trees.
        code: of the function.
        names: the names of the function's module and their values, by which aliases of Paddle are known.
        variables: text -> the value that it holds there: local variables, parameters of ``self``, and parts of the statement.
        numbers: text -> the number that a part of the statement stands for.
    """

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    code: CodeType
    names: Mapping[str, Any]
    variables: Mapping[str, ValueId]
    numbers: Mapping[str, float]


def span_of_call(until: CodeType, known: Callable[[Any], ValueId | None]) -> Span | None:
    """The expression that is being evaluated in the innermost function of the user's; None where Python does not tell.

    Args:
        until: code of the function that calls the model; lines are looked for within that call.
        known: the value that a tensor holds, if it has been met.
    """
    return next(spans_of_call(until, known), None)


def spans_of_call(until: CodeType, known: Callable[[Any], ValueId | None]) -> Iterator[Span | None]:
    """The same in all functions of the user's, the innermost first; arguments as for :func:`span_of_call`."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not until:
        if not is_library(frame.f_code.co_filename):
            yield _span(frame, known)
        frame = frame.f_back  # type: ignore[assignment]


def _span(frame: FrameType, known: Callable[[Any], ValueId | None]) -> Span | None:
    if not hasattr(frame.f_code, "co_positions"):
        return None
    line, end_line, column, end_column = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    if line is None or end_line is None or column is None or end_column is None:
        return None
    file = frame.f_code.co_filename
    parts = [(text, _value(node, frame.f_locals, frame.f_globals)) for text, node in _source(file).parts(line)]
    variables = dict(_variables(parts, frame.f_locals, known))
    numbers = {text: value for text, value in parts if type(value) in (int, float)}
    return Span(file, line, end_line, column, end_column, frame.f_code, frame.f_globals, variables, numbers)


def _variables(
    parts: Sequence[tuple[str, Any]], names: Mapping[str, Any], known: Callable[[Any], ValueId | None]
) -> Iterator[tuple[str, ValueId]]:
    layer = names.get("self")
    own = layer.named_parameters() if isinstance(layer, paddle.nn.Layer) else ()
    for name, tensor in [*((_attribute(path), parameter) for path, parameter in own), *parts, *names.items()]:
        value = known(tensor) if isinstance(tensor, paddle.Tensor) else None
        if value is not None:
            yield name, value


def _value(node: ast.expr, names: Mapping[str, Any], others: Mapping[str, Any]) -> Any:
    """What an expression stands for; None where finding out would run code of the user's."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id, others.get(node.id))
    if isinstance(node, ast.Attribute):
        owner = _value(node.value, names, others)
        places = [getattr(owner, "__dict__", {})]
        places += [owner._parameters, owner._buffers, owner._sub_layers] if isinstance(owner, paddle.nn.Layer) else []
        return next((place[node.attr] for place in places if node.attr in place), None)
    if isinstance(node, ast.Subscript):
        owner, key = _value(node.value, names, others), _value(node.slice, names, others)
        try:
            return owner[key] if type(owner) in (list, tuple, dict) and type(key) in (int, str) else None
        except LookupError:
            return None
    return _number(node, names, others) if isinstance(node, (ast.BinOp, ast.UnaryOp)) else None


def _number(node: ast.BinOp | ast.UnaryOp, names: Mapping[str, Any], others: Mapping[str, Any]) -> Any:
    """What arithmetic of numbers gives; None for that of anything else."""
    sides = [_value(side, names, others) for side in ast.iter_child_nodes(node) if isinstance(side, ast.expr)]
    operation = _ARITHMETIC.get(type(node.op))
    if operation is None or any(type(side) not in (int, float) for side in sides):
        return None
    if isinstance(node.op, ast.Pow) and abs(sides[1]) > _GREATEST_POWER:
        return None
    try:
        return operation(*sides)
    except (ArithmeticError, ValueError):
        return None


_VALUED = (ast.Attribute, ast.Subscript, ast.Name, ast.BinOp, ast.UnaryOp)
_LOAD = ast.Load()
_GREATEST_POWER = 1e6  # of a whole number, whose digits would take for ever
_ARITHMETIC: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
    ast.USub: operator.neg,
}  # fmt: skip


def _attribute(path: str) -> str:
    """``self.blocks[0].weight`` of ``blocks.0.weight``."""
    return "self" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in path.split("."))


def patch(
    span: Span,
    spelling: str,
    operands: Mapping[str, ValueId | float],
    spans: Sequence[tuple[Span, Sequence[ValueId]]],
    *,
    again: bool = False,
) -> Patch | None:
    """The change of an expression to a spelling, in the port's own names; None where these do not say it.

    Args:
        span: the expression whose value the spelling gives.
        spelling: source in Paddle's words.
        operands: what its names stand for.
        spans: of all calls, in order, with the values that they make.
        again: an operand may be computed once more there; of a value with a gradient that would be another sum.
    """
    source = _source(span.file)
    expression = source.at(span)
    statement = None if expression is None else source.statement(expression)
    if expression is None or statement is None or not source.is_alone(statement):
        return None
    used = {*span.code.co_varnames, *span.code.co_names, *span.code.co_freevars, *span.code.co_cellvars, *span.names}
    body = ast.parse(spelling).body
    before: list[str] = []
    earlier: list[tuple[ast.stmt, str]] = []  # lines to write before statements that come first
    texts: dict[str, str] = {}
    for name, value in operands.items():
        text = source.text(value, span, expression, spans)
        if text is None and again and isinstance(value, ValueId):
            text = source.repeated(value, span, spans)
        if text is None:
            earliest = source.kept_line(value, span, statement, spans)
            if earliest is None:
                return None
            text = _fresh(f"{earliest[1]}_before" if earliest[1].isidentifier() else name, used)
            earlier.append((earliest[0], f"{text} = {earliest[1]}"))
        times = sum(isinstance(node, ast.Name) and node.id == name for line in body for node in ast.walk(line))
        if times > 1 and not text.isidentifier() and not _is_plain(text):
            fresh = _fresh(name, used)
            before.append(f"{fresh} = {text}")
            text = fresh
        texts[name] = text
    renamed = _PortNames(texts, _aliases(span.names), used)
    for line in body[:-1]:
        before += ast.unparse(ast.fix_missing_locations(renamed.visit(line))).splitlines()
    last = body[-1]
    assert isinstance(last, ast.Expr)
    written = ast.unparse(ast.fix_missing_locations(renamed.visit(last.value)))
    if source.needs_parentheses(expression, last.value, span):
        written = f"({written})"
    return source.changed(statement, span, written, before, earlier)


def text_of(span: Span) -> str:
    """The expression in one line; "" if the file has it no longer."""
    expression = _source(span.file).at(span)
    return "" if expression is None else ast.unparse(expression)


def part_replaced(span: Span, value: ValueId, places: Sequence[Span], name: str) -> str | None:
    """An expression in which a name stands for a value: where it is a variable, or made at one of these places.

    None where the expression does not read the value so.
    """
    source = _source(span.file)
    expression = source.at(span)
    if expression is None:
        return None
    makers = [node for place in places if (node := source.at(place)) is not None]
    replaced = _Replaced([text for text, known in span.variables.items() if known == value], makers, name)
    text = ast.unparse(replaced.visit(copy.deepcopy(expression)))
    return text if replaced.count else None


class _Replaced(ast.NodeTransformer):
    """An expression with a name in place of variables, and of the expressions that lie where some nodes lie."""

    def __init__(self, texts: Sequence[str], nodes: Sequence[ast.expr], name: str) -> None:
        self._texts, self._places, self._name = texts, [_extent(node) for node in nodes], name
        self.count = 0

    def visit(self, node: ast.AST) -> Any:
        """An expression."""
        if isinstance(node, ast.expr) and (_extent(node) in self._places or ast.unparse(node) in self._texts):
            self.count += 1
            return ast.Name(self._name, ast.Load())
        return super().visit(node)


def _extent(node: ast.expr) -> tuple[Any, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def assigned_before(span: Span, value: ValueId, spelling: str) -> Patch | None:
    """A line before an expression's statement that gives the variable of a value what a spelling makes of it, ``x``."""
    source = _source(span.file)
    expression = source.at(span)
    statement = None if expression is None else source.statement(expression)
    name = next((text for text, known in span.variables.items() if known == value and text.isidentifier()), None)
    if statement is None or name is None or not source.is_alone(statement):
        return None
    made = _PortNames({"x": name}, _aliases(span.names), set()).visit(ast.parse(spelling, mode="eval").body)
    line = "".join(source.lines[statement.lineno - 1 : statement.end_lineno])
    return Patch(
        span.file,
        statement.lineno,
        statement.end_lineno or statement.lineno,
        line,
        f"{source.indent(statement)}{name} = {ast.unparse(made)}\n{line}",
    )


def joined(first: Patch | None, second: Patch | None) -> Patch | None:
    """Two changes of a file as one; None where there are not two, or both change the same lines."""
    if first is None or second is None:
        return None
    if first.line > second.line:
        first, second = second, first
    if first.end_line >= second.line:
        return None
    between = "".join(_source(first.file).lines[first.end_line : second.line - 1])
    return Patch(
        first.file, first.line, second.end_line, first.before + between + second.before, first.after + between + second.after
    )


def _source(file: str) -> _Source:
    """A file as it was when its lines were last read."""
    return _parsed(file, tuple(linecache.getlines(file)))


@functools.lru_cache(64)
def _parsed(file: str, lines: tuple[str, ...]) -> _Source:
    return _Source(file, lines)


class _Source:
    """A file of the port's, as text and as a tree."""

    def __init__(self, file: str, lines: Sequence[str]) -> None:
        self.file, self.lines = file, list(lines)
        self.source = "".join(self.lines)
        self._parts: dict[int, list[tuple[str, ast.expr]]] = {}
        try:
            self.tree: ast.AST = ast.parse(self.source)
        except SyntaxError:
            self.tree = ast.Module([], [])
        self.parents = {child: parent for parent in ast.walk(self.tree) for child in ast.iter_child_nodes(parent)}

    def parts(self, line: int) -> list[tuple[str, ast.expr]]:
        """The parts of a line's statement that may hold a tensor, or stand for a number."""
        if line not in self._parts:
            statements = [
                node
                for node in ast.walk(self.tree)
                if isinstance(node, _SIMPLE) and node.lineno <= line <= (node.end_lineno or line)
            ]
            statement = max(statements, key=lambda node: node.lineno) if statements else ast.Module([], [])
            self._parts[line] = [
                (ast.get_source_segment(self.source, part) or "", part)
                for part in ast.walk(statement)
                if isinstance(part, _VALUED) and isinstance(getattr(part, "ctx", _LOAD), ast.Load)
            ]
        return self._parts[line]

    def at(self, span: Span) -> ast.expr | None:
        """The expression that lies there."""
        return _at(self.tree, span)

    def statement(self, expression: ast.expr) -> ast.stmt | None:
        """The statement of an expression, if lines can stand before it that are evaluated as often."""
        node: ast.AST = expression
        while not isinstance(node, ast.stmt):
            if isinstance(node, _SCOPES):
                return None
            node = self.parents[node]
        return node if isinstance(node, _SIMPLE) else None

    def indent(self, statement: ast.stmt) -> str:
        """What stands before a statement in its line."""
        return self.lines[statement.lineno - 1][: statement.col_offset]

    def is_alone(self, statement: ast.stmt) -> bool:
        """Whether a statement begins its line."""
        return not self.indent(statement).strip()

    def text(
        self, value: ValueId | float, span: Span, expression: ast.expr, spans: Sequence[tuple[Span, Sequence[ValueId]]]
    ) -> str | None:
        """How an operand is written there: a variable, or a part of the expression."""
        if not isinstance(value, ValueId):
            if float(value).is_integer():
                return written_number(value)  # which a counter may be by chance
            names = [span.numbers, *(made.numbers for made, _ in _before(span, spans))]
            return next((text for each in names for text, number in each.items() if number == value), written_number(value))
        for text, known in reversed(list(span.variables.items())):
            if known == value:
                return text
        for made, values in _before(span, spans):
            if value in values:
                for node in ast.walk(expression):
                    if isinstance(node, ast.expr) and node is not expression and _at(node, made) is node:
                        return ast.get_source_segment(self.source, node)
        return None

    def repeated(self, value: ValueId, span: Span, spans: Sequence[tuple[Span, Sequence[ValueId]]]) -> str | None:
        """The expression of an earlier statement that made a value, if what it is made of is what it was."""
        made = next((made for made, values in _before(span, spans) if value in values), None)
        node = None if made is None else self.at(made)
        if made is None or node is None:
            return None
        written = {
            ast.unparse(target)
            for target in ast.walk(self.tree)
            if isinstance(getattr(target, "ctx", None), ast.Store) and made.line <= target.lineno < span.line  # type: ignore[attr-defined]
        }
        parts = {ast.unparse(part) for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))}
        return None if parts & written else f"({ast.get_source_segment(self.source, node)})"

    def kept_line(
        self, value: ValueId | float, span: Span, statement: ast.stmt, spans: Sequence[tuple[Span, Sequence[ValueId]]]
    ) -> tuple[ast.stmt, str] | None:
        """A statement before which a variable holds a value that it does not hold any longer; and the variable."""
        for earlier, _ in reversed(_before(span, spans)):
            name = next((text for text, known in earlier.variables.items() if known == value), None)
            if name is None:
                continue
            expression = self.at(earlier)
            line = None if expression is None else self.statement(expression)
            if line is None or not self.is_alone(line) or line.lineno > statement.lineno:
                continue
            if self.parents[line] is self.parents[statement]:
                return line, name
        return None

    def needs_parentheses(self, expression: ast.expr, written: ast.expr, span: Span) -> bool:
        """Whether another expression in this one's place has to stand in parentheses."""
        before = self.lines[span.line - 1].encode()[: span.column].rstrip()
        behind = self.lines[span.end_line - 1].encode()[span.end_column :].lstrip()
        if (before.endswith(b"(") and behind.startswith(b")")) or isinstance(written, _CLOSED):
            return False
        parent = self.parents[expression]
        if isinstance(parent, (*_SIMPLE, ast.keyword)):
            return False
        return not (isinstance(parent, ast.Call) and expression in parent.args)

    def changed(
        self, statement: ast.stmt, span: Span, written: str, before: Sequence[str], earlier: Sequence[tuple[ast.stmt, str]]
    ) -> Patch:
        """The lines of a statement with another text in an expression's place, and further lines before it, or earlier."""
        end = statement.end_lineno or statement.lineno
        first = min([statement.lineno, *(line.lineno for line, _ in earlier)])
        new: list[str] = []
        for number in range(first, statement.lineno + 1):
            new += [f"{self.indent(line)}{text}\n" for line, text in earlier if line.lineno == number]
            new += [self.lines[number - 1]] if number < statement.lineno else []
        new += [f"{self.indent(statement)}{line}\n" for line in before]
        held = [line.encode() for line in self.lines[statement.lineno - 1 : end]]
        begin, stop = span.line - statement.lineno, span.end_line - statement.lineno
        head, tail = held[begin][: span.column], held[stop][span.end_column :]
        new.append(b"".join([*held[:begin], head, written.encode(), tail, *held[stop + 1 :]]).decode())
        return Patch(self.file, first, end, "".join(self.lines[first - 1 : end]), "".join(new))


def _before(span: Span, spans: Sequence[tuple[Span, Sequence[ValueId]]]) -> list[tuple[Span, Sequence[ValueId]]]:
    """The calls before that of a span in the same run of its function, and of a loop's body; the nearest first."""
    same = [
        pair for pair in spans[: next(place for place, (each, _) in enumerate(spans) if each is span)] if pair[0].code is span.code
    ]
    lines = [pair[0].end_line for pair in same] + [span.end_line]
    begin = max((place + 1 for place in range(len(same)) if lines[place] > lines[place + 1]), default=0)
    return same[begin:][::-1]


_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
_SCOPES = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PLAIN = (ast.Attribute, ast.Name, ast.Constant, ast.Load, ast.Subscript, ast.Expression)
_CLOSED = (ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.Constant)


def _at(tree: ast.AST, span: Span) -> ast.expr | None:
    """The expression of a tree that lies there."""
    place = (span.line, span.column, span.end_line, span.end_column)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset) == place:
            return node
    return None


def written_number(value: float) -> str:
    """A number as people write it: the root of a whole one as a power."""
    square = round(value * value) if math.isfinite(value) else 0
    if square > 0 and not float(value).is_integer() and math.sqrt(square) == value:
        return f"{square} ** 0.5" if square**0.5 == value else f"math.sqrt({square})"
    return repr(int(value)) if float(value).is_integer() and abs(value) < 1e6 else repr(value)


def _is_plain(text: str) -> bool:
    """Whether a text is a chain of attributes, or a number."""
    return all(isinstance(node, _PLAIN) for node in ast.walk(ast.parse(text, mode="eval")))


def _fresh(name: str, used: set[str]) -> str:
    fresh = name if name not in used else next(f"{name}{number}" for number in itertools.count(1) if f"{name}{number}" not in used)
    used.add(fresh)
    return fresh


def _aliases(names: Mapping[str, Any]) -> dict[str, str]:
    """How a module calls Paddle, its functional module, and ``math``."""
    wanted = {"paddle": paddle, "F": paddle.nn.functional, "math": math}
    aliases = {word: next((name for name, held in names.items() if held is module), "") for word, module in wanted.items()}
    root = aliases["paddle"] or "__import__('paddle')"
    return {"paddle": root, "F": aliases["F"] or f"{root}.nn.functional", "math": aliases["math"] or "__import__('math')"}


class _PortNames(ast.NodeTransformer):
    """A spelling in the words of a function: operands as they are written there, and fresh names for its own variables."""

    def __init__(self, texts: Mapping[str, str], aliases: Mapping[str, str], used: set[str]) -> None:
        self._texts, self._used = {**aliases, **texts}, used
        self._aliases = aliases

    def visit_Name(self, node: ast.Name) -> Any:
        """A name."""
        if isinstance(node.ctx, ast.Store) and node.id not in self._aliases:
            self._texts[node.id] = _fresh(node.id, self._used)
        text = self._texts.get(node.id)
        if text is None:
            return node
        if "math.sqrt" in text:
            text = text.replace("math", self._aliases["math"])
        made = ast.parse(text, mode="eval").body
        if isinstance(made, ast.Name):
            return ast.Name(made.id, node.ctx)
        return made
