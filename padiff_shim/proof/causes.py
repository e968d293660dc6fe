"""What a port does differently: two regions of calls laid side by side, and the first difference named."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..dispatch.call_site import CallSite, is_library
from ..present.annotations import Patch
from ..text import joined, many, tr
from .arguments import TO_THE_END, equal_settings
from .findings import Cause
from .fixes import Remade
from .match import (
    BIASED,
    CallPair,
    Matching,
    Mend,
    align,
    call_in_its_place,
    depends_on,
    kind,
    leads_to,
    mend_for,
    mend_of_end,
    roots,
    same_results,
    value_taken_for,
    with_bias,
)
from .trace import Arranged, Key, TraceCall, TraceOperand, Value, sources

WRITTEN_OTHERWISE = (Cause.MISSING, Cause.EXTRA, Cause.OTHER_OP, Cause.UNKNOWN)  # causes of calls that are not the same


# ---- Operands in words: their names, where they come from, what they hold.

_ROLES = {
    "self": tr("the first operand"),
    "other": tr("the second operand"),
    "mat2": tr("the second operand"),
    "mat1": tr("the first operand"),
}


def role(operand: TraceOperand) -> str:
    return _ROLES.get(operand.name, operand.name)


def has_name(value: Value) -> bool:
    """Whether it is an input or a weight, which has a name of its own."""
    return value.node is None and bool(value.label) and "(" not in value.label


def swap_text(expected: Sequence[TraceOperand], another: TraceOperand, actual: Sequence[TraceOperand], other: TraceOperand) -> str:
    """Which of the port's operands is which of the original's; operands of a list share a name, and are counted."""
    port_role, original_role = role(other), role(another)
    if port_role != original_role:
        return tr("{port_role} is the original's {original_role}", port_role=port_role, original_role=original_role)
    number, place = _place(actual, other), _place(expected, another)
    return tr("item {number} of {port_role} is the original's item {place}", number=number, port_role=port_role, place=place)


def _place(operands: Sequence[TraceOperand], wanted: TraceOperand) -> int:
    return [operand for operand in operands if operand.name == wanted.name].index(wanted) + 1


def different_sources(operand: TraceOperand, other: TraceOperand) -> str:
    """Where an operand comes from on both sides, in as many words as tell them apart."""
    for described in (source_of, _exact_source_of):
        here, there = described(other.value), described(operand.value)
        if here != there:
            break
    return tr("{role} comes from {here}, in the original from {there}", role=role(other), here=here, there=there)


def extent(value: Value) -> str:
    elements = value.sorted
    shape = str(list(value.tensor.shape))
    if not elements.numel():
        return shape
    return tr("{shape} from {low:.4g} to {high:.4g}", shape=shape, low=elements[0].item(), high=elements[-1].item())


def source_of(value: Value) -> str:
    return value.label if value.node is None else tr("{name} (line {line})", name=value.node.function, line=value.node.site.line)


def _exact_source_of(value: Value) -> str:
    """The same with the layer, and the number of the result where there are several."""
    if value.node is None:
        return value.label
    text = source_of(value)
    if value.node.layer:
        text = tr(
            "{name} (line {line}, layer {layer})", name=value.node.function, line=value.node.site.line, layer=value.node.layer
        )
    several = len(value.node.results) > 1 and value in value.node.results
    return tr("result {number} of {source}", number=value.node.results.index(value) + 1, source=text) if several else text


# ---- Attributes of calls that stand for each other: which differ, and in which further calls the same differ.


def unlike_attributes(original: TraceCall, port: TraceCall) -> dict[str, Any]:
    """The original's attributes that the port's call does not have; None for an attribute of the port's call alone."""
    trains = any(call.attributes.get("training", True) for call in (original, port))
    idle = set() if trains else {"momentum"}  # of running statistics, which neither call writes
    names = sorted({*original.attributes, *port.attributes} - idle)
    pairs = ((name, original.attributes.get(name), port.attributes.get(name)) for name in names)
    apart = {name: (wanted, own) for name, wanted, own in pairs if not equal_settings(wanted, own)}
    return {name: wanted for name, (wanted, own) in apart.items() if name != "dim" or not _of_one_axis(original, port)}


def _of_one_axis(original: TraceCall, port: TraceCall) -> bool:
    """Whether two calls name the same axes, from the first or from the last."""
    # The axes are those of the first operand or result, whichever has more.
    firsts = [
        [*(operand.tensor for operand in call.operands[:1]), *(value.tensor for value in call.results[:1])]
        for call in (original, port)
    ]
    counts = {max((tensor.dim() for tensor in tensors), default=0) for tensors in firsts}
    dims = [call.attributes.get("dim") for call in (original, port)]
    if len(counts) > 1 or 0 in counts or not all(isinstance(dim, (int, list)) for dim in dims):
        return False
    (count,) = counts
    named = [[axis % count for axis in (dim if isinstance(dim, list) else [dim])] for dim in dims]  # type: ignore[operator]
    return named[0] == named[1]


