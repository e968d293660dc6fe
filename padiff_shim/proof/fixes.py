"""What to write for a mistake, in Paddle's words, and where: at the line that makes the layer, or at the call itself.

Where the text of that call tells it, the changed line, too.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import paddle

from ..dispatch.call_site import CallSite, is_library
from ..present.annotations import Patch
from .arguments import OPERATORS, ApiCall, Name, parsed
from .findings import Cause, Fix, Mistake

_WRITE = re.compile(r"\b(?:write|pass) (?=[\w.]+ ?=)")
_BETWEEN_CALLS = frozenset({Cause.MISSING, Cause.PLACE, Cause.ORDER, Cause.OPERAND, Cause.SWAPPED})  # not within the layer


def with_fixes(mistakes: Sequence[Mistake], port: paddle.nn.Layer) -> list[Mistake]:
    """The mistakes, each with its fix where its text says what to write, else with the line that makes the layer."""
    layers = dict(port.named_sublayers(include_self=True))
    return [replace(mistake, fix=_fix(mistake, layers)) for mistake in mistakes]


def _fix(mistake: Mistake, layers: dict[str, paddle.nn.Layer]) -> Fix | None:
    text = mistake.write or ", ".join(_written(mistake.text))
    place = mistake.paddle
    if not text:
        return constructor(place.layer, layers) if place and mistake.cause not in _BETWEEN_CALLS else None
    if place is None:
        return Fix(text)
    made = constructor(place.layer, layers, text) if _takes(layers.get(place.layer), text) else None
    if made is None and is_library(place.file):
        return Fix(text)
    fix = made or Fix(text, place.file, place.line)
    names = _names_in(fix.file, layers)
    if (operator := _parsed_operator(text)) is not None:
        return replace(fix, patch=_patch_of_operator(fix, operator, names))
    calls = [call for call in ast.walk(parsed(fix.file)) if isinstance(call, ast.Call) and _covers(call, fix.line)]
    if made or _of_a_library(type(layers.get(place.layer))):
        made_by = [call for call in calls if _resolved(call.func, names) is type(layers[place.layer])]
        calls = calls if made and layers[place.layer]._forward_pre_hooks else made_by
    return replace(fix, patch=_patch(fix, calls, names))


def _takes(layer: paddle.nn.Layer | None, text: str) -> bool:
    """Whether a layer's constructor takes what is written, or what norms its weight; else the call does."""
    if layer is None:
        return False
    parameters = inspect.signature(type(layer).__init__).parameters
    hooks = layer._forward_pre_hooks.values()
    return all(each.arg in parameters or any(hasattr(hook, str(each.arg)) for hook in hooks) for each in _keywords(text))


def _keywords(text: str) -> list[ast.keyword]:
    """The arguments in what is written; none where it is no list of arguments."""
    try:
        return ast.parse(f"_({text})", mode="eval").body.keywords  # type: ignore[attr-defined]
    except SyntaxError:
        return []


def _parsed_operator(text: str) -> ast.BinOp | None:
    """``* 0.25`` or ``2 ** ...`` as an operator with a number on one side; None where it is none."""
    with contextlib.suppress(SyntaxError):
        node = ast.parse(f"... {text}" if text.startswith(tuple(OPERATORS.values())) else text, mode="eval").body
        return node if isinstance(node, ast.BinOp) else None
    return None


def _patch_of_operator(fix: Fix, wanted: ast.BinOp, names: Mapping[str, Any]) -> Patch | None:
    """The line with another number; None where several operators have one there, or none."""
    left, right = ast.unparse(wanted.left), ast.unparse(wanted.right)
    nodes = [
        node
        for node in ast.walk(parsed(fix.file))
        if isinstance(node, ast.BinOp) and _covers(node, fix.line) and type(node.op) is type(wanted.op)
    ]
    if "..." not in (left, right):
        straight = [node for node in nodes if (ast.unparse(node.right), ast.unparse(node.left)) == (left, right)]
        nodes = straight or [node for node in nodes if _exchanged(node.left, node.right, names) == [left, right]]
        return _changed(fix.file, [(*_extent(nodes[0]), fix.text)]) if len(nodes) == 1 else None
    operands = [node.left if right == "..." else node.right for node in nodes]
    numbers = [operand for operand in operands if _is_number(operand, names)] or operands
    return _changed(fix.file, [(*_extent(numbers[0]), left if right == "..." else right)]) if len(numbers) == 1 else None


