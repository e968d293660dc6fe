"""Reference runs that were kept (``reference(log=...)``), read again."""

from __future__ import annotations

import os
import warnings
from typing import Any

from ..runlog import log, reading
from ..runlog.log import LogError
from ..text import SENTENCE, shown
from .compare_run import load
from .run import Run


def load_reference(folder: str | os.PathLike[str]) -> Run:
    """The reference run whose log lies in ``folder``; those of several processes are added up and read as one.

    What is no log is passed over, with a warning that stays in ``run.warnings``.

    Raises:
        LogError: the folder does not exist, or holds no log of a reference run that can be read.
    """
    place = reading.absolute(folder)
    paths = reading.reference_files(place)
    if not paths:
        raise LogError(f"{folder} holds no log of a reference run (reference-rank0-pid....json); load() reads those of comparisons")
    read: list[dict[str, Any]] = []
    unfinished: list[str] = []
    refused: list[LogError] = []
    for path in paths:
        try:
            read.append(reading.read_reference(path))
            unfinished.append(reading.unfinished(path, read[-1]))
        except LogError as error:
            refused.append(error)
    if not read:
        raise refused[0]
    run = Run(read[0].get("backend") or "torch", read[0].get("linear_layout") or "contiguous")
    for data in read:
        run.add(data)
    for remark in filter(None, unfinished):
        run.warn(remark)
    for complaint in refused:
        run.warn(f"left out: {complaint}")
        warnings.warn(shown(f"left out: {complaint}", SENTENCE), RuntimeWarning, stacklevel=2)
    return run


def load_any(folder: str | os.PathLike[str]) -> Run:
    """The run whose log lies in ``folder``: a comparison, or where there is none a reference run.

    Raises:
        LogError: it holds neither; or both, from which one run cannot be made.
    """
    place = reading.absolute(folder)
    if not reading.reference_files(place):
        return load(folder)
    if log.files(place):
        raise LogError(f"{folder} holds logs of comparisons and of reference runs: keep them in folders of their own")
    return load_reference(folder)
