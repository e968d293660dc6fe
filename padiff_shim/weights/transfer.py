"""Matching the weights of two models, and copying them."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ArgumentError, TransferError
from ..text import joined, many, tr
from . import pairing
from .descriptions import Description, authors, by_description, described_by, speaks
from .explicit import Used, by_changes, by_parts, by_use, pinned, reordered_pairs
from .layer_matching import Correspondence, Matcher
from .mapping import Mapping, incomplete, undecided, unpaired
from .pairing import SQUARE, Choice, Pair, stacked
from .reading import read_both
from .rules import Reordered, Rules, moves
from .tree import AS_IS, OTHER, TRANSPOSED, Slot, Weight, WeightSide, take
from .values import Kernels, Run, Trials, prepared, write_all


def transfer_weights(src: Any, dst: Any, *, layer_map: Any = None, rules: Any = None) -> Mapping:
    """Copy all weights and buffers of a Torch module into a Paddle layer, or the other way round.

    The trees of layers, their types, shapes, names and order of construction tell which weights belong together; each kind of layer
    is copied as both frameworks lay it out (the transposed weight of a Linear, the fused projections of an attention...). If that
    leaves a layout open (q, k and v in one projection), copies of the layers that use the weight run in each possible layout, and
    the one in which both give the same result is taken. All values are computed and checked before the first write, and if a write
    fails, the earlier ones are undone.

    Args:
        src: a ``torch.nn.Module``, ``paddle.nn.Layer``, state dict (tensors of either framework, or arrays) or path of one
            (``.pdparams``, ``.pt``, ``.pth``, ``.bin``, ``.safetensors``).
        dst: a module, layer or state dict of the other framework. Its tensors stay the same objects, of their dtypes and devices.
        layer_map: {name, pattern or object of a layer of the Torch module: the same of the Paddle layer}; names of single weights
            are accepted, too. ``*`` stands for one component of a name, and for the same component on the other side.
        rules: pairs ``(pattern, transform)``, functions, AOA statements, or a model that describes its own weights: see
            :mod:`padiff_shim.weights.rules`. A rule that cannot be applied raises an error with the reason.

    Returns:
        The :class:`Mapping`, which prints itself as a table.

    Raises:
        TransferError: a weight has no partner, its values do not fit, a rule cannot be applied, or nothing tells how a weight lies;
            nothing was written.
        ArgumentError: an argument is not accepted; the message says what is.
        FileError: a file cannot be read, or holds more than plain data.

    Example:
        >>> import paddle, torch, padiff_shim
        >>> module, layer = torch.nn.Linear(3, 4), paddle.nn.Linear(3, 4)
        >>> mapping = padiff_shim.transfer_weights(module, layer)
        >>> bool((module.weight.detach().numpy().T == layer.weight.numpy()).all())
        True
        >>> print(mapping.check(module, layer).headline)
        2 pairs of weights, all equal bit for bit

        One projection that holds several, by a rule:

        >>> from padiff_shim.weights import split
        >>> rules = [("qkv", split("q", "k", "v", groups=2))]
        >>> module = torch.nn.ModuleDict({"qkv": torch.nn.Linear(8, 24)})
        >>> layer = paddle.nn.LayerDict({name: paddle.nn.Linear(8, 8) for name in "qkv"})
        >>> len(padiff_shim.transfer_weights(module, layer, rules=rules))
        6
    """
    sides = read_both(src, dst, writes=True)
    mapping = match(*sides, layer_map=layer_map, rules=rules)
    transfer(mapping, *sides)
    return mapping


def transfer(mapping: Mapping, src: WeightSide, dst: WeightSide) -> None:
    """Copy all weights from the source of a match into its target, or none.

    Raises:
        TransferError: a weight has no partner, its values do not fit, or nothing tells how a weight lies; nothing was written.
    """
    if not mapping:
        raise TransferError(incomplete(mapping, src, dst), mapping)
    if mapping.undecided:
        raise TransferError("{undecided}\nNothing was written.", mapping, undecided=pairing.undecided(mapping.undecided))
    square = [pair for pair in mapping.pairs if pair.undecided]
    if square:
        raise TransferError(undecided(mapping, square), mapping)
    model, writes = dst.objects.get(""), prepared(mapping, src, dst)
    if model is not None:
        trains = any(weight.trainable and not weight.buffer for weight in dst.weights.values())
        buffers = {name for name, weight in dst.weights.items() if weight.buffer or (trains and not weight.trainable)}
        _MADE[model] = {write.name: write.target.clone() for write in writes if write.name in buffers} | made_before(model)
    write_all(writes)


_MADE: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def made_before(model: Any) -> dict[str, Any]:
    """What untrained weights held that a transfer has covered, as the model's own code made them; by name."""
    return _MADE.get(model, {})


