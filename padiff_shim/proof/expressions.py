"""Expressions of the port's lines, and the changes of them that mend a mistake."""

from __future__ import annotations

import ast
import bisect
import functools
import inspect
import itertools
import linecache
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

from ..dispatch.call_site import CallSite, is_library
from ..present.annotations import Patch
from .arguments import ApiCall, Name, nodes_of, parsed
from .trace import Value


class Edit(NamedTuple):
    """A text in the place of another: lines from 1, columns in bytes; the lines before ``line`` get no part of it."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Rewrite:
    """Edits of a file that belong together."""

    file: str
    edits: frozenset[Edit]

    @classmethod
    def of(cls, file: str, texts: Iterable[tuple[ast.expr, str]]) -> Rewrite:
        """A file with other texts in the place of expressions."""
        return cls(file, frozenset(Edit(*extent(node), text) for node, text in texts))

    def patch(self) -> Patch | None:
        """The lines that they change; None where one lies in another, or they are no program then."""
        lines, edits = linecache.getlines(self.file), sorted(self.edits)
        first, last = edits[0].line, max(edit.end_line for edit in edits)
        held = [line.encode() for line in lines[first - 1 : last]]
        starts = [0, *itertools.accumulate(map(len, held))]
        whole, made, end = b"".join(held), b"", 0
        for edit in edits:
            begin, stop = starts[edit.line - first] + edit.column, starts[edit.end_line - first] + edit.end_column
            if begin < end:
                return None
            made, end = made + whole[end:begin] + edit.text.encode(), stop
        patch = Patch(self.file, first, last, whole.decode(), (made + whole[end:]).decode())
        try:
            statements_of(patch)
        except SyntaxError:  # an argument stands in brackets of its own
            return None
        return patch


def statements_of(patch: Patch) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements of a file that have a part of a patch's lines, and those in their place then; the others stay as they are.

    Raises:
        SyntaxError: they are no program then.
    """
    lines, statements = linecache.getlines(patch.file), parsed(patch.file).body
    ends = [node.end_lineno or 0 for node in statements]
    first = bisect.bisect_left(ends, patch.line)
    stop = max(bisect.bisect_right(ends, patch.end_line), bisect.bisect_left(ends, patch.end_line) + 1)
    begin, end = ends[first - 1] if first else 0, ends[stop - 1] if stop <= len(ends) else len(lines)
    source = "".join([*lines[begin : patch.line - 1], patch.after, *lines[patch.end_line : end]])
    return statements[first:stop], ast.parse(source).body


def extent(node: ast.expr | ast.stmt) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def both(first: Rewrite | None, second: Rewrite | None) -> Rewrite | None:
    """Two changes of a file as one; None where there are not two, or one lies in the other, which does not read it as it was."""
    if first is None or second is None or first.file != second.file:
        return None
    edits = set(first.edits | second.edits)
    for inner, outer in itertools.permutations(first.edits | second.edits, 2):
        if outer[:2] <= inner[:2] < inner[2:4] <= outer[2:4] and inner in edits:
            made = _within(first.file, outer, inner)
            if made is None:
                return None
            edits = edits - {inner, outer} | {made}
    united = Rewrite(first.file, frozenset(edits))
    return None if united.patch() is None else united


def _within(file: str, outer: Edit, inner: Edit) -> Edit | None:
    """An edit whose text has that of another in the place of what this stands for in the file; None where it does not read that."""
    lines = [line.encode() for line in linecache.getlines(file)]

    def between(begin: tuple[int, int], end: tuple[int, int]) -> str:
        rest = b"".join(lines[begin[0] - 1 : end[0]])[begin[1] :]
        return rest[: len(rest) - len(lines[end[0] - 1]) + end[1]].decode()

    whole, before, part = between(outer[:2], outer[2:4]), between(outer[:2], inner[:2]), between(inner[:2], inner[2:4])
    texts = outer.text.split(part)
    if len(texts) - 1 != whole.count(part) or not part.strip():
        return None
    at = before.count(part) + 1
    return outer._replace(text=part.join(texts[:at]) + inner.text + part.join(texts[at:]))


# ---- What a call of Paddle's API has as its arguments.


def names_in(file: str) -> Mapping[str, Any]:
    """The names of the module of a file, and their values."""
    return _names_in(file, parsed(file))


