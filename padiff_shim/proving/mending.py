"""Whose results of the port are exchanged for the original's, so that both go on alike behind a mistake."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .matching import Matching
from .pairing import Pair, alike, behind, fits
from .trace import Node, Value

Mend = tuple[Node, Sequence[torch.Tensor | None]]  # a call, and what its results shall hold; None: they stay


def mended(matching: Matching, pairs: Sequence[Pair]) -> Mend | None:
    """Whose results to exchange: of the call that feeds a missing one, of one too many, or of the first pair."""
    first = pairs[0]
    both = [pair for pair in pairs if pair.theirs and pair.ours and _exchangeable(matching, pair)]
    # What only stands beside the difference may hold a mistake of its own, which the original's values would cover.
    following = next((pair for pair in both if leads_to(matching, first, pair)), both[0] if both else None)
    if first.ours is None and first.theirs is not None and following is not None:
        # What only the missing call is given, may be given its result; what others are given as well stays.
        skipped = [one.value for one in first.theirs.operands if one.value in matching.of_first and len(one.value.readers) == 1]
        for one in following.ours.operands if following.ours else ():
            node, partner = one.value.node, matching.of_second.get(one.value)
            if node is None or node.view or partner is None or partner not in skipped:
                continue
            wanted = _in_shape(first.theirs, one.value, partner)
            if wanted is not None:
                return node, [wanted]
        instead = in_its_place(matching, first.theirs, following, pairs)
        if instead is not None:
            return instead, [first.theirs.result.tensor]
    if first.theirs is None and first.ours is not None:
        for one in first.ours.operands:
            if not first.ours.view and matching.good(one.value) and one.tensor.shape == first.ours.result.tensor.shape:
                return _joined(matching, first.ours, pairs), [one.tensor]
    if following is None or following.ours is None or following.theirs is None:
        return None
    whole = with_bias(following.theirs, following.ours), with_bias(following.ours, following.theirs)
    if whole != (following.theirs, following.ours):
        return whole[1], [whole[0].result.tensor.reshape(whole[1].result.tensor.shape)]
    updated = following.theirs.updated if len(following.theirs.updated) == len(following.ours.updated) else []
    exchange = [exchanged(following, value.tensor) for value in (*following.theirs.results, *updated)]
    if matching.are_turned(following.theirs, following.ours) and not matching.same(following.theirs.result, following.ours.result):
        exchange = [one.mT if one is not None and one.dim() == 2 and one.shape[0] == one.shape[1] else one for one in exchange]
    if len(exchange) == 1 and exchange[0] is not None:
        exchange = [exchange[0].reshape(following.ours.result.tensor.shape)]
    return following.ours, exchange


def ended(end: tuple[Value | None, Value | None]) -> Mend | None:
    """Where nothing follows a difference: what the program gives, unless a call of its own reads that, too."""
    mine, yours = end
    if mine is None or yours is None or yours.node is None or yours.readers or yours.node.view or not fits(mine, yours):
        return None
    return yours.node, [mine.tensor if value is yours else None for value in yours.node.values]


def _in_shape(missing: Node, value: Value, partner: Value) -> torch.Tensor | None:
    """What a missing call makes of a value, as the port's same value is shaped; None if it makes something of another extent.

    Scores are a product's result by heads in one stack on both sides, and only what reads them has a batch.
    """
    made = missing.result
    if fits(value, made):
        return made.tensor
    given = next((one for one in missing.operands if one.value is partner), None)
    if given is None or given.tensor.shape != made.tensor.shape or value.tensor.shape != partner.tensor.shape:
        return None
    if value.tensor.dtype != made.tensor.dtype or not torch.equal(given.tensor.reshape(-1), partner.tensor.reshape(-1)):
        return None
    return made.tensor.reshape(value.tensor.shape)


def in_its_place(matching: Matching, missing: Node, following: Pair, pairs: Sequence[Pair]) -> Node | None:
    """The last of the port's calls that compute in another way what a missing one gives to the next call of the original."""
    if (
        following.theirs is None
        or following.ours is None
        or all(one.value is not missing.result for one in following.theirs.operands)
    ):
        return None
    alone = {pair.ours.index: pair.ours for pair in pairs if pair.theirs is None and pair.ours is not None}
    waiting = [one.value for one in following.ours.operands]
    while waiting:
        value = waiting.pop(0)
        if value.node is None or value.node.index not in alone or matching.good(value):
            continue
        if not value.node.view and not value.node.moves and value is value.node.result and fits(value, missing.result):
            return value.node
        waiting += [one.value for one in value.node.operands]
    return None


def leads_to(matching: Matching, first: Pair, pair: Pair) -> bool:
    """Whether a pair is the first one, or is given what was computed from it, in either program; by way of wrong values alone."""
    wrong = (lambda value: value not in matching.of_first), (lambda value: not matching.good(value))
    return first == pair or any(
        node is not None and source is not None and any(behind(one.value, source, among) for one in node.operands)
        for source, node, among in zip(first, pair, wrong)
    )


_BARE, BIASED = frozenset({"mm", "bmm"}), frozenset({"addmm", "baddbmm"})


def with_bias(product: Node, other: Node) -> Node:
    """Of a product whose bias is added by a call of its own, and not in the other program: that call.

    Which of the two a linear layer makes, depends on how its operand lies in memory.
    """
    if product.name not in _BARE or other.name not in BIASED:
        return product
    for reader in product.result.readers:
        biases = [one for one in reader.operands if one.value.node is None and one.tensor.dim() == 1]
        if reader.name == "add" and biases and reader.layer == product.layer and _of_one_size(reader.result, other.result):
            return reader
    return product


def _of_one_size(one: Value, other: Value) -> bool:
    return one.tensor.numel() == other.tensor.numel() and one.tensor.dtype == other.tensor.dtype


def _joined(matching: Matching, first: Node, pairs: Sequence[Pair]) -> Node:
    """Where what is computed from the result of a call too many meets what else is too many: both are one expression."""
    alone = []
    for pair in pairs:
        if pair.ours is None or pair.theirs is not None:
            break
        alone.append(pair.ours)
    inside, last = {first}, first
    for node in alone:
        made = [one.value.node for one in node.operands if one.value.node in alone and not matching.good(one.value)]
        if any(one in inside for one in made):
            inside.add(node)
            if any(one not in inside for one in made) and not node.view and alike(node, first):
                inside, last = {*alone[: alone.index(node) + 1]}, node
    return last


def exchanged(pair: Pair, wanted: torch.Tensor) -> torch.Tensor | None:
    """Whole numbers of the original are places in what it was given: in another shape they may lie outside."""
    if wanted.is_floating_point():
        return wanted
    theirs, ours = (node.operands[:1] if node is not None else [] for node in pair)
    same = pair.theirs and pair.ours and pair.theirs.name == pair.ours.name and theirs and ours
    return wanted if same and theirs[0].tensor.shape == ours[0].tensor.shape else None


def _exchangeable(matching: Matching, pair: Pair) -> bool:
    one, other = pair
    return one is not None and other is not None and not other.view and (alike(one, other) or _reshaped(matching, one, other))


def _reshaped(matching: Matching, one: Node, other: Node) -> bool:
    """Whether two calls of an op that gives as many elements as it takes are given one operand, in other shapes in one order."""
    if one.name != other.name or len(one.results) != 1 or len(other.results) != 1 or not _of_one_size(one.result, other.result):
        return False
    mine, yours = one.operands[0], other.operands[0]
    if mine.tensor.shape != one.result.tensor.shape or yours.tensor.shape != other.result.tensor.shape:
        return False
    return matching.in_one_order(mine, yours)
