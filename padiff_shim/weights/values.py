"""What every weight of the target will hold: made and checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..errors import TransferError
from .layouts import canonical, own_layout
from .mapping import Mapping, Pair
from .rules import Cast
from .tensors import view
from .tree import Side


@dataclass
class Write:
    """One weight of the target, its memory, and the values for it."""

    name: str
    target: torch.Tensor
    value: torch.Tensor | float


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
        made = Write(name, _target(name, dst), _value(pairs, src, dst))
        _check(made, pairs, src.framework)
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


def _value(pairs: list[Pair], src: Side, dst: Side) -> torch.Tensor | float:
    """What one weight of the target will hold."""
    first = pairs[0]
    source, target = first.slot(src.framework), first.slot(dst.framework)
    if target.section is None:
        if source.weight is None:
            assert source.fill is not None
            return source.fill
        if callable(first.rule):
            return _by_rule(first, view(src.tensors[source.weight.name]))
        return own_layout(target, canonical(source, view(src.tensors[source.weight.name])))
    pieces = sorted(pairs, key=lambda pair: (pair.slot(dst.framework).section or (0, 0, 0))[1])
    axis = target.section[0]
    return own_layout(target, torch.cat([_piece(pair, src) for pair in pieces], axis))


def _piece(pair: Pair, src: Side) -> torch.Tensor:
    slot = pair.slot(src.framework)
    assert slot.weight is not None
    return canonical(slot, view(src.tensors[slot.weight.name]))


def _by_rule(pair: Pair, value: torch.Tensor) -> torch.Tensor:
    """What the caller's function makes of a value; it gets a copy, which it may overwrite."""
    assert callable(pair.rule)
    try:
        return torch.as_tensor(pair.rule(value.clone()))
    except Exception as error:
        raise TransferError(f"the rule for {pair.torch} and {pair.paddle} failed: {type(error).__name__}: {error}") from error


def _check(made: Write, pairs: list[Pair], source: str) -> None:
    """Raise where a value does not fit its target exactly."""
    value, target = made.value, made.target
    if isinstance(value, float):
        return
    names = " and ".join(dict.fromkeys(pair.name(source) for pair in pairs))
    if value.shape != target.shape:
        raise TransferError(f"{made.name} is {list(target.shape)}, but {names} would give it {list(value.shape)}")
    allowed = any(isinstance(pair.rule, Cast) for pair in pairs)
    if not allowed and torch.promote_types(value.dtype, target.dtype) != target.dtype:
        raise TransferError(
            f"{made.name} is {_word(target)}, and {names} is {_word(value)}: its values would be rounded. "
            f"If that is wanted: rules=[({made.name!r}, cast())], or '**' for all"
        )


def _word(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]


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