@functools.lru_cache(maxsize=64)
def _names_in(file: str, _: ast.AST) -> Mapping[str, Any]:
    """The same; a millisecond, for thousands of modules are asked. ``_`` tells a file that was changed."""
    return next((vars(module) for module in list(sys.modules.values()) if getattr(module, "__file__", None) == file), {})


def resolved(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """What a dotted name of the module stands for; None of any other expression."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := resolved(node.value, names)) is not None:
        return getattr(owner, node.attr, None)
    return None


def parameters_of(called: Any) -> list[str]:
    """The parameters of what is called; none where they are not known."""
    try:
        return list(inspect.signature(called).parameters) if callable(called) else []
    except (TypeError, ValueError):
        return []


def is_module(node: ast.expr, file: str) -> bool:
    """Whether an expression names a module: by the file's names, or by those of a function that imports or assigns it."""
    return isinstance(node, (ast.Name, ast.Attribute)) and modules_of(file)(node)


def modules_of(file: str) -> Callable[[ast.expr], bool]:
    """The same for many expressions of a file."""
    names, within = names_in(file), _modules_within(file, parsed(file))
    return lambda node: inspect.ismodule(resolved(node, names)) or (isinstance(node, ast.Name) and node.id in within)


@functools.lru_cache(maxsize=256)
def assigned_once(tree: ast.AST) -> dict[str, ast.expr]:
    """The names to which one statement gives a value, and no other anything, with what it gives."""
    stored = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    assigns = (node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name))
    values = {ast.unparse(node.targets[0]): node.value for node in assigns}
    return {name: value for name, value in values.items() if stored[name] == 1}


@functools.lru_cache(maxsize=64)
def _modules_within(file: str, _: ast.AST) -> set[str]:
    """The names that import statements bind, anywhere in a file, and those that stand for another name of a module.

    ``_`` tells a file that was changed.
    """
    nodes, names = nodes_of(file), names_in(file)
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    assigns = [(node.targets[0], node.value) for node in nodes if isinstance(node, ast.Assign)]
    named = {target.id for target, value in assigns if isinstance(target, ast.Name) and inspect.ismodule(resolved(value, names))}
    return {alias.asname or alias.name for node in imports for alias in node.names} | named


def argument_node(call: ApiCall, name: str) -> ast.expr | None:
    """The expression of an argument of a call, or of a layer's; None where that is not known."""
    node = call.expression
    if isinstance(node, ast.BinOp) and call.symbol:
        return node.left if name == "x" else node.right
    if isinstance(node, ast.AugAssign) and call.symbol:
        return node.target if name == "x" else node.value
    if isinstance(node, ast.Subscript) and call.symbol.startswith("[]"):
        statement = parents_of(call.file).get(node)
        value = statement.value if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        return {"x": node.value, "item": node.slice, "value": value}[name]
    if not isinstance(node, ast.Call) or call.symbol or name not in call.arguments:
        return None
    if (named := next((keyword.value for keyword in node.keywords if keyword.arg == name), None)) is not None:
        return named
    values, func = list(node.args), node.func
    if isinstance(func, ast.Attribute) and func.attr.strip("_") == call.name:
        values = values if is_module(func.value, call.file) else [func.value, *values]
    at = list(call.arguments).index(name)
    return values[at] if at < len(values) and not any(isinstance(value, ast.Starred) for value in values[: at + 1]) else None


def argument_source(call: ApiCall, name: str) -> Name | None:
    """What a line hands to a call for one of its parameters, as it is written there; None where that is not known."""
    node = argument_node(call, name)
    if node is None:
        return None
    return Name(f"({ast.unparse(node)})" if isinstance(node, ast.BinOp) and call.symbol else ast.unparse(node))


def reordered_source(call: ApiCall, name: str, order: Sequence[int]) -> Name:
    """A list of operands in another order, as the line would have it."""
    source = argument_source(call, name) or Name(name)
    node = ast.parse(source, mode="eval").body
    parts = [ast.unparse(part) for part in node.elts] if isinstance(node, (ast.List, ast.Tuple)) else []
    return Name(f"[{', '.join(parts[at] if parts else f'{source}[{at}]' for at in order)}]")


