"""The port's statements beside the original's: which name, number or part of them is another, to be tried in the port."""

from __future__ import annotations

import ast
import copy
import difflib
import inspect
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import paddle
import torch

from ..dispatch.call_site import CallSite, is_library
from .arguments import nodes_of
from .expressions import Edit, Rewrite, ValueSource, assigned_once, extent, modules_of, names_in, parameters_of, resolved
from .findings import Cause
from .trace import shape_of

_WORDS = {  # Torch's names of arguments: Paddle's
    "dim": ("axis",),
    "dims": ("axis", "axes", "perm"),
    "keepdims": ("keepdim",),
    "eps": ("epsilon",),
    "bias": ("bias_attr",),
}
_FUNCTIONS = {  # Torch's names of functions and methods: those that all versions of Paddle have
    "cat": "concat", "clamp": "clip", "div": "divide", "eq": "equal", "ge": "greater_equal", "gt": "greater_than",
    "le": "less_equal", "lt": "less_than", "mul": "multiply", "ne": "not_equal", "permute": "transpose", "repeat": "tile",
    "sub": "subtract", "view": "reshape",
}  # fmt: skip
_Pair = tuple[ast.expr, ast.expr]  # of the port, of the original


class _Side(NamedTuple):
    """A program: the names of its module, and which expressions of it name a module."""

    names: Mapping[str, Any]
    is_module: Callable[[ast.expr], bool]

    @classmethod
    def of(cls, file: str) -> _Side:
        return cls(names_in(file), modules_of(file))

    def function(self, name: str) -> ast.expr | None:
        """How the program calls a function, of Paddle's or of another module that is none of Torch's; None where it has none.

        Those of ``paddle.nn.functional`` come first: older versions of Paddle have them there alone.
        """
        held = {alias: value for alias, value in self.names.items() if inspect.ismodule(value) and alias.isidentifier()}
        modules = [alias for alias, module in held.items() if module.__name__.partition(".")[0] != "torch"]
        modules.sort(key=lambda alias: not held[alias].__name__.startswith("paddle"))  # before `math`
        texts = [*modules, *(f"{alias}.nn.functional" for alias in modules if held[alias] is paddle)]
        texts.sort(key=lambda text: resolved(_expression(text), held) is not paddle.nn.functional)
        nodes = (ast.Attribute(_expression(text), _FUNCTIONS.get(name, name)) for text in texts)
        return next((node for node in nodes if resolved(node, self.names) is not None), None)

    def parameters(self, called: ast.expr) -> list[str]:
        """Those of a function, or of a method of Paddle's tensors; none where they are not known."""
        return parameters_of(resolved(called, self.names) or getattr(paddle.Tensor, getattr(called, "attr", ""), None))

    def torchs_parameters(self, called: ast.expr) -> list[str]:
        """Those of Torch's function, or of its method if that has one form; none where they are not known."""
        names = parameters_of(resolved(called, self.names))
        overloads = getattr(torch.ops.aten, getattr(called, "attr", ""), None)
        known = getattr(overloads, "overloads", None)  # none of a name that all objects of Torch's have
        if overloads is not None and not names and known is not None and set(known()) <= {"default", "out"}:
            names = [name for name, _ in shape_of(overloads.default).parameters]
        return names


def _in_paddle(word: str, parameters: Collection[str]) -> str:
    """An argument's name as one of a function's parameters; Torch's where it has none such."""
    return next((name for name in (word, *_WORDS.get(word, ())) if name in parameters), word)


class Otherwise(NamedTuple):
    """What the port has ("": no such statement), and the original in its place; both lines, the port's change, and what differs."""

    own: str
    wanted: str
    line: int
    original: int
    rewrite: Rewrite
    cause: Cause


def otherwise(port: CallSite, original: CallSite, also: Collection[CallSite] = (), *, makers: bool = False) -> Iterator[Otherwise]:
    """What the port's functions have otherwise than those of the original; first that of the two lines, and there the port's line.

    ``also``: further lines of the port's, whose functions come next. ``makers``: what makes layers alone. A name that stands for
    another one everywhere is no difference; what is written has the port's names.
    """
    own, other = ({} if is_library(site.file) else _functions(site.file) for site in (port, original))
    here, there = (_around(site, functions) for site, functions in ((port, own), (original, other)))
    near = {here, *(_around(site, own) for site in also if site.file == port.file)}
    lines = [port.line, *(site.line for site in also)]
    common = _twins(own, other)
    pairs = [pair for pair in common if here in pair or there in pair] + ([(here, there)] if here and there else [])
    pairs += [pair for pair in common if pair[0] in near] + common
    sides = _Side.of(port.file), _Side.of(original.file)
    for first, second in dict.fromkeys(pairs):
        if makers and not first.endswith(".__init__"):
            continue
        if own[first] is not other[second]:  # not both programs call it
            yield from _of_functions(port.file, own[first], other[second], sides, lines)