def calls_alike(
    original: TraceCall, port: TraceCall, original_calls: Sequence[TraceCall], port_calls: Sequence[TraceCall]
) -> list[tuple[TraceCall, TraceCall]]:
    """All pairs of calls whose attributes differ as those of this pair do, this pair first: a setting of the whole model.

    This pair alone where the programs have such calls in different numbers or orders: the others may not stand for each other.
    Empty where the port's call cannot have the original's attributes: none differ, they are of another type, or the call only moves
    elements, whose places Paddle itself knows.
    """
    unlike = unlike_attributes(original, port)
    if (
        not unlike
        or port.backward
        or port.moves
        or any(type(wanted) is not type(port.attributes.get(name)) for name, wanted in unlike.items())
    ):
        return []
    calls = [[node for node in nodes if (node.name, node.backward) == (port.name, False)] for nodes in (original_calls, port_calls)]
    pairs = list(zip(*calls)) if len(calls[0]) == len(calls[1]) else []
    if not any(call is original and counterpart is port for call, counterpart in pairs):
        return [(original, port)]
    alike = [pair for pair in pairs if _differ_as(unlike, port, *pair)]
    return sorted(alike, key=lambda pair: pair[1] is not port)


def _differ_as(unlike: Mapping[str, Any], port: TraceCall, call: TraceCall, counterpart: TraceCall) -> bool:
    other = unlike_attributes(call, counterpart)
    return other.keys() == unlike.keys() and all(
        equal_settings(other[name], wanted) and equal_settings(counterpart.attributes.get(name), port.attributes.get(name))
        for name, wanted in unlike.items()
    )


# ---- What to write in a Paddle program, where no argument of a call tells it.

_DEFINITIONS = {
    "embedding": tr("leave padding_idx= out, or keep zeros in that row on both sides"),
}


def advice_on_definition(op: str) -> str:
    """What a Paddle program writes for Torch's definition of an op, in brackets; "" if that is not known.

    >>> advice_on_definition("embedding")
    ' (leave padding_idx= out, or keep zeros in that row on both sides)'
    """
    return f" ({_DEFINITIONS[op]})" if op in _DEFINITIONS else ""


# ---- What differs between two calls that stand for each other: attributes, operands, or how these lie.

_WEIGHTS = frozenset({"weight", "pos_weight"})  # of a loss
_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum"})


def difference_of(matching: Matching, original: TraceCall, port: TraceCall) -> tuple[Cause, str]:
    """What differs between two calls that stand for each other: the first answer of these functions."""
    for rule in (_of_kind, _of_indices, _of_parts, _of_names, _of_operands):
        if (difference := rule(matching, original, port)) is not None:
            return difference
    return Cause.UNKNOWN, tr("{port} gives other values than {original}", port=port, original=original)


def _is_constant(operand: TraceOperand) -> bool:
    return operand.value.node is None and not operand.value.label.startswith("input ")


def _powers(table: torch.Tensor) -> str:
    """The base of a table of falling powers from 1 on, as rotary positions have it; "" of any other table."""
    if table.is_complex():
        return ""
    numbers, count = table.detach().flatten().to(torch.float64), table.numel()
    if count < 3 or not bool((numbers > 0).all()) or abs(float(numbers[0]) - 1.0) > 1e-6:
        return ""
    steps = numbers.log().diff()
    base = float(torch.exp(-steps.mean() * count))
    return f"{base:.6g}" if base > 1.5 and bool((steps - steps.mean()).abs().max() < 1e-5) else ""


def _of_kind(matching: Matching, original: TraceCall, port: TraceCall) -> tuple[Cause, str] | None:
    """Two ops of different kinds, or the tables that they read."""
    if kind(original) == kind(port):
        return None
    read = ([side for side in node.operands if _is_constant(side) and side.value.count > 1] for node in (original, port))
    for expected, actual in itertools.product(*read):
        if comparable(expected, actual) and not (expected.value in matching.of_first or matching.is_matched(actual.value)):
            return values_differ(expected, actual)
    return Cause.OTHER_OP, tr("{port} in place of {original}", port=port, original=original)


def _of_indices(matching: Matching, original: TraceCall, port: TraceCall) -> tuple[Cause, str] | None:
    """Different indices or masks."""
    if original.name == port.name == "scatter" and len(original.operands) != len(port.operands):
        return (
            Cause.UNKNOWN,
            tr("{port} in place of {original}", port=port, original=original),
        )  # one writes a number, the other rows: they need not stand for each other
    turned = _turned(original, port)
    for expected, actual in zip(filter(_is_index, original.operands), filter(_is_index, port.operands)):
        meant = expected
        if kind(original) == "masked" and (turned or original.name != port.name):
            meant = _as_meant(expected, actual, turned)
        if turned is not None and expected.tensor.dtype is torch.bool is actual.tensor.dtype:
            if not _equal_masks(meant, actual):
                return values_differ(meant, actual)
        elif not matching.same(expected.value, actual.value) and not _complementary(expected, actual):
            if all(map(has_name, (expected.value, actual.value))) and matching.is_matched(actual.value):
                return Cause.OPERAND, different_sources(expected, actual)
            return values_differ(meant, actual)
    return None


def _of_parts(matching: Matching, original: TraceCall, port: TraceCall) -> tuple[Cause, str] | None:
    """Parts of one value that is arranged otherwise."""
    arranged = _arranged(matching, CallPair(original, port)) if original.moves and original.name == port.name else None
    return None if arranged is None or len(original.operands) > 1 else arrangement_differs(*arranged)


def _of_names(matching: Matching, original: TraceCall, port: TraceCall) -> tuple[Cause, str] | None:
    """Two ops that mask, or one op with different attributes."""
    if original.name != port.name:
        return (
            (Cause.OTHER_OP, tr("{port} in place of {original}", port=port, original=original))
            if kind(original) == "masked"
            else None
        )
    if number := _number(original, port):
        return Cause.OPERAND, number
    attributes = [
        tr("{name}={own} against {other}", name=name, own=own, other=other)
        for name, wanted in unlike_attributes(original, port).items()
        for own, other in [_told_apart(port.attributes.get(name), wanted)]
    ]
    return (Cause.ATTRIBUTE, joined(", ", attributes)) if attributes else None


