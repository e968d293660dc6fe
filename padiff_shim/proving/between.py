"""What differs between two calls that stand for each other: attributes, operands, how these are arranged."""

from __future__ import annotations

from typing import Any

import torch

from .advice import advice, advice_on_other_op, in_paddles_words
from .attributes import unlike_attributes
from .cause import Cause
from .matching import Matching
from .mending import BIASED, with_bias
from .pairing import kind
from .trace import Node, Operand, Value
from .wording import extent, from_elsewhere, given, role, swapped, whence

_WEIGHTS = frozenset({"weight", "pos_weight"})  # of a loss
_COMMUTATIVE = frozenset({"add", "mul", "maximum", "minimum"})
_TO_THE_END = 2**63 - 1  # where a slice ends that has no end


def between(matching: Matching, theirs: Node, ours: Node) -> tuple[Cause, str]:
    """What differs between two calls that stand for each other: the first rule that finds something."""
    for rule in (_of_kind, _of_indices, _of_names, _of_operands):
        if (difference := rule(matching, theirs, ours)) is not None:
            return difference
    return Cause.UNKNOWN, f"{ours} gives other values than {theirs}"


def _of_kind(matching: Matching, theirs: Node, ours: Node) -> tuple[Cause, str] | None:
    """Two ops of different kinds."""
    if kind(theirs) == kind(ours):
        return None
    return Cause.OTHER_OP, f"{ours} in place of {theirs}{advice_on_other_op(ours.name, theirs.name)}"


def _of_indices(matching: Matching, theirs: Node, ours: Node) -> tuple[Cause, str] | None:
    """Different indices or masks."""
    if theirs.name == ours.name == "scatter" and (broadcast := _broadcast(theirs, ours)):
        return Cause.CONSTANT, broadcast
    if theirs.name == ours.name == "scatter" and len(theirs.operands) != len(ours.operands):
        return Cause.UNKNOWN, f"{ours} in place of {theirs}"  # of a number, and of rows: they need not stand for each other
    turned = _turned(theirs, ours)
    for original, other in zip(filter(_is_index, theirs.operands), filter(_is_index, ours.operands)):
        meant = original
        if kind(theirs) == "masked" and (turned or theirs.name != ours.name):
            meant = _as_meant(original, other, turned)
        if turned is not None and original.tensor.dtype is torch.bool is other.tensor.dtype:
            if not _equal_masks(meant, other):
                return constant(meant, other)
        elif not matching.same(original.value, other.value) and not _complementary(original, other):
            return constant(meant, other)
    return None


def _of_names(matching: Matching, theirs: Node, ours: Node) -> tuple[Cause, str] | None:
    """Two ops that mask, or one op with different attributes."""
    if theirs.name != ours.name:
        return (Cause.OTHER_OP, f"{ours} in place of {theirs}") if kind(theirs) == "masked" else None
    if number := _number(theirs, ours):
        return Cause.OPERAND, number
    attributes = [
        _attribute(theirs.name, name, value, ours.attributes.get(name)) for name, value in unlike_attributes(theirs, ours).items()
    ]
    return (Cause.ATTRIBUTE, ", ".join(attributes)) if attributes else None


def _of_operands(matching: Matching, theirs: Node, ours: Node) -> tuple[Cause, str] | None:
    """Different operands, more or fewer of them, or the same in another arrangement."""
    mine, yours, biased = _factors(theirs, ours)
    if ours.name in _COMMUTATIVE and len(mine) == len(yours) == 2 and ours.attributes.get("alpha", 1) == 1:
        straight, turned = (sum(matching.same(a.value, b.value) for a, b in zip(mine, other)) for other in (yours, yours[::-1]))
        yours = yours[::-1] if turned > straight else yours
    for original, other in zip(mine, yours):
        if (difference := _of_operand(matching, original, other, mine, yours)) is not None:
            return difference
    if biased:
        return Cause.OPERAND, biased
    if len(mine) != len(yours):
        left, more = (
            {operand.name for operand in side} - {operand.name for operand in other}
            for side, other in ((mine, yours), (yours, mine))
        )
        if left <= _WEIGHTS >= more:
            wrong, how = (left, "left out") if left else (more, "too much")
            return Cause.OPERAND, f"{' and '.join(f'{name}=' for name in sorted(wrong))} is {how}"
        missing = left | more
        return Cause.OPERAND, f"{len(yours)} operands against {len(mine)}" + (f" ({', '.join(sorted(missing))})" if missing else "")
    for original, other in zip(mine, yours):
        if original.tensor.shape != other.tensor.shape or not matching.in_order(original.value, original.tensor, other.tensor):
            return arranged(original, other)
    return None


