"""The verdict on one tensor and what follows from it: record, known difference, warning, error."""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from .. import numerics
from ..catalogue import known_differences
from ..errors import MismatchError
from ..frameworks.memory import TORCH_DTYPES
from ..interrupts import let_pass, postpone
from ..measure.difference import Comparator, accepts
from ..numerics import difference
from ..numerics.precision import first_place
from ..runlog.encoding import Plain, tables
from ..runs.compare_run import CompareRun
from ..text import SENTENCE, code_line, from_log, joined, logged, marked, shown, tr
from ..trees import as_array
from ..verdicts import ACCEPTED, PARTLY, REFUSED, SCREENED, Judgement, Side, Verdict, apart
from .compared_call import OVERTAKEN, ComparedTensor, Spot, describe_tensor, operand_name

# ---- Screening: a difference like those that were ROUNDING at this place before is ROUNDING again.
#
# A verdict costs many times what the size of a difference costs. A screened difference is marked in its record and counted in the
# coverage. A fault that makes the difference larger is judged at once; a fault that does not is seen when the place is judged
# again, after :data:`RECHECK` differing calls.

LEARNT = 3  # full verdicts, all of them ROUNDING, before a place is screened
RECHECK = 16  # one in so many is judged fully all the same
ROOM = 1.25  # times the largest difference that was judged fully


class DifferenceSize(NamedTuple):
    """How far two results are apart, beside the size of Torch's: as a whole, and where it is most."""

    whole: float
    peak: float
    largest: float

    @classmethod
    def of(cls, native: torch.Tensor, reference: torch.Tensor) -> DifferenceSize:
        """Of two tensors of one shape and a floating dtype; NaN where either holds one."""
        with np.errstate(all="ignore"):
            apart = difference.differ(native, reference, relative=False)
        whole, largest, norm = apart.stats["rel_fro"], apart.stats["max_abs"], apart.rms * math.sqrt(native.numel())
        return cls(whole, largest / (norm or 1.0), largest) if apart.finite else cls(math.nan, math.nan, largest)


@dataclass
class _Usual:
    """What was judged ROUNDING at one place."""

    verdicts: int = 0
    whole: float = 0.0
    peak: float = 0.0
    screened: int = 0


class Screening:
    """Whether the differences of one mode are those that are known of their spots, which hold what that is."""

    def __init__(self) -> None:
        self._turns = itertools.count()

    def passes(self, spot: Spot, size: DifferenceSize) -> bool:
        """Whether a difference of this size need not be judged."""
        usual: _Usual | None = spot.usual
        if usual is None or usual.verdicts < LEARNT or usual.screened >= RECHECK - 1:
            return False
        if not (size.whole <= ROOM * usual.whole and size.peak <= ROOM * usual.peak):
            return False
        usual.screened += 1
        return True

    def judged(self, spot: Spot, size: DifferenceSize, judgement: Judgement) -> None:
        """A difference was judged fully: what is not ROUNDING makes the spot unknown again."""
        if judgement.verdict is not Verdict.ROUNDING:
            spot.usual = None
            return
        usual: _Usual = spot.usual or _Usual()
        spot.usual = usual
        usual.verdicts += 1
        # The places of a program that repeats itself are judged again by turns, not all in one step.
        usual.screened = next(self._turns) % RECHECK if usual.verdicts == LEARNT else 0
        usual.whole, usual.peak = max(usual.whole, size.whole), max(usual.peak, size.peak)


def as_before(tensor: torch.Tensor, size: DifferenceSize) -> Judgement:
    """The verdict on what passed."""
    stats = {"count": tensor.numel(), "max_abs": size.largest, "rel_fro": size.whole}
    return Judgement(Verdict.ROUNDING, modifiers=(SCREENED,), reason=logged("a difference as before at this place"), stats=stats)


# ---- Where NaN and infinities begin: calls that make them of finite operands, and the first call whose operands hold a NaN.

NAN, INFINITY = "NaN", marked("infinity")
_NARROW = (torch.float16, torch.bfloat16)