def _of_operands(matching: Matching, original: TraceCall, port: TraceCall) -> tuple[Cause, str] | None:
    """Different operands, more or fewer of them, or the same in another arrangement."""
    expected, actual, biased = _factors(original, port)
    if port.name in _COMMUTATIVE and len(expected) == len(actual) == 2 and port.attributes.get("alpha", 1) == 1:
        straight, turned = (
            sum(matching.same(a.value, b.value) for a, b in zip(expected, other)) for other in (actual, actual[::-1])
        )
        actual = actual[::-1] if turned > straight else actual
    for operand, other in zip(expected, actual):
        if (difference := _of_operand(matching, operand, other, expected, actual)) is not None:
            return difference
    if biased:
        return Cause.OPERAND, biased
    if len(expected) != len(actual):
        left, more = (
            {operand.name for operand in side} - {operand.name for operand in other}
            for side, other in ((expected, actual), (actual, expected))
        )
        if left <= _WEIGHTS >= more:
            names = joined(" and ", (f"{name}=" for name in sorted(left or more)))
            return Cause.OPERAND, (
                tr("the original takes {names}, the port does not", names=names)
                if left
                else tr("the port takes {names}, the original does not", names=names)
            )
        missing = left | more
        operands, names = many(len(actual), "operand"), ", ".join(sorted(missing))
        text = tr("{operands} against {wanted}", operands=operands, wanted=len(expected))
        return Cause.OPERAND, joined("", (text, f" ({names})" if names else ""))
    for operand, other in zip(expected, actual):
        if operand.tensor.shape != other.tensor.shape or not matching.in_order(operand.value, operand.tensor, other.tensor):
            return arrangement_differs(operand, other)
    return None


def _of_operand(
    matching: Matching, original: TraceOperand, other: TraceOperand, expected: list[TraceOperand], actual: list[TraceOperand]
) -> tuple[Cause, str] | None:
    """Two operands with different values; None also where the calls that made them explain it."""
    if matching.same(original.value, other.value):
        return None
    exchanged = next(
        (operand for operand in expected if operand is not original and matching.same(operand.value, other.value)), None
    )
    if exchanged is not None:
        return Cause.SWAPPED, swap_text(expected, exchanged, actual, other)
    here, there = original.value.node, other.value.node
    named = all(value.node is not None or has_name(value) for value in (original.value, other.value))
    if named and matching.is_matched(other.value):
        if here is not None and there is not None:  # whether they show themselves why they made different values
            explained = takes_others(matching, here, there) or _joins_otherwise(matching, here, there)
            if explained or _is_same_of_constants(here, there):
                return difference_of(matching, here, there)
        return Cause.WEIGHT if here is None is there else Cause.OPERAND, different_sources(original, other)
    return values_differ(original, other) if there is None or here is None else None


def _factors(original: TraceCall, port: TraceCall) -> tuple[list[TraceOperand], list[TraceOperand], str]:
    """The operands of two calls, without the bias of a product where the other has none, and a word on that bias."""
    if kind(original) != "product" or (original.name in BIASED) is (port.name in BIASED):
        return original.operands, port.operands, ""
    product, other = (port, original) if original.name in BIASED else (original, port)
    bias, *factors = other.operands
    expected, actual = (factors, product.operands) if other is original else (product.operands, factors)
    if with_bias(product, other) is not product or len(expected) != len(actual):
        return expected, actual, ""
    term = tr("the bias ({source})", source=source_of(bias.value))
    if other is original:
        return expected, actual, tr("the original adds {term}, the port does not", term=term)
    return expected, actual, tr("the port adds {term}, the original does not", term=term)


def _number(original: TraceCall, port: TraceCall) -> str:
    """Where one call has a number, and the other a tensor; "" if neither has."""
    for call, other in ((original, port), (port, original)):
        for operand in other.operands:
            if operand.name in call.attributes:
                words = (
                    tr("is {value}", value=_shown(call.attributes[operand.name])),
                    tr("comes from {source}", source=source_of(operand.value)),
                )
                here, there = words if call is port else words[::-1]
                return tr("{role} {here}, in the original it {there}", role=role(operand), here=here, there=there)
    return ""


def _is_same_of_constants(call: TraceCall, other: TraceCall) -> bool:
    """Whether two calls are the same of different constants: a mask the other way round, whose complement is in both programs."""
    operands = [two.value for node in (call, other) for two in node.operands]
    same = kind(call) == kind(other) and call.attributes == other.attributes
    return same and all(value.node is None and not has_name(value) for value in operands)


def takes_others(matching: Matching, call: TraceCall, other: TraceCall) -> bool:
    """Whether two calls take different elements out of the same operands: another layer's state, another part, or arrangement."""
    alike = call.name == other.name and call.moves and len(call.operands) == len(other.operands)
    if not alike or not (unlike_attributes(call, other) or _arranged(matching, CallPair(call, other))):
        return False
    return all(matching.same(operand.value, partner.value) for operand, partner in zip(call.operands, other.operands))


def _joins_otherwise(matching: Matching, call: TraceCall, other: TraceCall) -> bool:
    """Whether two calls join the same tensors in another order."""
    if not (call.name == other.name and call.moves and 1 < len(call.operands) == len(other.operands)):
        return False
    return all(any(matching.same(operand.value, partner.value) for operand in call.operands) for partner in other.operands)


