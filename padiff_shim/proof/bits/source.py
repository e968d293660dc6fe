"""The port's source: the expression that a call stands in, and a change as lines to write in their place."""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

import paddle

from ...dispatch.call_site import is_library
from ..arguments import nodes_of, running_at, shown
from ..expressions import Edit, Rewrite, attribute_text, extent, parents_of
from .calls import ValueId


class Span(NamedTuple):
    """An expression in a source file, and what can be named there.

    Attributes:
        line, end_line, column, end_column: lines from 1, columns in bytes from 0, as in Python's syntax trees.
        code: of the function.
        names: the names of the function's module and their values, by which aliases of Paddle are known.
        variables: text -> the value that it holds there: local variables, parameters of ``self``, and parts of the statement.
        numbers: text -> the number that a part of the statement stands for.
        layer: of a library's method: whose it is, as ``self`` or a part of the layer that the port calls.
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
    layer: str = "self"


def span_of_call(until: CodeType, known: Callable[[Any], ValueId | None]) -> Span | None:
    """The innermost expression that is being evaluated in a function of the user's; None where Python does not tell.

    Args:
        until: code of the function that calls the model; lines are looked for within that call.
        known: the value that a tensor holds, if it has been met.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not until:
        if not is_library(frame.f_code.co_filename):
            return _span(frame, known)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def span_in_layer(until: CodeType, known: Callable[[Any], ValueId | None]) -> Span | None:
    """The innermost expression in a method of a library's layer that the user's function calls; arguments as above.

    Of layers in a ``Sequential``, that of the one that it calls.
    """
    frame, methods = sys._getframe(1), list[FrameType]()
    while frame is not None and frame.f_code is not until and is_library(frame.f_code.co_filename):
        methods += [frame] if isinstance(frame.f_locals.get("self"), paddle.nn.Layer) else []
        frame = frame.f_back  # type: ignore[assignment]
    layers = list(dict.fromkeys(each.f_locals["self"] for each in reversed(methods)))
    layer = next((each for each in layers if not isinstance(each, paddle.nn.Sequential)), None)
    inside = [] if layer is None else [name for name, each in layers[0].named_sublayers(include_self=True) if each is layer]
    span = next((_span(each, known) for each in methods if inside and each.f_locals["self"] is layer), None)
    return None if span is None else span._replace(layer=attribute_text(inside[0]))


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
    for name, tensor in [*((attribute_text(path), parameter) for path, parameter in own), *parts, *names.items()]:
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
OF_A_NUMBER: Sequence[tuple[str, Callable[[float], float]]] = (
    ("{}", float), ("1 / ({})", lambda number: 1 / number), ("({}) ** 0.5", math.sqrt)
)  # what a line may say of a number that it names  # fmt: skip
_GREATEST_POWER = 1e6  # of a whole number, whose digits would take for ever
_ARITHMETIC: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
    ast.USub: operator.neg,
}  # fmt: skip


def patch(
    span: Span,
    spelling: str,
    operands: Mapping[str, ValueId | float],
    spans: Sequence[tuple[Span, Sequence[ValueId]]],
    *,
    again: bool = False,
    taken: set[str] | None = None,
    result: int | None = None,
) -> Rewrite | None:
    """The change of an expression to a spelling, in the port's own names; None where these do not say it.

    Args:
        span: the expression whose value the spelling gives.
        spelling: source in Paddle's words.
        operands: what its names stand for.
        spans: of all calls, in order, with the values that they make.
        again: an operand may be computed once more there; of a value with a gradient that would be another sum.
        taken: fresh names of other changes; those of this one are added.
        result: the expression gives several, and the spelling is the one at this place.
    """
    source = _source(span.file)
    expression = source.at(span) if result is None else source.item(span, result)
    statement = None if expression is None else source.statement(expression)
    if expression is None or statement is None or not source.is_alone(statement):
        return None
    taken = set() if taken is None else taken
    names = {*span.code.co_varnames, *span.code.co_names, *span.code.co_freevars, *span.code.co_cellvars, *span.names}
    used = names | taken
    body = ast.parse(spelling).body
    before: list[str] = []
    edits: list[Edit] = []  # of statements that come first
    texts: dict[str, str] = {}
    for name, value in operands.items():
        times = sum(isinstance(node, ast.Name) and node.id == name for line in body for node in ast.walk(line))
        if not times:
            continue
        text = source.text(value, span, expression, spans) or (source.repeated(value, span, spans) if again else None)
        if text is None:
            held = source.held_before(value, span, statement, spans)
            if held is None:
                return None
            text = fresh_name(f"{held.name}_before" if held.name else name, used)
            edits += held.edits(source, text)
        if times > 1 and not text.isidentifier() and not _is_plain(text):
            fresh = fresh_name(name, used)
            before.append(f"{fresh} = {text}")
            text = fresh
        texts[name] = text
    renamed = PortNames(texts, aliases(span.names), used)
    for line in body[:-1]:
        before += ast.unparse(ast.fix_missing_locations(renamed.visit(line))).splitlines()
    last = body[-1]
    assert isinstance(last, ast.Expr)
    written = ast.unparse(ast.fix_missing_locations(renamed.visit(last.value)))
    if source.needs_parentheses(expression, last.value):
        written = f"({written})"
    taken |= used - names
    edits += [source.line_before(statement, "\n".join(before))] if before else []
    return Rewrite(span.file, frozenset((*edits, Edit(*extent(expression), written))))


