"""What a program computes in Torch: its calls, the values between them, and where each came from."""

from __future__ import annotations

import collections
import contextlib
import functools
import linecache
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import CodeType, MappingProxyType
from typing import Any, NamedTuple

import torch

from ..dispatch.call_site import CallSite, call_site, is_library
from ..frameworks.torch_state import LooksOn
from ..torch_versions import current_node, last_node_number, without_modes

# Objects of either framework; neither ships usable types.
Tensor = Any  # a paddle.Tensor or a torch.Tensor
Model = Any  # a paddle.nn.Layer or a torch.nn.Module
Optimizer = Any  # of paddle.optimizer or torch.optim

# ---- Torch's operators by name: which compute, which move or create elements, and which ask about them.

# The same elements in another shape, memory or object: no calls of a trace, for frameworks need different numbers of them.
SAME = frozenset({
    "view", "_unsafe_view", "_reshape_alias", "reshape", "permute", "t", "transpose", "unsqueeze", "squeeze", "expand", "detach",
    "alias", "clone", "contiguous", "lift_fresh", "lift_fresh_copy", "view_as_real", "view_as_complex", "resolve_conj",
    "resolve_neg", "flatten", "unflatten", "swapaxes", "movedim", "numpy_T",
})  # fmt: skip
ARRANGING = frozenset({
    "view", "_unsafe_view", "reshape", "permute", "t", "transpose",
})  # fmt: skip
COPIES = frozenset({"clone", "contiguous"})
# Elements of the operands, none computed.
MOVES = frozenset({
    "slice", "select", "split", "split_with_sizes", "chunk", "unbind", "cat", "stack", "index", "index_select", "gather",
    "embedding", "constant_pad_nd", "flip", "roll", "repeat", "narrow", "diagonal", "unfold", "as_strided", "masked_select",
    "take", "triu", "tril", "where", "scatter", "index_put", "select_scatter", "slice_scatter", "copy", "_to_copy", "to",
    "repeat_interleave", "masked_fill", "tile", "pad", "reflection_pad1d", "reflection_pad2d", "replication_pad2d",
})  # fmt: skip
BLANK = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})  # memory without values
# Questions about values, too.
NOTHING = BLANK | {
    "equal", "is_nonzero", "_local_scalar_dense", "item", "set_", "is_pinned", "is_same_size", "size", "stride",
    "storage_offset", "sym_size", "prim_device", "device", "record_stream",
}  # fmt: skip
# Numbers of nothing, in the shape of an operand at most.
CREATES = frozenset({
    "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full",
})  # fmt: skip
NO_ATTRIBUTES = frozenset({
    "dtype", "layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "implicit", "requires_grad",
})  # fmt: skip


_SETS = frozenset({"fill", "copy", "zero"})  # they read nothing of what they write
_RUNNING = ("running_mean", "running_var")  # written in a training's forward, though no schema says so


class Shape:
    """The signature of one overload of an operator."""

    def __init__(self, function: Any) -> None:
        schema = function._schema
        self.name = schema.name.partition("::")[2]
        self.base = self.name[:-1] if self.name.endswith("_") and not self.name.startswith("__") else self.name
        self.parameters = [(argument.name, argument.default_value) for argument in schema.arguments]
        statistics = () if "backward" in self.name else _RUNNING
        self.written = [
            argument.name in statistics or (argument.alias_info is not None and argument.alias_info.is_write)
            for argument in schema.arguments
        ]


shape_of = functools.cache(Shape)


def _is_whole(name: str, operands: Sequence[TraceOperand], result: torch.Tensor) -> bool:
    """Whether a slice takes all elements."""
    return name in ("slice", "narrow") and operands[0].tensor.shape == result.shape


def is_passive(function: Any) -> bool:
    """Whether an overload of an operator computes nothing: it moves elements, creates them, or asks about them."""
    name = shape_of(function).base
    return any(name in kind for kind in (SAME, MOVES, NOTHING, CREATES))


# ---- A trace: Paddle programs under ``reference("torch")`` and Torch programs leave one kind, for both call Torch's kernels.


class Value:
    """A tensor that a program made or read.

    Attributes:
        node: the call that made it; None for what was there before: a parameter, an input, a constant.
        label: then its name.
        tensor: the elements that it had; two programs may lay them out in different shapes.
        count: how many numbers it holds; a complex element is two.
        readers: the calls that read it.
        ways: the steps to each other arrangement of its elements that the program made.
        maker: of a constant that a call makes of nothing else: that call, which is none of the trace.
    """

    __slots__ = ("_ends", "_sorted", "count", "label", "maker", "node", "readers", "tensor", "ways")

    def __init__(self, tensor: torch.Tensor, node: TraceCall | None = None, label: str = "") -> None:
        self.tensor, self.node, self.label = tensor, node, label
        self.count = _count(tensor)
        self.readers: list[TraceCall] = []
        self.ways: list[tuple[Step, ...]] = []
        self.maker: TraceCall | None = None
        self._ends: tuple[float, float, float] | None = None
        self._sorted: torch.Tensor | None = None

    @property
    def ends(self) -> tuple[float, float, float]:
        """The least and the greatest number, and the mean of their sizes: all NaN, if one is; zeros, if there is none."""
        if self._ends is None:
            every = numbers(self.tensor)
            least, greatest = map(float, every.aminmax()) if len(every) else (0.0, 0.0)
            self._ends = least, greatest, float(every.abs().mean()) if len(every) else 0.0
        return self._ends

    @property
    def sorted(self) -> torch.Tensor:
        """All elements in ascending order, float64: the same for any layout of the same values."""
        if self._sorted is None:
            self._sorted = numbers(self.tensor).sort().values
        return self._sorted

    def forget(self) -> None:
        """Hold no numbers any longer."""
        self.tensor, self._sorted = _without_numbers(self.tensor), None


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """All elements in order as float64, complex ones as pairs."""
    tensor = tensor.detach().resolve_conj()
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).to(torch.float64).reshape(-1)


