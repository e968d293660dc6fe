"""The values of a transfer, written all or none; and trials that decide between possible layouts of a weight."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import TransferError
from ..frameworks.copies import duplicate
from ..frameworks.memory import TORCH_DTYPES
from ..text import tr
from ..trees import as_array, leaves, mapped
from . import tree
from .mapping import Mapping
from .pairing import Choice, Pair, Way
from .reading import dtype_name, synchronise, view
from .tree import OTHER, LayerNode, WeightSide, canonical, own_layout


@dataclass
class Write:
    """One weight of the target, its memory, and its new values.

    ``partial``: a mask of the elements that are written; None: all.
    """

    name: str
    target: torch.Tensor
    value: torch.Tensor | float
    partial: torch.Tensor | None = None


def prepared(mapping: Mapping, src: WeightSide, dst: WeightSide) -> list[Write]:
    """The writes of a transfer, one for tied weights.

    Raises:
        TransferError: a value has no place, or another shape or dtype than its target; nothing was written.
    """
    groups: dict[str, list[Pair]] = {}
    for pair in mapping.pairs:
        slot = pair.slot(dst.framework)
        if slot.weight is None:
            _check_placeless(pair, src)
        elif pair.slot(src.framework).weight is not None or pair.slot(src.framework).fill is not None:
            groups.setdefault(slot.weight.name, []).append(pair)
    writes: dict[Any, Write] = {}
    for name, pairs in groups.items():
        slot = pairs[0].slot(dst.framework)
        assert slot.weight is not None
        made = _made(name, pairs, src, dst)
        first = writes.setdefault(slot.weight.key, made)
        if first is not made and not _equal(first, made):
            raise TransferError(
                "{first} and {second} are one tensor in {framework}, but their sources hold different values",
                mapping,
                first=first.name,
                second=name,
                framework=dst.framework.title(),
            )
    return list(writes.values())


def _made(name: str, pairs: list[Pair], src: WeightSide, dst: WeightSide) -> Write:
    """The write of one weight of the target."""
    tensor = dst.tensors[name]
    if not getattr(getattr(tensor, "flags", None), "writeable", True):
        raise TransferError("{name} cannot be written: the array is read-only", name=name)
    target = view(tensor)
    if target.is_inference() and not torch.is_inference_mode_enabled():
        raise TransferError("{name} cannot be written: it was made in torch.inference_mode()", name=name)
    if any(stride == 0 and size > 1 for stride, size in zip(target.stride(), target.shape)):
        raise TransferError("{name} cannot be written: several of its elements share memory (it was expanded)", name=name)
    pair, slot = pairs[0], pairs[0].slot(dst.framework)
    if len(pairs) == 1 and (not slot.steps if pair.rule is None else slot.whole):
        value = _value(pair, src, dst.framework)
        if isinstance(value, torch.Tensor) and pair.rule is None:
            value = own_layout(slot, value)
        _check(name, value, target, pair, src.framework)
        return Write(name, target, value)
    return _assembled(name, target, pairs, src, dst.framework)


def _assembled(name: str, target: torch.Tensor, pairs: list[Pair], src: WeightSide, framework: str) -> Write:
    """The write of a weight that is made of several parts."""
    whole, known = (torch.zeros(target.shape, dtype=dtype, device=target.device) for dtype in (target.dtype, torch.bool))
    for pair in pairs:
        slot = pair.slot(framework)
        if pair.rule is not None:
            raise TransferError(
                "the rule for {torch} and {paddle} cannot be applied: {name} holds several weights, and a function makes "
                "a whole one; split(...) or concat(...) say which parts it holds",
                torch=pair.torch,
                paddle=pair.paddle,
                name=name,
            )
        value, place, seen = _value(pair, src, framework), canonical(slot, whole), canonical(slot, known)
        _check(name, value, place, pair, src.framework)
        before = place[seen].clone()
        place.fill_(value) if isinstance(value, float) else place.copy_(value)
        if not torch.equal(before, place[seen]):
            raise TransferError(
                "a part of {name} has several sources, which hold different values: {framework}",
                name=name,
                framework=pair.name(src.framework),
            )
        seen.fill_(True)
    return Write(name, target, whole, None if bool(known.all()) else known)


def _value(pair: Pair, src: WeightSide, framework: str) -> torch.Tensor | float:
    """The value of one pair for the target: in canonical layout, or, by a rule, in the target's own."""
    slot = pair.slot(src.framework)
    if slot.weight is None:
        assert slot.fill is not None
        return slot.fill
    value = view(src.tensors[slot.weight.name])
    if pair.rule is not None:
        return _by_rule(pair, value, framework)
    if pair.cast is not None and pair.cast.dtype:
        value = value.to(TORCH_DTYPES[pair.cast.dtype])
    return canonical(slot, value)


