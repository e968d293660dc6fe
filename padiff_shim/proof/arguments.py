"""Which argument of Paddle's API makes a port part: the port's own call is tried with others, until it gives the original's value.

No list says which of Torch's attributes is which of Paddle's arguments: Paddle's function is called again with the operands of the
run and one argument exchanged, and what gives the original's value is what to write. So advice is legal, for it has run.
:data:`TRIED` is the table of what is tried for which argument; operators are calls with two arguments.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import linecache
import math
import operator
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, NamedTuple

import paddle
import torch

from ..catalogue.registry import ops
from ..dispatch.call_site import is_library
from ..dispatch.frames import paused
from ..frameworks.memory import FLOATS, TENSOR_TYPES, to_torch
from ..frameworks.torch_state import LooksOn
from ..table.signature import parse
from ..trees import leaves
from .trace import TraceCall, Value, attributes_of, named_arguments, numbers, shape_of

# ---- Calls of Paddle's API, as the port makes them.


@dataclass(eq=False)
class ApiCall:
    """A call of Paddle's API: on a line of the port, or in the forward of a layer of Paddle's own.

    Attributes:
        name: of the function.
        function, arguments: what runs, with which arguments, by their names and in their order.
        whole: the call of the layer of Paddle's in which it is one of several.
        symbol: of an operator, ``"*"``, of elements taken by an index ``"[]"``, else "".
        place: the code of the user's line, the instruction, and the line's number.
        shape: of what the last op of it gives, in Paddle.
        layers: of Paddle's, between it and the line: of several the line calls the outermost.
    """

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    whole: ApiCall | None = None
    symbol: str = ""
    place: tuple[CodeType, int, int] | None = None
    shape: tuple[int, ...] | None = None
    layers: int = 0

    @property
    def file(self) -> str:
        """That of the user's line."""
        return "" if self.place is None else self.place[0].co_filename

    @property
    def expression(self) -> ast.expr | None:
        """What the user's line evaluates with it; None where that is not known."""
        return None if self.place is None else _expression(*self.place)

    def default(self, name: str) -> list[Any]:
        """A parameter's default, if it has one."""
        if inspect.isbuiltin(self.function):
            return []
        default = inspect.signature(self.function).parameters[name].default
        return [] if default in (inspect.Parameter.empty, None) else [default]


_BETWEEN = ("paddle.nn.layer.layers", "paddle.utils.decorator_utils", "padiff_shim.")  # modules between a line and a function
_CONTAINERS = "paddle.nn.layer.container"


def frames_of_api(until: CodeType | None) -> tuple[FrameType | None, FrameType | None, FrameType | None, int]:
    """The frames of the function of Paddle's that the port or a layer's forward calls, of the outermost such layer, of the line.

    None where the line calls the op itself, where the function is in no layer of Paddle's that has others, where no line calls it.
    Last comes how many layers of Paddle's are between the function and the line.
    """
    frame, inside, layers = sys._getframe(2), list[FrameType](), list[FrameType]()
    while frame is not None and frame.f_code is not until and is_library(frame.f_code.co_filename):
        if frame.f_code.co_name == "forward" and isinstance(frame.f_locals.get("self"), paddle.nn.Layer):
            layers.append(frame)
        elif not layers:
            inside.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    public = (frame for frame in reversed(inside) if not frame.f_globals.get("__name__", "").startswith(_BETWEEN))
    function = next((frame for frame in public if _function_of(frame) is not None), None)
    wholes = (frame for frame in reversed(layers) if frame.f_globals.get("__name__") != _CONTAINERS)
    line = None if frame is None or frame.f_code is until else frame
    return function, next((frame for frame in wholes if frame.f_locals["self"]._sub_layers), None), line, len(layers)


def _function_of(frame: FrameType) -> Callable[..., Any] | None:
    module, name = sys.modules.get(frame.f_globals.get("__name__", "")), frame.f_code.co_name
    function = getattr(module, name, None)
    if inspect.isfunction(function):
        return function
    public = getattr(paddle, name.strip("_"), None)  # a method in Python of a function in C
    return public if callable(public) and name.startswith("_") else None


