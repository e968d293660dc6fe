"""Where the bits of a port part from its original's: calls whose operands are equal bit for bit, and whose results are not.

Which values of both programs belong together is known from their runs in float64, where rounding hides nothing. Then the port runs
once more in its own dtype, and every value that has a partner is exchanged for the original's, bit for bit, as soon as it is made.
So every call gets the original's operands, and what it makes of them differently is its own doing, not carried there.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import torch

from ...measure.distance import distance
from ...text import tr
from ...trees import as_array
from ..match import Matching, made_of, wrong_calls
from ..trace import Key, Trace, TraceCall, Value
from .followed_runs import NumberedCapture, call_number, plain_layer
from .formulation import BACKWARD, FUSED, GROUPING, LAYOUT, NUMBERS, ROUNDING, TRAINING

Result = tuple[Key, int]  # a call of the port, and the place of its result
_NARROWED = frozenset({"_to_copy", "copy", "to"})
_ROOTS = frozenset({"mul", "div", "sqrt", "rsqrt", "reciprocal", "pow", "neg"})
_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm"})
_ADDING = frozenset({"scatter_add", "index_put", "_index_put_impl", "index_add", "embedding_dense_backward", "sum"})
GRADIENT_OF = "gradient of "  # begins the label of a gradient that an optimizer's step reads
_NEAR = 1e-6  # of the largest element: two values that belong together are this near in float64
_NEAR_SUMS = 0.1  # the same of a sum in the models' own dtype, which may have few digits, and of the sum in float64
_NEAR_ROWS = 1e-4  # the same of two rows in the models' own dtype


@dataclass(frozen=True)
class OperandLayout:
    """An operand of a call: its elements are equal bit for bit in both programs, its layout need not be.

    Attributes:
        name: of the parameter of Torch's kernel, with the kernel's name.
        shape, strides: in elements. ``dtype``: its name.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        contiguous = torch.empty_strided(self.shape, self.strides, device="meta").is_contiguous()
        return f"{self.name}: {self.dtype}{list(self.shape)}" + ("" if contiguous else f", strides {list(self.strides)}")


@dataclass(eq=False)
class OriginGroup:
    """The calls between equal operands and a result that differs, in both programs.

    Attributes:
        result: of the port. ``made``: what it is by itself. ``wanted``: the original's, in the port's arrangement.
        port, original: the calls of both, in order.
        laid: the calls of both that make an operand whose elements lie in another order in memory, or what such an operand is made
            of. ``readers``: the numbers of the Paddle calls that read these.
        tables: those calls of both that depend on no input and no parameter.
    """

    result: Result
    made: torch.Tensor
    wanted: torch.Tensor
    port: list[TraceCall]
    original: list[TraceCall]
    laid: tuple[list[TraceCall], list[TraceCall]]
    tables: tuple[list[TraceCall], ...]
    readers: set[int] = field(default_factory=set)

    @property
    def of_table(self) -> bool:
        """Whether it is a table that differs: the rest of both calls the same."""
        rest = [
            [call.name for call in calls if call not in tables and call.name not in _NARROWED]
            for calls, tables in zip((self.port, self.original), self.tables)
        ]
        return any(self.tables) and rest[0] == rest[1]

    @property
    def backward(self) -> bool:
        """Whether it is a gradient that differs."""
        return self.port[-1].backward or call_number(self.port[-1]) is None

    @property
    def is_of_equal_calls(self) -> bool:
        """Whether both programs call the same kernels there; in a backward, in any order."""
        names = [[call.name for call in calls if call.name not in _NARROWED] for calls in (self.port, self.original)]
        return names[0] == names[1] or (self.backward and sorted(names[0]) == sorted(names[1]))

    @functools.cached_property
    def sums_other_rows(self) -> bool:
        """Whether both end in a product that sums over the same rows in another order."""
        return bool(self.port and self.original) and _of_other_rows(self.port[-1], self.original[-1])

    @property
    def moved(self) -> tuple[list[TraceCall], list[TraceCall]]:
        """Of a backward that makes equal calls in another order: the calls of both that stand elsewhere; of a product that sums
        over the same rows in another order: those that say which rows are taken; nothing of any other."""
        if self.sums_other_rows:
            return _taking_rows(self.port[-1]), _taking_rows(self.original[-1])
        port, original = ([call.name for call in calls] for calls in (self.port, self.original))
        if not self.backward or port == original or sorted(port) != sorted(original):
            return [], []
        same = difflib.SequenceMatcher(None, port, original, autojunk=False).get_matching_blocks()
        staying = [{block[side] + step for block in same for step in range(block.size)} for side in (0, 1)]
        first, second = (
            [call for place, call in enumerate(calls) if place not in places]
            for calls, places in zip((self.port, self.original), staying)
        )
        return first, second

    @property
    def calls(self) -> set[int]:
        """The numbers of the Paddle calls that they belong to."""
        return {number for number in map(call_number, self.port) if number is not None}