def with_arguments(call: ApiCall, texts: Mapping[str, str]) -> Rewrite | None:
    """The line with other arguments, or with such as it leaves to their defaults; None where it does not make the call itself."""
    nodes = {name: argument_node(call, name) for name in texts}
    edits = [Edit(*extent(node), texts[name]) for name, node in nodes.items() if node is not None]
    left = {name: text for name, text in texts.items() if nodes[name] is None}
    if call.layers or (left and (call.symbol or not left.keys() <= call.arguments.keys())):
        return None
    node = call.expression
    if left and (not isinstance(node, ast.Call) or any(keyword.arg is None for keyword in node.keywords)):
        return None
    edits += [added(node, left)] if left and isinstance(node, ast.Call) else []
    return Rewrite(call.file, frozenset(edits)) if edits else None


def added(call: ast.Call, texts: Mapping[str, str]) -> Edit:
    """Further arguments of a call."""
    text = ", ".join(f"{name}={text}" for name, text in texts.items())
    last = max([*call.args, *(each.value for each in call.keywords)], key=lambda each: (each.lineno, each.col_offset), default=None)
    if last is None:
        line, column = call.end_lineno or 0, (call.end_col_offset or 0) - 1
        return Edit(line, column, line, column, text)
    line, column = last.end_lineno or 0, last.end_col_offset or 0
    return Edit(line, column, line, column, f", {text}")


def attribute_text(path: str) -> str:
    """A layer or a weight as the model's code names it: ``self.blocks[0].weight`` of ``blocks.0.weight``."""
    return re.sub(r"\.(\d+)\b", r"[\1]", f"self.{path}" if path else "self")


# ---- Where a function of the port has a value.


class ValueSource(NamedTuple):
    """An expression that gives a value, and the text by which other lines of its function have it; "" where they have not."""

    file: str
    node: ast.expr
    name: str

    @property
    def parent(self) -> Any:
        """The node in which the expression stands."""
        return parents_of(self.file).get(self.node)

    @property
    def function(self) -> ast.FunctionDef | None:
        """The function in which it stands."""
        node: Any = self.node
        parents = parents_of(self.file)
        while node is not None and not isinstance(node, ast.FunctionDef):
            node = parents.get(node)
        return node

    def replaced_by(self, text: str) -> Rewrite:
        """The change of the expression, in brackets within another; what a statement writes gets a new value."""
        written = _written_by(self.node, parents_of(self.file).get(self.node), self.file)
        if written is not None:
            return Rewrite.of(self.file, [(self.node, f"{ast.unparse(written)} = {text}")])
        plain = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Call, ast.keyword, ast.Tuple, ast.List, ast.Subscript)
        parent = parents_of(self.file).get(self.node)
        within = not isinstance(parent, plain) or self.node in (getattr(parent, "func", None), getattr(parent, "value", None))
        within = within and not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.keyword))
        bare = isinstance(ast.parse(text, mode="eval").body, (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Constant))
        return Rewrite.of(self.file, [(self.node, f"({text})" if within and not bare else text)])

    def replaced_or_left_out(self, text: str) -> Iterator[Rewrite]:
        """The same; first without the statement, where this would give a name what it has."""
        statement = parents_of(self.file).get(self.node)
        if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == [text]:
            place = statement.lineno, statement.col_offset, statement.end_lineno or 0, statement.end_col_offset or 0
            yield Rewrite(self.file, frozenset([Edit(*place, "")]))
        yield self.replaced_by(text)


def operands_detached(file: str, line: int) -> Iterator[Rewrite]:
    """A line with one of its operands detached."""
    for node in nodes_of(file):
        inner: list[ast.expr] = []
        if isinstance(node, ast.BinOp):
            inner = [node.left, node.right]
        elif isinstance(node, ast.Call):
            inner = [*node.args, *(keyword.value for keyword in node.keywords)]
            inner += [node.func.value] if isinstance(node.func, ast.Attribute) else []
        elif isinstance(node, (ast.Assign, ast.Return)) and node.value is not None:
            inner = [node.value]
        for part in inner if getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", 0) or 0) else ():
            tensor = isinstance(part, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.BinOp))
            if tensor and not (is_module(part, file) or ast.unparse(part) == "self"):
                text = ast.unparse(part)
                yield Rewrite.of(file, [(part, f"({text}).detach()" if isinstance(part, ast.BinOp) else f"{text}.detach()")])