def _is_index(operand: TraceOperand) -> bool:
    """Indices, lengths, masks: a mistake in them explains more than an attribute."""
    return operand.value.node is None and not operand.tensor.is_floating_point()


def _complementary(operand: TraceOperand, other: TraceOperand) -> bool:
    """Whether two masks say the same, the other way round."""
    masks = operand.tensor.dtype is torch.bool is other.tensor.dtype
    return (
        masks
        and operand.tensor.numel() == other.tensor.numel()
        and bool((operand.tensor.flatten() != other.tensor.flatten()).all())
    )


def _turned(original: TraceCall, port: TraceCall) -> bool | None:
    """Whether one call masks what the other keeps; None if that does not show."""
    keeps = [_keeps(node) for node in (original, port)]
    if None not in keeps:
        return keeps[0] is not keeps[1]
    if not original.name == port.name == "where":
        return None
    expected, actual = ([_number_in(node, name) for name in ("self", "other")] for node in (original, port))
    if None in expected or expected[0] == expected[1]:
        return None
    return False if expected == actual else True if expected == actual[::-1] else None


def _number_in(node: TraceCall, name: str) -> float | None:
    """The one number that a call reads under a name; None if it reads several."""
    number = node.attributes.get(name, next((operand.tensor for operand in node.operands if operand.name == name), None))
    if isinstance(number, torch.Tensor):
        return number.flatten()[0].item() if number.numel() and bool((number == number.flatten()[0]).all()) else None
    return number


def _keeps(node: TraceCall) -> bool | None:
    """Whether a call keeps what its mask holds, with a constant elsewhere, or the other way round; None: no constant, or two."""
    if node.name != "where":
        return False if node.name == "masked_fill" else None
    computed = {operand.name for operand in node.operands if operand.value.node is not None or has_name(operand.value)}
    return None if ("self" in computed) is ("other" in computed) else "self" in computed


def _equal_masks(mask: TraceOperand, other: TraceOperand) -> bool:
    try:
        return bool((mask.tensor == other.tensor).all())
    except RuntimeError:
        return False


def _as_meant(mask: TraceOperand, other: TraceOperand, turned: bool | None) -> TraceOperand:
    """A mask, or its complement if another op's is meant, or nearer to it: what is masked, or what is not."""
    if turned is False or not (mask.tensor.dtype is torch.bool is other.tensor.dtype):
        return mask
    if turned:
        return TraceOperand(mask.name, Value(mask.value.tensor.logical_not()), mask.tensor.logical_not(), mask.way)
    try:
        here, there = torch.broadcast_tensors(mask.tensor, other.tensor)
    except RuntimeError:
        return mask
    if 2 * int((here != there).sum()) <= here.numel():
        return mask
    return TraceOperand(mask.name, Value(mask.value.tensor.logical_not()), mask.tensor.logical_not(), mask.way)


def arrangement_differs(operand: TraceOperand, other: TraceOperand) -> tuple[Cause, str]:
    """The same elements in another order."""
    named = [side.value.node is None and not (side.value.label.startswith("input ") and side.way) for side in (operand, other)]
    if all(named) and operand.tensor.shape == other.tensor.shape:
        return values_differ(operand, other)
    here, there = (", ".join(map(str, side.way)) or str(list(side.tensor.shape)) for side in (other, operand))
    if here == there:
        return Cause.ORDER, tr("{role} holds the elements of the original's in another order", role=role(other))
    return Cause.ORDER, tr("{role} is arranged by {here}, in the original by {there}", role=role(other), here=here, there=there)


def values_differ(operand: TraceOperand, other: TraceOperand) -> tuple[Cause, str]:
    label = other.value.label or operand.value.label
    cause = Cause.WEIGHT if other.value.label and operand.value.label and "(" not in label else Cause.CONSTANT
    where = f" ({label})" if label else ""
    try:
        here, there = torch.broadcast_tensors(operand.tensor, other.tensor)
        apart = (here != there).nonzero()
    except RuntimeError:
        apart = torch.empty(0)
    if not len(apart):
        extents = [extent(side.value) for side in (other, operand)] if other.value.ends != operand.value.ends else ("", "")
        sides = ((words, list(side.tensor.shape), side.tensor.dtype) for words, side in zip(extents, (other, operand)))
        words = next((pair for pair in zip(*sides) if pair[0] != pair[1]), None)
        if words is None:
            return cause, tr("{role}{where} holds other values", role=role(other), where=where)
        return cause, tr(
            "{role}{where} is {actual} against {expected}", role=role(other), where=where, actual=words[0], expected=words[1]
        )
    first = tuple(apart[0].tolist())
    actual, expected = _told_apart(there[first].item(), here[first].item())
    place = f"[{', '.join(map(str, first))}]"
    shuffled = comparable(operand, other) and torch.equal(operand.value.sorted, other.value.sorted)
    order = tr("; they are the same in another order") if shuffled else ""
    bases = [_powers(side.tensor) for side in (other, operand)]
    if all(bases) and bases[0] != bases[1]:
        order = tr("; powers of base {own} against {other}", own=bases[0], other=bases[1])
    elements = many(here.numel(), "element differs", "elements differ")
    differing = tr("{count} of {elements}{order}", count=len(apart), elements=elements, order=order)
    return cause, tr(
        "{role}{where} holds {actual} at {place} against {expected} ({differing})",
        role=role(other),
        where=where,
        actual=actual,
        place=place,
        expected=expected,
        differing=differing,
    )