class Partners:
    """Which values of a port's run have which partner of the original's, in the models' own dtype.

    Args:
        original: the original's run.
        port: the port's, and by which keys a plain capture names its calls.
        wide: both runs in float64, and which of their values are the same.
        held: labels of the tables of both that were there before.
    """

    def __init__(
        self, original: Trace, port: NumberedCapture, wide: tuple[Trace, Trace, Matching], held: Sequence[Set[str]]
    ) -> None:
        first, second, matching = wide
        self.trace = port.trace
        self._tables = _of_constants(original, held[0]) | _of_constants(port.trace, held[1])
        self._wide_of_original = _classes(original, {node.key: node for node in original.nodes}, first)
        self._wide_of_port = _classes(port.trace, port.plain, second)
        by_class: dict[Value, list[Value]] = defaultdict(list)
        for value, twin in self._wide_of_original.items():
            by_class[twin].append(value)
        self.of_port: dict[Value, Value] = {}
        self.wanted: dict[Value, torch.Tensor] = {}
        for value in port.trace.values():
            wide_value = self._wide_of_port.get(value)
            partner = None if wide_value is None else matching.of_second.get(wide_value)
            if wide_value is None or partner is None or not value.tensor.is_floating_point():
                continue
            for candidate in (*self._beside(value), *by_class.get(partner, ())):
                if _are_of_one_kind(candidate, value):
                    tensors = (candidate.tensor, self._wide_of_original[candidate].tensor, wide_value.tensor, value.tensor)
                    laid = arranged(*(tensor.detach() for tensor in tensors))
                    if laid is not None:
                        self.of_port[value], self.wanted[value] = candidate, laid
                        break
        self._pair_tables_of_more_rows(original)
        self.of_original = {partner: value for value, partner in reversed(self.of_port.items())}

    def _pair_tables_of_more_rows(self, original: Trace) -> None:
        """Tables that the port makes for each row of a batch, and the original once: their numbers are the same."""
        once = [value for value in original.values() if value.node in self._tables and value.tensor.shape[:1] == (1,)]
        for value in self.trace.values():
            alike = [] if value.node not in self._tables or value in self.of_port else once
            for other in alike:
                held, rows = other.tensor, value.tensor
                if held.dtype is rows.dtype and held.shape[1:] == rows.shape[1:] and torch.equal(held.expand_as(rows), rows):
                    self.of_port[value], self.wanted[value] = other, held.expand_as(rows)
                    break

    def _beside(self, value: Value) -> list[Value]:
        """What the original's call gives in a value's place that gives the partner of another of its call's results: two layers
        whose results are added have equal gradients of their biases."""
        results = [] if value.node is None else value.node.values
        maker = next((self.of_port[other].node for other in results if other in self.of_port), None)
        beside = [] if maker is None or len(maker.values) != len(results) else [maker.values[results.index(value)]]
        return [other for other in beside if other in self._wide_of_original]

    def forced(self) -> dict[Key, list[torch.Tensor | None]]:
        """For each call that rounds, what its results shall be."""
        forced: dict[Key, list[torch.Tensor | None]] = {}
        for node in self.trace.nodes:
            if node.view or (node.moves and not self._is_followed(node)):
                continue
            wanted = [self.wanted.get(value) for value in node.values]
            if any(tensor is not None for tensor in wanted):
                forced[node.key] = wanted
        return forced

    def _is_followed(self, node: TraceCall) -> bool:
        """Whether what moves elements may make other bits than its counterpart: it rounds, adds up, or moves what has none."""
        values = [operand.value for operand in node.operands]
        unknown = any(value.node is not None and value not in self.of_port for value in values)
        return node.name in _NARROWED or bool(node.attributes.get("accumulate")) or unknown

    def group(self, result: Result, made: torch.Tensor) -> OriginGroup:
        """The calls behind a result that differs."""
        nodes = {node.key: node for node in self.trace.nodes}
        value = nodes[result[0]].values[result[1]]
        partner = self.of_port[value]
        port = wrong_calls([value], lambda other: other is not value and other in self.of_port)
        original = wrong_calls([partner], lambda other: other is not partner and other in self.of_original)
        tables = tuple([call for call in calls if call in self._tables] for calls in (port, original))
        *laid, readers = self._laid(port)
        return OriginGroup(result, made, self.wanted[value], port, original, (laid[0], laid[1]), tables, readers)

    def _laid(self, calls: Sequence[TraceCall]) -> tuple[list[TraceCall], list[TraceCall], set[int]]:
        """The forward calls of both that lay out an operand of these calls differently, and the numbers of those that read them.

        A call's result, or gradient, lies as its operands do: so those are followed, too.
        """
        port, original, readers = list[TraceCall](), list[TraceCall](), set[int]()
        waiting = [operand.value for call in calls for operand in call.operands]
        seen = {value for call in calls for value in call.values}
        while waiting:
            value = waiting.pop(0)
            maker, partner = value.node, self.of_port.get(value)
            if value in seen or maker is None or partner is None or partner.node is None:
                continue
            seen.add(value)
            if _steps(self.wanted[value]) == _steps(value.tensor):
                continue
            if not maker.backward:
                port.append(maker)
                original.append(partner.node)
            for own, other in zip(maker.operands, partner.node.operands):
                if own.tensor.shape == other.tensor.shape and _steps(own.tensor) != _steps(other.tensor):
                    readers |= {number for number in [call_number(maker)] if number is not None}
                    waiting.append(own.value)
        return port, original, readers