class _Held(NamedTuple):
    """A statement before, or in, which a value is there that no name holds at another statement.

    Attributes:
        line: the statement. ``text``: what holds it there; a variable's ``name``, or "".
        node: the expression of the statement that makes it, if no variable does.
    """

    line: ast.stmt
    text: str
    name: str = ""
    node: ast.expr | None = None

    def edits(self, source: _Source, fresh: str) -> Iterator[Edit]:
        """What gives the value a name of its own."""
        yield source.line_before(self.line, f"{fresh} = {self.text}")
        if self.node is not None:
            yield Edit(*extent(self.node), fresh)


def text_of(span: Span) -> str:
    """The expression in one line; "" if the file has it no longer."""
    expression = _source(span.file).at(span)
    return "" if expression is None else ast.unparse(expression)


def reading(span: Span, value: ValueId) -> list[Span]:
    """The parts of an expression that are a variable which holds a value."""
    expression = _source(span.file).at(span)
    names = [text for text, known in span.variables.items() if known == value]
    parts = [node for node in ast.walk(expression) if isinstance(node, ast.expr)] if expression is not None else []
    places = [extent(node) for node in parts if ast.unparse(node) in names]
    return [span._replace(line=at[0], column=at[1], end_line=at[2], end_column=at[3]) for at in places]


def reading_others(value: int, readers: Sequence[tuple[Span, str]], lines: Sequence[str]) -> Rewrite | None:
    """Lines before the first of some expressions, and their names where each reads a value; None where one does not name it."""
    source, edits = _source(readers[0][0].file), list[Edit]()
    first = source.at(readers[0][0])
    statement = None if first is None else source.statement(first)
    for span, name in readers:
        expression = source.at(span)
        parts = [] if expression is None else list(_operands(expression))
        read = [part for part in parts if (held := span.variables.get(ast.unparse(part))) is not None and held.number == value]
        if not read or span.file != source.file:
            return None
        edits += [Edit(*extent(part), name) for part in read]
    return None if statement is None else Rewrite(source.file, frozenset([source.line_before(statement, "\n".join(lines)), *edits]))


def uncast(span: Span) -> Rewrite | None:
    """What is cast in the place of its cast: ``x`` of ``x.astype("float32")``, and of ``paddle.cast(x, "float32")``."""
    source = _source(span.file)
    expression = source.at(span)
    if not isinstance(expression, ast.Call) or not isinstance(expression.func, ast.Attribute):
        return None
    owner = expression.func.value
    held = owner if not isinstance(_value(owner, {}, span.names), ModuleType) else expression.args[0]
    text = source.written(held)
    return Rewrite(span.file, frozenset([Edit(*extent(expression), text if isinstance(held, _CLOSED) else f"({text})")]))


def _operands(expression: ast.expr) -> Iterator[ast.expr]:
    """What an expression reads itself, without what a part of it reads."""
    for part in ast.iter_child_nodes(expression):
        inside = ast.iter_child_nodes(part) if isinstance(part, (ast.keyword, ast.Attribute, ast.List, ast.Tuple)) else ()
        yield from (each for each in (part, *inside) if isinstance(each, ast.expr))


