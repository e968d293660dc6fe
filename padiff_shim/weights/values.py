"""What every weight of the target will hold, made and checked before anything is written; and writing it, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import TransferError
from .layouts import canonical, own_layout
from .mapping import Mapping, Pair
from .tensors import dtype_name, synchronise, view
from .tree import Side


@dataclass
class Write:
    """One weight of the target, its memory, and the values for it.

    ``partial``: which elements of it they are for; None: all.
    """

    name: str
    target: torch.Tensor
    value: torch.Tensor | float
    partial: torch.Tensor | None = None


def prepared(mapping: Mapping, src: Side, dst: Side) -> list[Write]:
    """Every write that a transfer makes, once for tied weights.

    Raises:
        TransferError: a value has no place, or not the shape or dtype of its target; nothing was written.
    """
    groups: dict[str, list[Pair]] = {}
    for pair in mapping.pairs:
        slot = pair.slot(dst.framework)
        if slot.weight is None:
            _check_placeless(pair, src)
        elif pair.slot(src.framework).weight is not None or pair.slot(src.framework).fill is not None:
            groups.setdefault(slot.weight.name, []).append(pair)
    found: dict[Any, Write] = {}
    for name, pairs in groups.items():
        slot = pairs[0].slot(dst.framework)
        assert slot.weight is not None
        made = _made(name, pairs, src, dst)
        first = found.setdefault(slot.weight.key, made)
        if first is not made and not _equal(first, made):
            raise TransferError(
                f"{first.name} and {name} are one tensor in {dst.framework.title()}, but their sources hold different values",
                mapping,
            )
    return list(found.values())


def _target(name: str, dst: Side) -> torch.Tensor:
    tensor = dst.tensors[name]
    if not getattr(getattr(tensor, "flags", None), "writeable", True):
        raise TransferError(f"{name} cannot be written: the array is read-only")
    target = view(tensor)
    if target.is_inference() and not torch.is_inference_mode_enabled():
        raise TransferError(f"{name} cannot be written: it was made in torch.inference_mode()")
    if any(stride == 0 and size > 1 for stride, size in zip(target.stride(), target.shape)):
        raise TransferError(f"{name} cannot be written: several of its elements share memory (it was expanded)")
    return target


def _made(name: str, pairs: list[Pair], src: Side, dst: Side) -> Write:
    """What one weight of the target will hold."""
    target = _target(name, dst)
    pair, slot = pairs[0], pairs[0].slot(dst.framework)
    if len(pairs) == 1 and (not slot.steps if pair.rule is None else slot.whole):
        value = _value(pair, src, dst.framework)
        if isinstance(value, torch.Tensor) and pair.rule is None:
            value = own_layout(slot, value)
        _check(name, value, target, pair, src.framework)
        return Write(name, target, value)
    return _assembled(name, target, pairs, src, dst.framework)


def _assembled(name: str, target: torch.Tensor, pairs: list[Pair], src: Side, framework: str) -> Write:
    """What a weight will hold that is made of several parts."""
    whole, known = (torch.zeros(target.shape, dtype=dtype, device=target.device) for dtype in (target.dtype, torch.bool))
    for pair in pairs:
        slot = pair.slot(framework)
        if pair.rule is not None:
            raise TransferError(
                f"the rule for {pair.torch} and {pair.paddle} cannot be applied: {name} holds several weights, and a function "
                "makes a whole one; split(...) or concat(...) say which parts it holds"
            )
        value, place, seen = _value(pair, src, framework), canonical(slot, whole), canonical(slot, known)
        _check(name, value, place, pair, src.framework)
        before = place[seen].clone()
        place.fill_(value) if isinstance(value, float) else place.copy_(value)
        if not torch.equal(before, place[seen]):
            raise TransferError(f"a part of {name} has several sources, which hold different values: {pair.name(src.framework)}")
        seen.fill_(True)
    return Write(name, target, whole, None if bool(known.all()) else known)


def _value(pair: Pair, src: Side, framework: str) -> torch.Tensor | float:
    """What one pair gives to the target: in canonical layout, or by a rule in the target's own."""
    slot = pair.slot(src.framework)
    if slot.weight is None:
        assert slot.fill is not None
        return slot.fill
    value = view(src.tensors[slot.weight.name])
    if pair.rule is not None:
        return _by_rule(pair, value, framework)
    if pair.cast is not None and pair.cast.dtype:
        value = value.to(getattr(torch, pair.cast.dtype))
    return canonical(slot, value)


