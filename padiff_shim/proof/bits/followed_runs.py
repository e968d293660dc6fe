"""A run of the port whose calls are followed on both levels: Paddle's ops, and the kernels of Torch that answer them.

Each kernel call is named by the number of the Paddle call that it belongs to. So a run in which some calls are exchanged for others
still names all the others alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple

import paddle
import torch

from ...dispatch.call_site import CallSite, call_site
from ...dispatch.frames import paused
from ...frameworks.memory import to_torch
from ...frameworks.weight_copies import same_tensor_bits
from ...torch_versions import last_node_number, without_modes
from ...trees import mapped
from ..plans import OnTorch
from ..programs import ModelSide
from ..trace import Capture, Forced, Key, TraceCall, TraceOperand, backward_node
from .calls import CallRecorder, NotesCalls, ValueId
from .formulation import listed, replay
from .source import Span, span_in_layer, span_of_call

_PASS = ModelSide._pass.__code__
_MARK = "\0"  # between a layer's path and the number of a Paddle call


class Swap(NamedTuple):
    """Calls of the port that are exchanged for another spelling.

    Attributes:
        spelling: source in Paddle's words.
        operands: the values that it is made of, and numbers, by name.
        results: by the number of the call that makes them: the places of the results that take their place; None of one that stays.
        lists: the calls that give lists.
    """

    spelling: str
    operands: Mapping[str, ValueId | float]
    results: Mapping[int, Sequence[int | None]]
    lists: Set[int] = frozenset()


@dataclass(frozen=True)
class CallPlace:
    """Where a Paddle call stands in the port: line, layer, and the expression in the source."""

    site: CallSite
    layer: str
    span: Span | None

    @property
    def extent(self) -> tuple[Any, ...]:
        """File and place of the expression: equal for calls that one of Paddle's functions makes."""
        return () if self.span is None else self.span[:5]