class Births:
    """Of one mode: :meth:`of` looks at every judged tensor.

    A NaN that came from a call that was not compared is reported once: its consequences are not.
    """

    def __init__(self) -> None:
        self._heard = False  # of a NaN

    def of(self, case: ComparedTensor, sides: tuple[torch.Tensor, torch.Tensor], *, equal: bool) -> dict[str, Any] | None:
        """What a record says where its tensor is not finite, for the first time (docs/log.md); ``equal``: both sides are."""
        paddle, torch_ = sides
        if all_finite(paddle) and (equal or all_finite(torch_)):
            return None
        masks = [side.isnan() for side in sides]
        what = NAN if any(bool(mask.any()) for mask in masks) else INFINITY
        if what == INFINITY:
            masks = [side.isinf() for side in sides]
        operands = list(_operands(case))
        infinite = any(isinstance(value, float) and not math.isfinite(value) for value in case.subject.attributes)
        if what == INFINITY and (infinite or not all(all_finite(tensor) for _, tensor in operands)):
            return None  # it was handed on
        bearing = [name for name, tensor in operands if bool(tensor.isnan().any())] if what == NAN else []
        if bearing and self._heard:
            return None
        self._heard |= what == NAN
        guilty = [side for side, mask in zip((Side.PADDLE, Side.TORCH), masks) if bool(mask.any())]
        place = first_place(masks[0] | masks[1])
        seen = {str(side): float(tensor[tuple(place)]) for side, tensor in zip((Side.PADDLE, Side.TORCH), sides)}
        return {
            "what": what,
            "side": str(Side.of(guilty)),
            "at": place,
            "values": seen,
            "came_in": bearing,
            "operands": [*(_described(name, tensor, place, paddle.shape) for name, tensor in operands), *_numbers(case)],
        }


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds neither NaN nor infinities."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    if tensor.dtype not in _NARROW and not tensor.is_complex() and math.isfinite(tensor.sum().item()):
        return True  # of an infinite sum more has to be asked: finite numbers may have one
    return bool(torch.isfinite(tensor).all())


