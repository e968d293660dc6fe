"""The plan of a bisection: Torch's kernels, but for some ops, layers or calls, which stay on Paddle's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..dispatch.door import Door
from ..dispatch.frames import Frame
from ..dispatch.site import Site, call_site, layer_path
from ..substitution.plan import Substituting
from ..table.reasons import FILTERED, StayNative

OVER = ("ops", "layers", "calls")
Place = tuple[str, str, Site]  # op, layer, line


@dataclass(eq=False)
class Unit:
    """What runs on one kernel or the other as a whole: an op, a layer (its own calls, not those of layers below), or one call.

    ``op`` is "" for a layer, ``layer`` is None for an op. ``places``: the calls that belong to it, (op, layer, line) -> how many.
    """

    op: str
    layer: str | None
    number: int = 0  # of a call: the how-maniest of its op, line and layer
    places: Counter[Place] = field(default_factory=Counter)

    @property
    def calls(self) -> int:
        """How many calls."""
        return sum(self.places.values())

    def __str__(self) -> str:
        if self.layer is None:
            return self.op
        where = f"layer {self.layer}" if self.layer else "outside of any layer below the outermost one"
        return f"{self.op} in {where}" if self.op and self.layer else self.op or where


Key = tuple[Any, ...]


class Choosing(Substituting):
    """Answers calls with Torch, unless they belong to one of the units ``native``; keeps what it met."""

    tracks_layers = True

    def __init__(self, over: str, native: Iterable[Key], definition: str, *, draws: bool, torchs: frozenset[str]) -> None:
        super().__init__(definition, draws=draws, torchs=torchs)
        self._over, self._native = over, frozenset(native)
        self._number: Counter[Place] = Counter()
        self.units: dict[Key, Unit] = {}

    def call(self, door: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As in reference mode, for the calls that are chosen; what only moves values always is."""
        if door.op.exact:
            return super().call(door, frame, values, args, kwargs)
        place = door.op.name, layer_path(), call_site()
        number = self._number[place]
        self._number[place] += 1
        key = self._key(place, number)
        if key in self._native:
            raise StayNative(FILTERED)
        try:
            result = super().call(door, frame, values, args, kwargs)
        finally:
            frame.quick.pop(door, None)  # else the door would not ask again
        self._met(key, place, number)
        return result

    def _key(self, place: Place, number: int) -> Key:
        return {"ops": place[:1], "layers": place[1:2], "calls": (*place, number)}[self._over]

    def _met(self, key: Key, place: Place, number: int) -> None:
        unit = self.units.get(key)
        if unit is None:
            op, layer, _ = place
            made = {"ops": Unit(op, None), "layers": Unit("", layer), "calls": Unit(op, layer, number)}
            unit = self.units[key] = made[self._over]
        unit.places[place] += 1