def _by_rule(pair: Pair, value: torch.Tensor, framework: str) -> torch.Tensor:
    """The result of the caller's function for a copy of a value.

    Against its direction, a function that only rearranges elements is inverted.
    """
    assert pair.rule is not None
    names = f"the rule for {pair.torch} and {pair.paddle}"
    if pair.rule_from == framework:
        shape = pair.shape(framework)
        if pair.moves is None or shape is None or pair.moves.inverse is None:
            raise TransferError("{names} cannot be turned round: it does more than rearrange all elements", names=names)
        return value.reshape(-1)[pair.moves.inverse].reshape(shape)
    try:
        return torch.as_tensor(pair.rule(value.clone()))
    except Exception as error:
        raise TransferError("{names} failed: {type}: {error}", names=names, type=type(error).__name__, error=error) from error


def _check(name: str, value: torch.Tensor | float, target: torch.Tensor, pair: Pair, source: str) -> None:
    """Raise if a value does not fit its target exactly."""
    if isinstance(value, float):
        return
    names = pair.name(source)
    if value.shape != target.shape:
        raise TransferError(
            "{name} is {shape}, but {names} would give it {result}",
            name=name,
            shape=list(target.shape),
            names=names,
            result=list(value.shape),
        )
    if pair.cast is None and torch.promote_types(value.dtype, target.dtype) != target.dtype:
        raise TransferError(
            "{name} is {target}, and {names} is {value}: its values would be rounded. If that is wanted: "
            "rules=[({pattern}, cast())], or '**' for all",
            name=name,
            target=dtype_name(target),
            names=names,
            value=dtype_name(value),
            pattern=repr(name),
        )


def _equal(first: Write, second: Write) -> bool:
    if isinstance(first.value, float) or isinstance(second.value, float):
        return first.value is second.value
    return bool(torch.equal(first.value, second.value))


def _check_placeless(pair: Pair, src: WeightSide) -> None:
    """Raise if the source holds values that the target has no place for, unless they equal the target's implicit ones."""
    slot, missing = pair.slot(src.framework), pair.torch_slot if src.framework == "paddle" else pair.paddle_slot
    if slot.weight is None or missing.fill is None:
        return
    if not bool((view(src.tensors[slot.weight.name]) == missing.fill).all()):
        raise TransferError("{name} has no partner, and holds other values than {fill:g}", name=slot.weight.name, fill=missing.fill)


def put(write: Write) -> None:
    """Write one value into the memory of its weight; the tensor keeps its identity, flags and device."""
    if isinstance(write.value, float):
        write.target.fill_(write.value)
    elif write.partial is None:
        write.target.copy_(write.value)
    else:
        write.target.copy_(torch.where(write.partial, write.value, write.target))


def write_all(writes: list[Write], put: Callable[[Write], None] = put, *, for_good: bool = False) -> None:
    """Write everything; if anything fails, Ctrl-C included, every weight gets its old values back.

    The old values are copied before the first write, so that restoring them needs no memory.

    ``for_good``: without these copies, into a model that is not used any more if this fails.
    """
    synchronise()
    with torch.no_grad():
        old_values = [None if for_good else write.target.clone() for write in writes]
        begun = []
        try:
            for write, old in zip(writes, old_values):
                begun.append((write.target, old))
                put(write)
            synchronise()
        except BaseException:
            for target, old in begun if not for_good else ():
                target.copy_(old)
            synchronise()
            raise


# Which of the possible layouts of a weight is right, as its use shows. Copies of the two layers that hold it run in float64 with
# random weights on one input: the layout in which both give the same result is the right one. The input is the one that the models
# themselves give to the layers, if the models' inputs are known; otherwise random numbers, or what the layers around make of random
# tokens. Differences elsewhere in the port have no influence.

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Kernels = Callable[[], contextlib.AbstractContextManager[Any]]
Run = Callable[[str], object]  # runs a whole model, of "torch" or "paddle"

