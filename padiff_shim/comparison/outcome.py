"""What follows from a verdict: the record, its name among the known differences, saved inputs, a warning, an error, a callback."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..catalogue import known_differences
from ..errors import MismatchError
from ..postponed import postpone
from ..records.plain import Plain, tables
from ..runs.compare_run import CompareRun
from ..signals import let_pass
from ..text import SENTENCE, shown
from ..verdicts import PARTLY, Judgement, Verdict, apart
from .cases import Case

_SPOKEN_OF = Verdict.UNVERIFIED.severity  # from here on a difference may be a known one
QUIET: dict[str, Any] = {"muted": True}  # stands for a record that nobody looks at any more
_word_of = str.__str__  # of a class or a side: its value, without a look-up in Python
KEEP_BYTES = 256 * 2**20  # inputs larger than this are not saved


class Outcome:
    """Turns verdicts into records and acts on the serious ones.

    Args:
        action: what a record of class ``threshold`` or worse leads to: ``"log"``, ``"warn"`` (once per site and op) or ``"raise"``.
            What is set apart (:func:`padiff_shim.verdicts.apart`) raises nothing and is warned of once, when the mode closes.
        callback: called with every such record, also with one that is set apart, but for muted ones.
        keep: inputs of so many such records are saved for :meth:`CompareRun.repro`; those set apart give way to others.
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

    def record(self, case: Case, judgement: Judgement, born: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The record of one judged tensor, written to the log; of one that nothing follows from no more than that.

        ``born``: what is to be said of NaN and infinities that begin there.
        """
        verdict = judgement.verdict
        if verdict.severity < self._spoken_of and judgement.plain and born is None:
            said = judgement.reason, judgement.stats, judgement.modifiers
            self.run.recorder.add_plain(Plain(case.counted, case.spot, _word_of(verdict), *said))
            return QUIET
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
        said = " and ".join(f"{number} {why}" for why, number in self._silent.items())
        self._silent.clear()
        if said and self.action == "warn":
            warnings.warn(f"differences that were counted apart: {said}; print(run) names them", stacklevel=3)

    @staticmethod
    def sentence(record: Mapping[str, Any]) -> str:
        """One line for people."""
        layer = f" in layer {shown(record['layer'])}" if record["layer"] else ""
        named = f" ({shown(record['hypothesis'])})" if record["hypothesis"] else ""
        where = f"{shown(record['op'])} {shown(record['tensor'])} at {shown(record['site'])}{layer}, step {record['step']}"
        return f"{record['verdict']}{named}, side {record['side']}: {where}: {shown(record['reason'], SENTENCE)}"

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
    found = []
    for name, value in tensors.items():
        for label, tensor in (
            [(f"{name}[{i}]", t) for i, t in enumerate(value)] if isinstance(value, (list, tuple)) else [(name, value)]
        ):
            if isinstance(tensor, torch.Tensor):
                tensor = tensor.detach().cpu()
                raw = tensor.view(torch.uint16) if tensor.dtype is torch.bfloat16 else tensor
                found.append((label, raw.numpy()))
    return found