def _by_rule(pair: Pair, value: torch.Tensor, framework: str) -> torch.Tensor:
    """What the caller's function makes of a value; it gets a copy, which it may overwrite.

    Against its direction a function that only rearranges elements is turned round.
    """
    assert pair.rule is not None
    names = f"the rule for {pair.torch} and {pair.paddle}"
    if pair.rule_from == framework:
        shape = pair.shape(framework)
        if pair.moves is None or shape is None or pair.moves.inverse is None:
            raise TransferError(f"{names} cannot be turned round: it does more than rearrange all elements")
        return value.reshape(-1)[pair.moves.inverse].reshape(shape)
    try:
        return torch.as_tensor(pair.rule(value.clone()))
    except Exception as error:
        raise TransferError(f"{names} failed: {type(error).__name__}: {error}") from error


def _check(name: str, value: torch.Tensor | float, target: torch.Tensor, pair: Pair, source: str) -> None:
    """Raise where a value does not fit its target exactly."""
    if isinstance(value, float):
        return
    names = pair.name(source)
    if value.shape != target.shape:
        raise TransferError(f"{name} is {list(target.shape)}, but {names} would give it {list(value.shape)}")
    if pair.cast is None and torch.promote_types(value.dtype, target.dtype) != target.dtype:
        raise TransferError(
            f"{name} is {dtype_name(target)}, and {names} is {dtype_name(value)}: its values would be rounded. "
            f"If that is wanted: rules=[({name!r}, cast())], or '**' for all"
        )


def _equal(one: Write, other: Write) -> bool:
    if isinstance(one.value, float) or isinstance(other.value, float):
        return one.value is other.value
    return torch.equal(one.value, other.value)


def _check_placeless(pair: Pair, src: Side) -> None:
    """Raise where the source holds something for which the target has no place, unless that is what stands there anyway."""
    slot, missing = pair.slot(src.framework), pair.torch_slot if src.framework == "paddle" else pair.paddle_slot
    if slot.weight is None or missing.fill is None:
        return
    if not bool((view(src.tensors[slot.weight.name]) == missing.fill).all()):
        raise TransferError(f"{slot.weight.name} has no partner, and holds other values than {missing.fill:g}")


def put(write: Write) -> None:
    """Write one value into the memory of its weight; the tensor itself, its flags and its device stay."""
    if isinstance(write.value, float):
        write.target.fill_(write.value)
    elif write.partial is None:
        write.target.copy_(write.value)
    else:
        write.target.copy_(torch.where(write.partial, write.value, write.target))


def write_all(writes: list[Write], put: Callable[[Write], None] = put) -> None:
    """Write everything; whatever goes wrong, Ctrl-C included, every weight is as it was before.

    The old values are kept until the last one is written: a failure in the middle cannot need memory then.
    """
    synchronise()
    with torch.no_grad():
        held = [write.target.clone() for write in writes]
        begun = []
        try:
            for write, old in zip(writes, held):
                begun.append((write.target, old))
                put(write)
            synchronise()
        except BaseException:
            for target, old in begun:
                target.copy_(old)
            synchronise()
            raise


def write_for_good(writes: list[Write]) -> None:
    """The same into a model that nobody goes on with if something goes wrong: no old values are held."""
    synchronise()
    with torch.no_grad():
        for write in writes:
            put(write)
        synchronise()
