"""Planted faults: a kernel made wrong on purpose, to see that a comparison finds it, and to try your own alarms."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .arguments import flag, function, one_of
from .catalogue.registry import ops
from .errors import ArgumentError, described
from .language import marked, tr
from .patterns import LayerFilter
from .verdicts import Side


@dataclass(eq=False)
class PlantedFault:
    """A change of one side's result of one op.

    Attributes:
        op: name of the op.
        side: whose kernel is made wrong.
        change: the function that changes the result.
        layers: only calls in these layers; None: all.
        gradients: the gradients are changed, not the result.
        calls: tensors changed so far.
    """

    op: str
    side: Side
    change: Callable[..., Any]
    layers: LayerFilter | None
    gradients: bool
    calls: int = 0


PLANTED: list[PlantedFault] = []  # at this moment
_raised: list[BaseException] = []  # by the changes of these faults


def faults(op: str, side: Side, layer: str, *, backward: bool) -> list[PlantedFault]:
    """The faults planted for this call, in the order of planting."""
    return [
        fault
        for fault in PLANTED
        if fault.op == op
        and fault.side is side
        and fault.gradients == backward
        and (fault.layers is None or fault.layers.accepts(layer))
    ]


@contextlib.contextmanager
def planted(
    op: str, change: Callable[..., Any], *, side: str = "paddle", layer: str | None = None, gradients: bool = False
) -> Iterator[PlantedFault]:
    """Make one side's kernel of ``op`` wrong in compare mode while the context is open.

    Args:
        op: an op of the table that is compared. Of several results the first one that is compared is changed.
        change: ``(result, *arguments) -> result``, torch tensors of the same shape and dtype; with ``gradients`` it is called as
            ``(gradient, name, *arguments)`` for each gradient of the op, where ``name`` is the operand's. What it raises (a
            ``TypeError``, if it takes another number of arguments) is raised in the program: by the call, or by its backward.
        side: ``"paddle"`` or ``"torch"``. What Paddle's kernel is made to return is what the program goes on with.
        layer: a glob over layer paths, as ``layers=`` takes it.
        gradients: change the gradients instead of the result. (Paddle's are changed for the verdict only, not for the program.)

    Raises:
        PadiffShimError: for an unknown op or side, a ``change`` that is not callable, and an op that does nothing but draw or has
            no gradient. In the program, at the first call: for an op that the comparison does not look at, and for a ``change``
            that gives something else than a torch tensor of the result's size.

    A fault that changed no call gives a warning when the context ends.

    Example:
        >>> import paddle
        >>> import padiff_shim
        >>> from padiff_shim.testing import planted
        >>> x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> with planted("softmax", lambda out, x, axis: out * 1.001) as fault, padiff_shim.compare("torch") as run:
        ...     y = paddle.nn.functional.softmax(x)
        >>> fault.calls, run.verdicts
        (1, {'WRONG': 1})
    """
    one_of("op", op, ops())
    one_of("side", side, ("paddle", "torch"))
    function("change", change, marked("the result and the arguments"))
    flag("gradients", gradients)
    # Raises ArgumentError for an op that no comparison judges, whatever its options
    declared = ops()[op]
    if declared.random is not None and not declared.tensors:
        raise ArgumentError(
            "op={op} does nothing but draw random numbers, which are not compared: no fault can be planted there", op=repr(op)
        )
    if gradients and not (declared.gradient and declared.leading):
        raise ArgumentError("op={op} has no gradient: no fault can be planted there", op=repr(op))
    fault = PlantedFault(op, Side(side), change, LayerFilter(layer, "layer") if layer is not None else None, gradients)
    PLANTED.append(fault)
    try:
        yield fault
    finally:
        PLANTED.remove(fault)
        if not PLANTED:
            _raised.clear()
    if not fault.calls:
        name = repr(op)
        what = tr("a gradient of {op}", op=name) if gradients else tr("a result of {op}", op=name)
        if layer is not None:
            what = tr("{what} in layer {layer}", what=what, layer=repr(layer))
        warnings.warn(tr("planted: no comparison came by {what}, and nothing was changed", what=what), RuntimeWarning, stacklevel=3)


def uncompared(op: str, why: str) -> None:
    """A call of ``op`` is not compared, for a reason of the op's own.

    Raises:
        ArgumentError: a fault is planted there, which would change nothing.
    """
    if any(fault.op == op for fault in PLANTED):
        raise ArgumentError("a fault is planted in {op}, whose call is not compared: {why}", op=repr(op), why=why)


def of_a_change(error: BaseException) -> bool:
    """Whether a planted change raised it: then it is the program's, and no failure of the comparison."""
    return any(error is raised for raised in _raised)


def spoil(tensor: Any, entry_point: Any, side: Side, layer: str, values: Any, *, name: str | None = None) -> Any:
    """A torch tensor with the faults that are planted for it; the tensor itself where there are none."""
    for fault in faults(entry_point.op.name, side, layer, backward=name is not None):
        named = () if name is None else (name,)
        fault.calls += 1
        try:
            tensor = _fitting(fault.change(tensor, *named, *values), tensor, fault.op)
        except Exception as error:
            _raised.append(error)
            raise
    return tensor


def _fitting(changed: Any, tensor: Any, op: str) -> Any:
    """The result of a change, in the dtype and shape of the tensor that it changes."""
    if not isinstance(changed, type(tensor)) or changed.numel() != tensor.numel():
        what = tr("a tensor {shape}", shape=list(changed.shape)) if isinstance(changed, type(tensor)) else described(changed)
        raise ArgumentError(
            "change= planted in {op} returns a torch tensor {shape}, as its argument is; it returned {what}",
            op=repr(op),
            shape=list(tensor.shape),
            what=what,
        )
    return changed.to(tensor.dtype).reshape(tensor.shape)