def _written_by(node: ast.expr, parent: Any, file: str) -> ast.expr | None:
    """What a statement of one expression writes: the target of ``h += x``, ``h`` of ``h.add_(x)`` and ``F.relu_(h)``."""
    if isinstance(node, ast.AugAssign):
        return node.target
    func = node.func if isinstance(node, ast.Call) and isinstance(parent, ast.Expr) else None
    if not isinstance(node, ast.Call) or not isinstance(func, ast.Attribute) or not func.attr.endswith("_"):
        return None
    return node.args[0] if node.args and is_module(func.value, file) else func.value


def parents_of(file: str) -> dict[ast.AST, Any]:
    """The nodes of the tree of a source file, and in which other each stands."""
    return _parents_in(parsed(file))


@functools.lru_cache(maxsize=64)
def _parents_in(tree: ast.AST) -> dict[ast.AST, Any]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


_ARRANGE = ("transpose", "t", "swapaxes", "swapdims", "matrix_transpose", "moveaxis", "unsqueeze", "reshape", "flatten", "squeeze")


def source_of_value(value: Value) -> ValueSource | None:
    """Where the port's line makes a value, with the steps that arrange it; None where that is not known, or a library's."""
    call = None if value.node is None else value.node.api
    node = None if call is None else call.expression
    if value.node is None or call is None or node is None or is_library(call.file):
        return None
    parents = parents_of(call.file)
    while isinstance(field := parents.get(node), ast.Attribute) and field.attr in _ARRANGE and isinstance(parents[field], ast.Call):
        node = parents[field]
    statement = parents.get(node)
    function = ValueSource(call.file, node, "").function
    if function is None:
        return None
    stored = Counter(part.id for part in ast.walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
    side, at = (parents.get(statement), statement.elts.index(node)) if isinstance(statement, ast.Tuple) else (statement, None)
    target = side.targets[0] if isinstance(side, ast.Assign) and len(side.targets) == 1 else None
    if isinstance(statement, ast.Tuple) and at is not None:  # `q, k = self.q(x), self.k(x)`
        target = target.elts[at] if isinstance(target, ast.Tuple) and len(target.elts) == len(statement.elts) else None
    elif isinstance(target, ast.Tuple) and value in value.node.results and len(value.node.results) == len(target.elts):
        target = target.elts[value.node.results.index(value)]
    elif len(value.node.results) > 1:
        return None
    if isinstance(target, ast.Name):
        name = target.id if stored[target.id] == 1 else ""
    else:
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        parameters = {arg.arg for arg in function.args.args}
        name = "" if any(stored[name] > (name not in parameters) for name in names) else ast.unparse(node)
    return ValueSource(call.file, node, name)


def nodes_of_function(function: FunctionType) -> list[ast.AST]:
    """The nodes of a function in the tree of its file; none where the file has it no longer."""
    code = inspect.unwrap(function).__code__
    definition = _definitions(code.co_filename, parsed(code.co_filename)).get(code.co_firstlineno)
    return list(ast.walk(definition)) if definition is not None else []


@functools.lru_cache(maxsize=64)
def _definitions(file: str, _: ast.AST) -> dict[int, ast.FunctionDef]:
    """The functions of a file by their first lines, those of decorators included. ``_`` tells a file that was changed."""
    functions = (node for node in nodes_of(file) if isinstance(node, ast.FunctionDef))
    return {(node.decorator_list[0].lineno if node.decorator_list else node.lineno): node for node in functions}


_REGISTERING = ("register_buffer", "create_parameter", "add_parameter")


def registered(kind: type, name: str) -> CallSite | None:
    """The line of a class that registers or assigns a buffer: under its name, else under one that the program makes."""
    made_up: CallSite | None = None
    for function in (function for owner in kind.__mro__ for function in vars(owner).values() if inspect.isfunction(function)):
        code = inspect.unwrap(function).__code__
        for node in nodes_of_function(function):
            site = CallSite(code.co_filename, getattr(node, "lineno", 1), code.co_name)
            targets = node.targets if isinstance(node, ast.Assign) else []
            parts = (part for target in targets for part in getattr(target, "elts", [target]))
            if any(isinstance(part, ast.Attribute) and part.attr == name for part in parts):
                return site
            if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") not in _REGISTERING:
                continue
            named = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "name")]
            if any(isinstance(word, ast.Constant) and word.value == name for word in named):
                return site
            if named and not isinstance(named[0], ast.Constant):
                made_up = made_up or site
    return made_up