def _of_functions(
    file: str, own: ast.FunctionDef, other: ast.FunctionDef, sides: tuple[_Side, _Side], lines: Sequence[int]
) -> Iterator[Otherwise]:
    """What one function has otherwise than another; ``lines``: whose statements come first."""
    statements = _paired(_statements(own), _statements(other))
    statements.sort(key=lambda pair: not any(pair[0].lineno <= line <= (pair[0].end_lineno or 0) for line in lines))
    both = [list(_parts(a, b, *sides)) for a, b in statements]
    known = _read(own) | {each.arg for each in own.args.args} | sides[0].names.keys()
    names = {name: text for name, text in _names(pair for parts in both for pair in parts).items() if name not in known}
    renamed = {name: _expression(text) for name, text in names.items()}
    left = _left_out(other, statements, file, _InPort(renamed, {}, *sides), known)
    yield from [_all_of(left), *left] if len(left) > 1 else left
    named = {name: value for name, value in assigned_once(other).items() if name not in known} | renamed
    changes, whole = list[Otherwise](), dict[ast.stmt, Otherwise]()
    for (statement, twin), parts in zip(statements, both):
        texts = [(node, text) for node, wanted in parts if (text := _text(node, wanted, named, *sides))]
        read = _read(twin)
        read |= {_spelt(part) for name in read & named.keys() for part in ast.walk(named[name]) if isinstance(part, ast.Name)}
        if texts and {names.get(name, name) for name in read} & _read(statement):  # else it is another statement
            changes += [_changed(file, statement, twin, chosen) for chosen in _choices(dict.fromkeys(texts))]
            within = {part for node, _ in texts for part in [*ast.walk(node)][1:]}
            outermost = {node: text for node, text in texts if node not in within}
            whole[statement] = _changed(file, statement, twin, outermost)
    yield from _moved(file, own, dict(statements), whole)
    yield from changes


def _moved(
    file: str, own: ast.FunctionDef, twins: Mapping[ast.stmt, ast.stmt], changes: Mapping[ast.stmt, Otherwise]
) -> Iterator[Otherwise]:
    """Statements of a function in the original's order, and with their ``changes``, where these move only what the port has."""
    moved = list[tuple[ast.stmt, ast.stmt, str]]()  # where one stands, which, and its text
    for block in _blocks(own):
        here = [each for each in block if each in twins and isinstance(each, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return))]
        there = sorted(here, key=lambda each: twins[each].lineno)
        for place, each in zip(here, there):
            patch = changes[each].rewrite.patch() if each in changes else None
            if patch or place is not each:
                moved.append((place, each, patch.after.strip() if patch else ast.unparse(each)))
    for size in range(2, _MOST_MOVED + 1):
        for chosen in (moved[at : at + size] for at in range(len(moved) - size + 1)):
            texts = [ast.unparse(place) for place, _, _ in chosen], [text for _, _, text in chosen]
            if len({*map(_names_of, map(" ".join, texts))}) == 1:
                first, other, _ = chosen[0]
                before, after = ("; ".join(each) for each in (texts[0], [ast.unparse(twins[each]) for _, each, _ in chosen]))
                edits = [Edit(*extent(place), text) for place, _, text in chosen]
                rewrite = Rewrite(file, frozenset(edits))
                yield Otherwise(before, after, first.lineno, twins[other].lineno, rewrite, Cause.PLACE)


_MOST_MOVED = 4  # statements


def _names_of(text: str) -> tuple[str, ...]:
    return tuple(sorted(re.findall(r"\w+", text)))


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    """The bodies of a function and of the statements in it."""
    bodies = (getattr(node, name, None) for node in ast.walk(function) for name in ("body", "orelse"))
    return (body for body in bodies if isinstance(body, list))