def carry(mapping: Mapping, src: Any, dst: Any) -> None:
    """Copy all values between the two models of a match, in either direction; weights without partner keep their values.

    If this fails, ``dst`` is partly written: it has to be a copy that is not used any more.

    Raises:
        TransferError: values do not fit; nothing was written.
    """
    write_all(prepared(mapping, *read_both(src, dst, writes=True)), for_good=True)


def match(
    src: Any,
    dst: Any,
    *,
    layer_map: Any = None,
    rules: Any = None,
    used: Sequence[Used] = (),
    run: Run | None = None,
    values_tell: bool = False,
    kernels: Kernels = contextlib.nullcontext,
) -> Mapping:
    """Which weights and layers of two models belong together; nothing is written, and weights may lack a partner.

    Arguments as for :func:`transfer_weights`; ``dst`` may be a path as well. Weights without partner are in ``unmatched_src`` and
    ``unmatched_dst``, and make the mapping false; open layouts are in ``undecided``.

    Args:
        used: weights that belong together by their use in a program.
        run: runs the model of ``"torch"`` or ``"paddle"``, to find out how weights lie; without it, on random numbers.
        kernels: what copies of Paddle's layers run in, see :class:`.values.Trials`.
        values_tell: whether both models already hold equal values, which then tell how weights lie.

    Raises:
        TransferError: a rule cannot be applied.
    """
    return _Match(*read_both(src, dst), layer_map, rules, used, run, values_tell, kernels).mapping()


@dataclass
class _Match:
    """The arguments of :func:`match`."""

    source: WeightSide
    target: WeightSide
    layer_map: Any
    written: Any
    used: Sequence[Used]
    run: Run | None
    values_tell: bool
    kernels: Kernels

    def mapping(self) -> Mapping:
        draft = self._draft(None)
        if draft.rules.statements or draft.rules.languages:
            return draft.mapping()
        notes = []
        for side in (self.source, self.target):
            layers = {path: layer for path, layer in side.objects.items() if layer is not None}
            for author in [] if draft.is_sure and not speaks(layers.get("")) else authors(layers):
                try:
                    other = self._draft(described_by(author, layers.values()), draft.doubted)
                except ArgumentError as error:
                    notes += [] if draft.is_sure else [f"not used: {error}"]
                    continue
                if other.doubts <= draft.doubts:
                    draft, notes = other, []
                if draft.is_sure:
                    break
        mapping = draft.mapping()
        mapping.notes += notes[:1]
        return mapping

    def _draft(self, described: Description | None, wanted: set[str] | None = None) -> _Draft:
        """The draft in which a state dict has one layout: matrices that are not square decide for those that are."""
        draft = _Draft(self, described, wanted)
        if len(draft.layouts) == 1:
            return _Draft(self, described, wanted, *draft.layouts)
        return draft