def _without_numbers(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, device="meta")


class Step(NamedTuple):
    """A call that lays a value's elements out differently: a reshape to ``shape``, or a transpose, by the order of axes.

    ``api``: of a port, the call of Paddle's API that it answers.
    """

    shape: tuple[int, ...]
    site: CallSite
    order: tuple[int, ...] = ()
    api: Any = None

    def __str__(self) -> str:
        return f"transpose({list(self.order)})" if self.order else f"reshape({list(self.shape)})"

    def applied(self, tensor: torch.Tensor) -> torch.Tensor:
        """The elements of a tensor, laid out so."""
        return tensor.permute(self.order) if self.order else tensor.reshape(self.shape)


def _step(
    name: str, operand: torch.Tensor, result: torch.Tensor, arguments: Sequence[tuple[str, Any, bool]], site: CallSite, api: Any
) -> Step:
    """The step that an operator of :data:`ARRANGING` makes."""
    axes, count = {argument: value for argument, value, _ in arguments}, operand.dim()
    order = list(range(count))
    if name == "permute":
        order = [axis % count for axis in axes["dims"]]
    elif name in ("t", "transpose") and count > 1:
        here, there = axes.get("dim0", 0), axes.get("dim1", 1)
        order[here], order[there] = order[there], order[here]
    return Step(tuple(result.shape), site, tuple(order) if order != sorted(order) else (), api)


class TraceOperand(NamedTuple):
    """An operand of a call: its parameter's name, the value, the tensor with its elements, and the steps that laid them out."""

    name: str
    value: Value
    tensor: torch.Tensor
    way: tuple[Step, ...]


Arranged = tuple[TraceOperand, TraceOperand]  # one value, as the original lays it out and as the port does

_API = {  # operators that no function of Torch's API is called by -> the function that calls them
    **{f"native_{name}": name for name in ("layer_norm", "group_norm", "batch_norm", "dropout")},
    **{f"_{name}": name for name in ("softmax", "log_softmax", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "ctc_loss")},
    **dict.fromkeys(("_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm"), "batch_norm"),
    **dict.fromkeys(("nll_loss_forward", "nll_loss2d_forward"), "nll_loss"),
    "_safe_softmax": "softmax", "_prelu_kernel": "prelu", "_cdist_forward": "cdist", "_pdist_forward": "pdist",
    "log_sigmoid_forward": "logsigmoid", "_conj": "conj", "_neg_view": "neg",
    "im2col": "unfold", "col2im": "fold", "_unsafe_view": "view", "_to_copy": "to",
}  # fmt: skip
_PRODUCTS = {"addmm": "linear", "mm": "linear", "bmm": "matmul", "baddbmm": "matmul"}  # unless the line says otherwise
_OF_OPERATORS = {"half_to_float", "transposed", "N", "C", "HxW", "output_mask"}  # arguments that the functions have not
_DEFAULTS = (("alpha", 1), ("beta", 1), ("sparse_grad", False))  # that nobody writes
_FAMILIES = re.compile(r"(linalg|fft|special)_(?!_)")


def in_api(name: str, attributes: Mapping[str, Any], line: str = "") -> str:
    """Torch's function that calls an operator: as users write it; ``line``: the text of theirs."""
    if name in ("convolution", "_convolution", "convolution_overrideable") and "stride" in attributes:
        return f"conv{'_transpose' if attributes.get('transposed') else ''}{len(attributes['stride'])}d"
    if name in _PRODUCTS:
        return next((word for word in (name, "einsum", "matmul") if word in line), "matmul" if "@" in line else _PRODUCTS[name])
    if name.lstrip("_").startswith("upsample_"):
        return "interpolate"
    if "_pad" in name and name.startswith(("constant", "reflection", "replication", "_pad")):
        return "pad"
    return _API.get(name, _FAMILIES.sub(r"\1.", name, count=1) if _FAMILIES.match(name) else name)


def described(name: str, attributes: Mapping[str, Any], line: str = "") -> str:
    """A call with its attributes in one line, as users of Torch write it."""
    if name == "bernoulli" and "p" in attributes and name not in line:
        name, attributes = "native_dropout", {"p": round(1.0 - attributes["p"], 12)}
    words = {"group": "num_groups"} if name == "native_group_norm" else {}
    known = {key: value for key, value in attributes.items() if key not in _OF_OPERATORS and (key, value) not in _DEFAULTS}
    shown = ", ".join(f"{words.get(key, key)}={value!r}" for key, value in known.items())
    function = in_api(name, attributes, line)
    return f"{function}({shown})" if shown else function