def _changed(file: str, statement: ast.stmt, twin: ast.stmt, chosen: Mapping[ast.expr, str]) -> Otherwise:
    """A statement with other texts in the place of some of its parts."""
    places = [ValueSource(file, node, "") for node in chosen]
    edits = [place.replaced_by(text).edits for place, text in zip(places, chosen.values())]
    words = [f"{place.parent.arg}=" if isinstance(place.parent, ast.keyword) else "" for place in places]
    shown = [", ".join(map("".join, zip(words, texts))) for texts in (map(ast.unparse, chosen), chosen.values())]
    rewrite = Rewrite(file, frozenset(itertools.chain(*edits)))
    called = all(getattr(place.parent, "func", None) is place.node for place in places)
    layers = all(text.startswith("self.") for text in chosen.values())  # whose weights another call reads
    cause = Cause.OTHER_OP if called and not layers else _cause(chosen)
    return Otherwise(shown[0], shown[1], statement.lineno, twin.lineno, rewrite, cause)


_TOGETHER = 3  # statements that the original alone has in a function: more are another function


def _left_out(
    other: ast.FunctionDef, pairs: Sequence[tuple[ast.stmt, ast.stmt]], file: str, in_port: _InPort, known: Collection[str]
) -> list[Otherwise]:
    """The statements of ``known`` names that the original alone has, each at its place beside the port's; none of many."""
    twins, changes = {twin: statement for statement, twin in pairs}, list[Otherwise]()
    stored = set[str]()
    for block in _blocks(other):
        for at, statement in enumerate(block):
            written = isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr)) and not isinstance(statement.value, ast.Constant)
            before = next((twins[each] for each in reversed(block[:at]) if each in twins), None)
            beside = before or next((twins[each] for each in block[at:] if each in twins), None)
            if statement in twins or not written or beside is None:
                continue
            in_port.foreign = False
            rewritten, indent = in_port.visit(copy.deepcopy(statement)), "\n" + " " * beside.col_offset
            names, text = [node for node in ast.walk(rewritten) if isinstance(node, ast.Name)], ast.unparse(rewritten)
            if in_port.foreign or {node.id for node in names if isinstance(node.ctx, ast.Load)} - {"self", *known, *stored}:
                continue
            stored |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
            line, column = (beside.end_lineno or 0, beside.end_col_offset or 0) if before else (beside.lineno, beside.col_offset)
            edit = Edit(line, column, line, column, f"{indent}{text}" if before else f"{text}{indent}")
            changes.append(Otherwise("", text, beside.lineno, statement.lineno, Rewrite(file, frozenset([edit])), Cause.MISSING))
    return [] if len(changes) > _TOGETHER else changes


def _all_of(changes: Sequence[Otherwise]) -> Otherwise:
    """Changes of several statements as one; those that stand at one place stay in their order."""
    first, texts = min(changes, key=lambda change: change.line), defaultdict[tuple[int, int, int, int], str](str)
    for edit in itertools.chain(*(change.rewrite.edits for change in changes)):
        texts[edit[:4]] += edit.text
    rewrite = Rewrite(first.rewrite.file, frozenset(Edit(*place, text) for place, text in texts.items()))
    own, wanted = ("; ".join(filter(None, texts)) for texts in zip(*(change[:2] for change in changes)))
    return first._replace(own=own, wanted=wanted, rewrite=rewrite)


def _choices(texts: Collection[tuple[ast.expr, str]]) -> list[dict[ast.expr, str]]:
    """The changes of a statement to be tried: parts that are exchanged are one; then each part, and last all of them."""
    first = dict[ast.expr, str]()
    for node, text in texts:
        first.setdefault(node, text)
    unlike = {node: text for node, text in first.items() if not any(part in first for part in [*ast.walk(node)][1:])}
    names = [ast.unparse(node) for node in unlike]
    turned = {node: text for node, text in unlike.items() if text in names}
    exchanged = len(turned) > 1 and sorted(map(ast.unparse, turned)) == sorted(turned.values())
    return [*([turned] if exchanged else []), *({node: text} for node, text in texts), *([unlike] if len(unlike) > 1 else [])]


def _twins(own: Collection[str], other: Collection[str]) -> list[tuple[str, str]]:
    """The functions that stand for one another: of one name, or methods of classes that are called otherwise."""
    methods = {name.rpartition(".")[2]: name for name in other if name not in own}
    twins = [(name, name if name in other else methods.get(name.rpartition(".")[2], "")) for name in own]
    return [pair for pair in twins if pair[1]]