def in_layer(rewrite: Rewrite, within: Span, span: Span) -> Rewrite | None:
    """A change of a method of a library's layer as lines of the port, which give the layer the changed one before its call.

    Args:
        rewrite: of the library's file.
        within: the library's expression. ``span``: the port's, which calls the layer.
    """
    source, patch = _source(span.file), rewrite.patch()
    expression = source.at(span)
    statement = None if expression is None else source.statement(expression)
    if not isinstance(expression, ast.Call) or statement is None or patch is None or not source.is_alone(statement):
        return None
    tree = ast.parse(patch.apply("".join(_source(within.file).lines)))
    line = within.code.co_firstlineno  # of its first decorator, if it has one
    methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    method = next((node for node in methods if line in (node.lineno, *(each.lineno for each in node.decorator_list))), None)
    if method is None:
        return None
    method.decorator_list.clear()
    arguments = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]
    for argument in arguments:
        argument.annotation = None
    method.returns = None
    read = {node.id for node in ast.walk(method) if isinstance(node, ast.Name)} - set(within.code.co_varnames)
    imported = sorted(read & within.names.keys())
    method.body = method.body[ast.get_docstring(method) is not None :]
    method.body[:0] = ast.parse(f"from {within.names['__name__']} import {', '.join(imported)}").body if imported else []
    layer = ast.unparse(expression.func).removesuffix(".forward").replace("super()", "self") + within.layer.removeprefix("self")
    name, method.name = method.name, fresh_name(method.name, set(span.code.co_varnames))
    lines = f"{ast.unparse(method)}\n{layer}.{name} = {method.name}.__get__({layer})"
    return Rewrite(span.file, frozenset([source.line_before(statement, lines)]))


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
        self._parts: dict[int, list[tuple[str, ast.expr]]] = {}
        self.nodes, self.parents = nodes_of(file), parents_of(file)

    def parts(self, line: int) -> list[tuple[str, ast.expr]]:
        """The parts of a line's statement that may hold a tensor, or stand for a number."""
        if line not in self._parts:
            statements = [
                node for node in self.nodes if isinstance(node, _SIMPLE) and node.lineno <= line <= (node.end_lineno or line)
            ]
            statement = max(statements, key=lambda node: node.lineno) if statements else ast.Module([], [])
            self._parts[line] = [
                (self.written(part), part)
                for part in ast.walk(statement)
                if isinstance(part, _VALUED) and isinstance(getattr(part, "ctx", _LOAD), ast.Load)
            ]
        return self._parts[line]

    def written(self, node: ast.expr) -> str:
        """The text of an expression, without the whole file that ``ast.get_source_segment`` reads for it."""
        line, column, end_line, end_column = extent(node)
        held = [text.encode() for text in self.lines[line - 1 : end_line]]
        held[-1] = held[-1][:end_column]
        held[0] = held[0][column:]
        return b"".join(held).decode()

    def at(self, span: Span) -> ast.expr | None:
        """The expression that lies there."""
        return _at(self.nodes, span)

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

    def line_before(self, statement: ast.stmt, text: str) -> Edit:
        """Lines before a statement."""
        lines = "".join(f"{self.indent(statement)}{line}\n" for line in text.splitlines())
        return Edit(statement.lineno, 0, statement.lineno, 0, lines)

    def is_alone(self, statement: ast.stmt) -> bool:
        """Whether a statement begins its line."""
        return not self.indent(statement).strip()

    def text(
        self, value: ValueId | float, span: Span, expression: ast.expr, spans: Sequence[tuple[Span, Sequence[ValueId]]]
    ) -> str | None:
        """How an operand is written there: a variable, or a part of the expression."""
        if not isinstance(value, ValueId):
            if float(value).is_integer():
                return shown(value)  # which a counter may be by chance
            numbers = [pair for each in (span, *(made for made, _ in _before(span, spans))) for pair in each.numbers.items()]
            named = (
                words.format(text)
                for words, make in OF_A_NUMBER
                for text, number in numbers
                if number > 0 and math.isclose(make(number), value, rel_tol=1e-14)
            )
            return next(named, shown(value))  # a name is right in layers of other widths, too
        for text, known in reversed(list(span.variables.items())):
            if known == value:
                return text
        for made, values in _before(span, spans):
            if value in values:
                for node in ast.walk(expression):
                    if isinstance(node, ast.expr) and node is not expression and _at([node], made):
                        return self.written(node)
        return None

    def repeated(self, value: ValueId | float, span: Span, spans: Sequence[tuple[Span, Sequence[ValueId]]]) -> str | None:
        """The expression of an earlier statement that made a value, if what it is made of is what it was."""
        made = next((made for made, values in _before(span, spans) if value in values), None)
        node = None if made is None else self.at(made)
        if made is None or node is None:
            return None
        written = {
            ast.unparse(target)
            for target in self.nodes
            if isinstance(getattr(target, "ctx", None), ast.Store) and made.line <= target.lineno < span.line  # type: ignore[attr-defined]
        }
        parts = {ast.unparse(part) for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))}
        return None if parts & written else f"({self.written(node)})"

    def held_before(
        self, value: ValueId | float, span: Span, statement: ast.stmt, spans: Sequence[tuple[Span, Sequence[ValueId]]]
    ) -> _Held | None:
        """Where a value is there before a statement at which no name holds it."""

        def beside(node: ast.expr | None) -> ast.stmt | None:
            line = None if node is None else self.statement(node)
            alone = line is not None and self.is_alone(line) and line.lineno <= statement.lineno
            return line if line is not None and alone and self.parents[line] is self.parents[statement] else None

        for earlier, _ in reversed(_before(span, spans)):
            name = next((text for text, known in earlier.variables.items() if known == value), None)
            line = None if name is None else beside(self.at(earlier))
            if name is not None and line is not None:
                return _Held(line, name, name if name.isidentifier() else "")
        node = next((self.at(made) for made, values in _before(span, spans) if value in values), None)
        line = beside(node)
        if node is None or line is None or line is statement:
            return None
        return _Held(line, self.written(node), "", node)

    def item(self, span: Span, place: int) -> ast.expr | None:
        """The expression that takes one of the results of the call that lies there."""
        call = self.at(span)
        parent = None if call is None else self.parents[call]
        taken = parent.slice if isinstance(parent, ast.Subscript) else None
        return parent if isinstance(parent, ast.expr) and isinstance(taken, ast.Constant) and taken.value == place else None

    def needs_parentheses(self, expression: ast.expr, written: ast.expr) -> bool:
        """Whether another expression in this one's place has to stand in parentheses."""
        line, column, end_line, end_column = extent(expression)
        before = self.lines[line - 1].encode()[:column].rstrip()
        behind = self.lines[end_line - 1].encode()[end_column:].lstrip()
        if (before.endswith(b"(") and behind.startswith(b")")) or isinstance(written, _CLOSED):
            return False
        parent = self.parents[expression]
        if isinstance(parent, (*_SIMPLE, ast.keyword)):
            return False
        return not (isinstance(parent, ast.Call) and expression in parent.args)


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