class Followed:
    """What is known of a run of the port: its Paddle calls, where they stand, and which kernels each called.

    Attributes:
        recorder: the calls and their values.
        places: of each call.
        failures: exchanges that could not be made, by their place in ``swaps``, with the reason.

    Args:
        swaps: changes of the port's calls. ``probe``: called with the number and the result of each.
        ahead: by the number of a call: a value that it reads, and source of what it reads instead, step by step, each of the one
            before, ``x``; what begins alike is made once.
        tables: by the number of a value: the tensor that is read in its place.
        within: gets the expression of each call in a library's layer that the port calls.
    """

    def __init__(
        self,
        swaps: tuple[Swap, ...] = (),
        probe: Callable[[int, Any], None] | None = None,
        ahead: Mapping[int, tuple[int, tuple[str, ...]]] | None = None,
        tables: Mapping[int, Any] | None = None,
        within: list[Span | None] | None = None,
    ) -> None:
        self.recorder = CallRecorder()
        self._instead: dict[tuple[int, tuple[str, ...]], Any] = {}
        self.places: list[CallPlace] = []
        self.current: int | None = None  # the number of the Paddle call that is open
        self.failures: dict[int, str] = {}
        self.layer: Callable[[], str] = str
        self.probe = probe
        self._swaps = {call: (place, swap) for place, swap in enumerate(swaps) for call in swap.results}
        self._made: dict[int, list[Any]] = {}  # by the place of the swap
        self._plans: list[FollowingPlan] = []
        self._ahead, self._tables, self.within = ahead or {}, tables or {}, within

    def capture(self, names: Mapping[int, str], layer: Callable[[], str], until: CodeType, **words: Any) -> NumberedCapture:
        """The capture of this run."""
        self.layer = layer
        return NumberedCapture(self, names, layer, until, **words)

    def plan(self) -> FollowingPlan:
        """The plan of this run."""
        self._plans.append(FollowingPlan(self))
        return self._plans[-1]

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Within it calls are no part of the run: no capture hears of them."""
        captures = [(plan, plan.capture) for plan in self._plans]
        for plan in self._plans:
            plan.capture = None
        try:
            with paddle.no_grad(), without_modes():
                yield
        finally:
            for plan, capture in captures:
                plan.capture = capture

    def arguments(self, *parts: Any) -> tuple[Any, ...]:
        """The arguments of the next outermost call, with others in the place of a value, and with the tables."""
        value, steps = self._ahead.get(len(self.recorder.calls), (0, ()))
        if not steps and not self._tables:
            return parts

        def exchanged(leaf: Any) -> Any:
            if not isinstance(leaf, paddle.Tensor):
                return leaf
            read = self.recorder.value(leaf) if self._tables else self.recorder.known(leaf)  # a table may be read first here
            if read is None or read.number not in self._tables:
                return self._made_of(leaf, value, steps) if read is not None and read.number == value else leaf
            self.recorder.alias(self._tables[read.number], read.number)
            return self._tables[read.number]

        changed: tuple[Any, ...] = mapped(parts, exchanged)
        return changed

    def _made_of(self, tensor: Any, value: int, steps: tuple[str, ...]) -> Any:
        """What is read instead of a tensor that holds a value."""
        if not steps:
            return tensor
        if (value, steps) not in self._instead:
            source = self._made_of(tensor, value, steps[:-1])
            self.current = len(self.recorder.calls)  # its kernels belong to the call that reads it first
            try:
                self._instead[value, steps] = made = replay(steps[-1], {"x": source})
            finally:
                self.current = None
            self.recorder.alias(made, value)
        return self._instead[value, steps]

    def answer(self, make: Callable[[], Any]) -> Any:
        """The result of the next outermost call: its own, or that of the spelling that takes its place."""
        number = len(self.recorder.calls)
        del self.places[number:]  # of a call that the plan has refused: it is made again, on Paddle's kernel
        self.places.append(CallPlace(call_site(_PASS), self.layer(), span_of_call(_PASS, self.recorder.known)))
        if self.within is not None:
            self.within[number:] = [span_in_layer(_PASS, self.recorder.known)]
        self.current = number
        try:
            if number in self._swaps:
                place, swap = self._swaps[number]
                result = self._swapped(place, swap, number, make)
            else:
                result = make()
                for plan in self._plans:
                    if isinstance(plan.capture, NumberedCapture):
                        plan.capture.remember(self.places[number], number)
            if self.probe is not None:
                self.probe(number, result)
            return result
        finally:
            self.current = None

    def _swapped(self, place: int, swap: Swap, number: int, make: Callable[[], Any]) -> Any:
        if place not in self._made and place not in self.failures:
            try:
                self._made[place] = listed(replay(swap.spelling, self.recorder.operands(swap.operands)))
            except Exception as error:  # any answer of Paddle's to a call that nobody has written
                self.failures[place] = f"{type(error).__name__}: {error}"
        if place in self.failures:
            return make()
        own = list[Any]()
        if None in swap.results[number]:
            with self.unseen():
                own = listed(make())
        made = [own[at] if each is None else self._made[place][each] for at, each in enumerate(swap.results[number])]
        return made if number in swap.lists else made[0]


class FollowingPlan(NotesCalls, OnTorch):
    """The plan of a proof's runs that follows every call."""

    def __init__(self, run: Followed) -> None:
        super().__init__()
        self.run = run
        self.recorder = run.recorder

    def answer(self, op: str, make: Callable[[], Any]) -> Any:
        """See :meth:`Followed.answer`."""
        return self.run.answer(make)

    def arguments(self, *parts: Any) -> tuple[Any, ...]:
        """See :meth:`Followed.arguments`."""
        return self.run.arguments(*parts)