_SAME = 1e-6  # of the largest element: distance of equal results, in float64 with some slack
_NEAR, _NEARER = 0.2, 10.0  # with a mistake in the layer: largest distance, and how many times nearer than the next way
_LARGEST = 1 << 26  # elements of a layer that is copied
_LARGE = 1e3
_EFFORT, _FEWEST = 1 << 28, 8  # elements of all layers that run for one choice, and the least number of ways tried


class _Reached(BaseException):
    """A layer was called, and the rest of its model need not run."""


@dataclass
class Trials:
    """Tries the ways of choices.

    Args:
        torch_side, paddle_side: both models.
        layers: which layers belong together, by name.
        pairs: all other pairs of the match.
        ruled: the pair as rules say it.
        run: runs a model with the caller's inputs; None if they are not known.
        kernels: what copies of Paddle's layers run in: on a machine that lacks a kernel of theirs, Torch's answer.
    """

    torch_side: WeightSide
    paddle_side: WeightSide
    layers: dict[str, str]
    pairs: list[Pair]
    ruled: Callable[[Pair], Pair]
    run: Run | None = None
    kernels: Kernels = contextlib.nullcontext

    def decided(self, choices: Sequence[Choice]) -> list[Choice]:
        """The choices, decided as far as possible; the same weights of other layers have the same layout."""
        settled = list(choices)
        with _as_they_were(self.torch_side.objects.get(""), self.paddle_side.objects.get("")):
            for assume, near in ((False, False), (True, False), (False, True)):
                open_ = None
                while open_ != (open_ := sum(choice.is_open for choice in settled)):  # a decision may enable others
                    for key in dict.fromkeys(choice.key for choice in settled if choice.is_open):
                        settled = self._with(key, settled, assume=assume, near=near)
        return settled

    def _with(self, key: tuple[str, ...], settled: Sequence[Choice], *, assume: bool, near: bool) -> list[Choice]:
        """The choices with those of one key decided, if possible.

        Args:
            assume: try every way of the other open choices.
            near: take the nearest way, if none is right.
        """
        first = next(choice for choice in settled if choice.key == key)
        others = [choice for choice in settled if choice.key != key]
        label, reason = "", first.reason
        for assumed in _assumptions(others) if assume else [others]:
            label, reason = self._label(first, assumed, near=near)
            if label:
                break
        return [_decided(choice, label, reason) if choice.key == key else choice for choice in settled]

    def by_values(self, choices: Sequence[Choice]) -> list[Choice]:
        """The choices, decided if both models hold equal values in one of the ways."""
        return [
            next((choice.decided(way.label) for way in choice.ways if choice.is_open and self._holds(way)), choice)
            for choice in choices
        ]

    def _holds(self, way: Way) -> bool:
        pairs = map(self.ruled, way.pairs())
        return all(torch.equal(pair.values(self.torch_side), pair.values(self.paddle_side)) for pair in pairs)

    def _label(self, choice: Choice, others: Sequence[Choice], *, near: bool) -> tuple[str, str]:
        """(label of the right way, "") or ("", why it is unknown). ``near``: if no way is right, the nearest one."""
        if not (self.torch_side.objects and self.paddle_side.objects):
            return "", "a state dict has no program that tells"
        reason, ran = "the layers that use it do not run by themselves", False
        choice = replace(choice, ways=self._likely_first(choice))
        for scope in self._scopes(choice):
            for arguments in self._inputs(scope, choice):
                try:
                    label = _Trial(self, scope, choice, others).label(arguments, near=near)
                except Exception as error:  # a layer that does not run alone shows nothing
                    if not ran:
                        reason = f"{scope[0] or 'the model'} does not run by itself ({type(error).__name__}: {str(error)[:80]})"
                    continue
                if label:
                    return label, ""
                ran = True
                reason = f"the outputs of {scope[0] or 'the models'} and {scope[1] or 'the port'} agree in none of these ways"
        return "", reason

    def _likely_first(self, choice: Choice) -> tuple[Way, ...]:
        """The ways, those first whose number of groups is a number of heads of the layers."""
        heads: set[int] = set()
        for scope in self._scopes(choice):
            for side, path in self._both(scope):
                # The numbers in a layer and its configuration whose names mean heads or groups
                layer = vars(side.objects[path])
                for numbers in (layer, getattr(layer.get("config"), "__dict__", {})):
                    heads |= {value for name, value in numbers.items() if type(value) is int and re.search("head|group|kv", name)}
        return tuple(sorted(choice.ways, key=lambda way: way.groups > 1 and way.groups not in heads))

    def _scopes(self, choice: Choice) -> Iterator[tuple[str, str]]:
        """Layers of both sides that hold all of a choice's weights, the innermost first."""
        inside = {"torch": _above([choice.whole]), "paddle": _above(choice.parts)}
        if choice.side == "paddle":
            inside = {"torch": _above(choice.parts), "paddle": _above([choice.whole])}
        torch_chain, paddle_chain = _chain(inside["torch"]), _chain(inside["paddle"])
        pairs = [(torch_chain[0], paddle_chain[0])]
        pairs += [(path, self.layers[path]) for path in torch_chain if self.layers.get(path) in paddle_chain]
        for scope in dict.fromkeys(pairs):
            if all(path in side.objects for path, side in zip(scope, (self.torch_side, self.paddle_side))):
                yield scope

    def _inputs(self, scope: tuple[str, str], choice: Choice) -> Iterator[tuple[Arguments, Arguments]]:
        """Possible arguments of both layers of a scope."""
        if self.run is not None:
            reached = [self._reached(side, path, functools.partial(self.run, side.framework)) for side, path in self._both(scope)]
            if reached[0] and reached[1]:
                yield reached[0], reached[1]
        width = choice.ways[0].pairs()[0].torch_slot.shape[-1]
        numbers = np.random.default_rng(0).standard_normal((2, 5, width)).astype("float32")
        for count in (1, 3):  # x, or query, key and value
            yield (_tensors("torch", numbers, count), {}), (_tensors("paddle", numbers, count), {})
        embeddings = (
            side.objects.get(node.path)
            for side in (self.torch_side, self.paddle_side)
            for node in side.root.walk()
            if node.kind == "embedding"
        )
        rows = [layer.weight.shape[0] for layer in embeddings if layer is not None]
        words = np.random.default_rng(0).integers(0, min(rows, default=1), (2, 5))
        chain = _chain(scope[1])[1:]
        around = [(path, self.layers[path]) for path in _chain(scope[0])[1:] if self.layers.get(path) in chain]  # paired layers
        for values, outer in itertools.product((numbers, words) if rows else (numbers,), around):
            runs = [functools.partial(side.objects[path], *_tensors(side.framework, values, 1)) for side, path in self._both(outer)]
            reached = [self._reached(side, path, run) for (side, path), run in zip(self._both(scope), runs)]
            if reached[0] and reached[1]:
                yield reached[0], reached[1]

    def _both(self, scope: tuple[str, str]) -> tuple[tuple[WeightSide, str], tuple[WeightSide, str]]:
        return (self.torch_side, scope[0]), (self.paddle_side, scope[1])

    def _reached(self, side: WeightSide, path: str, run: Callable[[], object]) -> Arguments | None:
        """The arguments with which a run of the model calls a layer; None if it does not call it."""
        layer, seen = side.objects[path], []

        def forward(*positional: Any, **keywords: Any) -> None:
            seen.append((positional, keywords))
            raise _Reached

        own = layer.__dict__.get("forward")
        layer.__dict__["forward"] = forward
        try:
            run()
        except _Reached:
            return seen[0]
        except Exception:  # a model that cannot be called so
            return None
        finally:
            if own is None:
                del layer.__dict__["forward"]
            else:
                layer.__dict__["forward"] = own
        return None


