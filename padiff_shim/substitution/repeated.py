"""An optimizer's step that is as its last one: made again without building each parameter's call anew.

From step to step nothing changes but values, gradients and the learning rate. Paddle's optimizers look all of it up again for each
parameter: attributes, accumulators by their names, a learning rate. So the calls of a step are kept, with what they were made of;
if that is as it was, the updates are those that were kept, with the new gradients. Whatever is not the same takes the long way.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from operator import is_not
from typing import Any, NamedTuple

import paddle

from ..dispatch.door import gate
from ..dispatch.frames import Frame
from ..frameworks.memory import TENSOR_TYPES
from ..frameworks.windows import Windows
from ..optimizers.update import Gathered, Item, Update
from ..table.reasons import StayNative
from .held import PLAIN, Held
from .passes import Pass, Waiting, is_paddles

_NEW_EACH_TIME = frozenset({"helper", "_learning_rate"})  # attributes: the one says nothing, the other is read at each step
_ASKED = "_apply_decay_param_fun"  # a program's function, called for each parameter
_UNASKED = ("_lr_ratio", "_exclude_from_weight_decay_fn", "fused_states_buffer")  # with these a step is never kept
_SHARDED = "_need_shard_auto"  # of a parameter whose accumulators Paddle is going to lay out over processes
_PLAINEST = frozenset({bool, int, float, str, type(None)})  # of what is plain, that which needs no looking up
_GROUPINGS = 16  # of parameters that are known
_METHODS = ("_append_optimize_op", "_create_accumulators", "_create_param_lr", "_finish_update")


class Kept(NamedTuple):
    """One parameter's update of a step: its call without gradient and learning rate, with what was crossed."""

    one: tuple[Waiting, Held]
    param: Any
    regularizer: Any


Groups = dict[Any, list[tuple[Waiting, Held]]]  # by their numbers, the learning rate and the decay
Gatherer = Callable[[Sequence[Item]], Gathered]


class Again(NamedTuple):
    """The updates of a pass that is as the last one, and what tells what is known of the parameters of a group."""

    groups: Groups
    gathered: Gatherer


class Before:
    """What an optimizer was before a pass over (a group of) its parameters, and what it was told of that group."""

    def __init__(self, optimizer: Any, pairs: Any) -> None:
        self.kind = _kind(optimizer)
        self.attributes = _attributes(optimizer)
        self.options = _options(optimizer, pairs)