def _operands(case: ComparedTensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The float tensors that the case depends on, by name: the call's, and of a gradient the incoming ones."""
    subject = case.subject
    for index, operand in enumerate(subject.operands):
        if isinstance(operand, torch.Tensor) and operand.is_floating_point():
            yield operand_name(subject.entry_point, index), operand
    yield from case.incoming()


def _numbers(case: ComparedTensor) -> Iterator[dict[str, Any]]:
    """The numbers that stand where the op may have a tensor."""
    for index, operand in enumerate(case.subject.operands):
        if isinstance(operand, (int, float)) and not isinstance(operand, bool):
            yield {"name": operand_name(case.subject.entry_point, index), "number": operand}


def _described(name: str, tensor: torch.Tensor, place: Sequence[int], shape: torch.Size) -> dict[str, Any]:
    """An operand: its least and largest number, and what stands where the result is not finite, if it has that place."""
    finite = tensor[torch.isfinite(tensor)]
    about: dict[str, Any] = {"name": name, "shape": list(tensor.shape), "infinite": int(tensor.isinf().sum())}
    if finite.numel():
        about["least"], about["most"] = float(finite.min()), float(finite.max())
    if tensor.shape == shape:
        about["there"] = float(tensor[tuple(place)])
    return about


# ---- The verdict on one tensor.


CLEARED = (Verdict.EQUAL, Verdict.ROUNDING, Verdict.TIE, Verdict.UNVERIFIED)
UNDEFINED = logged("the result itself is NaN, made of infinities: it has no gradient that either side could give")
ALIKE = logged("equal bit for bit, NaN at the same places")
Pair = tuple[torch.Tensor, torch.Tensor]  # Paddle's and Torch's


class Judge:
    """Judges the cases of one mode; what is learnt of a spot is kept with it.

    ``audit``: one in so many results of a spot that are equal is held against the oracle as well.
    ``screening``: differences as before at their spot are not judged again. ``equal``: the comparator of the user's own.
    """

    def __init__(self, run: CompareRun, *, audit: int, screening: bool, equal: Comparator | None, seed: int) -> None:
        self.run, self.audit, self._equal = run, audit, equal
        self._random = np.random.default_rng(seed)
        self._screening = Screening() if screening else None
        self._turns = itertools.count(1)

    def __call__(self, case: ComparedTensor) -> Judgement:
        """The verdict on one tensor; an error of the verdict's own code becomes UNVERIFIED with its text."""
        native, reference = case.native, case.reference
        if native.dtype != reference.dtype:
            native_kind, reference_kind = describe_tensor(native), describe_tensor(reference)
            return Judgement(
                Verdict.UNVERIFIED,
                reason=logged(
                    "Paddle's result is {native_kind}, torch's {reference_kind}: nothing to compare",
                    native_kind=native_kind,
                    reference_kind=reference_kind,
                ),
            )
        try:
            if native.shape != reference.shape:
                judgement = numerics.fallback(native, reference, rng=self._random, **case.kernels())
                # Where values move, another shape is no other definition.
                return replace(judgement, side=Side.PADDLE) if case.subject.entry_point.op.exact else judgement
            accepted = self._accepted(case)
            if accepted:
                reason = logged("equal by the comparator of equal=")
                return replace(as_before(native, DifferenceSize.of(native, reference)), modifiers=(ACCEPTED,), reason=reason)
            judgement = self._judged(case, native, reference)
            if accepted is False:
                verdict = max(judgement.verdict, Verdict.LOW_ACCURACY, key=lambda each: each.severity)
                reason = logged("different by the comparator of equal=; {reason}", reason=judgement.reason)
                judgement = replace(judgement, verdict=verdict, modifiers=(*judgement.modifiers, REFUSED), reason=reason)
            if judgement.verdict is Verdict.NONFINITE and case.undefined():
                return replace(judgement, verdict=Verdict.UNVERIFIED, side=Side.NONE, hypothesis=None, reason=UNDEFINED)
            if judgement.verdict not in CLEARED and case.overtaken():
                return Judgement(Verdict.UNVERIFIED, reason=OVERTAKEN)
            return judgement
        except Exception as error:
            let_pass(error)
            text = f"{type(error).__name__}: {str(error)[:200]}"
            self.run.warn(logged("no verdict on a call of '{op}': {text}", op=case.subject.entry_point.op.name, text=text))
            return Judgement(Verdict.UNVERIFIED, reason=logged("the verdict failed: {text}", text=text))

    def _accepted(self, case: ComparedTensor) -> bool | None:
        """What the comparator of the user's own says of a result that differs, which needs no other judge then; None without."""
        if self._equal is None or numerics.same(case.native, case.reference):
            return None
        record = case.spot.fields
        name = " ".join(
            filter(None, (case.subject.entry_point.op.name, str(record.get("tensor") or ""), str(record.get("layer") or "")))
        )
        return accepts(self._equal, as_array(case.native.detach()), as_array(case.reference.detach()), name)

    def _judged(self, case: ComparedTensor, native: torch.Tensor, reference: torch.Tensor) -> Judgement:
        spot, sides = case.spot, (native, reference)
        if numerics.same(native, reference):
            if self._audited(spot):
                return self._weighed(case, sides, same=True, audit=True)
            spot.alike = alike = spot.alike or numerics.equal(native)
            return alike
        if numerics.equal_but_nan(native, reference):  # NaN is seldom what was meant: the oracle says whether it is right
            judgement = self._weighed(case, sides, audit=True)
            return judgement if judgement.verdict not in CLEARED else replace(numerics.equal(native), reason=ALIKE)
        if self._screening is None or not native.is_floating_point():
            return self._weighed(case, sides, audit=self._audited(spot))
        size = DifferenceSize.of(native, reference)
        if self._screening.passes(spot, size):
            return as_before(native, size)
        judgement = self._weighed(case, sides, audit=self._audited(spot))
        self._screening.judged(spot, size, judgement)
        return judgement

    def _weighed(self, case: ComparedTensor, sides: Pair, *, audit: bool, same: bool = False) -> Judgement:
        """The verdict on both sides' tensors; where the op's ties may tell them apart, those are judged by themselves."""
        ties, judgement = case.subject.entry_point.op.ties, None
        if ties is None or same or not numerics.far_apart(*sides):
            judgement = self._rounded(case, sides, audit=audit, same=same)
            if ties is None or judgement.verdict in CLEARED:
                return judgement
        kernels = case.kernels()
        settled = numerics.settle(ties, case.tied(kernels), *sides, kernels["variants"])
        if settled is None:
            return judgement or self._rounded(case, sides, audit=audit, same=same)
        return settled.beside(self._rounded(case, (settled.paddle, settled.torch), audit=False))

    def _rounded(self, case: ComparedTensor, sides: Pair, *, audit: bool, same: bool = False) -> Judgement:
        """The verdict by what rounding may do."""
        if case.subject.entry_point.op.exact and not sides[0].is_complex():
            return case.moved(sides, rng=self._random, audit=audit)
        operands = [operand for operand in case.subject.operands if isinstance(operand, torch.Tensor)]
        # Of an operand without elements no model speaks, but the formula runs.
        quantity = case.quantity() if all(operand.numel() for operand in operands) else None
        if quantity is None:
            return numerics.fallback(*sides, rng=self._random, audit=audit, **case.kernels())
        return numerics.judge(quantity, *sides, rng=self._random, audit=audit, same=same)

    def _audited(self, spot: Spot) -> bool:
        """One in :attr:`audit` results of each spot; where each one begins to count goes round."""
        if not self.audit:
            return False
        left = spot.audit
        if left is None:
            left = next(self._turns) % self.audit
        spot.audit = left - 1 if left else self.audit - 1
        return not left


# ---- The consequences of a verdict: record, known difference, saved inputs, warning, error, callback.

_SPOKEN_OF = Verdict.UNVERIFIED.severity  # from here on a difference may be a known one
MUTED: dict[str, Any] = {"muted": True}  # stands for a record that nobody looks at any more
_word_of = str.__str__  # of a class or a side: its value, without a look-up in Python
KEEP_BYTES = 256 * 2**20  # inputs larger than this are not saved


class Consequences:
    """Turns verdicts into records and acts on the serious ones.

    Args:
        action: what a record of class ``threshold`` or worse leads to: ``"log"``, ``"warn"`` (once per site and op) or ``"raise"``.
            What is set apart (:func:`padiff_shim.verdicts.apart`) raises nothing and is warned of once, when the mode closes.
        callback: called with every such record, also with one that is set apart, but for muted ones.
        keep: inputs of so many such records are saved for ``run.repro``; those set apart give way to others.
        known: known differences; a muted one leads to nothing.
    """

    def __init__(
        self,
        run: CompareRun,
        *,
        action: str,
        threshold: Verdict,
        callback: Callable[[dict[str, Any]], None] | None,
        keep: int,
        known: Sequence[known_differences.Quirk],
    ) -> None:
        self.run, self.action, self.threshold, self.callback = run, action, threshold, callback
        self.keep, self.known = keep, known
        self._threshold = frozenset(verdict.value for verdict in Verdict if verdict.severity >= threshold.severity)
        self._spoken_of = min(threshold.severity, _SPOKEN_OF)  # below, nothing follows but the record
        self._warned: set[tuple[str, str]] = set()
        self._giving_way: list[dict[str, Any]] = []  # records with saved inputs that are set apart
        self._silent: Counter[str] = Counter()  # serious records that nothing was said of yet, by why

    def record(self, case: ComparedTensor, judgement: Judgement, born: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The record of one judged tensor, written to the log; of one that nothing follows from no more than that.

        ``born``: what is to be said of NaN and infinities that begin there.
        """
        verdict = judgement.verdict
        if verdict.severity < self._spoken_of and judgement.plain and born is None:
            remarks = judgement.reason, judgement.stats, judgement.modifiers
            self.run.recorder.add_plain(Plain(case.counted, case.spot, _word_of(verdict), *remarks))
            return MUTED
        record = {
            **case.counted,
            **case.spot.fields,
            "verdict": _word_of(verdict),
            "side": _word_of(judgement.side),
            "hypothesis": judgement.hypothesis,
            "alternatives": list(judgement.alternatives),
            "modifiers": list(judgement.modifiers),
            "quirk": None,
            "muted": False,
            "reason": judgement.reason,
            **({} if born is None else {"born": born}),
            "stats": tables(judgement.stats),
        }
        if verdict.severity >= _SPOKEN_OF:
            quirk = self._known(record, judgement)
            if quirk is not None:
                record["quirk"], record["muted"] = quirk.name, quirk.mute
        self.run.recorder.add(record, case.spot)
        if self.serious(record) and (self.keep > 0 or (self._giving_way and not apart(record))):
            self._save(record, case.tensors())
        return record

    def _known(self, record: dict[str, Any], judgement: Judgement) -> known_differences.Quirk | None:
        """The known difference that a record is. One with a formula has to hold on the whole tensor; else the record is marked."""
        quirk = known_differences.find(record, self.run.environment, self.known)
        if quirk is None or not quirk.hypothesis or self._confirmed(judgement):
            return quirk
        record["modifiers"].append(PARTLY)
        return known_differences.find(record, self.run.environment, self.known)

    def _confirmed(self, judgement: Judgement) -> bool:
        try:
            return judgement.confirm is None or judgement.confirm()
        except Exception as error:  # comparing must never break the program; what could not be looked at has no name
            let_pass(error)
            self.run.warn(f"a known difference could not be confirmed: {type(error).__name__}: {str(error)[:200]}")
            return False

    def serious(self, record: Mapping[str, Any]) -> bool:
        """At or above the class from which on something is done."""
        return not record["muted"] and record["verdict"] in self._threshold

    def act_later(self, record: dict[str, Any]) -> None:
        """:meth:`act` from within Paddle's backward: what it raises is raised when the backward has ended.

        An error in a post hook would become an OSError, and leave Paddle 3.3.1 with gradients switched off.
        """
        try:
            self.act(record)
        except BaseException as error:
            postpone(error)

    def act(self, record: dict[str, Any]) -> None:
        """Warn, raise, call back."""
        if not self.serious(record):
            return
        if self.callback is not None:
            self.callback(record)
        if why := apart(record):
            self._silent[why] += 1
            return
        if self.action == "raise":
            raise MismatchError(self.sentence(record), record)
        place = (record["site"], record["op"])
        if self.action == "warn" and place not in self._warned:
            self._warned.add(place)
            warnings.warn(self.sentence(record), stacklevel=4)

    def conclude(self) -> None:
        """The mode closes: one warning for all that was set apart."""
        counts = joined(" and ", [f"{number} {tr(why)}" for why, number in self._silent.items()])
        self._silent.clear()
        if counts and self.action == "warn":
            warnings.warn(tr("differences that were counted apart: {counts}; print(run) names them", counts=counts), stacklevel=3)

    @staticmethod
    def sentence(record: Mapping[str, Any]) -> str:
        """One line for people."""
        return tr(
            "{verdict}{named}, side {side}: {op} {tensor} at {line}{layer}, step {step}: {reason}",
            verdict=record["verdict"],
            named=f" ({shown(record['hypothesis'])})" if record["hypothesis"] else "",
            side=record["side"],
            op=shown(record["op"]),
            tensor=shown(record["tensor"]),
            line=code_line(record["site"]),
            layer=tr(" in layer {layer}", layer=shown(record["layer"])) if record["layer"] else "",
            step=record["step"],
            reason=shown(from_log(record["reason"]), SENTENCE),
        )

    def _save(self, record: dict[str, Any], tensors: Mapping[str, Any]) -> None:
        """Keep the operands of a serious call, for a script that shows it alone."""
        arrays = dict(_arrays(tensors))
        if sum(array.nbytes for array in arrays.values()) > KEEP_BYTES:
            return
        if self.keep > 0:
            self.keep -= 1
        else:
            self.run.recorder.drop_inputs(self._giving_way.pop())
        if apart(record):
            self._giving_way.append(record)
        self.run.recorder.save_inputs(record, arrays)  # says itself where it cannot


def _arrays(tensors: Mapping[str, Any]) -> list[tuple[str, np.ndarray]]:
    """Tensors as NumPy arrays with their strides; bfloat16 as raw uint16."""
    arrays = []
    for name, value in tensors.items():
        for label, tensor in (
            [(f"{name}[{i}]", t) for i, t in enumerate(value)] if isinstance(value, (list, tuple)) else [(name, value)]
        ):
            if isinstance(tensor, torch.Tensor):
                tensor = tensor.detach().cpu()
                raw = tensor.view(TORCH_DTYPES["uint16"]) if tensor.dtype is torch.bfloat16 else tensor
                arrays.append((label, raw.numpy()))
    return arrays