class Key(NamedTuple):
    """Tells a call from all others of its run, and names it in the next run: the n-th of its name in its line and layer."""

    name: str
    site: CallSite
    layer: str
    backward: bool  # the forward has other kernels where operands lie otherwise: they may bear the names of its backward's
    occurrence: int


@dataclass(eq=False)
class TraceCall:
    """A call of one of Torch's kernels."""

    index: int
    key: Key
    name: str  # of Torch's operator without its overload: "addmm", "native_layer_norm"
    attributes: dict[str, Any]  # arguments that are no tensors, defaults filled in
    operands: list[TraceOperand]
    site: CallSite
    layer: str
    moves: bool  # takes elements of its operands and computes none
    view: bool  # its results lie in its operands' memory
    backward: bool  # site and layer are then those of the call whose gradient it computes
    api: Any = None  # of a port: the call of Paddle's API that it answers
    results: list[Value] = field(default_factory=list)
    updated: list[Value] = field(default_factory=list)  # written beside them: running statistics

    @property
    def values(self) -> list[Value]:
        """All that it made."""
        return [*self.results, *self.updated]

    @property
    def result(self) -> Value:
        """The first result."""
        return self.results[0]

    @property
    def function(self) -> str:
        """Torch's function that makes the call, as users write it."""
        return in_api(self.name, self.attributes, self._line)

    @property
    def steps(self) -> bool:
        """Whether its answer jumps as an operand of floats moves on: a comparison, a rounding, a cast to whole numbers."""
        if not any(operand.tensor.is_floating_point() for operand in self.operands) or not self.results:
            return False
        whole = not (self.result.tensor.is_floating_point() or self.result.tensor.is_complex())
        cast = self.result.tensor.dtype is torch.bool or self.moves or self.name in _COUNTS
        return (whole and cast) or self.name in _ROUNDS or "rounding_mode" in self.attributes

    @property
    def _line(self) -> str:
        return linecache.getline(self.site.file, self.site.line)

    def __str__(self) -> str:
        return described(self.name, self.attributes, self._line)


@dataclass
class Trace:
    """The calls of one run in order, and what the run began with.

    ``parted``: results of calls that are written in parts; ``repeats``: calls that hold their operand's elements several times, and
    are no calls of the run: their results have the operand's value.
    """

    nodes: list[TraceCall] = field(default_factory=list)
    constants: list[Value] = field(default_factory=list)
    parted: dict[Key, Value] = field(default_factory=dict)
    repeats: list[TraceCall] = field(default_factory=list)

    def forget(self, but: Collection[Value] = ()) -> None:
        """Hold the numbers of no value any longer, ``but`` of some; calls and operands stay."""
        for value in (*self.values(), *(node.result for node in self.repeats)):
            if value not in but:
                value.forget()
        for node in (*self.nodes, *self.repeats):
            node.operands = [operand._replace(tensor=_without_numbers(operand.tensor)) for operand in node.operands]

    def values(self) -> list[Value]:
        """All values, those before the first call first."""
        return [*self.constants, *(value for node in self.nodes for value in node.values)]


_ROUNDS = frozenset({"floor", "ceil", "trunc", "round", "sign", "floor_divide", "remainder", "fmod", "frac", "heaviside"})
_COUNTS = frozenset({"bucketize", "searchsorted"})  # the numbers below each


def held_at_steps(original: Trace, port: Trace) -> list[dict[Key, list[torch.Tensor | None]]]:
    """The results of calls, bit for bit in both programs, that comparisons and roundings of one read: Paddle's are no calls."""
    traces, held = (original, port), set[Value]()
    made = [[value for node in trace.nodes for value in node.values] for trace in traces]
    for trace, others in zip(traces, made[::-1]):
        for value in {operand.value for node in trace.nodes if node.steps for operand in node.operands if operand.value.node}:
            alike = [other for other in others if other.ends == value.ends and torch.equal(other.sorted, value.sorted)]
            held.update([value, *alike] if alike else ())
    return [
        {
            node.key: [value.tensor if value in held else None for value in node.values]
            for node in trace.nodes
            if held & {*node.values}
        }
        for trace in traces
    ]


_EACH = "_foreach_"
_SINGLE = {"_foreach_norm": "linalg_vector_norm"}
_VALUES = ("value", "scalars")
_NAMED = {  # parameters that the call for one tensor takes by name
    **dict.fromkeys(("_foreach_addcmul", "_foreach_addcdiv"), _VALUES),
    **dict.fromkeys(("_foreach_add", "_foreach_sub"), ("alpha",)),
    "_foreach_norm": ("dtype",),
}  # fmt: skip


# ---- Writing a trace, one level below both frameworks' functions.

Forced = Mapping[Key, Sequence[torch.Tensor | None]]  # new elements for the results of a call; None: they stay
Attributes = Mapping[Key, Mapping[str, Any]]  # of a call, in place of its own