def _told_apart(value: Any, other: Any) -> tuple[str, str]:
    """Two values in as few digits as tell them apart."""
    texts = _shown(value), _shown(other)
    return texts if texts[0] != texts[1] else (repr(value), repr(other))


def _shown(value: Any) -> str:
    if isinstance(value, int) and value >= TO_THE_END:
        return tr("the end")
    return f"{value:g}" if isinstance(value, float) else repr(value)


def comparable(operand: TraceOperand, other: TraceOperand) -> bool:
    """Whether two operands may be the same: as many numbers of one kind."""
    kinds = {(tensor.numel(), tensor.is_floating_point(), tensor.is_complex()) for tensor in (operand.tensor, other.tensor)}
    return len(kinds) == 1


# ---- Calls of one program without counterpart in its place.


def reads_another_result(matching: Matching, alone: TraceCall, pairs: Sequence[CallPair]) -> tuple[Cause, str, CallPair] | None:
    """Where no call is missing, but the reader of a call's result reads another result.

    Either the result stands in no trace, for Paddle's kernels computed it (whole numbers, tables of no operand), or another call of
    that kind made it, and it is no operand of the missing call.
    """
    following = next((other for other in pairs if other.original and other.port), None)
    if following is None or following.original is None or following.port is None:
        return None
    for operand, other in zip(following.original.operands, following.port.operands):
        if operand.value.node is None or not comparable(operand, other) or matching.same(operand.value, other.value):
            continue
        if not depends_on(operand.value, alone):
            continue
        if other.value.node is None and not other.value.label:
            return (*values_differ(operand, other), following)
        if other.value.node is None or not matching.is_matched(other.value) or operand.value.node is not alone:
            continue
        fed = any(matching.same(two.value, other.value) for two in alone.operands)
        if kind(other.value.node) == kind(alone) and not fed:
            if takes_others(matching, alone, other.value.node) or _joins_otherwise(matching, alone, other.value.node):
                cause, text = difference_of(matching, alone, other.value.node)
                return cause, text, CallPair(alone, other.value.node) if cause is Cause.ORDER else following
            return Cause.OPERAND, different_sources(operand, other), following
    return None


def _other_table(matching: Matching, alone: TraceCall, pairs: Sequence[CallPair]) -> tuple[Cause, str, CallPair] | None:
    """Where a call has no counterpart, the table that it makes or reads, and the other program's of as many numbers, or a mask.

    A table of complex numbers is two, of cosines and of sines.
    """
    of_original = pairs[0].port is None
    reader = next((node for node in (pair.port if of_original else pair.original for pair in pairs) if node is not None), None)
    if reader is None or reader.backward or alone.backward:
        return None
    known = [matching.of_first, matching.of_second]
    read, other = (
        [side for side in node.operands if _is_constant(side) and side.value not in values]
        for node, values in zip((alone, reader), known if of_original else known[::-1])
    )
    of_numbers = not any(map(has_name, sources(alone.result, made=True)))
    made = [TraceOperand(alone.operands[0].name, alone.result, alone.result.tensor, ())] if of_numbers and alone.operands else []
    for sides in itertools.product([*made, *read], other):
        if all(has_name(side.value) and not side.tensor.is_complex() for side in sides):
            continue  # two weights
        alike = [two for two in (_in_one_shape(*halves) for halves in itertools.product(*map(_halves, sides))) if two is not None]
        if alike:
            here, there = min(alike, key=lambda two: float((two[0].tensor.double() - two[1].tensor.double()).abs().max()))
            words = values_differ(here, there) if of_original else values_differ(there, here)
            return (*words, CallPair(alone, reader) if of_original else CallPair(reader, alone))
    return None


def _halves(side: TraceOperand) -> list[TraceOperand]:
    """A table of real numbers itself, or of complex ones both parts."""
    tensors = torch.view_as_real(side.tensor).unbind(-1) if side.tensor.is_complex() else (side.tensor,)
    return [side._replace(value=Value(tensor, label=side.value.label), tensor=tensor) for tensor in tensors]


def _in_one_shape(side: TraceOperand, other: TraceOperand) -> tuple[TraceOperand, TraceOperand] | None:
    """Two tables of as many numbers; None of others, or of whole numbers."""
    if side.tensor.numel() > 1 and comparable(side, other) and side.tensor.is_floating_point():
        return side, other._replace(tensor=other.tensor.reshape(side.tensor.shape))
    return None


def is_counterpart(pair: CallPair, other: CallPair) -> bool:
    """Whether ``other`` is the same call that stands alone on the other side: op, attributes, shape and weights."""
    alone, candidate = (pair.original, other.port) if pair.port is None else (pair.port, other.original)
    if alone is None or candidate is None or (other.original and other.port):
        return False
    same = kind(alone) == kind(candidate) and alone.attributes == candidate.attributes and same_results(alone, candidate)
    return same and _weights(alone) == _weights(candidate)


def _weights(node: TraceCall) -> list[tuple[int, ...]]:
    return [tuple(operand.tensor.shape) for operand in node.operands if operand.value.node is None]


def missing_text(matching: Matching, alone: TraceCall, pairs: Sequence[CallPair]) -> str:
    """Which calls are missing: one, with those of its line that go on with its result."""
    calls = [alone]
    for pair in pairs[1:]:
        node = pair.original
        if node is None or pair.port is not None or node.moves or (node.site, node.layer) != (alone.site, alone.layer):
            continue
        if any(operand.value.node in calls for operand in node.operands):
            calls.append(node)
    shown = ", ".join(map(str, calls[:1] if alone.name == "bernoulli" else calls))  # a dropout's are one
    if alone.backward and any(_repeats(value, alone) and matching.same(alone.result, value) for value in matching.of_second):
        return tr("the original's backward makes {calls} once more, as a checkpoint does, the port's does not", calls=shown)
    if alone.backward:
        return tr("the original's backward calls {calls} here, the port's does not", calls=shown)
    return tr("the original calls {calls} here, the port does not", calls=shown)


