"""Where a model comes from: its class, its file, and the commit or the release which that file belongs to."""

from __future__ import annotations

import importlib.metadata
import inspect
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from ..dispatch.call_site import short
from ..text import tr

_SECONDS = 10  # that git may take


def origin(model: Any) -> str:
    """A model's class, file, and commit or release: ``"Classifier in port.py, commit 1a2b3c4d5e6f with uncommitted changes"``.

    >>> import torch
    >>> from padiff_shim.proof.provenance import origin
    >>> origin(torch.nn.Linear(2, 2)).startswith("Linear in torch/nn/modules/linear.py, torch ")
    True
    """
    kind = type(model)
    try:
        file = Path(inspect.getsourcefile(kind) or "")
    except TypeError:  # a class of an interactive session
        return kind.__qualname__
    where = tr("{kind} in {file}", kind=kind.__qualname__, file=short(str(file)))
    known = _release(kind.__module__, file) or _commit(file)
    return f"{where}, {known}" if known else where


def _release(module: str, file: Path) -> str:
    """The installed distribution that holds a file; "" for a file of a checkout."""
    places = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    if not any(place in file.parents for place in places):
        return ""
    top = module.partition(".")[0]
    names = importlib.metadata.packages_distributions().get(top, [top])
    try:
        return f"{names[0]} {importlib.metadata.version(names[0])}"
    except importlib.metadata.PackageNotFoundError:
        return ""


def _commit(file: Path) -> str:
    """The commit of the checkout that holds a file, and whether it has changes; "" where git knows none."""
    commit = _git(file, "rev-parse", "--short=12", "HEAD")
    if not commit:
        return ""
    if not _git(file, "ls-files", "--", file.name):
        return tr("a file that is not in git, beside commit {commit}", commit=commit)
    changed = _git(file, "status", "--porcelain", "--untracked-files=no")
    return tr("commit {commit} with uncommitted changes", commit=commit) if changed else tr("commit {commit}", commit=commit)


def _git(file: Path, *arguments: str) -> str:
    """What git prints in the folder of a file; "" where it fails, or is not installed."""
    command = ["git", "-C", str(file.absolute().parent), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
