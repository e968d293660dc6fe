"""Ties, kinks and steps: places where an op has several right answers, and which these are.

Of two equal elements either may be called the largest; at a kink every slope between those of its two sides is a subgradient; at a
step (half of a whole number) the value of either side will do. No rounding explains such a difference, and none has to: each side's
answer is held against what is allowed there, and what is not allowed is wrong. An op declares its ties, ``op(..., ties=Kinks())``:

- :class:`Kinks`: functions of single elements.
- :class:`Selected`: elements of a row that are chosen by their order; :class:`Running` extrema, :class:`Frequent` ones, and
  :class:`Pools`, which overlap.
- :class:`Sampled`: values at places between points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from . import noise
from .precision import KINDS, equal_in_value

Kernel = Callable[..., torch.Tensor]
CROSSED = 0.75  # of a unit in the last place: beyond a number that was rounded to the dtype, not as far as the next number
WIDENED = 1.25  # times as far: what still changes there is a slope
BESIDE = 2.0**-20  # of a coordinate between -1 and 1: further than its roundings
STEEP = 16.0  # times that change: a step
LEAST = 2.0**-12  # of the value: smaller steps do not count
COORDINATES = 3  # of a place, at most
ROUNDINGS = 8.0  # unit roundoffs that an allowed answer may be off


@dataclass
class TiedCall:
    """One judged tensor, as :class:`Ties` see it.

    Args:
        kernel: the formula of it, a function of ``operands`` in any float dtype.
        operands: those of the call that it depends on, and behind the first ``movable`` of them the incoming gradients.
        attributes: the call's numbers.
        forward: it is a result of the call, else a gradient.
        dtype: its own.
        elementwise: the operands broadcast, and each place of the result depends on that place of the operands alone.
        main: of a further result, the formula of the first one.
        partner: of one of two gradients the other one: its formula, Paddle's tensor and Torch's.
    """

    kernel: Kernel
    operands: Sequence[torch.Tensor]
    movable: int
    attributes: tuple[Any, ...]
    forward: bool
    dtype: torch.dtype
    elementwise: bool = False
    main: Kernel | None = None
    partner: tuple[Kernel, torch.Tensor, torch.Tensor] | None = None

    def __post_init__(self) -> None:
        self.wide = [noise.wide(tensor) for tensor in self.operands]

    def value(self, operands: Sequence[torch.Tensor] | None = None, kernel: Kernel | None = None) -> torch.Tensor:
        """The formula in float64."""
        return noise.exact(kernel or self.kernel, self.wide if operands is None else operands).detach()

    @property
    def roundoff(self) -> float:
        """Unit roundoff of the judged tensor's sums or of its dtype, whichever is coarser."""
        kind = KINDS[self.dtype]
        return max(kind.unit, kind.output)


class Allowed(NamedTuple):
    """What ties make of one judged tensor, and of Paddle's and Torch's answers, in this order.

    ``tied``: where several answers are allowed. ``own``: the formula's. ``refused``: where a side's answer is not
    allowed; ``doubtful``: where it is not known which answers are.
    """

    tied: torch.Tensor
    own: torch.Tensor
    refused: tuple[torch.Tensor, torch.Tensor]
    doubtful: torch.Tensor | None = None


class Ties:
    """What an op declares of its ties. ``when``: of the call's numbers, whether there are any with these."""

    def __init__(self, when: Callable[..., bool] | None = None) -> None:
        self.when = when

    def allowed(self, call: TiedCall, paddle: torch.Tensor, torch_: torch.Tensor) -> Allowed | None:
        """What is allowed; None where no operand stands at a tie."""
        if self.when is not None and not self.when(*call.attributes):
            return None
        return self.of_result(call, paddle, torch_) if call.forward else self.of_gradient(call, paddle, torch_)

    def of_result(self, call: TiedCall, paddle: torch.Tensor, torch_: torch.Tensor) -> Allowed | None:
        """Of a result of the call."""
        raise NotImplementedError

    def of_gradient(self, call: TiedCall, paddle: torch.Tensor, torch_: torch.Tensor) -> Allowed | None:
        """Of a gradient."""
        raise NotImplementedError