def _repeats(value: Value, call: TraceCall) -> bool:
    """Whether a forward has made a value by such a call."""
    return value.node is not None and not value.node.backward and value.node.name == call.name


def reader_of_missing(matching: Matching, pair: CallPair, end: tuple[Value | None, Value | None]) -> TraceCall | None:
    """The port's call that stands for a missing call's readers: the last.

    In a backward the call to go back through; in one that the models write themselves the call that makes what it reads.
    """
    missing_call = pair.original
    if missing_call is None or not missing_call.backward:
        return end[1].node if end[1] is not None else None
    readers = [
        port
        for original, port in _forward_pairs(matching)
        if (original.site, original.layer) == (missing_call.site, missing_call.layer)
    ]
    read = (matching.of_first.get(operand.value) for operand in missing_call.operands)
    made = [value.node for value in read if value is not None and value.node is not None and value.node.backward]
    makers = [call for call in made if not is_library(call.site.file)]
    calls = readers or makers
    return calls[-1] if calls else pair.port


def _forward_pairs(matching: Matching) -> Iterator[tuple[TraceCall, TraceCall]]:
    """The calls of both forwards, the original's and the port's, that made values which are the same."""
    for value, partner in matching.of_first.items():
        if value.node and partner.node and not value.node.backward and not partner.node.backward:
            yield value.node, partner.node


GOES_ON = tr("a gradient goes back here, in the original it ends: write detach() or paddle.no_grad() as there")


# ---- The first difference of two regions of calls behind wrong values, laid side by side.

WINDOW = 40  # calls of each side


_OTHERWISE_GIVEN = (Cause.OPERAND, Cause.WEIGHT, Cause.SWAPPED, Cause.CONSTANT)


FORWARD, BACKWARD, STATISTICS = "forward", "backward", "statistics"  # parts of a run


@dataclass(frozen=True, eq=False)
class CallDifference:
    """The first place where the port does something else than the original.

    Attributes:
        cause, text: what differs, in one word and in a sentence.
        original, port: the two calls; one of them is None where it has no counterpart.
        mend: the port's call whose results have to be exchanged, and by what, for both to go on alike; None: there is no such call.
        sites: where both arrange the elements, if the arrangement differs.
        taken: the value that a call should read, and which of the original's values it reads instead.
        effect: how far outputs (or gradients) move when it is mended, in float64; None: not measured.
        setting: of an attribute that many calls have in common: the port's call in which it was seen first.
        part: where it shows: in the forward, in the backward, or in the running statistics alone.
        write, arguments: what to write at the call of Paddle's API, and the names of its arguments; ``spelled``: that call with
            these arguments as they are.
        rewrite: the change of the port's lines, or of what layers of its own hold, that mends it.
        attribute: the path of a layer's of the port that holds the other value; "" where none does.
        arranged: a value as the original has it, and as the port has it, if the arrangement differs.
        whole: several calls have such an argument, so what the API's call gives is exchanged, and no attribute.
        alone: with its change alone both agree, so what else differs follows from it.
        settles: its change is of a line that several calls may show: if it mends all, nothing else is looked for.
        seen: the difference as the calls show it, before any rule.
        behind: what tells the next difference, if the port is changed as is said here; None if there is none, or it was not tried.
    """

    cause: Cause
    text: str
    original: TraceCall | None
    port: TraceCall | None
    mend: Mend | None
    sites: tuple[CallSite, CallSite] | None = None
    taken: tuple[Value, Value] | None = None
    effect: float | None = None
    setting: Key | None = None
    part: str = ""
    write: str = ""
    arguments: tuple[str, ...] = ()
    whole: bool = False
    spelled: str = ""
    rewrite: Any = None
    arranged: Arranged | None = None
    attribute: str = ""
    alone: bool = False
    settles: bool = False
    seen: CallDifference | None = None
    behind: Any = None

    @property
    def backward(self) -> bool:
        """Whether it is in the backward."""
        return all(node.backward for node in (self.original, self.port) if node is not None)

    def change(self) -> Patch | Remade | None:
        """What is said to write, to be tried; None where nothing is, or it is neither a line nor a layer's argument."""
        if self.rewrite is not None:
            return self.rewrite if isinstance(self.rewrite, Remade) else self.rewrite.patch()
        return Remade(self.port.layer, self.write) if self.port is not None and self.write and not self.port.backward else None

    def unadvised(self) -> CallDifference:
        """The difference without what to write, which does not mend it."""
        as_seen = self.seen if self.seen is not None and "write " in self.text else self  # the text says it, too
        reverted = replace(self, cause=as_seen.cause, text=as_seen.text)
        return replace(reverted, arguments=(), spelled="", write="", rewrite=None, behind=None)


End = tuple[Value | None, Value | None]  # a result of the original, and the port's result for it