def _of_constants(trace: Trace, held: Set[str]) -> set[TraceCall]:
    """The forward calls that depend on constants alone, ``held`` by the model or not: on no input, and no parameter."""
    return made_of(
        trace, lambda value: not value.label or "(" in value.label or value.label in held, lambda call: not call.backward
    )


def _classes(narrow: Trace, keyed: Mapping[Key, TraceCall], wide: Trace) -> dict[Value, Value]:
    """For each value of a run in the models' dtype the one of the run in float64 that it is, up to rounding."""
    wide_nodes = {node.key: node for node in wide.nodes}
    classes: dict[Value, Value] = {}
    keys, sums = {node: key for key, node in keyed.items()}, defaultdict[str, list[TraceCall]](list)
    for node in wide.nodes:
        if node.name == "add" and node.backward:
            sums[plain_layer(node)].append(node)
    if [value.label for value in narrow.constants] == [value.label for value in wide.constants]:
        classes.update(zip(narrow.constants, wide.constants))
    else:
        labelled = _counted(wide.constants)
        classes.update((value, labelled[label]) for label, value in _counted(narrow.constants).items() if label in labelled)
    for node in narrow.nodes:
        twin = wide_nodes.get(keys.get(node, node.key))
        if node.name in _NARROWED and len(node.results) == 1 and node.operands:
            source = classes.get(node.operands[-1].value)
            if source is not None and source.count == node.result.count:
                classes[node.result] = source
                continue
        key = keys.get(node, node.key)
        if key in wide.parted:
            classes[node.result] = wide.parted[key]
        if node.name == "add" and node.backward:  # gradients may be added up before a cast, or behind it
            alike = [
                (apart, other) for other in sums[plain_layer(node)] if (apart := _apart(node.result, other.result)) < _NEAR_SUMS
            ]
            twin = min(alike, key=lambda pair: pair[0])[1] if alike else None
        if twin is None or len(twin.values) != len(node.values) or twin.backward is not node.backward:
            continue
        if _gradients_read(node) == _gradients_read(twin):  # clipping may take them in another order in another dtype
            classes.update((value, other) for value, other in zip(node.values, twin.values) if value.count == other.count)
    return classes