class Onlooker(LooksOn):
    """Looks on at Torch's kernels in a run; :class:`Capture` also hears of Paddle's kernels.

    ``unwritten``: addresses of memory that nobody writes in the run. ``held``: results in place of its own.
    """

    unwritten: Set[int] = frozenset()
    held: Forced = MappingProxyType({})

    def write_down(self, name: str, operands: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        """A call that Torch's kernels did not answer."""


Tables = Sequence[tuple[torch.Tensor, torch.Tensor]]  # the port's own, and the original's that it gets


class WithTables(Onlooker):
    """Within it the port's tables are the original's from the first call that reads them; each is its own again in the end."""

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self._tables, self._before = tables, list[tuple[torch.Tensor, torch.Tensor]]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for tensor in tensors_in([*args, *(kwargs or {}).values()]):
            self._exchange_table(tensor)
        return function(*args, **(kwargs or {}))

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        with torch.no_grad():
            for tensor, before in reversed(self._before):
                tensor.copy_(before)
        self._before.clear()

    def _exchange_table(self, tensor: torch.Tensor) -> None:
        """Give a tensor that holds one of the port's tables the original's."""
        wanted = next((table for own, table in self._tables if own.shape == tensor.shape and torch.equal(own, tensor)), None)
        if wanted is not None:
            self._overwrite(tensor, wanted, again=True)

    def _overwrite(self, tensor: torch.Tensor, wanted: torch.Tensor, *, again: bool) -> None:
        """Give a tensor other elements; ``again``: its memory is the program's, and gets its own elements back in the end.

        Along an axis on which a table was expanded all its elements are one.
        """
        if 0 in tensor.stride():
            once = tuple(slice(1) if step == 0 else slice(None) for step in tensor.stride())
            tensor, wanted = tensor[once], wanted[once]
        if again:
            self._before.append((tensor, tensor.detach().clone()))
        tensor.copy_(wanted)


FUSED_ATTENTION = "scaled_dot_product"  # in the names of such operators


def _attention(arguments: Mapping[str, Any]) -> torch.Tensor:
    """What an attention computes in one call, without dropout, call by call."""
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    scores = query @ key.transpose(-2, -1) * (arguments.get("scale") or query.shape[-1] ** -0.5)
    masks = [arguments[name] for name in ("attn_mask", "attn_bias") if arguments.get(name) is not None]
    if arguments.get("is_causal"):
        masks.append(torch.full(scores.shape[-2:], -torch.inf, dtype=scores.dtype, device=scores.device).triu(1))
    for mask in masks:
        scores = scores.masked_fill(mask.logical_not(), -torch.inf) if mask.dtype is torch.bool else scores + mask
    return scores.softmax(-1) @ value


class _Forwarding(LooksOn):
    """Hands each call to a capture that has been put aside for the call that it is answering."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._capture = capture

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._capture.__torch_dispatch__(function, types, args, kwargs)


class Called(Onlooker):
    """Within it the names of all calls are noted, and nothing else; arguments as for :class:`Capture`."""

    def __init__(self, names: Mapping[int, str], layer: Callable[[], str], until: CodeType | None = None) -> None:
        super().__init__()
        self.called: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called.append(shape_of(function).base)
        return function(*args, **(kwargs or {}))


class Capture(WithTables):
    """Within it every call of Torch's kernels is written into :attr:`trace`.

    Args:
        names: labels of tensors that are there before, by the address of their memory.
        layer: returns the path of the running layer.
        until: code of the function that calls the model; a line is one within that call.
        forced: results to exchange, so that the run goes on with another program's values.
        attributes: attributes to exchange, so that a call computes what another program's call computes.
        touch: called with each call and its first result; may change it, to measure how far rounding errors travel.
        tables: the original's, in place of the port's that are there before.
        parts: whether a call that stands for several is written down as these: an attention, a sum with ``alpha``.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        layer: Callable[[], str],
        until: CodeType | None = None,
        forced: Forced | None = None,
        touch: Callable[[TraceCall, torch.Tensor], None] | None = None,
        tables: Tables = (),
        attributes: Attributes | None = None,
        *,
        parts: bool = False,
    ) -> None:
        super().__init__(tables)
        self._parts = parts
        self.called: list[str] = []  # the names of all calls, in order
        self.api: Any = None  # the call of Paddle's API that is being answered
        self._attributes = attributes or {}
        self.trace = Trace()
        self._names, self._layer, self._until, self._forced, self._touch = names, layer, until, forced or {}, touch
        self._labels, self._of_numbers = frozenset(names.values()), set[TraceCall]()  # calls that read neither inputs nor weights
        self._count: collections.Counter[Any] = collections.Counter()
        self._places: dict[int, tuple[CallSite, str]] = {}  # by the number that Torch gives the node of a call in its graph
        self._known: dict[int, Value] = {}  # by the tensor's identity
        self._ways: dict[int, tuple[Step, ...]] = {}  # by the tensor's identity: the steps from its value's own tensor
        self._memory: dict[int, list[Value]] = {}  # by the address of the storage: what lies there
        self._moved: dict[tuple[Any, ...], torch.Tensor] = {}  # by the place of a copy: a view of its source
        self._copies: dict[tuple[Any, ...], tuple[Value, torch.Tensor]] = {}  # by the place of a copy: the source's value, and it
        self._before_calls: dict[tuple[Any, ...], torch.Tensor] = {}  # by its place: what was there before, as last seen
        self._objects: dict[int, list[torch.Tensor]] = {}  # by address; held, so that no identity or address is used twice

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shape, kwargs = shape_of(function), kwargs or {}
        if shape.base.startswith(_EACH):
            return self._of_each(shape, args, kwargs)
        if self._parts and shape.base in ("add", "sub") and kwargs.get("alpha", 1) != 1 and backward_node() is None:
            with _Forwarding(self):
                return function(args[0], args[1] * kwargs["alpha"])
        self.called.append(shape.base)
        if self._attributes:
            args, kwargs = self._with_attributes(shape, args, kwargs)
        arguments = named_arguments(shape, args, kwargs)
        if shape.base in NOTHING:
            result = function(*args, **kwargs)
            if shape.base in BLANK:  # without values it is no value of the trace: the elements of an earlier run may lie there
                result.zero_()
                self._new(result, Value(result.detach().clone(), None, ""))
            return result
        operands = [self._operand(name, tensor) for name, value, _ in arguments for tensor in tensors_in(value)]
        written = [tensor for _, value, writes in arguments if writes for tensor in tensors_in(value)]
        if shape.base in SAME and len(written) == 1:
            return self._turned(shape.base, operands[0], written[0], arguments, lambda: function(*args, **kwargs))
        operands, wholes = self._before_write(shape.base, operands, written)
        result = function(*args, **kwargs)
        results = tensors_in(result)
        if self._parts and FUSED_ATTENTION in shape.base and backward_node() is None:
            self._note_parts(shape.base, arguments, results[0])
        elif not written and len(results) == 1 and (shape.base in SAME or _is_whole(shape.base, operands, results[0])):
            self._is(results[0], operands[0].value)
            if shape.base in COPIES:
                self.moved(results[0], operands[0].tensor)
                self._note_repeat(operands, results[0])
            way = self._ways[id(results[0])] = self._way_to(results[0], shape.base, operands[0], arguments)
            operands[0].value.ways.append(way)
        elif results or written:
            updated = [tensor for tensor in written if results and all(tensor is not result_ for result_ in results)]
            self._note(shape.base, arguments, operands, [*wholes, *(results or written)], updated)
        return result

    def _before_write(
        self, name: str, operands: list[TraceOperand], written: Sequence[torch.Tensor]
    ) -> tuple[list[TraceOperand], list[torch.Tensor]]:
        """The operands of a call as they are before it writes, with the tensors of which it writes a part; and these tensors."""
        wholes = [whole for whole in map(self._whole, written) if whole is not None]
        if wholes and name in _SETS:
            operands = operands[1:]
        operands = [*(TraceOperand("into", self._value(whole), whole, ()) for whole in wholes), *operands]
        addresses = {_address(tensor) for tensor in written}
        before = [operand._replace(tensor=operand.tensor.detach().clone()) for operand in operands]
        operands = [old if _address(operand.tensor) in addresses else operand for operand, old in zip(operands, before)]
        for tensor in written:
            self._keep(tensor)
        return operands, wholes

    def _way_to(
        self, result: torch.Tensor, name: str, operand: TraceOperand, arguments: Sequence[tuple[str, Any, bool]]
    ) -> tuple[Step, ...]:
        """The steps to a view or copy of an operand."""
        if name in ARRANGING:
            return (*operand.way, _step(name, operand.tensor, result, arguments, self._where()[0], self.api))
        if name == "expand":  # whose backward sums: the one view that has a call of its own there
            self._where()
        return operand.way

    def _note_repeat(self, operands: list[TraceOperand], result: torch.Tensor) -> None:
        if operands[0].value.node is not None and result.numel() > operands[0].value.count and backward_node() is None:
            site, layer, _ = self._where()
            key = Key("repeat_interleave", site, layer, False, len(self.trace.repeats))
            node = TraceCall(-1, key, key.name, {}, operands, site, layer, moves=True, view=False, backward=False, api=self.api)
            node.results.append(Value(result.detach(), node))
            self.trace.repeats.append(node)

    def _note_parts(self, name: str, arguments: Sequence[tuple[str, Any, bool]], result: torch.Tensor) -> None:
        """Write down what an attention computes, call by call; its result has the value of the last."""
        key = self._key(name, *self._where())
        self._count[key[:-1]] += 1
        with _Forwarding(self):
            mixed = _attention({name: value for name, value, _ in arguments})
        self._is(result, self._value(mixed))
        self.trace.parted[key] = self._value(mixed)
        if self._touch is not None:
            result.copy_(mixed)  # the rounding errors of the parts travel on

    def _of_each(self, shape: Shape, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A call for each tensor of a list, as the calls that it stands for: on a processor it makes just these."""
        arguments = [(name, value) for name, value, _ in named_arguments(shape, args, kwargs) if value is not None]
        lists = [value for _, value in arguments if isinstance(value, (list, tuple)) and tensors_in(value)]
        call = getattr(torch.ops.aten, _SINGLE.get(shape.name, shape.name.removeprefix(_EACH)))
        results = []
        with _Forwarding(self):
            for place in range(len(lists[0])):
                parts = [(name, value[place] if isinstance(value, (list, tuple)) else value) for name, value in arguments]
                named = {"value" if name == "scalars" else name: part for name, part in parts if name in _NAMED.get(shape.base, ())}
                results.append(call(*(part for name, part in parts if name not in _NAMED.get(shape.base, ())), **named))
        return None if shape.name.endswith("_") else results

    def _with_attributes(self, shape: Shape, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Any]:
        """The arguments of a call, with the exchanged attributes."""
        site, layer, backward = self._where()
        wanted = {} if backward else self._attributes.get(self._key(shape.base, site, layer, backward), {})
        if not wanted:
            return args, kwargs
        names = [name for name, _ in shape.parameters][: len(args)]
        changed = [_like(value, wanted.get(name, value)) for name, value in zip(names, args)]
        rest = {name: _like(kwargs.get(name), value) for name, value in wanted.items() if name not in names}
        return tuple(changed), {**kwargs, **rest}

    def _key(self, name: str, site: CallSite, layer: str, backward: bool) -> Key:
        """The key of the next call of an operator there."""
        return Key(name, site, layer, backward, self._count[name, site, layer, backward])

    def _turned(
        self,
        name: str,
        operand: TraceOperand,
        tensor: torch.Tensor,
        arguments: Sequence[tuple[str, Any, bool]],
        turn: Callable[[], Any],
    ) -> Any:
        """A tensor is transposed in place: its elements stay, and its value keeps the shape in which it was made."""
        before = tensor.detach()
        if operand.value.tensor is tensor:
            operand.value.tensor = tensor.detach()
        result = turn()
        self._is(tensor, operand.value)
        if name in ARRANGING:
            self._ways[id(tensor)] = (*operand.way, _step(name, before, tensor, arguments, self._where()[0], self.api))
        return result

    def _operand(self, name: str, tensor: torch.Tensor) -> TraceOperand:
        value = self._value(tensor)
        shown = self._shown(value, tensor) if value.node is None else tensor
        return TraceOperand(name, value, shown, self._ways.get(id(tensor), ()))

    def _shown(self, value: Value, tensor: torch.Tensor) -> torch.Tensor:
        """What was there before, as it is now: Paddle may have written it unseen, as it writes running statistics."""
        if _address(tensor) in self.unwritten:
            return tensor.detach()
        place = _place(tensor)
        for known in (value.tensor, self._before_calls.get(place)):
            if known is not None and known.dtype == tensor.dtype and _equal(known, tensor):
                return known
        self._before_calls[place] = known = tensor.detach().clone()
        return known

    def _whole(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The tensor that is about to be written in a part; None where it is written as a whole."""
        address = _address(tensor)
        tensors = [known for known in self._objects.get(address, ()) if _address(known) == address]
        whole = max(tensors, key=torch.Tensor.numel, default=tensor)
        return whole if whole.numel() > tensor.numel() else None

    def _note(
        self,
        name: str,
        arguments: list[Any],
        operands: list[TraceOperand],
        results: list[torch.Tensor],
        updated: list[torch.Tensor],
    ) -> None:
        partly = any(operand.name == "into" for operand in operands)
        if name in ("_to_copy", "copy") and not partly and _widens(operands[-1].tensor, results[0]):
            self._where()
            source = operands[-1].tensor
            copied = name == "copy" or not arguments or source.dtype == results[0].dtype
            self._is(results[0], operands[-1].value, fresh=source if copied else None)
            return
        attributes = attributes_of(arguments)
        numbers = [
            operand
            for operand in operands
            if operand.value.node is None and operand.tensor.numel() == 1 and not operand.value.label
        ]
        if len(numbers) < len(operands):  # a number, whether it came as one or as a tensor
            attributes.update({number.name: number.tensor.item() for number in numbers})
            operands = [operand for operand in operands if operand not in numbers]
        moves = name in MOVES
        if name in CREATES or _is_constant(operands, results):
            site, layer, backward = (call_site(self._until), "", False) if backward_node() is None else self._where()
            key = Key(name, site, layer, backward, 0)
            maker = TraceCall(-1, key, name, attributes, operands, site, layer, moves, view=False, backward=backward)
            maker.results = [self._constant(tensor, described(name, attributes)) for tensor in results]
            for value in maker.results:
                value.maker = maker
            return
        site, layer, backward = self._where()
        shared = {_address(tensor) for _, value, _ in arguments for tensor in tensors_in(value)}
        view = any(_address(tensor) in shared for tensor in results)
        key = self._key(name, site, layer, backward)
        self._count[key[:-1]] += 1
        node = TraceCall(len(self.trace.nodes), key, name, attributes, operands, site, layer, moves, view, backward, self.api)
        forced = self._forced.get(key, self.held.get(key))
        if forced is not None:
            for tensor, wanted in zip([*results, *updated], forced):
                if wanted is not None:
                    self._overwrite(tensor, wanted, again=view)
        elif self._touch is not None and not moves and (results[0].is_floating_point() or results[0].is_complex()):
            self._touch(node, results[0])
        self._read(node)
        for tensor in results:
            node.results.append(self._new(tensor, Value(tensor, node)))
        for tensor in updated:
            node.updated.append(self._new(tensor, Value(tensor.clone(), node)))  # a model's state is put back behind a run

    def _read(self, node: TraceCall) -> None:
        """Write down a call, and that it reads its operands."""
        self.trace.nodes.append(node)
        if all(self._is_of_numbers(operand.value) for operand in node.operands):
            self._of_numbers.add(node)
        for operand in node.operands:
            if node not in operand.value.readers:
                operand.value.readers.append(node)

    def _where(self) -> tuple[CallSite, str, bool]:
        """The line and layer of a call; a backward call has those of the call whose gradient it computes.

        What the program's own backward calls (a PyLayer's, a hook) has its line, and no layer.
        """
        behind = backward_node()
        if behind is None:
            place = call_site(self._until), self._layer()
            self._remember(place)
            return (*place, False)
        in_backward = _site_in_backward()
        if in_backward is not None:
            return in_backward, "", True
        return (*(self._places.get(behind._sequence_nr()) or (call_site(self._until), "")), True)

    def _remember(self, place: tuple[CallSite, str]) -> None:
        """Keep the place of a call for its backward; one that makes no node of the graph comes behind another's."""
        self._places.setdefault(last_node_number(), place)

    def _value(self, tensor: torch.Tensor) -> Value:
        """The value of a tensor: by its identity, else by its place in memory."""
        known = self._known.get(id(tensor))
        if known is not None:
            return known
        for value in reversed(self._memory.get(_address(tensor), ())):
            if _place(value.tensor) == _place(tensor) or _in_another_shape(value.tensor, tensor):
                return self._is(tensor, value)
        copied = self._copies.get(_place(tensor))
        if copied is not None and _equal(copied[1].to(tensor.dtype), tensor):  # no kernel of Paddle has written there since
            return self._is(tensor, copied[0])
        place = _place(tensor)
        moved = self._moved.pop(place, None)
        if moved is not None:
            source = self._value(moved) if _equal(moved, tensor) else None  # memory that is used again may lead back to this place
            self._moved[place] = moved
            if source is not None:
                self._ways[id(tensor)] = self._ways.get(id(moved), ())
                return self._is(tensor, source)
        return self._constant(tensor, self._names.get(tensor.data_ptr(), ""))

    @contextlib.contextmanager
    def writing(self, name: str, target: torch.Tensor, others: Sequence[torch.Tensor]) -> Iterator[None]:
        """Within it a kernel of Paddle's may write a tensor: a call as if Torch's had, if none of Torch's does."""
        value, before = self._value(target), target.detach().clone()
        sides = [self._operand("self", target), *(self._operand("values", tensor) for tensor in others)]
        yield
        if self._value(target) is not value or _equal(before, target):
            return
        written = target.detach().clone()
        with without_modes():
            target.copy_(before)
            operands, wholes = self._before_write(name, sides, [target])
            target.copy_(written)
        self._note(name, [], operands, [*wholes, target], [])

    def moved(self, tensor: torch.Tensor, like: torch.Tensor) -> None:
        """See :class:`LooksOn`."""
        self._moved[_place(tensor)] = like

    def write_down(self, name: str, operands: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        """A call that Torch's kernels did not answer, as if they had; but for results that lie where a known value lies."""
        beside = [tensor for tensor in results if not self._is_made(tensor, operands)]
        if beside:
            sides = [self._operand(f"operand {place + 1}", tensor) for place, tensor in enumerate(operands)]
            floats = any(tensor.is_floating_point() or tensor.is_complex() for tensor in beside)
            if not floats and all(self._is_of_numbers(side.value) for side in sides):
                return  # a mask of a table: a constant
            parts = {_address(tensor) for tensor in operands}
            for tensor in beside:
                if _address(tensor) not in parts:
                    self._come_of_nothing(tensor)
            self._note(name, [], sides, beside, [])

    def _is_of_numbers(self, value: Value) -> bool:
        """Whether neither an input nor a weight has a part in a value."""
        return value.label not in self._labels if value.node is None else value.node in self._of_numbers

    def _is_made(self, tensor: torch.Tensor, operands: Sequence[torch.Tensor]) -> bool:
        """Whether a written call made what lies there, or an operand holds it; a part of one (the real numbers) is made now."""
        values = self._memory.get(_address(tensor), ())
        holding = [operand for operand in operands if _address(operand) == _address(tensor)]
        if holding and all(_count(operand) > _count(tensor) for operand in holding):
            return any(_place(value.tensor) == _place(tensor) for value in values)
        return bool(holding) or any(value.node is not None for value in values)

    def _come_of_nothing(self, tensor: torch.Tensor) -> None:
        """Forget that a tensor was met before the call that made it."""
        values = self._memory.pop(_address(tensor), [])
        for place, constant in enumerate(self.trace.constants):
            if any(constant is value for value in values):  # its number stays taken
                self.trace.constants[place] = Value(torch.empty(0), None, "")
        for known in self._objects.get(_address(tensor), ()):
            self._known.pop(id(known), None)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for known in (self._known, self._ways, self._memory, self._moved, self._copies, self._before_calls, self._objects):
            known.clear()  # what the trace does not hold is the program's again

    def _constant(self, tensor: torch.Tensor, label: str) -> Value:
        self._exchange_table(tensor)
        alias = tensor.detach()
        value = self._new(tensor, Value(alias if _address(tensor) in self.unwritten else alias.clone(), None, label))
        self.trace.constants.append(value)
        return value

    def _new(self, tensor: torch.Tensor, value: Value) -> Value:
        self._memory.setdefault(_address(tensor), []).append(value)
        return self._is(tensor, value)

    def _is(self, tensor: torch.Tensor, value: Value, *, fresh: torch.Tensor | None = None) -> Value:
        if fresh is not None:  # a copy of it: other memory, which may be written
            self._memory.setdefault(_address(tensor), []).append(value)
            self._copies[_place(tensor)] = value, fresh
        self._known[id(tensor)] = value
        self._objects.setdefault(_address(tensor), []).append(tensor)
        return value

    def _keep(self, tensor: torch.Tensor) -> None:
        """``tensor`` is about to be written: keep the values in its memory as they are now."""
        address = _address(tensor)
        values = self._memory.pop(address, [])
        values += [self._known.pop(id(other)) for other in self._objects.get(address, ()) if id(other) in self._known]
        for value in values:
            if _address(value.tensor) == address:
                value.tensor = value.tensor.clone()


def backward_node() -> Any:
    """The node of Torch's graph whose gradient is computed; None in a forward, also in one that a backward makes once more."""
    behind = current_node()
    return None if behind is not None and torch.is_grad_enabled() and _site_in_backward() is not None else behind


def _site_in_backward() -> CallSite | None:
    """The program's line that runs within the innermost backward, if there is one; with gradients on it is a checkpoint's."""
    frame = sys._getframe(2)
    while frame is not None and (code := frame.f_code).co_name not in _BACKWARDS:
        if not is_library(code.co_filename):
            return CallSite(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return None


_BACKWARDS = frozenset({"_engine_run_backward", "run_backward"})  # of torch.autograd, and of older versions


def _like(value: Any, wanted: Any) -> Any:
    """An attribute in the form of the call's own: a number may be a tensor there."""
    as_tensor = isinstance(value, torch.Tensor) and not isinstance(wanted, torch.Tensor)
    return torch.full_like(value, wanted) if as_tensor else wanted


def _is_constant(operands: list[TraceOperand], results: list[torch.Tensor]) -> bool:
    """Whether a call makes numbers of no operand (``full``, ``arange``), or indices and masks of constants: it may run natively."""
    if operands and any(tensor.is_floating_point() or tensor.is_complex() for tensor in results):
        return False
    return all(operand.value.node is None for operand in operands)


def named_arguments(shape: Shape, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any, bool]]:
    """(name, value, whether it is written) of all arguments."""
    arguments = []
    for place, (name, default) in enumerate(shape.parameters):
        value = args[place] if place < len(args) else kwargs.get(name, default)
        arguments.append((name, value, shape.written[place]))
    return arguments


def sources(value: Value, *, made: bool = False) -> Iterator[Value]:
    """What was there before the first call, of which a value is made; ``made``: and of which calls have made constants."""
    waiting, seen = [value], set[TraceCall]()
    while waiting:
        source = waiting.pop()
        call = source.node or (source.maker if made else None)
        if call is None:
            yield source
        elif call not in seen:
            seen.add(call)
            waiting += [operand.value for operand in call.operands]


def attributes_of(arguments: Sequence[tuple[str, Any, bool]]) -> dict[str, Any]:
    """The arguments of a call that are no tensors, where they say something: no row of padding below 0, and not "unstable"."""
    return {
        name: value
        for name, value, _ in arguments
        if not tensors_in(value) and value is not None and name not in NO_ATTRIBUTES
        if (name != "padding_idx" or value >= 0) and (name != "stable" or value)
    }


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors of an argument or a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for item in value for tensor in tensors_in(item)] if isinstance(value, (list, tuple)) else []


def _count(tensor: torch.Tensor) -> int:
    """How many numbers it holds: a complex one is two."""
    return tensor.numel() * (2 if tensor.is_complex() else 1)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.is_conj(), tensor.is_neg()


def _in_another_shape(known: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether both are one piece of memory, row by row, of complex numbers or their parts: Paddle's ``reshape_`` is no kernel."""
    parts = [torch.view_as_real(side) if side.is_complex() and not side.is_conj() else side for side in (known, tensor)]
    memories = {(part.data_ptr(), part.dtype, part.numel()) for part in parts}
    return len(memories) == 1 and all(part.is_contiguous() for part in parts)


def _equal(known: torch.Tensor, tensor: torch.Tensor) -> bool:
    return known.device == tensor.device and torch.equal(known, tensor)


def _widens(source: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether a cast keeps every value, or a copy every element."""
    if source.shape != target.shape:
        return False
    return source.dtype == target.dtype or torch.promote_types(source.dtype, target.dtype) == target.dtype