def _cause(chosen: Mapping[ast.expr, str]) -> Cause:
    """What differs where the original has other texts: numbers alone, the function that is called, or something else."""
    if all(isinstance(node, (ast.Constant, ast.UnaryOp)) for node in chosen):
        return Cause.ATTRIBUTE
    if all(isinstance(node, ast.Compare) for node in chosen):
        return Cause.OTHER_OP
    pairs = [(node, _expression(text)) for node, text in chosen.items()]
    names = [[getattr(getattr(each, "func", None), "attr", None) for each in pair] for pair in pairs]
    return Cause.OTHER_OP if all(name != wanted and name and wanted for name, wanted in names) else Cause.OPERAND


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


def _paired(own: list[ast.stmt], other: list[ast.stmt]) -> list[tuple[ast.stmt, ast.stmt]]:
    """The statements that stand for one another: equal ones that are there once, else by the names that they give, then by kind."""
    texts = [_alone(nodes) for nodes in (own, other)]
    pairs = [(node, texts[1][text]) for text, node in texts[0].items() if text in texts[1]]
    left = _without(pairs, own, other)
    names, expected = ([*map(_gives, nodes)] for nodes in left)
    blocks = difflib.SequenceMatcher(None, names, expected, autojunk=False).get_opcodes()
    between = list[list[list[ast.stmt]]]()
    for tag, begin, end, first, last in blocks:
        block = [left[0][begin:end], left[1][first:last]]
        if tag == "equal":
            pairs += zip(*block)
        elif tag == "replace":
            between.append(block)
    for of, sides in [(_gives, left), *((_kind_of, sides) for sides in between)]:  # in another branch, or another order
        sides = _without(pairs, *sides)
        for each in dict.fromkeys(map(of, sides[0])):
            alike = [[node for node in nodes if of(node) == each] for nodes in sides]
            if len(alike[0]) == len(alike[1]):
                pairs += zip(*alike)
    return pairs


def _alone(nodes: Sequence[ast.stmt]) -> dict[str, ast.stmt]:
    """The statements that are there once, by their texts."""
    texts = [ast.unparse(node) for node in nodes]
    return {text: node for text, node in zip(texts, nodes) if texts.count(text) == 1}


def _without(pairs: Sequence[tuple[ast.stmt, ast.stmt]], *sides: Sequence[ast.stmt]) -> list[list[ast.stmt]]:
    paired = {*itertools.chain(*pairs)}
    return [[node for node in nodes if node not in paired] for nodes in sides]


def _kind_of(statement: ast.stmt) -> str:
    return _gives(statement)[0]