def _apart(value: Value, wide: Value) -> float:
    """How far a sum is from another, as a part of the largest element."""
    if value.count != wide.count or not value.count:
        return math.inf
    narrow, expected = (as_array(each.tensor.detach().double().reshape(-1)) for each in (value, wide))
    between = distance(narrow, expected)
    return between.max_abs / (between.scale or 1.0)


def _gradients_read(node: TraceCall) -> set[str]:
    """The labels of the gradients that a call of an optimizer's step reads, as they are or moved."""
    return {label for label in labels_read(node) if label.startswith(GRADIENT_OF)}


def labels_read(node: TraceCall) -> set[str]:
    """The labels of what was there before that a call reads, as it is or moved."""
    labels = set[str]()
    for operand in node.operands:
        maker = operand.value.node
        if maker is None:
            labels.add(operand.value.label)
        elif maker.moves:
            labels |= labels_read(maker)
    return labels


def _counted(constants: Sequence[Value]) -> dict[tuple[str, int], Value]:
    """What was there before by its label, and how often that stood before: a gradient that was written is another value."""
    counts: Counter[str] = Counter()
    labelled = {}
    for value in constants:
        if value.label:
            labelled[value.label, counts[value.label]] = value
            counts[value.label] += 1
    return labelled


def _are_of_one_kind(value: Value, other: Value) -> bool:
    backward = [side.node is not None and side.node.backward for side in (value, other)]
    return value.count == other.count and value.tensor.dtype == other.tensor.dtype and backward[0] is backward[1]


def arranged(
    source: torch.Tensor, wide_source: torch.Tensor, wide_target: torch.Tensor, target: torch.Tensor, apart: float = _NEAR
) -> torch.Tensor | None:
    """The original's value in the order of the port's; None if no order of axes makes them one, up to a part of the largest."""
    if source.shape != wide_source.shape or target.shape != wide_target.shape:
        return None
    largest = float(wide_source.abs().nan_to_num(0.0, 0.0, 0.0).max()) if wide_source.numel() else 0.0

    def near(tensor: torch.Tensor, other: torch.Tensor) -> bool:
        return bool(torch.allclose(tensor.double(), other.double(), 0.0, apart * largest, equal_nan=True))

    flat = wide_target.reshape(-1)
    if near(wide_source.reshape(-1), flat):
        return source.reshape(target.shape)
    for order in itertools.permutations(range(source.dim())):
        if near(wide_source.permute(order).reshape(-1), flat):
            return source.permute(order).reshape(target.shape)
    flat = wide_source.reshape(-1)
    for order in itertools.permutations(range(target.dim())):
        turned = wide_target.permute(order)
        if near(turned.reshape(-1), flat):
            return source.reshape(turned.shape).permute([order.index(axis) for axis in range(target.dim())])
    return None


def _steps(tensor: torch.Tensor) -> list[int]:
    """The strides of the axes that have several places."""
    return [stride for stride, length in zip(tensor.stride(), tensor.shape) if length > 1]