def call_of_frame(frame: FrameType) -> ApiCall | None:
    """The call that a frame answers."""
    function, values = _function_of(frame), dict(frame.f_locals)  # since Python 3.13 a view whose keys are a list
    if frame.f_code.co_name == "forward" and function is None:
        layer = values["self"]
        names = list(inspect.signature(layer.forward).parameters)
        return ApiCall(type(layer).__name__, layer.forward, {name: values[name] for name in names if name in values})
    try:
        bound = inspect.signature(function)  # type: ignore[arg-type]
        if not bound.parameters.keys() <= values.keys():  # a function that is redirected in place
            arguments = bound.bind(*values["args"], **values["kwargs"])
            arguments.apply_defaults()
            values = arguments.arguments
        else:
            values = {**values, **_as_called(frame, bound)}
    except (KeyError, TypeError, ValueError):
        return None
    assert function is not None
    called = {name: values[name] for name in bound.parameters}
    if frame.f_code.co_name.endswith("_"):
        written = next(iter(called))
        function, called[written] = _beside(frame.f_code.co_name, function), copied(called[written])
    return ApiCall(frame.f_code.co_name.strip("_"), function, called)


def _as_called(frame: FrameType, signature: inspect.Signature) -> dict[str, Any]:
    """Arguments as the calling line has them, where reading it again makes nothing: a function may give its names other values."""
    caller = frame.f_back
    node = None if caller is None else _expression(caller.f_code, caller.f_lasti, caller.f_lineno)
    if caller is None or not isinstance(node, ast.Call):
        return {}
    unknown = object()

    def read(value: ast.expr) -> Any:
        if all(isinstance(part, _READ_AGAIN) for part in ast.walk(value)):
            with contextlib.suppress(Exception), paused():  # whatever a property raises; an index is no call of the port's
                return eval(compile(ast.Expression(value), "<argument>", "eval"), caller.f_globals, caller.f_locals)
        return unknown

    called = read(node.func)
    args: list[Any] = [unknown] if called is unknown or inspect.ismethod(called) else []
    for value in node.args:
        starred = read(value.value) if isinstance(value, ast.Starred) else [read(value)]
        if starred is unknown:
            return {}
        args += starred
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        named = {keyword.arg: read(keyword.value)} if keyword.arg else read(keyword.value)
        if named is unknown:
            return {}
        kwargs |= named
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if all(part is not unknown for part in _parts(value))}


def _parts(value: Any) -> tuple[Any, ...]:
    return value if type(value) is tuple else (value,)


_READ_AGAIN = (
    *(ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.unaryop, ast.BinOp, ast.operator),
    *(ast.expr_context, ast.Subscript),
)


