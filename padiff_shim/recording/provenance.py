"""Where a model comes from: its class, its file, and the commit or the release which that file belongs to."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import json
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np

from ..dispatch.call_site import short
from ..language import joined, tr
from ..trees import as_array

_TEXT = 2000  # characters of a configuration
_CHECKPOINTS = frozenset({".safetensors", ".bin", ".pdparams", ".pt", ".pth"})
_SECONDS = 10  # that git may take


def origin(model: Any) -> str:
    """A model's class, file, and commit or release: ``"Classifier in port.py, commit 1a2b3c4d5e6f with uncommitted changes"``.

    >>> import torch
    >>> from padiff_shim.recording.provenance import origin
    >>> origin(torch.nn.Linear(2, 2)).startswith("Linear in torch/nn/modules/linear.py, torch ")
    True
    """
    kind = type(model)
    try:
        file = Path(inspect.getsourcefile(kind) or "")
    except (OSError, TypeError):  # a class of an interactive session, or of a notebook
        return kind.__qualname__
    where = tr("{kind} in {file}", kind=kind.__qualname__, file=short(str(file)))
    known = _release(kind.__module__, file) or _commit(file)
    return joined(", ", [where, known]) if known else where


def configuration(model: Any) -> str:
    """What the model's ``config`` holds, as libraries of language models have one; "" where there is none."""
    config: Any = getattr(model, "config", None)
    table = config.to_dict() if hasattr(config, "to_dict") else config
    return json.dumps(table, sort_keys=True, default=str)[:_TEXT] if isinstance(table, dict) else ""


def weights_of(model: Any, weights: str, seed: int) -> str:
    """Where the weights of a proof come from: a checkpoint with its hash, the program, or a generator."""
    if weights.startswith("random"):
        return tr("random, seed {seed}", seed=seed)
    values = hashlib.md5(usedforsecurity=False)
    for tensor in model.state_dict().values():
        values.update(np.ascontiguousarray(as_array(tensor)).tobytes())
    text = tr("of {model}, MD5 of the values of its state_dict {md5}", model=type(model).__name__, md5=values.hexdigest())
    name = checkpoint(model)
    return tr("{text}; from {name}", text=text, name=name) if name else tr("{text}; of no checkpoint that is known", text=text)


def checkpoint(model: Any) -> str:
    """The checkpoint that a model names, with the hashes of its files; "" where it names none."""
    name = getattr(model, "name_or_path", "") or getattr(getattr(model, "config", None), "_name_or_path", "")
    if not isinstance(name, str) or not name:
        return ""
    files = [file for file in sorted(Path(name).glob("*")) if file.suffix in _CHECKPOINTS] if Path(name).is_dir() else []
    return "; ".join([name, *(f"{file.name} SHA-256 {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files)])


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