def explain(
    matching: Matching, original: Sequence[TraceCall], port: Sequence[TraceCall], end: End = (None, None)
) -> CallDifference | None:
    """The first difference of two regions (see :func:`.match.wrong_calls`) that lead to an end; None if both are empty."""
    if not original and not port:
        return None
    aligned = align(matching, original[:WINDOW], port[:WINDOW])
    pairs = _with_unseen(matching, _from_the_first(matching, aligned, original, port), port)
    cause, text, pair = _cause(matching, pairs)
    mend = mend_for(matching, pairs)
    if cause is Cause.CONSTANT and (ended := _ended(pair)) is not None:
        text = tr("what is computed here has no gradient (a step, a comparison); in the original a gradient goes past it")
        return CallDifference(Cause.GRAPH_ENDS, text, pair.original, ended, mend)
    if cause is Cause.MISSING and (pair.port is None or pair.port.backward):
        pair, mend = CallPair(pair.original, reader_of_missing(matching, pair, end)), mend or mend_of_end(end)
    elif cause is Cause.EXTRA and mend is None and not (pair.port and pair.port.backward):
        mend = mend_of_end(end)
    taken = value_taken_for(matching, pair) if cause in _OTHERWISE_GIVEN else None
    arranged = _arranged_or_made(matching, pair) if cause is Cause.ORDER else None
    sites = _sites(matching, cause, pair, arranged)
    return CallDifference(cause, text, pair.original, pair.port, mend, sites, taken, arranged=arranged)


def _ended(pair: CallPair) -> TraceCall | None:
    """The call that makes zeros of the gradient that a port's backward goes on with: that of a rounding, a sign."""
    operands = pair.port.operands if pair.port is not None and pair.port.backward else []
    makers = [operand.value.maker for operand in operands if not any(operand.value.ends[:2])]
    return next((maker for maker in makers if maker is not None and maker.backward), None)


def explain_result(matching: Matching, ends: Sequence[End]) -> CallDifference | None:
    """The first result that is another of the original's values (of a split, of several states)."""
    for end in ends:
        expected, actual = end
        nodes = [value.node for value in end if value is not None and value.node is not None and not value.node.backward]
        if len(nodes) == 2 and expected and actual and expected in matching.of_first and matching.is_matched(actual):
            here, there = (_exact_source_of(value) for value in (actual, expected))
            text = tr("the model's result comes from {here}, in the original from {there}", here=here, there=there)
            return CallDifference(Cause.OPERAND, text, nodes[0], nodes[1], mend_of_end(end))
    return None


def explain_order(matching: Matching, ends: Sequence[End], results: Sequence[Arranged | None]) -> CallDifference | None:
    """The first of the models' results that holds what the original's call gave, laid out otherwise behind that call."""
    for (expected, actual), arranged in zip(ends, results):
        here, there = (None if value is None else value.node for value in (actual, expected))
        if expected is None or actual is None or here is None or there is None or here.backward or kind(here) != kind(there):
            continue
        made = there.result.tensor, here.result.tensor
        if matching.same(expected, actual) and made[0].shape == made[1].shape and matching.in_order(expected, *made):
            text = tr("the model's result holds the elements of {call} in another order than the original's", call=here.function)
            return CallDifference(Cause.ORDER, text, there, here, None, arranged=arranged)
    return None


def explain_shape(matching: Matching, results: Sequence[Arranged]) -> CallDifference | None:
    """The first of the models' results that have the same elements in another shape (``keepdim``)."""
    for expected, actual in results:
        original, port = expected.value.node, actual.value.node
        if original and port:
            shapes = (list(side.tensor.shape) for side in (actual, expected))
            text = tr("the result has shape {shape}, in the original {expected}", **dict(zip(("shape", "expected"), shapes)))
            unlike = original.name == port.name and unlike_attributes(original, port)
            if unlike:
                return CallDifference(*difference_of(matching, original, port), original, port, None)
            arranged = _arranged(matching, CallPair(original, port)) or (expected, actual)
            return CallDifference(Cause.ORDER, text, original, port, None, arranged=arranged)
    return None


def _sites(matching: Matching, cause: Cause, pair: CallPair, arranged: Arranged | None) -> tuple[CallSite, CallSite] | None:
    """The first steps in which both lay an operand out differently, or the calls that join its parts in another order."""
    if pair.original is None or pair.port is None:
        return None
    if cause is Cause.SWAPPED:
        apart = [two for two in zip(pair.original.operands, pair.port.operands) if not matching.same(two[0].value, two[1].value)]
        joins = [(operand.value.node, other.value.node) for operand, other in apart]
        return next(((a.site, b.site) for a, b in joins if a and b and _joins_otherwise(matching, a, b)), None)
    if arranged is None:
        return None
    steps = itertools.zip_longest(*(side.way for side in arranged))
    step, our = next(((a, b) for a, b in steps if not (a and b and (a.shape, a.order) == (b.shape, b.order))), (None, None))
    return (step.site if step else pair.original.site), (our.site if our else pair.port.site)


def _arranged_or_made(matching: Matching, pair: CallPair) -> Arranged | None:
    """What is arranged otherwise for two calls: an operand, or what a call has made of it that holds the same elements."""
    arranged = _arranged(matching, pair)
    if arranged is not None or pair.original is None or pair.port is None:
        return arranged
    expected, actual, _ = _factors(pair.original, pair.port)
    for operand, other in zip(expected, actual):
        if (value := _rearranged(operand.value)) is not None and matching.same(value, other.value):
            return operand._replace(value=value, way=()), other
    return None


def _rearranged(value: Value) -> Value | None:
    """What a call has made a value of that holds the same elements (``pixel_shuffle``); None of any other call."""
    source = value.node.operands[0].value if value.node is not None and len(value.node.operands) == 1 else None
    same = source is not None and source.count == value.count and torch.equal(source.sorted, value.sorted)
    return source if same else None