class _Trial:
    """One choice, tried in one scope."""

    def __init__(self, trials: Trials, scope: tuple[str, str], choice: Choice, others: Sequence[Choice]) -> None:
        self._trials, self._choice = trials, choice
        self._source = OTHER[choice.side]  # the parts', whose values go into the whole
        layers = {side.framework: side.objects[path] for side, path in trials._both(scope)}
        elements = sum(math.prod(parameter.shape) for layer in layers.values() for parameter in layer.parameters())
        if elements > _LARGEST:
            raise ValueError(tr("it is too large to be copied"))
        self._layers = {framework: _converted(duplicate(layer)) for framework, layer in layers.items()}
        tensors = {framework: _tensors_of(self._layers[framework], path) for framework, path in zip(("torch", "paddle"), scope)}
        self._sides = {framework: WeightSide(framework, LayerNode(""), side_tensors) for framework, side_tensors in tensors.items()}
        rest = [*trials.pairs, *(trials.ruled(pair) for other in others for pair in other.pairs())]
        self._width = choice.ways[0].pairs()[0].torch_slot.shape[-1]
        most = max(_FEWEST, _EFFORT // max(1, elements))
        self._ways = choice.ways[:most]
        self._rest = [pair for pair in rest if pair.torch in tensors["torch"] and pair.paddle in tensors["paddle"]]

    def label(self, arguments: tuple[Arguments, Arguments], *, near: bool) -> str:
        """The way in which both layers give the same result, or (``near``) a much nearer one than in any other; "" if none."""
        plain = self._distances(arguments, stop=True)
        if min(plain.values()) < _SAME:
            return min(plain, key=plain.__getitem__)
        # Equal tokens: the weights of a softmax add up to one whatever it gets, so that only the weighed values count.
        alike = self._distances((_alike(arguments[0], self._width), _alike(arguments[1], self._width)))
        same = [label for label, apart in alike.items() if apart < _SAME]
        if same:
            return min(same, key=plain.__getitem__)
        if not near:
            return ""
        # Large numbers: all gating functions behave alike.
        large = self._distances(arguments, factor=_LARGE)
        return _nearest(plain) or _nearest(alike) or _nearest(large)

    def _distances(self, arguments: tuple[Arguments, Arguments], *, factor: float = 1.0, stop: bool = False) -> dict[str, float]:
        """For each way the distance of the outputs, relative to the largest element; ``stop``: end at the first equal one."""
        inputs = dict(zip(("torch", "paddle"), _equal_arguments(arguments)))
        target = OTHER[self._source]
        self._fill(factor)
        self._carry(self._rest)
        wanted, distances = self._outputs(self._source, inputs[self._source]), {}
        for way in self._ways:
            self._carry([self._trials.ruled(pair) for pair in way.pairs()])
            distances[way.label] = _apart(wanted, self._outputs(target, inputs[target]))
            if stop and distances[way.label] < _SAME:
                break
        return distances

    def _fill(self, factor: float) -> None:
        """Random numbers for all weights, those of the choice times a factor."""
        generator = torch.Generator().manual_seed(0)
        chosen = {pair.name(self._source) for pair in self._choice.ways[0].pairs()}
        with torch.no_grad():
            for name, tensor in self._sides[self._source].tensors.items():
                values = view(tensor)
                if not values.is_floating_point() or not values.numel():
                    continue
                noise = torch.randn(values.shape, generator=generator, dtype=torch.float64).to(values.device, values.dtype)
                if values.ndim > 1:
                    values.copy_(noise / math.sqrt(min(values.shape[-2:])))
                else:
                    values.add_(0.3 * noise)
                if name in chosen:
                    values.mul_(factor)

    def _carry(self, pairs: list[Pair]) -> None:
        mapping = Mapping(self._source, pairs, {}, ([], []))
        sides = self._sides[self._source], self._sides[OTHER[self._source]]
        write_all(prepared(mapping, *sides), for_good=True)

    def _outputs(self, framework: str, arguments: Arguments) -> list[np.ndarray[Any, Any]]:
        layer = self._layers[framework]
        dtype = next((dtype_name(view(tensor)) for tensor in self._sides[framework].tensors.values()), "float64")
        positional, keywords = _fresh(arguments, dtype)
        within = self._trials.kernels() if framework == "paddle" else contextlib.nullcontext()
        with torch.no_grad(), paddle.no_grad(), within:
            result = layer(*positional, **keywords)
        arrays = [as_array(leaf) for _, leaf in leaves(result)]
        return [array for array in arrays if array.dtype.kind == "f" and array.size]


def _apart(wanted: list[np.ndarray[Any, Any]], made: list[np.ndarray[Any, Any]]) -> float:
    """The distance of the first outputs of one shape."""
    for expected in wanted:
        for other in made:
            if expected.shape == other.shape:
                apart = float(np.abs(expected - other).max() / max(float(np.abs(expected).max()), 1e-300))
                return apart if math.isfinite(apart) else math.inf
    raise ValueError(tr("no outputs of one shape"))


def _nearest(distances: dict[str, float]) -> str:
    """The way with a much smaller distance than any other; "" if there is none."""
    ordered = sorted(distances, key=distances.__getitem__)
    best = ordered[0]
    alone = len(ordered) > 1 and distances[best] * _NEARER <= distances[ordered[1]]
    return best if alone and distances[best] <= _NEAR else ""


def _assumptions(choices: Sequence[Choice]) -> Iterator[Sequence[Choice]]:
    """The choices with one open choice decided, for each open choice and each of its ways."""
    for key in dict.fromkeys(choice.key for choice in choices if choice.is_open):
        first = next(choice for choice in choices if choice.key == key)
        for way in first.ways[:_FEWEST]:
            yield [choice.decided(way.label) if choice.key == key else choice for choice in choices]


def _decided(choice: Choice, label: str, reason: str) -> Choice:
    return choice.decided(label) if any(way.label == label for way in choice.ways) else replace(choice, reason=reason)


def _above(paths: Sequence[str]) -> str:
    """The innermost layer around some names."""
    chains = [_chain(tree.parent(path)) for path in paths]
    return next(path for path in chains[0] if all(path in chain for chain in chains))


def _chain(path: str) -> list[str]:
    """A layer and those around it, the innermost first."""
    chain = [path]
    while path:
        path = tree.parent(path)
        chain.append(path)
    return chain


def _tensors(framework: str, values: np.ndarray[Any, Any], count: int) -> tuple[Any, ...]:
    make = torch.from_numpy if framework == "torch" else paddle.to_tensor
    return tuple(make(values.copy()) for _ in range(count))


def _tensors_of(layer: Any, path: str) -> dict[str, Any]:
    """The weights of a layer by their names in the whole model."""
    named_tensors = [*layer.named_parameters(), *layer.named_buffers()]
    if isinstance(layer, torch.nn.Module):
        named_tensors = [*layer.named_parameters(remove_duplicate=False), *layer.named_buffers(remove_duplicate=False)]
    return {tree.joined(path, name): tensor for name, tensor in named_tensors}


def _converted(layer: Any) -> Any:
    """A layer, converted to float64 and set to evaluation."""
    layer.eval()
    return layer.double() if isinstance(layer, torch.nn.Module) else layer._to_impl(dtype="float64", floating_only=True)


def _fresh(arguments: Arguments, dtype: str) -> Arguments:
    """Arguments for one call: floats of that dtype, and copies of objects (caches) that a call may change."""

    def change(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().to(TORCH_DTYPES[dtype]) if leaf.is_floating_point() else leaf.detach().clone()
        if isinstance(leaf, paddle.Tensor):
            return leaf.detach().astype(dtype) if paddle.is_floating_point(leaf) else leaf.detach().clone()
        return leaf

    changed: Arguments = mapped(arguments, change)
    with contextlib.suppress(Exception):  # objects that cannot be copied are passed on
        return copy.deepcopy(changed)
    return changed


def _equal_arguments(arguments: tuple[Arguments, Arguments]) -> tuple[Arguments, Arguments]:
    """The arguments with Torch's numbers in those of Paddle's float tensors that have a counterpart of one shape."""
    torch_leaves = [leaf for _, leaf in leaves(arguments[0]) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, paddle.Tensor) or not paddle.is_floating_point(leaf):
            return leaf
        for place, tensor in enumerate(torch_leaves):
            if list(tensor.shape) == list(leaf.shape):
                return paddle.to_tensor(as_array(torch_leaves.pop(place)).copy())
        return leaf

    return arguments[0], mapped(arguments[1], change)


def _alike(arguments: Arguments, width: int) -> Arguments:
    """The arguments with one row of numbers for all tokens, of that width."""

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, (torch.Tensor, paddle.Tensor)) or leaf.ndim < 2 or leaf.shape[-1] != width:
            return leaf
        values = as_array(leaf)
        if values.dtype.kind != "f":
            return leaf
        row = np.broadcast_to(values.reshape(-1, width)[0], values.shape).copy()
        return torch.from_numpy(row).to(leaf.device) if isinstance(leaf, torch.Tensor) else paddle.to_tensor(row)

    changed: Arguments = mapped(arguments, change)
    return changed


@contextlib.contextmanager
def _as_they_were(*models: Any) -> Iterator[None]:
    """Set both models to evaluation; afterwards restore their modes and the random generators."""
    layers: list[Any] = []
    for model in models:
        if model is not None:
            layers += model.modules() if isinstance(model, torch.nn.Module) else model.sublayers(include_self=True)
    modes = [(layer, layer.training) for layer in layers]
    state = paddle.get_rng_state()
    try:
        with torch.random.fork_rng():
            for layer in layers:
                layer.training = False
            yield
    finally:
        for layer, training in modes:
            layer.training = training
        paddle.set_rng_state(state)