class Either(Ties):
    """Ties of several kinds; the call's numbers say which: the first kind whose ``when`` accepts them."""

    def __init__(self, *kinds: Ties) -> None:
        super().__init__()
        self.kinds = kinds

    def allowed(self, call: TiedCall, paddle: torch.Tensor, torch_: torch.Tensor) -> Allowed | None:
        """What that kind allows."""
        kind = next((kind for kind in self.kinds if kind.when is None or kind.when(*call.attributes)), None)
        return None if kind is None else kind.allowed(call, paddle, torch_)


class Kinks(Ties):
    """Functions of single elements: at a kink the gradient may be anything between the slopes of both sides.

    No op declares where its kinks are: the formula is evaluated a fraction of a unit in the last place to either side of the
    operands.

    Args:
        steps: the function itself jumps there, and has the value of either side.
        reach: units in the last place by which an operand may miss the kink: more than 1 where what is compared is computed.
        together: the gradients of two operands have one sum, whatever is chosen (``maximum``).
        when: see :class:`Ties`.
    """

    def __init__(
        self, *, steps: bool = False, reach: float = 1.0, together: bool = False, when: Callable[..., bool] | None = None
    ) -> None:
        super().__init__(when)
        self.steps, self.reach, self.together = steps, reach, together

    def of_result(self, call: TiedCall, paddle: torch.Tensor, torch_: torch.Tensor) -> Allowed | None:
        """At a step the value of either side, or the one that the formula has at the step itself."""
        if not self.steps or not paddle.is_floating_point():
            return None
        own = call.value()
        tied, beside = self._around(call, call.wide, own)
        if not bool(tied.any()):
            return None
        values = torch.stack([own, *beside])
        room = call.roundoff * ROUNDINGS * values.abs()
        near = [((side.double() - values).abs() <= room).any(0) for side in (paddle, torch_)]
        return Allowed(tied, own, (tied & ~near[0], tied & ~near[1]))

    def of_gradient(self, call: TiedCall, paddle: torch.Tensor, torch_: torch.Tensor) -> Allowed | None:
        """Between the slopes of both sides; of what was broadcast, between their sums."""
        operands = self._spread(call)
        own = call.value(operands)
        tied, beside = self._around(call, operands, own)
        nan = torch.zeros_like(tied)
        for operand in operands[: call.movable]:
            if operand.shape == own.shape:
                nan |= operand.isnan()  # which no number is above or below: there is no slope
        if not bool((tied | nan).any()):
            return None
        values = torch.stack([own, *beside])
        terms = own.numel() / max(paddle.numel(), 1)
        parts = own, values.amin(0), values.amax(0), values.abs().amax(0), tied.double(), nan.double()
        own, least, most, size, kinks, undefined = (part.sum_to_size(paddle.shape) for part in parts)
        room, tied, doubtful = call.roundoff * (ROUNDINGS + terms) * size, kinks > 0, undefined > 0
        refused = [tied & ~((side.double() >= least - room) & (side.double() <= most + room)) for side in (paddle, torch_)]
        if self.together and call.partner is not None:
            refused = [bad | (tied & away) for bad, away in zip(refused, self._away(call, own, (paddle, torch_)))]
        return Allowed(tied | doubtful, own, (refused[0] & ~doubtful, refused[1] & ~doubtful), doubtful)

    def _spread(self, call: TiedCall) -> list[torch.Tensor]:
        """The operands in their common shape, so that each of their elements stands at one place."""
        if not (call.elementwise or self.together):
            return call.wide
        shape = torch.broadcast_shapes(*(tensor.shape for tensor in (call.wide if call.elementwise else call.wide[: call.movable])))
        return [tensor.expand(shape) if place < call.movable else tensor for place, tensor in enumerate(call.wide)]

    def _around(
        self, call: TiedCall, operands: Sequence[torch.Tensor], own: torch.Tensor
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Where the formula jumps as one of the operands passes the value that it has, and what it is on both sides of that."""
        tied, beside = torch.zeros_like(own, dtype=torch.bool), []
        for place, operand in enumerate(operands[: call.movable]):
            if not operand.is_floating_point():
                continue
            # The distance to the next number of ``dtype``; ``values`` in float64
            dtype = call.operands[place].dtype
            form = KINDS[dtype].format
            exponent = torch.frexp(operand.abs()).exponent - form.bits
            reach = CROSSED * self.reach * torch.ldexp(torch.ones_like(operand), exponent.clamp(min=form.lowest))
            moved = [
                call.value([*operands[:place], operand + times * reach, *operands[place + 1 :]])
                for times in (-WIDENED, -1.0, 1.0, WIDENED)
            ]
            low, high = moved[1:3]
            slope, change = (low - moved[0]).abs() + (moved[3] - high).abs(), (high - low).abs()
            tied |= (change > STEEP * slope) & (change > LEAST * torch.maximum(low.abs(), high.abs())) & torch.isfinite(change)
            beside += [low, high]
        return tied, beside

    @staticmethod
    def _away(call: TiedCall, own: torch.Tensor, sides: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Where a side's gradients of both operands have another sum than the formula's."""
        assert call.partner is not None
        kernel, *partners = call.partner
        total = own, call.value(kernel=kernel)
        shape = [min(pair) for pair in zip(*_aligned(total[0].shape, total[1].shape))]
        wanted, size = (sum(_summed(part, shape) for part in parts) for parts in (total, (total[0].abs(), total[1].abs())))
        terms = max(part.numel() for part in total) / max(math.prod(shape), 1)
        away = []
        for side, partner in zip(sides, partners):
            sums = _summed(side.double(), shape) + _summed(partner.double(), shape)
            bad = ~((sums - wanted).abs() <= call.roundoff * (ROUNDINGS + terms) * size)
            away.append(bad.reshape(bad.shape[bad.ndim - side.ndim :]).expand(side.shape) if side.ndim else bad.any())
        return away


class Selected(Ties):
    """Elements of a row that are chosen by their order: the largest, the middle ones, the first k.

    A gradient is allowed if it is the formula's with the shares of equal elements exchanged, or a mean of such: equal elements keep
    their sum, and the largest m of them have no more than the largest m shares together (a vector's permutations and their means
    are what it majorizes: Hardy, Littlewood and Polya, Inequalities, 1934, 2.18-2.20). An index is allowed if it names an element
    that is equal to the one that the formula names.

    Args:
        rows: called with a tensor of the operand's shape and the call's numbers: that tensor with a row's elements along the last
            axis, each element once.
        distinct: an element is chosen once.
        sizes: magnitudes are compared; a gradient has the element's sign.
        when: see :class:`Ties`.
    """

    def __init__(
        self,
        rows: Callable[..., torch.Tensor],
        *,
        distinct: bool = False,
        sizes: bool = False,
        when: Callable[..., bool] | None = None,
    ) -> None:
        super().__init__(when)
        self.rows, self.distinct, self.sizes = rows, distinct, sizes

    def of_result(self, call: TiedCall, paddle: torch.Tensor, torch_: torch.Tensor) -> Allowed | None:
        """Equal elements have one value, but several indices."""
        if paddle.is_floating_point():
            return None
        own = call.kernel(*call.operands).to(paddle.dtype)
        rows = self.rows(call.operands[0].detach(), *call.attributes)
        lies = self._lies(call, own, rows)
        indices = [side.reshape(-1)[lies].long() for side in (own, paddle, torch_)]
        named = [_picked(rows, index) for index in indices]
        refused = []
        for index, elements in zip(indices[1:], named[1:]):
            bad = ~equal_in_value(elements, named[0])
            if self.distinct:
                # Indices that stand in their row a second time
                ordered = index.sort(dim=-1, stable=True)
                again = torch.zeros_like(index, dtype=torch.bool)
                again[..., 1:] = ordered.values[..., 1:] == ordered.values[..., :-1]
                bad |= torch.zeros_like(again).scatter_(-1, ordered.indices, again)
            refused.append(_back(bad | ~self.reaches(call, rows, index), lies, own))
        unlike = paddle != own, torch_ != own
        nan = _back(torch.stack(named).isnan().any(0), lies, own)  # what is called the largest then, nobody says
        return Allowed(unlike[0] | unlike[1], own, (refused[0] & unlike[0] & ~nan, refused[1] & unlike[1] & ~nan), nan)

    def reaches(self, call: TiedCall, rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """Where an index names an element that may be chosen at its place at all. ``index``: laid out in rows."""
        return torch.ones_like(index, dtype=torch.bool)

    def _lies(self, call: TiedCall, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """The flat places of indices, in rows."""
        places = torch.arange(index.numel(), device=index.device).reshape(index.shape)
        if index.ndim == call.operands[0].ndim:
            return self.rows(places, *call.attributes)
        return places.reshape(*rows.shape[:-1], -1)

    def of_gradient(self, call: TiedCall, paddle: torch.Tensor, torch_: torch.Tensor) -> Allowed | None:
        """Of equal elements, taken together."""
        lies = self.rows(torch.arange(paddle.numel(), device=paddle.device).reshape(paddle.shape), *call.attributes)
        elements = call.operands[0].detach()
        groups = Groups((elements.abs() if self.sizes else elements).reshape(-1)[lies])
        nan = groups.values.isnan().any(-1, keepdim=True).expand(lies.shape)  # in which order such a row is, nobody says
        if not bool((groups.tied | nan).any()):
            return None
        own = call.value()
        usable = groups.tied & groups.sums(own.reshape(-1)[lies]).isfinite()  # of others more is to be said than that they are tied
        signs = elements.double().sign() if self.sizes else torch.ones_like(own)
        tied = _back(usable, lies, paddle) & (signs != 0)
        answers = [
            self.judged(call, groups, lies, *(torch.where(tied, part.double() * signs, 0.0) for part in (side, own)))
            for side in (paddle, torch_)
        ]
        undefined = _back(nan, lies, paddle)
        refused, open_ = ([tied & ~undefined & _back(part, lies, paddle) for part in parts] for parts in zip(*answers))
        return Allowed(tied | undefined, own, (refused[0], refused[1]), undefined | open_[0] | open_[1])

    def judged(
        self, call: TiedCall, groups: Groups, lies: torch.Tensor, side: torch.Tensor, own: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Where one side's gradient is not allowed, and where nobody can say, in rows."""
        values, wanted = side.reshape(-1)[lies], own.reshape(-1)[lies]
        single = sum(grad.numel() for grad in call.operands[call.movable :]) <= math.prod(lies.shape[:-1])
        refused = groups.unequal_sums(values, wanted, call.roundoff) | groups.not_majorized(values, wanted, call.roundoff, single)
        return refused, torch.zeros_like(refused)


class Running(Selected):
    """Running extrema along a row: a result chooses among the equal elements up to its own place.

    ``extremum``: ``torch.cummax`` or ``torch.cummin``.
    """

    def __init__(self, rows: Callable[..., torch.Tensor], extremum: Callable[..., Any]) -> None:
        super().__init__(rows)
        self.extremum = extremum

    def reaches(self, call: TiedCall, rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """No further than the result's own place."""
        return index <= torch.arange(rows.shape[-1], device=index.device)

    def judged(
        self, call: TiedCall, groups: Groups, lies: torch.Tensor, side: torch.Tensor, own: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All results choose the first equal element, or all the last one before them; else their sum is all that is known."""
        values, wanted = side.reshape(-1)[lies], own.reshape(-1)[lies]
        rows, grads = groups.values, call.wide[call.movable].reshape(-1)[lies]
        refused = groups.unequal_sums(values, wanted, call.roundoff)
        extremes, places = self.extremum(rows, -1).values, torch.arange(rows.shape[-1], device=rows.device)
        new = torch.ones_like(rows, dtype=torch.bool)
        new[..., 1:] = extremes[..., 1:] != extremes[..., :-1]
        unlike = torch.ones_like(refused)
        for chosen in (new, rows == extremes):
            index = torch.where(chosen, places, 0).cummax(-1).values
            unlike &= groups.unlike(values, torch.zeros_like(grads).scatter_add(-1, index, grads), grads, call.roundoff)
        return refused, unlike & ~refused


class Frequent(Selected):
    """The most frequent element of a row; of several that come as often each one will do."""

    def of_result(self, call: TiedCall, paddle: torch.Tensor, torch_: torch.Tensor) -> Allowed | None:
        """An element that comes as often as the formula's. How often NaN comes, which is equal to nothing, nobody says."""
        own = (call.value() if paddle.is_floating_point() else call.kernel(*call.operands)).to(paddle.dtype)
        rows = self.rows(call.operands[0].detach(), *call.attributes)
        lies = self._lies(call, own, rows)
        sides = [side.reshape(-1)[lies] for side in (own, paddle, torch_)]
        elements = sides if paddle.is_floating_point() else [_picked(rows, side.long()) for side in sides]
        often = [(rows.double() == side.double()).sum(-1, keepdim=True) for side in elements]  # a row has one result
        nan = _back(rows.isnan().any(-1, keepdim=True), lies, own)
        refused = [_back(counts != often[0], lies, own) & (side != own) & ~nan for counts, side in zip(often[1:], (paddle, torch_))]
        return Allowed((paddle != own) | (torch_ != own), own, (refused[0], refused[1]), nan)

    def judged(
        self, call: TiedCall, groups: Groups, lies: torch.Tensor, side: torch.Tensor, own: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """All of it goes to equal elements that come as often as any others."""
        values, wanted = side.reshape(-1)[lies], own.reshape(-1)[lies]
        counts = groups.counts()
        most = counts.amax(-1, keepdim=True) == counts
        total = wanted.sum(-1, keepdim=True)
        room = call.roundoff * (ROUNDINGS + lies.shape[-1]) * (values.abs().sum(-1, keepdim=True) + total.abs())
        astray = ((values * ~most).abs() > room).any(-1, keepdim=True)
        whole = ((groups.sums(values) - total).abs() <= room) & most
        rest = ((values * (values * total < 0)).abs() > room).any(-1, keepdim=True)
        return (astray | rest | ~whole.any(-1, keepdim=True)).expand(values.shape), torch.zeros_like(most)


class Pools(Selected):
    """Extrema of windows, which may overlap: ``rows`` are the planes that the windows lie in."""

    def reaches(self, call: TiedCall, rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """Within the result's own window: between the least and the largest coordinates that the op itself finds there."""
        assert call.main is not None
        plane = call.operands[0]
        inside = torch.ones_like(index, dtype=torch.bool)
        size = 1
        for axis in range(plane.ndim - 1, 1, -1):
            length = plane.shape[axis]
            line = torch.arange(length, dtype=torch.float64, device=plane.device)
            coordinates = line.view(-1, *[1] * (plane.ndim - 1 - axis)).expand(plane.shape)
            most, least = (call.value([sign * coordinates], call.main) * sign for sign in (1.0, -1.0))
            place = index // size % length
            inside &= (place >= least.reshape(index.shape)) & (place <= most.reshape(index.shape))
            size *= length
        return inside

    def judged(
        self, call: TiedCall, groups: Groups, lies: torch.Tensor, side: torch.Tensor, own: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The formula's gradient with equal elements put in some order, or else the sum of all equal ones is all that is known."""
        values, wanted = side.reshape(-1)[lies], own.reshape(-1)[lies]
        refused = groups.unequal_sums(values, wanted, call.roundoff)
        size = call.value([call.wide[0], *(grad.abs() for grad in call.wide[1:])]).reshape(-1)[lies]
        unlike = torch.ones_like(refused)
        places = torch.arange(1, side.numel() + 1, dtype=torch.float64, device=side.device).reshape(side.shape) / (side.numel() + 2)
        share = side.abs() / (side.abs().max() or 1.0)
        for order in (1 - places, places, share * 0.9 + places * 0.05, share * 0.9 + 0.05 - places * 0.05):
            ranked = call.value([_ranks(call.wide[0]) + order, *call.wide[1:]]).reshape(-1)[lies]
            unlike &= groups.unlike(values, ranked, size, call.roundoff)
        return refused, unlike & ~refused


class Groups:
    """Equal elements of each row, taken together. ``values``: rows along the last axis; NaN is equal to nothing.

    Arguments and results of the methods are laid out as ``values``.
    """

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values
        width = max(values.shape[-1], 1)
        ordered = values.sort(dim=-1, stable=True)
        self._order = ordered.indices
        change = torch.ones_like(values, dtype=torch.bool)
        change[..., 1:] = ordered.values[..., 1:] != ordered.values[..., :-1]
        rows = torch.arange(max(values.numel() // width, 0), device=values.device).reshape(*values.shape[:-1], 1)
        self._group = change.cumsum(-1) - 1 + rows * width
        self._places = values.numel()

    @property
    def tied(self) -> torch.Tensor:
        """Elements that have an equal in their row."""
        return self.counts() > 1

    def counts(self) -> torch.Tensor:
        """Elements that are equal to each one, itself among them."""
        return self.sums(torch.ones_like(self.values, dtype=torch.float64))

    def sums(self, tensor: torch.Tensor) -> torch.Tensor:
        """Over all elements that are equal to each one."""
        return self._back(self._sums(self._ordered(tensor)))

    def unequal_sums(self, values: torch.Tensor, wanted: torch.Tensor, roundoff: float) -> torch.Tensor:
        """Where equal elements have another sum than they should."""
        return ~((self.sums(values) - self.sums(wanted)).abs() <= self._room(values, wanted, roundoff))

    def not_majorized(self, values: torch.Tensor, shares: torch.Tensor, roundoff: float, single: bool) -> torch.Tensor:
        """Where the m largest of equal elements have more than the m largest shares. ``single``: all shares are one."""
        if single:
            total = self._sums(self._ordered(shares))
            first = torch.ones_like(self._group, dtype=torch.bool)
            first[..., 1:] = self._group[..., 1:] != self._group[..., :-1]
            shares = self._back(torch.where(first, total, 0.0))
        more = self._so_far(values) > self._so_far(shares) + self._ordered(self._room(values, shares, roundoff))
        return self._back(self._sums(more.double())) > 0

    def unlike(self, values: torch.Tensor, other: torch.Tensor, grads: torch.Tensor, roundoff: float) -> torch.Tensor:
        """Where equal elements have others than these values."""
        room = roundoff * (ROUNDINGS + self.values.shape[-1]) * grads.abs().sum(-1, keepdim=True)
        return self._back(self._sums(self._ordered(((values - other).abs() > room).double()))) > 0

    def _room(self, values: torch.Tensor, wanted: torch.Tensor, roundoff: float) -> torch.Tensor:
        """What rounding may do to sums of equal elements."""
        size = self.sums(values.abs()) + self.sums(wanted.abs())
        return roundoff * (ROUNDINGS + self.counts()) * size + 2.0**-50 * size.sum(-1, keepdim=True)

    def _ordered(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.gather(-1, self._order)

    def _back(self, ordered: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(ordered).scatter_(-1, self._order, ordered)

    def _sums(self, ordered: torch.Tensor) -> torch.Tensor:
        group = self._group.reshape(-1)
        total = ordered.new_zeros(self._places).index_add_(0, group, ordered.reshape(-1))
        return total[group].reshape(ordered.shape)

    def _so_far(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sums of the largest one, two, three... of each group, in the order of the groups."""
        ordered = self._ordered(tensor)
        falling = ordered.argsort(dim=-1, descending=True)
        within = self._group.gather(-1, falling).argsort(dim=-1, stable=True)
        ordered = ordered.gather(-1, falling.gather(-1, within))
        sums = ordered.cumsum(-1)
        before = torch.cat([torch.zeros_like(sums[..., :1]), sums[..., :-1]], -1)
        first = torch.ones_like(self._group, dtype=torch.bool)
        first[..., 1:] = self._group[..., 1:] != self._group[..., :-1]
        start = torch.where(first, torch.arange(sums.shape[-1], device=sums.device), 0).cummax(-1).values
        return sums - before.gather(-1, start)


class Sampled(Ties):
    """Values that are read at places between points: on a point, half-way between two, and at the edge each side's answer will do.

    The operand of places is the last one of those that may be moved; its last axis holds the coordinates of a place.
    """

    def of_result(self, call: TiedCall, paddle: torch.Tensor, torch_: torch.Tensor) -> Allowed | None:
        at = call.movable - 1
        places = call.wide[at]
        if places.shape[-1] > COORDINATES:
            return None  # the values alone may be moved
        own = call.value()
        sides = itertools.product((-BESIDE, BESIDE), repeat=places.shape[-1])
        moved = [places + torch.tensor(side, dtype=places.dtype, device=places.device) for side in sides]
        values = torch.stack([own, *(call.value([*call.wide[:at], other, *call.wide[at + 1 :]]) for other in moved)])
        room = (ROUNDINGS * call.roundoff + LEAST / 4) * values.abs().max()  # a slope is as large as all of them
        tied = values.amax(0) - values.amin(0) > room
        if not bool(tied.any()) or not bool(values.isfinite().all()):
            return None
        refused = [tied & ((values - side.double()).abs() > room).all(0) for side in (paddle, torch_)]
        return Allowed(tied, own, (refused[0], refused[1]))

    of_gradient = of_result


def _ranks(values: torch.Tensor) -> torch.Tensor:
    """The order of the elements, equal ones alike; NaN as it is."""
    ranks = torch.unique(values, return_inverse=True)[1].reshape(values.shape).double()
    return torch.where(values.isnan(), values, ranks)


def _picked(rows: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The elements that indices name, laid out in rows; what is no element of the row is equal to none."""
    inside = (index >= 0) & (index < rows.shape[-1])
    elements = rows.double().gather(-1, torch.where(inside, index, 0))
    return torch.where(inside, elements, 1e300)


def _back(rows: torch.Tensor, lies: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """What is laid out in rows, as ``like`` lies. ``lies``: the flat place of each element of a row."""
    flat = torch.zeros(like.numel(), dtype=rows.dtype, device=rows.device)
    flat[lies.reshape(-1)] = rows.reshape(-1)
    return flat.reshape(like.shape)


def _aligned(*shapes: Sequence[int]) -> list[list[int]]:
    """Shapes of one length, filled up with ones in front."""
    length = max(map(len, shapes))
    return [[1] * (length - len(shape)) + list(shape) for shape in shapes]


def _summed(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """The tensor summed over the axes that ``shape``, which may be longer, has not."""
    return tensor.reshape(_aligned(tensor.shape, shape)[0]).sum_to_size(*shape)