def _of_other_rows(port: TraceCall, original: TraceCall) -> bool:
    """Whether both are a product that sums over the same rows in another order."""
    if not port.name == original.name == "mm":
        return False
    sides = [[operand.tensor.detach().double() for operand in call.operands] for call in (port, original)]
    rows, others = (torch.cat([left.T, right], 1) for left, right in sides)
    if rows.shape != others.shape or not rows.numel():
        return False
    weights, apart = torch.linspace(1, 2, rows.shape[1], dtype=rows.dtype), _NEAR_ROWS * float(rows.abs().max())
    in_order = [side[(side @ weights).argsort()] for side in (rows, others)]
    return torch.allclose(*in_order, 0.0, apart) and not torch.allclose(rows, others, 0.0, apart)


def _taking_rows(product: TraceCall) -> list[TraceCall]:
    """The call that makes the numbers of the rows that a product reads; that which takes them, where these were there before."""
    waiting, seen = [operand.value for operand in product.operands], set[TraceCall]()
    for value in waiting:
        maker = value.node
        if maker is None or maker in seen:
            continue
        seen.add(maker)
        numbers = [operand.value.node for operand in maker.operands if not operand.tensor.is_floating_point()]
        if numbers and not maker.backward:
            taking = numbers[0] or maker
            while taking.moves and (before := taking.operands[0].value.node) is not None:
                taking = before
            return [taking]
        waiting += [operand.value for operand in maker.operands]
    return []


def layouts(calls: Sequence[TraceCall]) -> tuple[OperandLayout, ...]:
    """The operands of the first calls of a group."""
    inside = {value for call in calls for value in call.values}
    return tuple(
        OperandLayout(
            f"{call.name}.{operand.name}",
            tuple(operand.tensor.shape),
            tuple(operand.tensor.stride()),
            str(operand.tensor.dtype).rpartition(".")[2],
        )
        for call in calls
        for operand in call.operands
        if operand.value not in inside
    )


def cause_of(group: OriginGroup) -> tuple[str, str, str]:
    """Cause, name and reason of an origin."""
    port, original = ([call for call in calls if call.backward is calls[-1].backward] for calls in (group.port, group.original))
    names = [[call.name for call in calls] for calls in (port, original)]
    special = _of_training(port, original) or _of_rows(group) or (_of_table(group) if group.of_table else None)
    if special is not None:
        return special
    moved = {call.name for calls in group.moved for call in calls}
    if port[-1].backward and sorted(names[0]) == sorted(names[1]) and (moved or {"add"}) == {"add"} <= set(names[0]):
        return BACKWARD, tr("sum of gradients"), tr("the gradients of a tensor's readers are added up in another order")
    if port[-1].backward and _ADDING.issuperset((*names[0], *names[1])):
        why = tr("the gradients of elements that were chosen several times are added up by another kernel, in another order")
        return BACKWARD, tr("gradients of chosen elements"), why
    if names[0] == names[1]:
        return _of_equal_calls(port, original)
    if port[-1].backward and sorted(names[0]) == sorted(names[1]):
        name = tr("order of {ops}", ops=", ".join(dict.fromkeys(map(_plain, names[1]))))
        return BACKWARD, name, tr("gradients are added up before the backward of other calls, or behind it")
    port_ops, original_ops = (", ".join(dict.fromkeys(map(_plain, side))) for side in names)
    written = tr("{original} against {port}", original=original_ops, port=port_ops)
    dtypes = [{call.result.tensor.dtype for call in calls} for calls in (port, original)]
    cause, why = _of_other_steps(*names, same_dtypes=dtypes[0] == dtypes[1])
    return cause, written, why