def _at(nodes: Iterable[ast.AST], span: Span) -> ast.expr | None:
    """The expression among some nodes that lies there."""
    place = (span.line, span.column, span.end_line, span.end_column)
    return next((node for node in nodes if isinstance(node, ast.expr) and place in running_at(node)), None)


def _is_plain(text: str) -> bool:
    """Whether a text is a chain of attributes, or a number."""
    return all(isinstance(node, _PLAIN) for node in ast.walk(ast.parse(text, mode="eval")))


def fresh_name(name: str, used: set[str]) -> str:
    fresh = name if name not in used else next(f"{name}{number}" for number in itertools.count(1) if f"{name}{number}" not in used)
    used.add(fresh)
    return fresh


def aliases(names: Mapping[str, Any]) -> dict[str, str]:
    """How a module calls Paddle, its functional module, and ``math``."""
    wanted = {"paddle": paddle, "F": paddle.nn.functional, "math": math}
    aliases = {word: next((name for name, held in names.items() if held is module), "") for word, module in wanted.items()}
    root = aliases["paddle"] or "__import__('paddle')"
    return {"paddle": root, "F": aliases["F"] or f"{root}.nn.functional", "math": aliases["math"] or "__import__('math')"}


class PortNames(ast.NodeTransformer):
    """A spelling in the words of a function: operands as they are written there, and fresh names for its own variables."""

    def __init__(self, texts: Mapping[str, str], aliases: Mapping[str, str], used: set[str]) -> None:
        self._texts, self._used = {**aliases, **texts}, used
        self._aliases = aliases

    def visit_Assign(self, node: ast.Assign) -> Any:
        """An assignment: its value has the names from before."""
        node.value = self.visit(node.value)
        node.targets = [self.visit(target) for target in node.targets]
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        """A name."""
        if isinstance(node.ctx, ast.Store) and node.id not in self._aliases:
            self._texts[node.id] = fresh_name(node.id, self._used)
        text = self._texts.get(node.id)
        if text is None:
            return node
        made = ast.parse(text, mode="eval").body
        if isinstance(made, ast.Name):
            return ast.Name(made.id, node.ctx)
        return made