def _gives(statement: ast.stmt) -> tuple[str, ...]:
    """The kind of a statement, and the names that it gives, in whatever order."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    parts = [part for target in targets if target is not None for part in getattr(target, "elts", [target])]
    kind = type(statement).__name__
    return (kind.removeprefix("Aug").removeprefix("Ann"), *sorted(map(_spelt, parts)))


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


def _parts(own: ast.AST, other: ast.AST, port: _Side, original: _Side) -> Iterator[_Pair]:
    """The names, numbers and parts that stand for one another in two statements or expressions, equal ones included."""
    if isinstance(own, ast.BinOp) and isinstance(other, ast.Call):
        other = _as_operator(other, original)
    if isinstance(own, ast.Attribute) and isinstance(other, ast.Subscript) and ast.unparse(other.slice) == repr(own.attr):
        own, other = own.value, other.value  # `blocks.norm`, `blocks["norm"]`
    within = [_operands(node) for node in (own, other)]
    if isinstance(own, ast.Call) and isinstance(other, ast.Call):
        yield from _of_calls(own, other, port, original)
        return
    if isinstance(own, ast.expr) and isinstance(other, ast.expr):
        if port.is_module(own) or original.is_module(other):
            return
        leaf = isinstance(own, (ast.Name, ast.Constant)) or (isinstance(own, ast.Attribute) and isinstance(own.value, ast.Name))
        if type(own) is not type(other) or leaf or len(within[0]) != len(within[1]):
            yield own, other
            return
        if [type(each) for each in _operators(own)] != [type(each) for each in _operators(other)]:
            operators = {name: value for name, value in vars(other).items() if name in ("op", "ops")}
            yield own, type(own)(**{**vars(own), **operators})
            yield own, other
    for first, second in zip(*within):
        yield from _parts(first, second, port, original)


def _of_calls(own: ast.Call, other: ast.Call, port: _Side, original: _Side) -> Iterator[_Pair]:
    """What two calls call and read; and the port's with all that the original's reads, or with its function, if Paddle has it."""
    (name, nodes), (expected, others) = _called(own, port), _called(other, original)
    if not (name and expected) and len(nodes) != len(others):  # a layer's that either holds in something else
        nodes, others = own.args, other.args
    if name == expected == "transpose" and len(others) > len(nodes):  # of two axes: rearrangements tell it
        nodes, others = nodes[:1], others[:1]
    if len(others) > len(nodes) and nodes and isinstance(nodes[-1], (ast.List, ast.Tuple)):  # `reshape(2, 8)`, `reshape([2, 8])`
        others = [*others[: len(nodes) - 1], ast.List(others[len(nodes) - 1 :])]
    parameters = port.parameters(own.func)
    here = _bound(nodes, own.keywords, parameters, parameters)
    there = _bound(others, other.keywords, parameters, original.torchs_parameters(other.func))
    for parameter, node in here.items():
        if parameter in there:
            yield from _parts(node, there[parameter], port, original)
    if not (name and expected):
        yield from _parts(own.func, other.func, port, original)
    elif name != expected:
        is_method = nodes[:1] == [getattr(own.func, "value", None)]
        function = ast.Attribute(nodes[0], expected) if is_method else port.function(expected)
        called, wanted = (node and resolved(node, port.names) for node in (own.func, function))
        if function is not None and (called is None or called is not wanted):
            yield own, ast.Call(function, own.args, own.keywords)
        if called is None or called is not wanted:
            yield own, other
    if name == expected and here and there and here.keys() != there.keys():
        left, wanted = {here[each] for each in here if each in there}, {each: there[each] for each in there if each not in here}
        args = [*(each for each in own.args if each in left), *(node for each, node in wanted.items() if each.isdigit())]
        words = [ast.keyword(each, node) for each, node in wanted.items() if not each.isdigit()]
        yield own, ast.Call(own.func, args, [*(each for each in own.keywords if each.value in left), *words])
        yield own, other


def _called(call: ast.Call, side: _Side) -> tuple[str, list[ast.expr]]:
    """Paddle's name of a module's function or a tensor's method, "" of any other; and what it is handed, the tensor first."""
    func = call.func
    if not isinstance(func, ast.Attribute) or _spelt(func.value) == "self":
        return "", call.args
    return _FUNCTIONS.get(func.attr, func.attr), call.args if side.is_module(func.value) else [func.value, *call.args]


_OPERATORS = {
    "add": ast.Add,
    "subtract": ast.Sub,
    "multiply": ast.Mult,
    "divide": ast.Div,
    "pow": ast.Pow,
    "matmul": ast.MatMult,
}


def _as_operator(call: ast.Call, side: _Side) -> ast.expr:
    """A call as the operator that it stands for; itself where it stands for none."""
    name, nodes = _called(call, side)
    return (
        ast.BinOp(nodes[0], _OPERATORS[name](), nodes[1]) if name in _OPERATORS and len(nodes) == 2 and not call.keywords else call
    )


