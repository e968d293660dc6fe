"""Files that a user names, written whole."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import FileError


def write(path: str | os.PathLike[str], text: str, what: str = "") -> Path:
    """``text`` (UTF-8) into a file, in a folder that is made if need be; returns its path.

    Raises:
        FileError: it cannot be written; the message begins with ``what`` it is (``"the page "``).
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{what}{target} cannot be written: {error.strerror or error}") from error
    return target