def _expression(code: CodeType, at: int, number: int) -> ast.expr | None:
    """The expression that an instruction of a line evaluates; before Python 3.11 where the line has only one."""
    nodes = _calls_in(parsed(code.co_filename))
    if not hasattr(code, "co_positions"):
        there = [node for node in nodes.values() if node.lineno <= number <= (node.end_lineno or 0)]
        return there[0] if len(there) == 1 else None
    line, end, column, end_column = next(itertools.islice(code.co_positions(), at // 2, None))
    return nodes.get((line, column, end, end_column))


@functools.lru_cache(maxsize=64)
def _calls_in(tree: ast.AST) -> dict[tuple[Any, ...], ast.expr]:
    """The calls and their like of a file, by where they lie."""
    nodes: list[Any] = [node for node in _nodes(tree) if isinstance(node, (ast.Call, ast.BinOp, ast.Subscript, ast.AugAssign))]
    return {place: node for node in nodes for place in running_at(node)}


def running_at(node: Any) -> list[tuple[Any, ...]]:
    """Where an expression lies, and where Python says that a method's call lies whose object ends in a later line than it begins:
    from the method's name on."""
    end = node.end_lineno, node.end_col_offset
    places = [(node.lineno, node.col_offset, *end)]
    method: Any = getattr(node, "func", None)
    if isinstance(method, ast.Attribute) and method.end_lineno != node.lineno:
        places.append((method.end_lineno, (method.end_col_offset or 0) - len(method.attr.encode()), *end))
    return places


@functools.lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError:
        return ast.Module([], [])


def parsed(file: str) -> ast.Module:
    """The tree of a source file."""
    return _tree("".join(linecache.getlines(file)))


@functools.lru_cache(maxsize=64)
def _nodes(tree: ast.AST) -> list[ast.AST]:
    return list(ast.walk(tree))


def nodes_of(file: str) -> list[ast.AST]:
    """All nodes of the tree of a source file, which a proof looks through again and again."""
    return _nodes(parsed(file))


OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
}  # fmt: skip


def call_of_op(entry: Any, original: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> ApiCall | None:
    """The call of a function in C, or of an operator, that the port's line calls itself; None of writes and their like."""
    args = [copied(args[0]), *args[1:]] if entry.inplace and args else args
    if ".__" in entry.target:
        name = entry.name.replace("div", "truediv") if entry.name in ("div", "rdiv") else entry.name
        reflected = name not in OPERATORS
        symbol = OPERATORS.get(name[reflected:])
        operands = dict(zip("xy", args[::-1] if reflected else args))
        return ApiCall(name[reflected:], getattr(operator, name[reflected:]), operands, symbol=symbol) if symbol else None
    parsed = [(aliases[0], default) for aliases, default in parse(entry.params)]
    arguments = {name: value for (name, _), value in zip(parsed, args)}
    arguments |= {name: kwargs.get(name, default) for name, default in parsed[len(args) :]}
    return ApiCall(entry.name, _beside(entry.name, original), arguments)


def call_of_movement(name: str, args: Sequence[Any]) -> ApiCall | None:
    """The call that takes or sets elements by an index; None of other ops that move values, which functions of Paddle's call."""
    if "setitem" in name:
        return ApiCall("setitem", _with_items, {"x": copied(args[0]), "item": args[1], "value": args[2]}, symbol="[]=")
    return ApiCall("getitem", operator.getitem, {"x": args[0], "item": args[1]}, symbol="[]") if "getitem" in name else None


# ---- Calls that write an operand: tried on copies of what it held before.


def copied(tensor: Any) -> Any:
    """A tensor's values before they are written over; anything else as it is."""
    with paused(), paddle.no_grad():
        return tensor.clone() if type(tensor) in TENSOR_TYPES and tensor._is_initialized() else tensor


def _with_items(x: Any, item: Any, value: Any) -> Any:
    x = x.clone()
    x[item] = value
    return x


def _beside(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that gives what another one writes into its first operand; of any other function itself."""
    if getattr(function, "__name__", name)[-1:] != "_":
        return function
    modules = (paddle.nn.functional, paddle, paddle.Tensor)
    on_copy = functools.wraps(function)(lambda x, *args, **kwargs: function(x.clone(), *args, **kwargs))
    return next((getattr(module, name.strip("_")) for module in modules if hasattr(module, name.strip("_"))), on_copy)


# ---- Other arguments, tried.


def value_of(tensor: Any) -> Value:
    """What a tensor of Paddle's holds, as a value of a trace."""
    with paused():
        return Value(to_torch(tensor.detach()))


def equal_settings(value: Any, other: Any) -> bool:
    if (value is None) is not (other is None):
        number = other if value is None else value
        return isinstance(number, float) and abs(number) >= _LIMIT  # Paddle's limit of a clip without limit
    if isinstance(value, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(value, other, rel_tol=1e-7)
    return bool(value == other)


_LIMIT = float(torch.finfo(torch.float32).max)

# Arguments that say nothing of what is computed, or that Paddle's own functions make of others, or write an operand.
_SETTLED = frozenset({
    "name", "dtype", "out", "inplace", "data_format", "place", "use_cudnn", "seed", "channel_dim", "op_type", "padding_algorithm",
    "input_size", "hidden_size", "num_layers", "is_bidirec",
})  # fmt: skip
_WRITES = frozenset({"embedding"})  # its max_norm scales the table itself
_STATISTICS = {"running_mean", "running_var"}  # a call may write them
_AXES = ("axis", "axes", "dim", "begin_norm_axis", "start_axis", "stop_axis")
_QUOTED = re.compile(r"['\"](\w+)['\"]")
_LARGEST_SQUARE = 2.0**20  # of a head's or a layer's size
_MOST, _AT_ONCE = 96, 4  # calls that are tried for one argument; arguments that are wrong at once
_GONE = 8.0  # a call that is not made is worse than one with other attributes


def write(call: ApiCall, changes: Mapping[str, Any]) -> str:
    """Arguments as a program writes them; of an operator its operands.

    >>> import operator
    >>> write(ApiCall("softmax", len, {}), {"epsilon": 1e-5, "axis": [1, 2]})
    'epsilon=1e-05, axis=[1, 2]'
    >>> write(ApiCall("mul", operator.mul, {}, symbol="*"), {"y": 0.25})
    '* 0.25'
    """
    if call.symbol.startswith("[]"):
        item = f"[{shown_item(changes['item'])}]" if "item" in changes else "[...]"
        return f"{item} = {shown(changes['value']) if 'value' in changes else '...'}" if call.symbol == "[]=" else item
    if call.symbol:
        left, right = (shown(changes[name]) if name in changes else "" for name in ("x", "y"))
        return f"{left} {call.symbol} {right or '...'}".strip()
    return ", ".join(f"{name}={shown(value)}" for name, value in changes.items())


def shown_item(item: Any) -> str:
    """An index as a program writes it in its brackets.

    >>> shown_item((slice(None), slice(1, None, 2), 0, ...))
    ':, 1::2, 0, ...'
    """
    if isinstance(item, tuple):
        return ", ".join(map(shown_item, item))
    if not isinstance(item, slice):
        return "..." if item is ... else repr(item)
    start, stop, step = ("" if number is None else str(number) for number in (item.start, item.stop, item.step))
    return f"{start}:{stop}{step and ':'}{step}"


def shown(value: Any) -> str:
    """A value of an argument as a program writes it; the root of a whole number, or one over it, as a power.

    >>> shown(0.25), shown(8**0.5), shown(64**-0.5), shown(8**-0.5), shown(1 / 3)
    ('0.25', '8 ** 0.5', '0.125', '8 ** -0.5', '(1 / 3)')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if not isinstance(value, float) or float(f"{value:g}") == value:
        return f"{value:g}" if isinstance(value, float) else repr(value)
    return next((text for root, text in _roots(value) if root == value), repr(value))


def _roots(number: float) -> Iterator[tuple[float, str]]:
    """The roots of whole numbers that a number may be, or one over them, each with its text."""
    for square, power in ((number * number, 0.5), (1 / (number * number or 1.0), -0.5)):
        if 1 < square < _LARGEST_SQUARE:
            whole = math.isqrt(round(square))
            text = f"(1 / {whole})" if power < 0 and whole**2 == round(square) else f"{round(square)} ** {power}"
            yield round(square) ** power, text


class Name(str):
    """Another argument of the call, by its name."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Constant:
    """A tensor of these numbers."""

    numbers: Any

    def __repr__(self) -> str:
        return f"paddle.to_tensor({self.numbers!r})"


class Outcome(NamedTuple):
    """What a call gives: its tensors, and the calls of Torch's kernels with their attributes."""

    results: list[torch.Tensor]
    calls: list[tuple[str, dict[str, Any]]]


class OtherArguments(NamedTuple):
    """The arguments that make a call give what the original has; ``value``: what it then gives, None: attributes alone tell."""

    call: ApiCall
    changes: dict[str, Any]
    value: torch.Tensor | None


class _Called(LooksOn):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shape, kwargs = shape_of(function), kwargs or {}
        self.calls.append((shape.base, attributes_of(named_arguments(shape, args, kwargs))))
        return function(*args, **kwargs)


def _outcome(call: ApiCall, changes: Mapping[str, Any]) -> Outcome | None:
    """What a call gives with other arguments; None where Paddle refuses them."""
    arguments = {**call.arguments, **{name: _argument(call, name, value) for name, value in changes.items()}}
    statistics = {name: value for name, value in arguments.items() if name in _STATISTICS and type(value) in TENSOR_TYPES}
    arguments.update({name: value.clone() for name, value in statistics.items()})
    try:
        with _Called() as called, paddle.no_grad():
            if inspect.isbuiltin(call.function):
                result = call.function(*arguments.values())
            else:  # `einsum(equation, *operands)`, too
                bound = inspect.BoundArguments(inspect.signature(call.function), OrderedDict(arguments))
                result = call.function(*bound.args, **bound.kwargs)
    except Exception:  # any answer of Paddle's to arguments that nobody has written
        return None
    tensors = [leaf for _, leaf in leaves(result) if type(leaf) in TENSOR_TYPES and leaf._is_initialized() and leaf.size]
    with paused():
        sides = [to_torch(tensor.detach()).clone() for tensor in tensors]
    return Outcome([side for side in sides if side.dtype is not torch.bool], called.calls)


def _argument(call: ApiCall, name: str, value: Any) -> Any:
    """What stands for a change of an argument."""
    if isinstance(value, Constant):
        dtypes = [own.dtype for own in (call.arguments[name], *call.arguments.values()) if type(own) in TENSOR_TYPES]
        return paddle.to_tensor(value.numbers, dtype=dtypes[0])
    return call.arguments.get(value, value) if isinstance(value, Name) else value


def explained_by_arguments(
    call: ApiCall,
    nodes: Sequence[TraceCall],
    original: TraceCall | None,
    beside: Sequence[TraceCall],
    wanted: Callable[[torch.Tensor], bool],
    *,
    attributes: bool = False,
    exchanged: bool = True,
) -> OtherArguments | None:
    """The arguments of a call that give what the original has; None where none do.

    Args:
        call: of the port; ``nodes``: those that answered it.
        original: the original's call that the port lacks or makes otherwise, one of ``beside``: its line's calls, whose attributes
            are values to try.
        wanted: whether a result is a value of the original that the port lacks.
        attributes: equal attributes are enough, for operands may differ as well.
        exchanged: whether operands may stand for one another: not where a mask says which of them is meant.
    """
    plain = _outcome(call, {})
    if plain is None or not (_draws(nodes) or _is_again(nodes, plain)):
        return None
    hints, changes = list(_values_of(original, beside)), dict[str, Any]()
    called = {name for name, _ in plain.calls}
    beside = [call for call in beside if call.name in called or call is original]
    left, value = _unlike(beside, plain), None
    settled = any(map(wanted, plain.results))  # the result is right, of running statistics attributes alone tell
    held = [operand.value for node in nodes for operand in node.operands if operand.value.label or operand.value.node is not None]
    tensors = [(name, value_of(own)) for name, own in call.arguments.items() if type(own) in TENSOR_TYPES]
    computed = {
        name for name, own in tensors if any(own.count == value.count and torch.equal(own.sorted, value.sorted) for value in held)
    }
    for _ in range(_AT_ONCE):
        best: dict[str, Any] = {}
        for others in itertools.chain(_operands(call, changes) if exchanged else (), _others(call, changes, hints, computed)):
            outcome = _outcome(call, {**changes, **others})
            if outcome is None:
                continue
            unlike = _unlike(beside, outcome)
            there = next(filter(wanted, outcome.results), None)
            if settled and (there is None or (value is not None and there.shape != value.shape)):
                continue
            if not settled and there is not None:
                best, left, value, settled = others, unlike, there, True
                break
            if unlike < left < float("inf"):
                best, left = others, unlike
        if not best:
            break
        changes |= best
        if settled and left in (0, float("inf")):
            break
    right = value is not None or (left == 0 and (attributes or _draws(nodes)))
    return OtherArguments(call, changes, value) if changes and right else None


def _draws(nodes: Sequence[TraceCall]) -> bool:
    return any(node.name in ("bernoulli", "uniform", "normal") for node in nodes)


def _is_again(nodes: Sequence[TraceCall], outcome: Outcome) -> bool:
    """Whether a call gives what it gave in the run: what it was called with is still there."""
    made = [value.sorted for node in nodes for value in node.results]  # a layer may turn channels behind them
    results = [numbers(result).sort().values for result in outcome.results]
    pairs = [(result, value) for result in results for value in made if len(result) == len(value)]
    return not made or any(torch.allclose(*pair, 1e-9, 1e-12, equal_nan=True) for pair in pairs)


def _unlike(originals: Sequence[TraceCall], outcome: Outcome) -> float:
    """How many attributes of the original's calls differ in the nearest calls of their names; infinite without originals."""
    return sum(
        min((_differing(original.attributes, own) for name, own in outcome.calls if name == original.name), default=_GONE)
        for original in originals
    ) or (0.0 if originals else float("inf"))


def _differing(attributes: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    return sum(not equal_settings(attributes.get(name), other.get(name)) for name in {*attributes, *other})


def _values_of(original: TraceCall | None, beside: Sequence[TraceCall]) -> Iterator[Any]:
    """Attributes and constants of the original's calls, and what they may stand for; each once, those of its own call first."""
    seen: list[Any] = []
    for call in (*([original] if original else []), *beside):
        for value in (*call.attributes.values(), *_slices(call), *_constants(call)):
            alike = [value]
            if isinstance(value, float):
                alike += [as_read(other) for other in (1 - value, 1 / value if value else value)]
            for other in alike:
                if not any(type(other) is type(known) and other == known for known in seen):
                    seen.append(other)
                    yield other


def _slices(call: TraceCall) -> Iterator[slice]:
    if (bounds := [call.attributes.get(name) for name in ("start", "end", "step")])[0] is not None:
        idle = (0, TO_THE_END, 1)
        yield slice(*(None if bound == default else bound for bound, default in zip(bounds, idle)))


def _constants(call: TraceCall) -> Iterator[Any]:
    """The numbers of a call's tensors without name or origin: one, where all are the same, or a few."""
    made_of_numbers = (each for each in call.operands if each.value.node is None and not each.value.label.startswith("input "))
    for operand in made_of_numbers:
        if operand.tensor.numel() and not operand.tensor.is_complex():
            flat = operand.tensor.detach().flatten()
            if bool((flat == flat[0]).all()):
                yield flat[0].item()
            elif operand.tensor.dim() == 1 and len(flat) <= _FEW:
                few = [float(f"{number:g}") if flat.is_floating_point() else number for number in flat.tolist()]
                if torch.allclose(torch.tensor(few, dtype=flat.dtype), flat, 1e-7, 0.0):
                    yield Constant(few)


_FEW = 16  # short numbers that are written out
TO_THE_END = 2**63 - 1  # the end of a slice without end


def as_read(number: float) -> float:
    """A computed number as a program has it: 1 - 0.7 is 0.3 to a reader, and 2.8284271247461907 the root of 8."""
    roots = [root for root, _ in _roots(number)]
    near = (other for other in (float(f"{number:.12g}"), *roots) if abs(other - number) <= 8 * sys.float_info.epsilon * abs(number))
    return next(near, number)


@functools.cache
def _words() -> dict[str, frozenset[str]]:
    """The words that the declarations of ops know for an argument, by its name."""
    words: dict[str, set[str]] = {}
    for op in ops().values():
        samples = [(name, value) for sample in op.samples for name, value in sample.attrs.items()]
        for name, value in (*samples, *((aliases[0], default) for aliases, default in parse(op.params))):
            if isinstance(value, str):
                words.setdefault("mode" if name == "interp_method" else name, set()).add(value)
    return {name: frozenset(values) for name, values in words.items()}


class Hints(NamedTuple):
    """What the values that are tried for an argument come from.

    Attributes:
        call: whose argument it is.
        known: attributes of the original's calls, and the argument's default.
        axes: how many axes the operands have.
    """

    call: ApiCall
    known: Sequence[Any]
    axes: int

    def numbers(self, value: Any) -> Iterator[Any]:
        """Numbers; whole ones in place of a whole one, but for operators, which take any."""
        whole = isinstance(value, int) and not self.call.symbol
        for hint in (*self.known, *(() if self.call.symbol else _USUAL)):
            for number in hint if isinstance(hint, (list, tuple)) else [hint]:
                if _is_number(number) and (not whole or (float(number).is_integer() and abs(number) < _MOST_OFTEN)):
                    yield int(number) if whole else number

    def items(self, value: Any) -> Iterator[Any]:
        """Indices with another number or slice at one axis."""
        parts = value if isinstance(value, tuple) else (value,)
        open_end = not any(part is Ellipsis for part in parts)  # a part may be an array
        every = (*parts, *[slice(None)] * (self.axes - len(parts) if open_end else 0))
        for hint in self.known:
            for at in range(len(every)) if type(hint) is int or isinstance(hint, slice) else ():
                item = (*every[:at], hint, *every[at + 1 :])
                while len(item) > 1 and isinstance(item[-1], slice) and item[-1] == slice(None):
                    item = item[:-1]
                yield item if len(item) > 1 else item[0]

    def constants(self, value: Any) -> Iterator[Constant]:
        """Tensors of one of the numbers, or of those that the original has, in place of a tensor of such numbers, or of none."""
        constants = (hint if isinstance(hint, Constant) else Constant(hint) for hint in self.known)
        kinds = (float, list) if value is None or value.dtype in FLOATS else (list,) if value.dtype != paddle.bool else ()
        kinds = () if self.call.symbol else kinds
        yield from (constant for constant in constants if isinstance(constant.numbers, kinds))

    def switches(self, name: str) -> Iterator[bool]:
        """Both, where Paddle's signature says that an argument is one."""
        parameters = {} if inspect.isbuiltin(self.call.function) else inspect.signature(self.call.function).parameters
        yield from (False, True) if name in parameters and "bool" in str(parameters[name].annotation) else ()

    def places(self) -> Iterator[Any]:
        """Axes, and all of them: first those that the original names."""
        axes = [*range(self.axes), *range(-self.axes, 0)]
        yield from (hint for hint in self.known if type(hint) is int and hint in axes)
        yield from (_short(row) for row in self.rows() if {*row} <= {*axes})
        yield from (*axes, None)

    def rows(self) -> Iterator[list[Any]]:
        """Lists; of numbers for each axis also with the last axis first, as Torch pads."""
        for hint in self.known:
            if isinstance(hint, (list, tuple)) and hint:
                yield list(hint)
                pairs = [list(hint[place : place + 2]) for place in range(0, len(hint), 2)]
                yield [number for pair in reversed(pairs) for number in pair]

    def words(self, name: str) -> Iterator[str]:
        """Words that Paddle's page of the function names, for this argument in the table of ops, or anywhere."""
        doc = inspect.getdoc(self.call.function) or ""
        quoted, known = frozenset(_QUOTED.findall(doc)), _words().get(name, frozenset())
        yield from (hint for hint in self.known if isinstance(hint, str) and (not doc or hint in doc))
        yield from (*sorted(known & quoted), *sorted(quoted - known or known))


_MOST_OFTEN = 2**16  # a whole number may say how often something is done: 10^10 from a mask's constant never ends
_USUAL = (-1.0, 0.0, 1.0, 2.0)  # where the original has a call without attributes: a sign, a square


class TriedArgument(NamedTuple):
    """A row of the table: for which arguments, by name and value, which other values are tried."""

    fits: Callable[[str, Any], bool]
    values: Callable[[Hints, str, Any], Iterable[Any]]


def _equations(value: str) -> Iterator[str]:
    """An equation of ``einsum`` with other letters in its result, or in one operand, or its operands in another order."""
    sources, arrow, result = value.replace(" ", "").partition("->")
    terms = sources.split(",")
    if not arrow or "." in sources:
        return
    for parts in itertools.permutations(terms):
        yield from (f"{','.join(parts)}->{''.join(letters)}" for letters in itertools.permutations(result))
    for at, term in enumerate(terms):
        others = [*map("".join, itertools.permutations(term))]
        others += [term.replace(old, new) for old in term for new in sorted({*sources} - {",", *term})]
        yield from (f"{','.join([*terms[:at], other, *terms[at + 1 :]])}->{result}" for other in others)


TRIED = (
    TriedArgument(lambda name, _: name == "item", lambda hints, _, value: hints.items(value)),
    TriedArgument(lambda _, value: type(value) in TENSOR_TYPES, lambda hints, _, value: hints.constants(value)),
    TriedArgument(lambda name, _: name == "equation", lambda hints, _, value: _equations(value)),
    TriedArgument(lambda _, value: isinstance(value, bool), lambda hints, _, value: [not value]),  # keepdim, approximate, ceil_mode
    TriedArgument(lambda _, value: isinstance(value, str), lambda hints, name, _: hints.words(name)),  # reduction, mode, padding
    TriedArgument(lambda name, _: name == "perm", lambda hints, _, value: itertools.permutations(range(hints.axes))),
    TriedArgument(lambda name, _: name in _AXES, lambda hints, *_: hints.places()),
    TriedArgument(lambda _, value: _is_number(value), lambda hints, _, value: hints.numbers(value)),  # epsilon, p, scale, stride
    TriedArgument(
        lambda name, value: value is None and name not in _AXES,
        lambda hints, name, value: (
            *(*_words().get(name, ()), *hints.switches(name)),
            *(*hints.numbers(value), *hints.constants(value)),
        ),
    ),
    TriedArgument(lambda _, value: _is_number(value), lambda hints, name, _: (*map(_short, hints.rows()), *_words().get(name, ()))),
    TriedArgument(lambda _, value: value is None or isinstance(value, (list, tuple)), lambda hints, *_: hints.rows()),
)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _short(row: list[Any]) -> Any:
    return row if len(set(row)) > 1 else row[0]


def _operands(call: ApiCall, changes: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Operands that stand for one another; an operator's may be a number."""
    tensors = {
        name: value
        for name, value in call.arguments.items()
        if type(value) in TENSOR_TYPES and value.size and not (value.persistable or name in changes)
    }  # weights and statistics have partners; what is empty is room for a state
    for name, other in itertools.permutations(call.arguments if call.symbol else tensors, 2):
        if call.arguments[name] is not call.arguments[other]:
            yield from [{name: Name(other)}] if {name, other} <= {*tensors} else []
            yield from [{name: Name(other), other: Name(name)}] if name < other else []

    for name, value in call.arguments.items():
        ordered = isinstance(value, (list, tuple)) and 1 < len(value) <= _MOST_IN_ORDER and _holds_tensors(value)
        if ordered and name not in changes and "equation" not in call.arguments:
            yield from ({name: type(value)(parts)} for parts in itertools.permutations(value))


_MOST_IN_ORDER = 4  # operands of one list, whose order is tried


def _others(call: ApiCall, changes: Mapping[str, Any], known: Sequence[Any], computed: set[str]) -> Iterator[dict[str, Any]]:
    """Other arguments to try, none of a ``computed`` one; words and switches before numbers, which may hide what is wrong."""
    if inspect.ismethod(call.function) or call.name in _WRITES:  # of a layer, whose settings are no arguments
        return
    axes = max((len(value.shape) for value in call.arguments.values() if type(value) in TENSOR_TYPES), default=0)
    free = [
        name
        for name, value in call.arguments.items()
        if name not in {*_SETTLED, *changes, *computed}
        if not _holds_tensors(value) or (type(value) in TENSOR_TYPES and value.stop_gradient and not value.persistable)
    ]
    for name in sorted(free, key=lambda name: not isinstance(call.arguments[name], (bool, str))):
        value, hints = call.arguments[name], Hints(call, [*call.default(name), *known], axes)
        rows = (row for row in TRIED if row.fits(name, value))
        for other in itertools.islice((other for row in rows for other in row.values(hints, name, value)), _MOST):
            if type(other) is not type(value) or repr(other) != repr(value):  # an index may hold arrays
                yield {name: other}


def _holds_tensors(value: Any) -> bool:
    return any(type(leaf) in TENSOR_TYPES for _, leaf in leaves(value))