def _bound(
    nodes: Sequence[ast.expr], keywords: Sequence[ast.keyword], parameters: Sequence[str], own: Sequence[str]
) -> dict[str, ast.expr]:
    """Arguments by the names of the port's parameters, or their places, as where a call unpacks others. ``own``: the call's."""
    if any(isinstance(node, ast.Starred) for node in nodes) or any(each.arg is None for each in keywords):
        return {str(at): node for at, node in enumerate([*nodes, *(each.value for each in keywords)])}
    named = {_in_paddle(str(each.arg), parameters): each.value for each in keywords}
    known = [word if (word := _in_paddle(name, parameters)) in parameters else "" for name, _ in zip(own, nodes)]
    others = (name for name in parameters if name not in known)
    places = itertools.chain(others, map(str, itertools.count(len(parameters))))
    words = (word or next(places) for word in itertools.chain(known, itertools.repeat("")))
    return dict(zip(words, nodes)) | named


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
    """Names of the original's as what the port has for them, and its calls as those within an expression of the port's.

    Functions of Torch's are Paddle's of the same names; ``foreign``: there are none.
    """

    def __init__(
        self, names: Mapping[str, ast.expr], calls: Mapping[tuple[str, str], ast.Call], port: _Side, original: _Side
    ) -> None:
        self._names, self._calls, self._sides = names, calls, (port, original)
        self.foreign = False

    def visit(self, node: ast.AST) -> ast.AST:
        port, original = self._sides
        if isinstance(node, (ast.Name, ast.Attribute)) and (text := _spelt(node)) in self._names:
            value = self._names[text]
            if isinstance(value, (ast.Name, ast.Attribute)) and not any(isinstance(part, ast.Call) for part in ast.walk(value)):
                return value
            others = {name: other for name, other in self._names.items() if name != text}  # it may be made of what it was before
            within = _InPort(others, self._calls, *self._sides)
            made = within.visit(copy.deepcopy(value))
            self.foreign |= within.foreign
            return made
        if isinstance(node, ast.Attribute) and original.is_module(node.value):
            function = port.function(node.attr)
            self.foreign |= function is None
            return function or node
        if isinstance(node, ast.Attribute) and node.attr == "mT":
            node = ast.Call(ast.Attribute(node.value, "transpose"), [ast.Constant(-1), ast.Constant(-2)], [])
        part, call = getattr(node, "attr", ""), getattr(node, "value", None)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("max", "min"):
            called = {"values": call.func.attr, "indices": f"arg{call.func.attr}"}.get(part)  # Paddle's give one result
            node = ast.Call(ast.Attribute(call.func.value, called), call.args, call.keywords) if called else node
        node = self.generic_visit(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return self._calls.get(("matmul", ast.unparse(node.left)), node)
        if isinstance(node, ast.Call):
            parameters = port.parameters(node.func) if _called(node, original)[0] else [str(each.arg) for each in node.keywords]
            for each in node.keywords:
                each.arg = each.arg if each.arg is None else _in_paddle(each.arg, parameters)
            return self._calls.get(_reads(node, port)) or _in_all_versions(node, port)
        return node


_OF_SIZES = {"expand", "reshape", "tile", "transpose"}  # methods that older versions of Paddle hand one list


def _in_all_versions(call: ast.Call, port: _Side) -> ast.Call:
    """A call that newer versions of Paddle take as Torch does, as all of them do."""
    name, nodes = _called(call, port)
    if not (name and nodes and isinstance(call.func, ast.Attribute)):
        return call
    tensor, *others = nodes
    if call.func.attr in ("transpose", "swapaxes") and len(others) == 2:
        axes = [others, others[::-1]]
        beside = {*map(ast.unparse, others)} in ({"-1", "-2"}, {"1", "2"}, {"2", "3"})
        return ast.Call(ast.Attribute(tensor, "moveaxis"), others if beside else [ast.List(each) for each in axes], [])
    if call.func.value is not tensor:
        return call
    listed = name in _OF_SIZES and (len(others) > 1 or isinstance((*others, None)[0], (ast.Constant, ast.UnaryOp, ast.Starred)))
    return ast.Call(ast.Attribute(tensor, name), [ast.List(others)] if listed else others, call.keywords)


def _reads(call: ast.Call, side: _Side) -> tuple[str, str]:
    """What tells a call from others: what it calls, and what it is handed first."""
    name, nodes = _called(call, side)
    return name or ast.unparse(call.func), ast.unparse(nodes[0]) if nodes else ""


def _text(own: ast.expr, other: ast.expr, names: Mapping[str, ast.expr], port: _Side, original: _Side) -> str:
    """What the original has, in the port's words; "" where it is what the port has, or calls what the port does not."""
    kinds = [type(each.value) if isinstance(each, ast.Constant) else None for each in (own, other)]
    parts = other.elts if isinstance(other, ast.Tuple) else [other]
    unwritten = any(isinstance(part, (ast.Slice, ast.Starred)) for part in parts)
    unwritten |= isinstance(getattr(own, "ctx", None), ast.Store) and not isinstance(own, ast.Name)
    if unwritten or not hasattr(own, "lineno") or (kinds[0] and kinds[0] is not kinds[1]):
        return ""
    calls = [node for node in ast.walk(own) if isinstance(node, ast.Call) and node is not own]
    in_port = _InPort(names, {_reads(call, port): call for call in reversed(calls)}, port, original)
    text = ast.unparse(in_port.visit(_expression(ast.unparse(other))))
    return "" if in_port.foreign or text == ast.unparse(own) else text
