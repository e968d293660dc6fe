"""Reading the logs of reference runs (``reference(log=...)``), and of either kind of run."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from ..runlog import compare_logs, reference_log
from ..runlog.compare_logs import absolute
from ..runlog.events import JsonTable
from ..runlog.reader import LogError
from ..text import SENTENCE, shown
from .compare_run import load
from .run import Run


def load_reference(folder: str | os.PathLike[str]) -> Run:
    """The reference run whose log lies in ``folder``; several processes of it are added up and read as one.

    Files that are no log are passed over, with a warning that stays in ``run.warnings``. If the folder holds several runs, one
    after the other, the last is read, and a warning names the others.

    Raises:
        LogError: the folder does not exist, or holds no log of a reference run that can be read.

    >>> import paddle, padiff_shim, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with padiff_shim.reference("torch", log=folder):
    ...     _ = paddle.exp(paddle.zeros([2]))
    >>> padiff_shim.load_reference(folder).substituted
    {'exp': 1}
    """
    place = absolute(folder)
    paths = reference_log.files(place)
    if not paths:
        raise LogError(
            "{folder} holds no log of a reference run (reference-rank0-pid....json); load() reads those of comparisons",
            folder=os.fspath(folder),
        )
    logs: dict[Path, JsonTable] = {}
    refusals: list[LogError] = []
    for path in paths:
        try:
            logs[path] = reference_log.read(path)
        except LogError as error:
            refusals.append(error)
    if not logs:
        raise refusals[0]
    last, earlier = reference_log.last_of(place, logs)
    first = logs[last[0]]
    run = Run(first.get("backend") or "torch", first.get("linear_layout") or "contiguous")
    for path in last:
        run.add(logs[path])
        if remark := reference_log.unfinished(path, logs[path]):
            run.warn(remark)
    for complaint in filter(None, [earlier, *(f"left out: {error}" for error in refusals)]):
        run.warn(complaint)
        warnings.warn(shown(complaint, SENTENCE), RuntimeWarning, stacklevel=2)
    return run


def load_any(folder: str | os.PathLike[str]) -> Run:
    """The run whose log lies in ``folder``: a comparison, or where there is none a reference run.

    Raises:
        LogError: it holds neither; or both, from which one run cannot be made.
    """
    place = absolute(folder)
    if not reference_log.files(place):
        return load(folder)
    if compare_logs.files(place):
        raise LogError(
            "{folder} holds logs of comparisons and of reference runs: put them into folders of their own",
            folder=os.fspath(folder),
        )
    return load_reference(folder)