class LinkedCapture(Capture):
    """A capture that knows which calls of a backward go back through which of the forward.

    Attributes:
        sequence: of each call the number of the node of the graph that it made, or in whose backward it is; calls that made none
            are missing.
    """

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self.sequence: dict[TraceCall, int] = {}
        self._forward: set[int] = set()  # numbers of nodes whose call in the forward is known

    def _note(self, name: str, arguments: list[Any], operands: list[TraceOperand], results: Any, updated: Any) -> None:
        before, behind = len(self.trace.nodes), backward_node()
        number = last_node_number() if behind is None else behind._sequence_nr()
        super()._note(name, arguments, operands, results, updated)
        if behind is None:
            if number in self._forward:  # it made no node: a call on numbers, or on what the backward begins with
                return
            self._forward.add(number)
        self.sequence.update((node, number) for node in self.trace.nodes[before:])


class NumberedCapture(Capture):
    """A capture whose keys hold the number of the Paddle call, and which says what calls gave before they were exchanged.

    Attributes:
        differing: by key and place of the result: what a forced call gave by itself, where that is not what it was to give.
        plain: the calls by the keys that a :class:`Capture` gives them.
    """

    def __init__(
        self,
        run: Followed,
        names: Mapping[int, str],
        layer: Callable[[], str],
        until: CodeType | None = None,
        forced: Forced | None = None,
    ) -> None:
        super().__init__(names, layer, until, forced)
        self._run = run
        self.differing: dict[tuple[Key, int], torch.Tensor] = {}
        self.seen: set[tuple[Key, int]] = set()  # forced results that there were
        self.plain: dict[Key, TraceCall] = {}
        self._wanted = {id(wanted): (key, at) for key, results in self._forced.items() for at, wanted in enumerate(results)}
        self._plain_count: Counter[Any] = Counter()
        self._operands: list[TraceOperand] = []

    def remember(self, place: CallPlace, number: int) -> None:
        """The last node of the graph is that of a Paddle call, though no kernel was called within it (of a PyLayer)."""
        self._remember((place.site, f"{place.layer}{_MARK}{number}"))

    def _where(self) -> tuple[CallSite, str, bool]:
        behind = backward_node()
        if behind is not None:
            return (*(self._places.get(behind._sequence_nr()) or (call_site(self._until), "")), True)
        site, layer = call_site(self._until), self._layer()
        if self._run.current is not None:
            layer = f"{layer}{_MARK}{self._run.current}"
            self._remember((site, layer))
        else:  # gradients that are added up: named by what they are added of
            sources = tuple(
                operand.value.label if operand.value.node is None else operand.value.node.key for operand in self._operands
            )
            layer = f"{layer}{_MARK}{hash(sources)}+"
        return site, layer, False

    def _note(self, name: str, arguments: list[Any], operands: list[TraceOperand], results: Any, updated: Any) -> None:
        before = len(self.trace.nodes)
        self._operands = operands
        super()._note(name, arguments, operands, results, updated)
        for node in self.trace.nodes[before:]:
            plain = node.name, node.site, plain_layer(node), node.backward
            self.plain[Key(*plain, self._plain_count[plain])] = node
            self._plain_count[plain] += 1

    def _overwrite(self, tensor: torch.Tensor, wanted: torch.Tensor, *, again: bool) -> None:
        if tensor.shape != wanted.shape:  # a call of an exchanged spelling that bears another's key
            return
        place = self._wanted.get(id(wanted))
        if place is not None:
            self.seen.add(place)
            if not same_tensor_bits(tensor, wanted):
                self.differing[place] = tensor.detach().clone()
        super()._overwrite(tensor, wanted, again=again)


def call_number(node: TraceCall) -> int | None:
    """The number of the Paddle call that a kernel call belongs to; of a backward, that of the call that it goes back through."""
    number = node.layer.partition(_MARK)[2]
    return int(number) if number.isdigit() else None


def plain_layer(node: TraceCall) -> str:
    """The path of the layer of a kernel call."""
    return node.layer.partition(_MARK)[0]


def layer_of(key: Key) -> str:
    """The same of a call's key."""
    return key.layer.partition(_MARK)[0]


def as_side(tensor: Any) -> torch.Tensor:
    """A Paddle tensor's memory as Torch's."""
    with paused(), paddle.no_grad():
        return to_torch(tensor.detach())