class _Draft:
    """The partners of all weights, before their use decides open layouts.

    Args:
        match: the arguments of the match.
        described: a model's description of its own weights.
        wanted: names of the weights that the description is used for; None: all.
        linear: how Linears' matrices lie in a state dict; "": as in its framework.
    """

    def __init__(self, match: _Match, described: Description | None, wanted: set[str] | None = None, linear: str = "") -> None:
        self._match = match
        self.source, self.target = match.source.copied(linear), match.target.copied(linear)  # trees that it uses up
        sides = {side.framework: side for side in (self.source, self.target)}
        self.torch, self.paddle = sides["torch"], sides["paddle"]
        self.weights = {framework: side.weights for framework, side in sides.items()}
        self.names = [*self.torch.weights, *self.paddle.weights]
        self.rules = Rules(match.written, speaks)
        self.rules.check(self.names)
        self.out = {name for name in self.names if self.rules.left_out(name)}
        self.notes = [f"left out by rules: {', '.join(sorted(self.out))}"] if self.out else []
        for side in (self.source, self.target):
            side.root.number()
            take(side, lambda slot: slot.weight is not None and slot.weight.name in self.out)
        self._growing = Correspondence(self.torch, self.paddle)
        self._matcher = Matcher(self.source.ordered and self.target.ordered)
        self._partners([(description, None) for description in self._spoken()] + ([(described, wanted)] if described else []))

    def _partners(self, descriptions: Iterable[tuple[Description, set[str] | None]]) -> None:
        """Pair by the caller's arguments, then by a model's description, then by the trees."""
        rules, matcher = self.rules, self._matcher
        if rules.rules:
            matcher.slots += by_parts(rules, self.torch, self.paddle)
        for description, wanted in descriptions:
            answer = by_description(description, self.torch, self.paddle, wanted)
            matcher.slots += answer.pairs
            self.out.update(answer.alone)
            count = len({pair.paddle for pair in answer.pairs})
            if answer.pairs:
                self.notes.append(
                    tr(
                        "{weights} as {of} say" if description.strict else "{weights} as {of} says",
                        weights=many(count, "weight"),
                        of=description.of,
                    )
                )
            if answer.alone:
                self.notes.append(
                    tr("without a counterpart, as {of} says: {alone}", of=description.of, alone=", ".join(answer.alone))
                )
            self.notes += answer.notes
        if self._match.used:
            matcher.slots += by_use(self._match.used, self.torch, self.paddle)
        if self._match.layer_map is not None:
            pinned(matcher, self._match.layer_map, rules, self.torch, self.paddle)
        matcher.choices += stacked(self.torch, self.paddle)
        matcher.match(self.torch.root, self.paddle.root)
        self._exchanged()
        if any(rule.changes for rule in rules.rules) or rules.functions:
            self._changed()

    def _spoken(self) -> Iterator[Description]:
        """The descriptions among the caller's rules."""
        models = [side.objects.get("") for side in (self.paddle, self.torch)]
        for model in self.rules.languages:
            yield described_by(model, models)
        if self.rules.statements:
            yield Description("rules=", self.rules.statements, strict=True)

    def _exchanged(self) -> None:
        """Turn pairs of the trees into choices where names say that one side holds gate and up in another order."""
        for slots in pairing.by_place([pair for pair in self._matcher.slots if not pair.is_explicit]).values():
            names = slots[0].torch, slots[0].paddle
            choice = pairing.exchanged(slots) if self.rules.changing(*names) is None else None
            if choice is not None:
                self._matcher.choices.append(choice)
                self._matcher.slots = [pair for pair in self._matcher.slots if pair not in slots]

    def _slots(self) -> list[Pair]:
        return [*self._matcher.slots, *(pair for choice in self._matcher.choices for pair in choice.pairs())]

    def _changed(self) -> None:
        """Pair weights without partner whose values a rule changes into those of a target."""
        matcher = self._matcher
        paired = {pair.name(side) for pair in self._slots() for side in OTHER}
        free: dict[str, list[Slot]] = {}
        for side in (self.source, self.target):
            slots = [slot for node in side.root.walk() for slot in (*node.slots, *node.extras)]
            free[side.framework] = [slot for slot in slots if slot.weight and slot.weight.name not in paired]
        layers = {torch_node.path: paddle_node.path for torch_node, paddle_node in matcher.scopes}
        layers |= {unit.torch.path: unit.paddle.path for unit in matcher.units}
        matcher.slots += by_changes(self.rules, self.source, free[self.source.framework], free[self.target.framework], layers)

    def _left(self, pairs: Iterable[Pair], side: WeightSide) -> list[Weight]:
        """The weights that lack a pair for all of their elements, and are neither tied to a paired weight nor optional."""
        covered: dict[Any, int] = {}
        for pair in pairs:
            slot = pair.slot(side.framework)
            if slot.weight is not None:
                size = slot.weight.size if pair.rule is not None or not slot.steps else slot.size
                covered[slot.weight.key] = covered.get(slot.weight.key, 0) + max(size, 1)
        wanted = (weight for name, weight in self.weights[side.framework].items() if name not in self.out and not weight.optional)
        return [weight for weight in wanted if weight.key not in covered or covered[weight.key] < weight.size]

    @property
    def layouts(self) -> dict[str, str]:
        """How Linears' matrices lie in a state dict, as those show that are not square, with the name of one."""
        shown = [pair for pair in self._matcher.slots if pair.lies not in ("", SQUARE)]
        return {pair.lies: pair.torch for pair in reversed(shown)}

    @functools.cached_property
    def unlike(self) -> str:
        """Why it is not known how the square ones lie; "" if it is."""
        layouts = self.layouts
        if len(layouts) > 1:
            return tr(
                "{torch} lies as Torch's Linear holds it, [out, in], and {paddle} as Paddle's, [in, out]",
                torch=layouts[AS_IS],
                paddle=layouts[TRANSPOSED],
            )
        if layouts or (self.source.certain and self.target.certain):
            return ""
        return tr("the state dict does not say whose it is, and all its matrices are square")

    @property
    def doubts(self) -> tuple[int, int, int]:
        """The number of weights without partner, of open layouts, and of pairs that only an order supports."""
        pairs = self._slots()
        left = sum(len(self._left(pairs, side)) for side in (self.source, self.target))
        return left, sum(choice.is_open for choice in self._matcher.choices), sum(pair.doubted or pair.turnable for pair in pairs)

    @property
    def doubted(self) -> set[str]:
        """The names of these weights."""
        left = [weight.name for side in (self.source, self.target) for weight in self._left(self._slots(), side)]
        pairs = [pair for pair in self._matcher.slots if pair.doubted or pair.turnable]
        pairs += [pair for choice in self._matcher.choices if choice.is_open for pair in choice.pairs()]
        return {*left, *(name for pair in pairs for name in (pair.torch, pair.paddle))}

    @property
    def is_sure(self) -> bool:
        return not any(self.doubts)

    def mapping(self) -> Mapping:
        """The whole answer."""
        matcher = self._matcher
        layers = self._growing.complete(
            [*matcher.scopes, *((unit.torch, unit.paddle) for unit in matcher.units)],
            [(pair.torch, pair.paddle) for pair in self._slots()],
        )
        drafts = (*matcher.slots, *_extras(self._growing))
        pairs = [part for pair in drafts for part in self._reordered(self._ruled(pair))]
        settled = self._settled(layers, pairs)
        pairs += [self._ruled(pair) for choice in settled for pair in choice.pairs()]
        left = self._left(pairs, self.source), self._left(pairs, self.target)
        mapping = Mapping(self.source.framework, self._in_order(pairs), layers, left, settled, self.notes)
        _say_ties(mapping, self.weights)
        mapping.notes += _padding(layers, self.paddle)
        # Raise for a rule that was not applied
        optional = {name for side in self.weights.values() for name, weight in side.items() if weight.optional}
        reasons = [
            tr("rule {pattern} was not applied", pattern=repr(rule.pattern))
            + (f" to {name}: {unpaired(name, mapping, self.weights)}" if name else "")
            for rule, name in self.rules.unapplied(name for name in self.names if name not in self.out)
            if name not in optional
        ]
        if reasons:
            raise TransferError("\n".join(map(str, [*dict.fromkeys(reasons), tr("nothing was written")])), mapping)
        return mapping

    def _ruled(self, pair: Pair) -> Pair:
        """The pair as the caller's rules say it."""
        names = pair.torch, pair.paddle
        change = self.rules.changing(*names) if all(names) else None
        rule, origin = (change, self.source.framework) if callable(change) else (pair.rule, "torch")
        self.rules.apply(*names)
        shape = pair.shape(origin)
        pair = replace(
            pair,
            rule=rule,
            rule_from=origin,
            moves=None if rule is None or shape is None else moves(rule, shape),
            cast=self.rules.casting(*names) or pair.cast,
            undecided=(pair.undecided or (self.unlike if pair.lies == SQUARE else "")) if change is None else "",
            turnable=pair.turnable and change is None,
        )
        dtypes = [slot.weight.dtype for slot in pair.slots if slot.weight]
        return pair.noted(" and ".join(dtypes)) if len(set(dtypes)) > 1 else pair

    def _reordered(self, pair: Pair) -> list[Pair]:
        """The pair, or those of its blocks, if a rule says that both sides hold them in another order."""
        order = self.rules.changing(pair.torch, pair.paddle) if pair.torch and pair.paddle else None
        if not isinstance(order, Reordered):
            return [pair]

        def refused(reason: str) -> TransferError:
            names = {"torch": pair.torch, "paddle": pair.paddle}
            return TransferError("the rule for {torch} and {paddle} cannot be applied: {reason}", **names, reason=reason)

        return [
            replace(pair, torch_slot=part.torch_slot, paddle_slot=part.paddle_slot, note=part.note)
            for part in reordered_pairs(pair.torch_slot, pair.paddle_slot, order, refused)
        ]

    def _settled(self, layers: dict[str, str], pairs: list[Pair]) -> list[Choice]:
        """The choices, decided as far as their use decides them."""
        choices = self._matcher.choices
        if not any(choice.is_open for choice in choices):
            return choices
        trials = Trials(self.torch, self.paddle, layers, pairs, self._ruled, self._match.run, self._match.kernels)
        return trials.decided(trials.by_values(choices) if self._match.values_tell else choices)

    def _in_order(self, pairs: list[Pair]) -> list[Pair]:
        """Pairs in order of the source."""
        framework = self.source.framework
        order = {name: place for place, name in enumerate(self.weights[framework])}

        def place(pair: Pair) -> tuple[int, list[tuple[int, ...]]]:
            return order.get(pair.name(framework), len(order)), [step.numbers for step in pair.slot(framework).steps]

        return sorted(pairs, key=place)


