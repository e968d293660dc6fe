"""Reference runs that were kept (``reference(log=...)``), read again."""

from __future__ import annotations

import os
import warnings

from ..records import account, files, log
from ..records.log import LogError
from ..records.tally import LayoutCost
from ..text import SENTENCE, shown
from .compare_run import load
from .run import Run


def load_reference(folder: str | os.PathLike[str]) -> Run:
    """The reference run whose log lies in ``folder``; those of several processes are added up and read as one.

    What is no log is passed over, with a warning that stays in ``run.warnings``.

    Raises:
        LogError: the folder does not exist, or holds no log of a reference run that can be read.
    """
    place = files.absolute(folder)
    found = account.files(place)
    if not found:
        raise LogError(f"{folder} holds no log of a reference run (reference-rank0-pid....json); load() reads those of comparisons")
    read, lost = [], []
    for path in found:
        try:
            read.append(account.read(path))
        except LogError as error:
            lost.append(error)
    if not read:
        raise lost[0]
    first, ranks = read[0], [data.get("rank") or 0 for data in read]
    run = Run(first.get("backend") or "torch", first.get("linear_layout") or "contiguous", command=first.get("command") or "")
    run.environment.update(first.get("environment") or {})
    run.processes = len(read)
    for data, rank in zip(read, ranks):
        run.keep(account.counters(data))
        profile = data.get("profile")
        run.profiles = run.profiles or bool(profile)
        run.seconds += account.spent(profile or {})
        _add(run.layout_cost, data.get("layout_cost") or {})
        for warning in data.get("warnings") or ():
            run.warn(warning if len(read) == 1 else f"rank {rank}: {warning}")
    for complaint in lost:
        run.warn(f"left out: {complaint}")
        warnings.warn(shown(f"left out: {complaint}", SENTENCE), RuntimeWarning, stacklevel=2)
    return run


def load_any(folder: str | os.PathLike[str]) -> Run:
    """The run whose log lies in ``folder``: a comparison, or where there is none a reference run.

    Raises:
        LogError: it holds neither; or both, from which one run cannot be made.
    """
    place = files.absolute(folder)
    if not account.files(place):
        return load(folder)
    if log.files(place):
        raise LogError(f"{folder} holds logs of comparisons and of reference runs: keep them in folders of their own")
    return load_reference(folder)


def _add(total: LayoutCost, more: dict[str, int]) -> None:
    for name in ("copies", "bytes", "reused", "views"):
        setattr(total, name, getattr(total, name) + int(more.get(name) or 0))
    total.seconds += account.spent(more)