def _of_operand(
    matching: Matching, original: Operand, other: Operand, mine: list[Operand], yours: list[Operand]
) -> tuple[Cause, str] | None:
    """Two operands with different values; None also where that is explained by what made them."""
    if matching.same(original.value, other.value):
        return None
    exchanged = next((operand for operand in mine if operand is not original and matching.same(operand.value, other.value)), None)
    if exchanged is not None:
        return Cause.SWAPPED, swapped(mine, exchanged, yours, other)
    here, there = original.value.node, other.value.node
    named = all(value.node is not None or given(value) for value in (original.value, other.value))
    if named and matching.good(other.value):
        if here is not None and there is not None and (_is_same_of_constants(here, there) or takes_others(matching, here, there)):
            return between(matching, here, there)
        return Cause.WEIGHT if here is None is there else Cause.OPERAND, from_elsewhere(original, other)
    return constant(original, other) if there is None or here is None else None


def _factors(theirs: Node, ours: Node) -> tuple[list[Operand], list[Operand], str]:
    """What two calls are given, without the bias of which a product alone has one, and what is to be said of that."""
    if kind(theirs) != "product" or (theirs.name in BIASED) is (ours.name in BIASED):
        return theirs.operands, ours.operands, ""
    product, other = (ours, theirs) if theirs.name in BIASED else (theirs, ours)
    bias, *factors = other.operands
    mine, yours = (factors, product.operands) if other is theirs else (product.operands, factors)
    if with_bias(product, other) is not product or len(mine) != len(yours):
        return mine, yours, ""
    told = f"the bias ({whence(bias.value)})"
    return mine, yours, f"{told} is left out" if other is theirs else f"{told} is too much"


def _number(theirs: Node, ours: Node) -> str:
    """Where one of both is given a number, and the other a tensor; "" if neither is."""
    for one, other in ((theirs, ours), (ours, theirs)):
        for operand in other.operands:
            if operand.name in one.attributes:
                said = f"is {_shown(one.attributes[operand.name])}", f"comes from {whence(operand.value)}"
                here, there = said if one is ours else said[::-1]
                return f"{role(operand)} {here}, in the original it {there}"
    return ""


def _is_same_of_constants(one: Node, other: Node) -> bool:
    """Whether two calls are the same of other constants: a mask the other way round, whose complement stands in both programs."""
    operands = [two.value for node in (one, other) for two in node.operands]
    same = kind(one) == kind(other) and one.attributes == other.attributes
    return same and all(value.node is None and not given(value) for value in operands)


def _broadcast(original: Node, port: Node) -> str:
    """Where the port's index is of another shape, as put_along_axis makes it; "" if it is of the same."""
    wanted, written = (
        next((list(index.tensor.shape) for index in node.operands if index.name == "index"), None) for node in (original, port)
    )
    if wanted is None or written is None or wanted == written:
        return ""
    advice = "; put_along_axis broadcasts its index, scatter takes it as it is: write broadcast=False"
    return f"index has shape {written} against {wanted}{advice if len(wanted) == len(written) else ''}"


def takes_others(matching: Matching, call: Node, other: Node) -> bool:
    """Whether two calls take other elements out of the same operands: another layer's state, another part."""
    alike = call.name == other.name and call.moves and len(call.operands) == len(other.operands)
    if not alike or not unlike_attributes(call, other):
        return False
    return all(matching.same(operand.value, partner.value) for operand, partner in zip(call.operands, other.operands))


def _is_index(operand: Operand) -> bool:
    """Indices, lengths, masks: what is wrong in them explains more than an attribute."""
    return operand.value.node is None and not operand.tensor.is_floating_point()


def _complementary(one: Operand, other: Operand) -> bool:
    """Whether two masks say the same, the other way round."""
    masks = one.tensor.dtype is torch.bool is other.tensor.dtype
    return masks and one.tensor.numel() == other.tensor.numel() and bool((one.tensor.flatten() != other.tensor.flatten()).all())