def _extras(growing: Correspondence) -> list[Pair]:
    """Pairs of the buffers that may lack a partner: those of one role and shape in two layers."""
    pairs = []
    for torch_node, paddle_node in growing.of.items():
        for slot in torch_node.extras:
            other = next((extra for extra in paddle_node.extras if (extra.role, extra.shape) == (slot.role, slot.shape)), None)
            if other is not None:
                pairs.append(Pair(slot, other))
    return pairs


def _say_ties(mapping: Mapping, weights: dict[str, dict[str, Weight]]) -> None:
    """Note weights that one side shares and the other does not: a training makes them differ."""
    for framework, other in OTHER.items():
        for pairs in mapping.tied_apart(framework):
            keys = {slot.weight.key for pair in pairs if (slot := pair.slot(framework)).weight}
            tied = [name for name, weight in weights[framework].items() if weight.key in keys]
            partners = {slot.weight.key: slot.weight.name for pair in pairs if (slot := pair.slot(other)).weight}
            if len(tied) > 1:
                mapping.notes.append(
                    tr(
                        "{tied} are one tensor in {framework}, but {others} are several in {other}: they part in training",
                        tied=joined(" and ", tied),
                        framework=framework.title(),
                        others=joined(" and ", partners.values()),
                        other=other.title(),
                    )
                )


def _padding(layers: dict[str, str], paddle_side: WeightSide) -> list[str]:
    """Notes on Paddle's embeddings whose padding row counts as zeros whatever it holds; Torch reads its values."""
    notes = []
    for name in layers.values():
        row = getattr(paddle_side.objects.get(name), "_padding_idx", None)
        if row is not None and row != -1:
            notes.append(tr("{name}: Paddle reads row {row} as zeros (padding_idx), Torch reads what it holds", name=name, row=row))
    return notes