def _is_number(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether an operand is a number by its form: ``0.5``, ``math.sqrt(d)``, ``float(d)``, ``d ** -0.5``."""
    if isinstance(node, ast.BinOp):
        return _is_literal(node.right) and (isinstance(node.op, ast.Pow) or _is_number(node.left, names))
    if isinstance(node, ast.Call):
        return getattr(_resolved(node.func, {"float": float, "int": int, **names}), "__module__", "") in _OF_NUMBERS
    return _is_literal(node)


_OF_NUMBERS = ("math", "numpy", "builtins")


def _extent(node: ast.expr) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:  # a name, which others may read
        return False
    return True


def _names_in(file: str, layers: Mapping[str, paddle.nn.Layer]) -> Mapping[str, Any]:
    """The names of the module of a file of the port, and their values."""
    for kind in {kind for layer in layers.values() for kind in type(layer).__mro__}:
        for function in vars(kind).values():
            if inspect.isfunction(function) and function.__code__.co_filename == file:
                return function.__globals__
    return next((vars(module) for module in list(sys.modules.values()) if getattr(module, "__file__", None) == file), {})


def _covers(call: ast.expr, line: int) -> bool:
    return call.lineno <= line <= (call.end_lineno or call.lineno)


def _resolved(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """What a dotted name of the module stands for; None of any other expression."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := _resolved(node.value, names)) is not None:
        return getattr(owner, node.attr, None)
    return None


def _parameters(call: ast.Call, names: Mapping[str, Any]) -> list[str]:
    """The parameters of what is called, from the first that the brackets hold; none where that is not known."""
    called, method = _resolved(call.func, names), False
    if called is None and isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") != "self":
        called, method = getattr(paddle.Tensor, call.func.attr, None), True
    try:
        return list(inspect.signature(called).parameters)[method:] if callable(called) else []
    except (TypeError, ValueError):
        return []


def argument_source(site: CallSite, call: ApiCall, name: str) -> Name | None:
    """What a line hands to a call for one of its parameters, as it is written there; None where that is not known."""
    places, symbol = list(call.arguments), _parsed_operator(f"{call.symbol} 1")
    for node in ast.walk(parsed(site.file)):
        if symbol and isinstance(node, ast.BinOp) and _covers(node, site.line) and type(node.op) is type(symbol.op):
            operand = node.left if name == "x" else node.right
            return Name(f"({ast.unparse(operand)})" if isinstance(operand, ast.BinOp) else ast.unparse(operand))
        if isinstance(node, ast.Call) and _covers(node, site.line) and _is_called(node, call.name) and name in places:
            named = next((keyword.value for keyword in node.keywords if keyword.arg == name), None)
            position = node.args[places.index(name)] if places.index(name) < len(node.args) else None
            if (written := named or position) is not None:
                return Name(ast.unparse(written))
    return None


def exchanged_source(site: CallSite, call: ApiCall) -> dict[str, Name]:
    """A product's operands with what is transposed in them exchanged, as its line has them; none where several may be meant."""
    names, places = _names_in(site.file, {}), list(call.arguments)[:2]
    pairs = []
    for node in ast.walk(parsed(site.file)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) and call.symbol and _covers(node, site.line):
            pairs.append((node.left, node.right))
        elif isinstance(node, ast.Call) and len(node.args) == 2 and _covers(node, site.line) and _is_called(node, call.name):
            pairs.append((node.args[0], node.args[1]))
    turned = [pair for pair in pairs if any(_arranged_field(operand, names) for operand in pair)]
    return dict(zip(places, map(Name, _exchanged(*turned[0], names)))) if len(turned) == 1 else {}


def _exchanged(left: ast.expr, right: ast.expr, names: Mapping[str, Any]) -> list[str]:
    return [ast.unparse(_on_another(*pair, names)) for pair in ((left, _root(right, names)), (right, _root(left, names)))]


def _root(node: ast.expr, names: Mapping[str, Any]) -> ast.expr:
    """What an expression arranges: ``q`` in ``q.transpose([0, 2, 1])``, ``paddle.transpose(q, [0, 2, 1])`` and ``q.mT``."""
    field = _arranged_field(node, names)
    return node if field is None else _root(field[0], names)


def _on_another(node: ast.expr, root: ast.expr, names: Mapping[str, Any]) -> ast.expr:
    """The same arrangement of something else."""
    field = _arranged_field(node, names)
    return root if field is None else field[1](_on_another(field[0], root, names))


def _arranged_field(node: ast.expr, names: Mapping[str, Any]) -> tuple[ast.expr, Callable[[ast.expr], ast.expr]] | None:
    """The operand of an arranging expression, and that expression of another one; None of any other expression."""
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        return node.value, lambda other: ast.Attribute(other, node.attr, node.ctx)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    func = node.func
    if func.attr not in _ARRANGE:
        return None
    if inspect.ismodule(_resolved(func.value, names)):
        return node.args[0], lambda other: ast.Call(func, [other, *node.args[1:]], node.keywords)
    return func.value, lambda other: ast.Call(ast.Attribute(other, func.attr, func.ctx), node.args, node.keywords)


_ARRANGE = ("transpose", "t", "swapaxes", "swapdims", "matrix_transpose", "moveaxis", "unsqueeze", "reshape")


def _is_called(node: ast.Call, name: str) -> bool:
    """Whether a call has a function's name; that of a layer is its attribute's."""
    return getattr(node.func, "attr", getattr(node.func, "id", "")) == name or (len(node.args) > 1 and name[:1].isupper())


def reordered_source(site: CallSite, call: ApiCall, name: str, order: Sequence[int]) -> Name:
    """A list of operands in another order, as the line would have it."""
    source = argument_source(site, call, name) or Name(name)
    node = ast.parse(source, mode="eval").body
    parts = [ast.unparse(part) for part in node.elts] if isinstance(node, (ast.List, ast.Tuple)) else []
    return Name(f"[{', '.join(parts[at] if parts else f'{source}[{at}]' for at in order)}]")


def _patch(fix: Fix, calls: Sequence[ast.Call], names: Mapping[str, Any]) -> Patch | None:
    """The line with the arguments of ``fix``; None where several calls take such arguments, or names would be replaced."""
    wanted = _keywords(fix.text)
    names_there = {node.id for call in calls for node in ast.walk(call) if isinstance(node, ast.Name)}
    if any(
        isinstance(node, ast.Name) and node.id not in {*names, *names_there} for each in wanted for node in ast.walk(each.value)
    ):
        return None
    parameters = [(call, _parameters(call, names)) for call in calls]
    fitting = [(call, known) for call, known in parameters if wanted and all(each.arg in known for each in wanted)]
    if len(fitting) != 1:
        return None
    call, known = fitting[0]
    edits = [edit for each in wanted if (edit := _edit(call, each, known)) is not None]
    return _changed(fix.file, edits) if len(edits) == len(wanted) else None


_Edit = tuple[int, int, int, int, str]  # from line and column, to line and column, the new text; columns in bytes


def _edit(call: ast.Call, wanted: ast.keyword, parameters: Sequence[str]) -> _Edit | None:
    """Where a call's argument stands, or would stand."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg not in parameters for each in call.keywords):
        return None
    place, text = parameters.index(str(wanted.arg)), ast.unparse(wanted.value)
    written = next((each.value for each in call.keywords if each.arg == wanted.arg), None)
    written = call.args[place] if written is None and place < len(call.args) else written
    if written is not None:
        return (*_extent(written), text) if _is_literal(written) or not _is_literal(wanted.value) else None
    last = max([*call.args, *(each.value for each in call.keywords)], key=lambda each: (each.lineno, each.col_offset), default=None)
    if last is None:
        line, column = call.end_lineno or 0, (call.end_col_offset or 0) - 1
        return line, column, line, column, f"{wanted.arg}={text}"
    line, column = last.end_lineno or 0, last.end_col_offset or 0
    return line, column, line, column, f", {wanted.arg}={text}"


def _changed(file: str, edits: Sequence[_Edit]) -> Patch | None:
    lines = linecache.getlines(file)
    first, end = min(edit[0] for edit in edits), max(edit[2] for edit in edits)
    starts = [0]
    for line in lines[first - 1 : end]:
        starts.append(starts[-1] + len(line.encode()))
    before = "".join(lines[first - 1 : end])
    after = before.encode()
    for begin, column, stop, end_column, text in sorted(edits, reverse=True):
        after = after[: starts[begin - first] + column] + text.encode() + after[starts[stop - first] + end_column :]
    patch = Patch(file, first, end, before, after.decode())
    try:
        ast.parse(patch.apply("".join(lines)))
    except SyntaxError:  # the last argument stands in brackets of its own
        return None
    return patch


def _written(text: str) -> Iterator[str]:
    """What an English sentence says to write: from ``write name=value`` (or ``pass``) to the end of its brackets, or of the clause.

    >>> list(_written("eps=0.001 against 1e-05 (write epsilon=1e-05), dim=1 against 0 (write axis=(0, 1))"))
    ['epsilon=1e-05', 'axis=(0, 1)']
    """
    for match in _WRITE.finditer(text):
        depth, end = 0, match.end()
        while end < len(text) and depth >= 0 and not (depth == 0 and text[end] == ";"):
            depth += (text[end] in "([{") - (text[end] in ")]}")
            end += depth >= 0
        yield text[match.end() : end].strip()


def constructor(path: str, layers: dict[str, paddle.nn.Layer], text: str = "") -> Fix | None:
    """The line of the port that makes a layer of Paddle's own.

    None where the layer at ``path`` is the port's own, whose lines are fixed themselves, or where the line is not found.
    """
    layer = layers.get(path)
    if layer is None or not _of_a_library(type(layer)):
        return None
    owner, attribute = path, ""
    while owner:
        owner, _, attribute = owner.rpartition(".")
        if owner in layers and not _of_a_library(type(layers[owner])):
            break
    else:
        return None
    for made_by in type(layers[owner]).__mro__:
        for function in vars(made_by).values() if not _of_a_library(made_by) else ():
            if inspect.isfunction(function) and (line := _assignment(function, attribute, type(layer))):
                file = function.__code__.co_filename
                return Fix(text, file, line, linecache.getline(file, line).strip())
    return None


def _of_a_library(made: type) -> bool:
    """Whether a class is Paddle's own; a model of its is not, for models are compared."""
    return is_library(getattr(sys.modules.get(made.__module__), "__file__", None) or "")


def _assignment(function: FunctionType, attribute: str, made: type) -> int:
    """The line that makes the layer which a method sets as ``self.attribute``; 0: none, or one of several.

    It is that of the only call of the class in what is assigned. Where several are, it is the assignment; where none is, because a
    function makes the layer, the only call of the class in the file.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return 0
    for value in _values_of(tree, attribute):
        calls = _calls(value, function, made)
        if calls:
            return first - 1 + (calls[0] if len(calls) == 1 else value).lineno
        everywhere = _calls(ast.parse("".join(linecache.getlines(function.__code__.co_filename))), function, made)
        return everywhere[0].lineno if len(everywhere) == 1 else 0
    return 0


def _calls(tree: ast.AST, function: FunctionType, made: type) -> list[ast.Call]:
    """The calls of a class, by its own name or that of the module of ``function``."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            getattr(node.func, "attr", getattr(node.func, "id", "")) == made.__name__
            or (isinstance(node.func, ast.Name) and function.__globals__.get(node.func.id) is made)
        )
    ]


def _values_of(tree: ast.AST, attribute: str) -> Iterator[ast.expr]:
    """What is assigned to ``self.attribute``, of several targets its own part."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            value = node.value  # type: ignore[attr-defined]
            parts = list(zip(target.elts, value.elts)) if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) else []
            spread = [(part, value) for part in target.elts] if isinstance(target, ast.Tuple) else [(target, value)]
            for part, own in parts or spread:
                if (
                    isinstance(part, ast.Attribute)
                    and isinstance(part.value, ast.Name)
                    and part.attr == attribute
                    and own is not None
                ):
                    yield own