class Repeat:
    """One pass as it was: what it was made of, and its updates."""

    def __init__(self, before: Before, here: Pass, updates: list[Kept]) -> None:
        self.before, self.updates = before, updates
        declared = updates[0].one[0].declared
        marks = [mark for kept in updates for mark in kept.one[1].guard]
        self._crossed = [tensor for _, tensor, _, _ in marks]
        self._pointers, self._versions = [mark[2] for mark in marks], [mark[3] for mark in marks]
        self._params = [kept.param for kept in updates]
        self._regularizers = [kept.regularizer for kept in updates]
        self.undecayed = all(regularizer is None for regularizer in self._regularizers)
        self._decaying = [kept.one[1].numbers.get("with_decay") for kept in updates]
        self._items = [kept.one[1].item for kept in updates]
        self._gathered: list[Gathered] = []
        self._windows = Windows()
        self._grouped: tuple[Any, dict[Any, list[tuple[Waiting, Held]]]] = None, {}  # what they were grouped by, and the groups
        self.name, self.rated = declared.name, declared.place_of_rate is not None
        self._state = [id(tensor) for tensor in _state(here.optimizer)]
        after = vars(here.optimizer)
        self.changed = {name: after[name] for name, value in _attributes(here.optimizer).items() if _moved(before, name, value)}

    def again(self, here: Pass, given: Any, pairs: Sequence[tuple[Any, Any]]) -> Groups | None:
        """The updates of this pass, if all is as it was; gradients are crossed. Raises StayNative where one cannot be.

        Args:
            here: the pass.
            given: the parameters as the optimizer got them, with the options of their group if they are one.
            pairs: those that are updated, with their gradients.
        """
        optimizer = here.optimizer
        if len(pairs) != len(self.updates) or not self._is_of(optimizer, given):
            return None
        tensor, asked = optimizer._global_learning_rate(), getattr(optimizer, _ASKED, None)
        if type(optimizer._learning_rate) is not float or type(tensor) not in TENSOR_TYPES:
            optimizer._create_global_learning_rate()  # a schedule's number goes into the tensor
            tensor = optimizer._global_learning_rate()
        params = [param for param, _ in pairs]
        if any(map(is_not, params, self._params)):
            return None
        if any(map(is_not, [getattr(param, "regularizer", None) for param in params], self._regularizers)):
            return None
        if asked is not None and [bool(asked(param.name)) for param in params] != self._decaying:
            return None
        factors = here.factors(params) if self.rated else [1.0] * len(params)
        if factors is None:
            return None
        decays = [here.decay_of(param) for param in params] if here.decays else [0.0] * len(params)
        common = here.common_rate(tensor) if self.rated else 0.0
        found: Groups = {}
        for (key, factor, decay), group in self._groups(factors, decays).items():
            rate = here.kept_rate(common, factor)
            if rate is None:
                return None
            found.setdefault((key, rate, decay), []).extend(group)
        if not self._stand():  # behind all that is the program's own: its schedules, its functions
            return None
        self._take(pairs)
        return found

    def _groups(self, factors: list[float], decays: list[float]) -> Groups:
        """The updates by their numbers, factors and decays."""
        if self._grouped[0] != (factors, decays):
            found: Groups = {}
            for (one, *_), factor, decay in zip(self.updates, factors, decays):
                found.setdefault((one[1].key, factor, decay), []).append(one)
            self._grouped = (factors, decays), found
        return self._grouped[1]

    def _take(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """The gradients of this step."""
        if not self._windows.show([grad for _, grad in pairs]):
            self._windows, seen = Windows(), Windows(pairs)
            for ((_, held), *_), (param, grad), side in zip(self.updates, pairs, seen.sides or [None] * len(pairs)):
                held.take(param, grad, side)
            if not seen.sides or any(map(is_not, [item.grad for item in self._items], seen.sides)):  # crossed, of another dtype
                return
            self._windows = seen
        for item, side in zip(self._items, self._windows.sides):
            item.grad = side

    def gathered(self, items: Sequence[Item]) -> Gathered:
        """What is known of these parameters; they are grouped as at the last step, mostly."""
        for known in self._gathered:
            if known.items == items:
                return known
        found = Gathered(items)
        self._gathered = [*self._gathered[1 - _GROUPINGS :], found]
        return found

    def _stand(self) -> bool:
        """Whether all tensors that were crossed lie where they lay, and were not written in a way that Paddle counts."""
        return [tensor.data_ptr() for tensor in self._crossed] == self._pointers and [
            tensor._inplace_version() for tensor in self._crossed
        ] == self._versions

    def _is_of(self, optimizer: Any, given: Any) -> bool:
        return (
            _kind(optimizer) == self.before.kind
            and _attributes(optimizer) == self.before.attributes
            and _options(optimizer, given) == self.before.options
            and [id(tensor) for tensor in _state(optimizer)] == self._state
            and _is_off(optimizer._get_auxiliary_var("found_inf"))
        )


def _is_off(found_inf: Any) -> bool:
    """Whether no scaler has found anything: what it left to be read is read by Paddle."""
    return found_inf is None or found_inf is False


def _kind(optimizer: Any) -> tuple[Any, ...]:
    kind = type(optimizer)
    return (kind, *[getattr(kind, name, None) for name in _METHODS])


def _attributes(optimizer: Any) -> dict[str, Any]:
    """What an optimizer says of itself: see :func:`_word`."""
    return {name: _word(value) for name, value in vars(optimizer).items() if name not in _NEW_EACH_TIME}


def _options(optimizer: Any, pairs: Any) -> list[dict[str, Any]]:
    """What a program told of this group of parameters and of all others; either may be changed between two steps."""
    own = {name: value for name, value in pairs.items() if name != "params"} if isinstance(pairs, dict) else {}
    return [{name: _word(value) for name, value in told.items()} for told in (own, getattr(optimizer, "_default_dict", None) or {})]


def _word(value: Any) -> Any:
    """A plain value, which tensor it is, and of others their kind: they are asked, or watched, by themselves."""
    kind = type(value)
    if kind in _PLAINEST or _is_plain_kind(kind):  # type: ignore[arg-type]
        return value
    return id(value) if issubclass(kind, paddle.Tensor) else kind


@functools.lru_cache(maxsize=256)  # for an abstract class this is a call in Python
def _is_plain_kind(kind: Any) -> bool:
    return issubclass(kind, PLAIN)


def _moved(before: Before, name: str, value: Any) -> bool:
    return name not in before.attributes or before.attributes[name] != value


def _state(optimizer: Any) -> list[Any]:
    """All accumulators and master weights, in order."""
    found = [tensor for kind in optimizer._accumulators.values() for tensor in kind.values()]
    return found + list(getattr(optimizer, "_master_weights", {}).values())


def living(pairs: Any) -> list[tuple[Any, Any]]:
    """The parameters of a pass that are updated, with their gradients."""
    given = pairs["params"] if isinstance(pairs, dict) else pairs
    return [pair for pair in given if pair[1] is not None and not pair[0].stop_gradient]


_of: weakref.WeakKeyDictionary[Any, dict[int, Repeat]] = weakref.WeakKeyDictionary()  # by the identity of the first parameter


def kept(optimizer: Any, first: Any) -> Repeat | None:
    """The pass of an optimizer that is kept, by the first of its parameters."""
    return _of.get(optimizer, {}).get(id(first))


def keep(before: Before, here: Pass, pairs: Any) -> None:
    """Keep a pass that is over, if the next one may be made of it: all of its updates were Torch's, and known to the last word."""
    optimizer, alive = here.optimizer, living(pairs)
    if not alive:
        return
    _of.get(optimizer, {}).pop(id(alive[0][0]), None)
    if not here.whole or len(here.made) != len(alive) or not _is_plain(optimizer):
        return
    made = {id(call.args[0]): (call, held) for call, held in here.made}
    if len(made) != len(alive) or any(id(param) not in made or not _is_known(*made[id(param)], param) for param, _ in alive):
        return
    updates = [_kept(*made[id(param)], param) for param, _ in alive]
    repeat = Repeat(before, here, updates)
    if all(isinstance(value, PLAIN) for value in repeat.changed.values()) and not _asks_tensors(optimizer, pairs, updates):
        _of.setdefault(optimizer, {})[id(alive[0][0])] = repeat


def _kept(call: Waiting, held: Held, param: Any) -> Kept:
    bare = list(call.args)
    bare[call.declared.place_of_grad] = None  # a gradient must not outlive its step
    if call.declared.place_of_rate is not None:
        bare[call.declared.place_of_rate] = None
    return Kept((call._replace(frame=None, args=tuple(bare)), held), param, getattr(param, "regularizer", None))


def _is_plain(optimizer: Any) -> bool:
    """Whether an optimizer is one of Paddle's own, and nothing of it is another's."""
    kind = type(optimizer)
    return (
        kind.__module__.startswith("paddle.optimizer.")
        and is_paddles(optimizer)
        and all(getattr(optimizer, name, None) is None for name in _UNASKED)
        and not any(callable(value) and hasattr(kind, name) for name, value in vars(optimizer).items())
    )


def _asks_tensors(optimizer: Any, pairs: Any, updates: Sequence[Kept]) -> bool:
    """Whether a number may have been read out of a tensor, which may be written; what an update itself reads is read each time."""
    own = {name: value for name, value in vars(optimizer).items() if name not in _NEW_EACH_TIME}
    told = [own, getattr(optimizer, "_default_dict", None) or {}, pairs if isinstance(pairs, dict) else {}]
    read = {id(value) for update in updates for value in update.one[0].args}
    return any(isinstance(value, paddle.Tensor) and id(value) not in read for values in told for value in values.values())


def _is_known(call: Waiting, held: Held, param: Any) -> bool:
    """Whether what a call was made of is what is compared: no number is a tensor's, no decay is the kernel's own."""
    own = getattr(param, "regularizer", None)
    return held.numbers_are_plain() and not (call.declared.name == "momentum" and own is not None) and not hasattr(param, _SHARDED)


def finish(optimizer: Any, declared: Update, pairs: Any) -> None:
    """What an optimizer does behind all updates of a pass, where it is not known."""
    own = type(optimizer)._finish_update
    if declared.behind is None and own is not paddle.optimizer.Optimizer._finish_update:
        own(optimizer, paddle.static.default_main_program().global_block(), pairs)


def again(here: Pass, frame: Frame, pairs: Any) -> Again | None:
    """The updates of a pass that is as the last one over these parameters; None where it is not, or cannot be."""
    alive = living(pairs)
    repeat = kept(here.optimizer, alive[0][0]) if alive else None
    if repeat is None:
        return None
    try:
        gate(frame, repeat.name)
        found = repeat.again(here, pairs, alive)
    except StayNative:
        return None
    if found is None:
        return None
    vars(here.optimizer).update(repeat.changed)
    here.pairs = alive
    return Again(found, repeat.gathered)