def _turned(theirs: Node, ours: Node) -> bool | None:
    """Whether what is masked in one call is what is kept in the other; None if that does not show."""
    kept = [_keeps(node) for node in (theirs, ours)]
    if None not in kept:
        return kept[0] is not kept[1]
    if not theirs.name == ours.name == "where":
        return None
    mine, yours = ([_number_in(node, name) for name in ("self", "other")] for node in (theirs, ours))
    if None in mine or mine[0] == mine[1]:
        return None
    return False if mine == yours else True if mine == yours[::-1] else None


def _number_in(node: Node, name: str) -> float | None:
    """The one number that a call is given under a name."""
    given = node.attributes.get(name, next((one.tensor for one in node.operands if one.name == name), None))
    if isinstance(given, torch.Tensor):
        return given.flatten()[0].item() if given.numel() and bool((given == given.flatten()[0]).all()) else None
    return given


def _keeps(node: Node) -> bool | None:
    """Whether a call keeps what its mask holds, with a constant elsewhere, or the other way round; None: no constant, or two."""
    if node.name != "where":
        return False if node.name == "masked_fill" else None
    computed = {one.name for one in node.operands if one.value.node is not None or given(one.value)}
    return None if ("self" in computed) is ("other" in computed) else "self" in computed


def _equal_masks(one: Operand, other: Operand) -> bool:
    try:
        return bool((one.tensor == other.tensor).all())
    except RuntimeError:
        return False


def _as_meant(one: Operand, other: Operand, turned: bool | None) -> Operand:
    """A mask, or its complement if another op's is meant, or nearer to that: what is masked, or what is not."""
    if turned is False or not (one.tensor.dtype is torch.bool is other.tensor.dtype):
        return one
    if turned:
        return Operand(one.name, Value(one.value.tensor.logical_not()), one.tensor.logical_not(), one.way)
    try:
        here, there = torch.broadcast_tensors(one.tensor, other.tensor)
    except RuntimeError:
        return one
    if 2 * int((here != there).sum()) <= here.numel():
        return one
    return Operand(one.name, Value(one.value.tensor.logical_not()), one.tensor.logical_not(), one.way)


def arranged(one: Operand, other: Operand) -> tuple[Cause, str]:
    """The same elements in another order."""
    if one.value.node is None and other.value.node is None and one.tensor.shape == other.tensor.shape:
        return constant(one, other)
    ours, theirs = (", ".join(map(str, operand.way)) or str(list(operand.tensor.shape)) for operand in (other, one))
    return Cause.ORDER, f"{role(other)} is arranged by {ours}, in the original by {theirs}"


def constant(one: Operand, other: Operand) -> tuple[Cause, str]:
    label = other.value.label or one.value.label
    cause = Cause.WEIGHT if other.value.label and one.value.label and "(" not in label else Cause.CONSTANT
    where = f" ({label})" if label else ""
    try:
        here, there = torch.broadcast_tensors(one.tensor, other.tensor)
    except RuntimeError:
        return cause, f"{role(other)}{where} is {extent(other.value)} against {extent(one.value)}"
    apart = (here != there).nonzero()
    if not len(apart):
        return cause, f"{role(other)}{where} has shape {list(other.tensor.shape)} against {list(one.tensor.shape)}"
    first = tuple(apart[0].tolist())
    mine, yours = (f"{tensor[first].item():g}" for tensor in (here, there))
    place = f"[{', '.join(map(str, first))}]"
    shuffled = comparable(one, other) and torch.equal(one.value.sorted, other.value.sorted)
    order = "; they are the same in another order" if shuffled else ""
    differing = f"{len(apart)} of {here.numel()} elements differ{order}"
    return cause, f"{role(other)}{where} holds {yours} at {place} against {mine} ({differing})"


def _attribute(op: str, name: str, wanted: Any, written: Any) -> str:
    """An attribute that differs, and what to write; ``wanted``: the original's value, ``written``: the port's."""
    write = advice(op, name, wanted)
    own, other = (_shown(in_paddles_words(op, name, value)) for value in (written, wanted))
    return f"{name}={own} against {other}" + (f" ({write})" if write else "")


def _shown(value: Any) -> str:
    if isinstance(value, int) and value >= _TO_THE_END:
        return "the end"
    return f"{value:g}" if isinstance(value, float) else repr(value)


def comparable(one: Operand, other: Operand) -> bool:
    """Whether two operands may be one: so many numbers of one kind."""
    return one.tensor.numel() == other.tensor.numel() and one.tensor.is_floating_point() == other.tensor.is_floating_point()