def _arranged(matching: Matching, pair: CallPair) -> Arranged | None:
    """The first operand that both calls read in another arrangement."""
    if pair.original is None or pair.port is None:
        return None
    expected, actual, _ = _factors(pair.original, pair.port)
    for operand, other in (*zip(expected, actual), *zip(expected, actual[::-1])):
        if matching.same(operand.value, other.value) and not (
            operand.tensor.shape == other.tensor.shape and matching.in_order(operand.value, operand.tensor, other.tensor)
        ):
            return operand, other
    return None


def _from_the_first(
    matching: Matching, pairs: list[CallPair], original: Sequence[TraceCall], port: Sequence[TraceCall]
) -> list[CallPair]:
    """The pairs from the regions' first root on; or from another root, if mending the first would cover it."""
    origins = {*roots(original, lambda value: value in matching.of_first), *roots(port, matching.is_matched)}
    places = [place for place, pair in enumerate(pairs) if pair.original in origins or pair.port in origins] or [0]
    first = pairs[places[0]]
    others = [pair for pair in map(pairs.__getitem__, places[1:]) if pair.original and pair.port and not pair.port.view]
    others = [pair for pair in others if not leads_to(matching, first, pair)]
    mend = mend_for(matching, pairs[places[0] :]) if others else None
    wrong = [operand.value for operand in mend[0].operands if not matching.is_matched(operand.value)] if mend else []
    for pair in others:
        if any(depends_on(value, pair.port, lambda source: not matching.is_matched(source)) for value in wrong):  # type: ignore[arg-type]
            return pairs[next(place for place in places[1:] if leads_to(matching, pairs[place], pair)) :]
    return pairs[places[0] :]


def _with_unseen(matching: Matching, pairs: list[CallPair], port: Sequence[TraceCall]) -> list[CallPair]:
    """The pairs, the first with the call of its kind and operands that leads to none of the port's: Paddle makes masks unseen."""
    call, *rest = pairs
    if call.original is None or call.port is not None or any(map(has_name, sources(call.original.result, made=True))):
        return pairs
    read = [matching.of_first.get(operand.value) for operand in call.original.operands]
    readers = [reader for value in read if value is not None for reader in value.readers if kind(reader) == kind(call.original)]
    unseen = next((reader for reader in readers if not (reader in port or matching.is_matched(reader.result))), None)
    return [CallPair(call.original, unseen), *rest]


def _cause(matching: Matching, pairs: Sequence[CallPair]) -> tuple[Cause, str, CallPair]:
    pair = pairs[0]
    if pair.original and pair.port:
        return (*difference_of(matching, pair.original, pair.port), pair)
    alone = pair.original or pair.port
    assert alone is not None
    otherwise = reads_another_result(matching, alone, pairs) if pair.port is None else None
    moving = itertools.takewhile(lambda other: None in other and (other.original or other.port).moves, pairs)  # type: ignore[union-attr]
    heads = dict.fromkeys([alone, *filter(None, (other[pair.original is None] for other in moving))])
    otherwise = (
        next(filter(None, (_other_table(matching, head, pairs) for head in heads)), None) if otherwise is None else otherwise
    )
    if otherwise is not None:
        return otherwise
    elsewhere = next((other for other in pairs[1:] if is_counterpart(pair, other)), None)
    beside = [other for other in pairs if other.original and other.port]
    following = next((other for other in beside if leads_to(matching, pair, other)), beside[0] if beside else pair)
    both = CallPair(pair.original or following.original, pair.port or following.port)
    if elsewhere is not None:
        return (
            Cause.PLACE,
            tr("{name} stands in another place", name=alone.function),
            CallPair(pair.original or elsewhere.original, pair.port or elsewhere.port),
        )
    if pair.port is None:
        instead = call_in_its_place(matching, alone, following, pairs)
        if instead is not None:
            return Cause.OTHER_OP, tr("{port} in place of {original}", port=instead, original=alone), CallPair(alone, instead)
        return Cause.MISSING, missing_text(matching, alone, pairs), both
    if (lookup := _same_lookup(matching, alone)) is not None:
        return (*difference_of(matching, lookup, alone), CallPair(lookup, alone))
    cause, text = Cause.EXTRA, tr("the port calls {alone} here, the original does not", alone=alone)
    again = alone.backward and any(_repeats(value, alone) and matching.same(value, alone.result) for value in matching.of_first)
    if again:
        text = tr("the port's backward makes {alone} once more, as recompute() does, the original's does not", alone=alone)
    # The original's call that stands for the call of the port's whose gradient is computed, if both are of one kind.
    here = (pair for pair in _forward_pairs(matching) if (pair[1].site, pair[1].layer) == (alone.site, alone.layer))
    partner = (
        next((original for original, port in here if kind(original) == kind(port)), None) if alone.backward and not again else None
    )
    if partner is not None:
        cause, text, both = Cause.GRAPH_GOES_ON, GOES_ON, CallPair(partner, alone)
    return cause, text, both


def _same_lookup(matching: Matching, alone: TraceCall) -> TraceCall | None:
    """The original's call that looks up the table of a port's call, too: of all rows in order it gives the table itself."""
    if alone.name != "embedding":
        return None
    tables = [operand.value for operand in alone.operands if operand.tensor.is_floating_point()]
    partners = [matching.of_second[table] for table in tables if table in matching.of_second]
    readers = [reader for partner in partners for reader in partner.readers]
    return next((reader for reader in readers if reader.name == alone.name and not reader.backward), None)
