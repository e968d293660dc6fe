"""What PaDiff offers beside ``auto_diff``: weights taken over, and gradients, weights and data compared on their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any

from ..errors import TransferError, described
from ..proving.values import as_array, leaves
from .comparing import Tolerance
from .finding import Finder
from .layer_map import LayerMap
from .models import Model, create_model
from .options import Options, check_left_behind, collected, options_of
from .pairing import assign, gradients, pair, values
from .printing import log

_NOTHING = object()


def assign_weight(base_model: Any, raw_model: Any, layer_map: Any = None) -> bool:
    """Take all weights of one model over into the other, or none; see :func:`padiff_shim.transfer_weights`.

    Given a Paddle layer and a Torch module that no handle of ``create_model`` holds, the Torch module's weights are taken (PaDiff
    0.2); otherwise the first model's (0.3).

    Returns:
        Whether it was done; if not, why is printed.

    Raises:
        ArgumentError: an argument of a kind that is not accepted.
    """
    base, raw = _models(base_model, raw_model)
    try:
        pairing = assign(base, raw, LayerMap.of(layer_map, (base, raw)))
    except TransferError as error:
        log(f"Assign weight Failed !!! {error}")
        return False
    for note in pairing.notes:
        log(note)
    log(f"Assign weight success !!! ({base.name} -> {raw.name})")
    return True


def check_weight(layer: Any, module: Any, options: Any = None, layer_map: Any = None) -> bool:
    """Whether the weights of two models are equal now, within ``options`` (atol, rtol, compare_mode); prints those that are not."""
    return _check(layer, module, options, layer_map, values, "weight")


def check_grad(layer: Any, module: Any, options: Any = None, layer_map: Any = None) -> bool:
    """Whether the gradients of two models' weights are equal now, within ``options``; prints those that are not."""
    return _check(layer, module, options, layer_map, gradients, "grad")


def check_dataloader(first_loader: Iterable[Any], second_loader: Iterable[Any], **options: Any) -> bool:
    """Whether two loaders give equal batches, within ``options`` (atol, rtol, compare_mode); prints the first that is not.

    Batches are tensors, arrays, or tuples, lists and dicts of them. A loader that ends before the other gives other data.
    """
    tolerance = _tolerance(options)
    for number, (one, other) in enumerate(zip_longest(first_loader, second_loader, fillvalue=_NOTHING)):
        told = _batches_differ(one, other, tolerance)
        if told:
            log(f"check dataloader failed!!! batch {number}: {told}")
            return False
    return True


def _batches_differ(one: Any, other: Any, tolerance: Tolerance) -> str:
    if one is _NOTHING or other is _NOTHING:
        return f"the {'first' if one is _NOTHING else 'second'} loader has ended"
    ours, theirs = leaves(one), leaves(other)
    if [path for path, _ in ours] != [path for path, _ in theirs]:
        return f"tensors {[path for path, _ in ours]} and {[path for path, _ in theirs]}"
    if not ours and one != other:
        return f"{described(one)} and {described(other)}"
    found = ((path, tolerance.difference(as_array(mine), as_array(yours))) for (path, mine), (_, yours) in zip(ours, theirs))
    return next((f"{path}: {told}".removeprefix(": ") for path, told in found if told), "")


def _check(layer: Any, module: Any, options: Any, layer_map: Any, read: Any, what: str) -> bool:
    base, raw = _models(layer, module)
    finder = Finder((base, raw), pair(base, raw, LayerMap.of(layer_map, (base, raw))), _tolerance(options))
    wrong = finder.differing(read)
    for one, other, told in wrong:
        log(f"{what} of {base.name}.{one} and {raw.name}.{other}: {told}")
    if not wrong:
        log(f"{what} compared.")
    return not wrong


def _models(one: Any, other: Any) -> tuple[Model, Model]:
    marked = isinstance(one, Model) or isinstance(other, Model)
    first, second = create_model(one), create_model(other)
    turned = not marked and (first.framework, second.framework) == ("paddle", "torch")
    return (second, first) if turned else (first, second)


def _tolerance(options: Mapping[str, Any] | None) -> Tolerance:
    check_left_behind(options or {}, loss=True, optimizers=True)
    found: Options = options_of(collected({}, options, ()), optimizers=True, alike=True)
    return Tolerance(found.atol, found.rtol, found.compare_mode)