def _of_equal_calls(port: Sequence[TraceCall], original: Sequence[TraceCall]) -> tuple[str, str, str]:
    """The same where both call the same kernels in one order."""
    op = port[-1].name
    dtypes, shapes, strides = (
        [[getattr(operand, word) for operand in layouts(calls)] for calls in (port, original)]
        for word in ("dtype", "shape", "strides")
    )
    if dtypes[0] != dtypes[1]:
        return ROUNDING, tr("dtype of {op}", op=op), tr("an operand is rounded to another dtype before the call")
    exchanged = shapes[0] != shapes[1] and sorted(shapes[0]) == sorted(shapes[1])
    if strides[0] != strides[1] and not exchanged:
        why = tr("the kernel sums in another order for each layout of its operands")
        return LAYOUT, tr("operands of {op}", op=op), why
    attributes = [[call.attributes for call in calls] for calls in (port, original)]
    if len(port) > 1 and attributes[0] == attributes[1]:
        name = tr("order of {ops}", ops=", ".join(dict.fromkeys(_plain(call.name) for call in port)))
        return GROUPING, name, tr("the same steps in another order round other numbers")
    return NUMBERS, tr("attributes of {op}", op=op), tr("a number is made otherwise")


def _of_rows(group: OriginGroup) -> tuple[str, str, str] | None:
    """The same of a product that sums over the same rows in another order; None of anything else."""
    why = tr("it sums over the rows in the order in which they are taken, and they are taken in another one")
    return (GROUPING, tr("order of the rows of {op}", op=group.port[-1].name), why) if group.sums_other_rows else None


def _of_table(group: OriginGroup) -> tuple[str, str, str]:
    """The same of numbers that depend on no input."""
    port, original = (", ".join(dict.fromkeys(_plain(call.name) for call in calls)) or tr("a constant") for calls in group.tables)
    name = tr("table: {original} against {port}", original=original, port=port)
    name = tr("table that {op} reads", op=port) if port == original else name
    return NUMBERS, name, tr("numbers that depend on no input are made in other steps, in another dtype, or by other means")


def _of_training(port: Sequence[TraceCall], original: Sequence[TraceCall]) -> tuple[str, str, str] | None:
    """The same of gradients' global norm, and of a batch that one side alone computes in parts; None of anything else."""
    names = [{call.name for call in calls} for calls in (port, original)]
    if any({"linalg_vector_norm", "stack"} <= side for side in names) and not port[-1].backward:
        why = tr("squares are summed over all elements, or norms are rounded and squared again; a Linear's gradient is [out, in]")
        library = tr("{why}; paddle.nn.utils.clip_grad_norm_ makes Torch's bits", why=why)
        return TRAINING, tr("global norm of several gradients"), library if "stack" in names[1] else why
    fewer, more = sorted(([call for call in calls if call.name in _PRODUCTS] for calls in (port, original)), key=len)
    parts = len(more) // len(fewer) if fewer else 1
    if parts < 2 or len(more) % len(fewer):
        return None
    for place, whole in enumerate(fewer):
        some = more[place]
        if whole.operands[-1].tensor.shape != some.operands[-1].tensor.shape or whole.result.count != parts * some.result.count:
            return None
    why = tr("{parts} parts of a batch are computed one after the other, and rounded before they are added", parts=parts)
    return TRAINING, tr("micro-batches"), why


def _of_other_steps(port: list[str], original: list[str], *, same_dtypes: bool) -> tuple[str, str]:
    """Cause and reason where both call other kernels."""
    if not same_dtypes:
        return ROUNDING, tr("the calls compute in other dtypes, and round in other places")
    if sorted(map(_scaled, port)) == sorted(map(_scaled, original)):
        return ROUNDING, tr("the same steps in another order round other numbers")
    if _PRODUCTS.intersection((*port, *original)):
        return GROUPING, tr("a product sums in its own order, and rounds once where several steps round each")
    if _ROOTS.issuperset((*port, *original)):
        return ROUNDING, tr("quotients, powers and roots round at each step")
    if min(len(port), len(original)) == 1:
        return FUSED, tr("one call rounds once, several round each step")
    return GROUPING, tr("other steps are rounded")


def _scaled(name: str) -> str:
    """A kernel's name; one for both that multiply by a number."""
    return "mul" if name == "div" else name


def _plain(name: str) -> str:
    """A kernel's name as people say it."""
    return name.removeprefix("native_").removeprefix("_").removesuffix("_data").removesuffix("_backward")
