"""Files that a user names, written whole."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from .errors import FileError


def write(path: str | os.PathLike[str], text: str, what: str = "") -> Path:
    """``text`` (UTF-8) into a file, in a folder that is made if need be; returns its path. It stays the file that it was, whoever
    has it open; where the disk is full or the writing is ended, what it held is put back, and a new one is taken away. Halves of
    surrogate pairs (bytes of a path that are no UTF-8) are written as escapes.

    Raises:
        FileError: it cannot be written; the message begins with ``what`` it is (``"the page "``).
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        is_new, before = not os.path.lexists(target), target.read_bytes() if target.is_file() else None
        try:
            target.write_text(text, encoding="utf-8", errors="backslashreplace")
        except BaseException:
            with contextlib.suppress(OSError):
                if is_new:
                    target.unlink()
                elif before is not None and target.read_bytes() != before:
                    target.write_bytes(before)
            raise
    except OSError as error:
        raise _refused(target, error, what) from error
    return target


def replace(path: str | os.PathLike[str], text: str, what: str = "") -> Path:
    """As :func:`write`, but whole or not at all: who reads meanwhile, or after a crash, finds what was there before, or all of it.

    Halves of surrogate pairs are written as escapes: UTF-8 has none.

    Raises:
        FileError: it cannot be written; nothing is left beside the file.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(beside, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise _refused(target, error, what) from error
    return target


def try_file(path: str | os.PathLike[str], what: str = "") -> None:
    """Whether a file can be written, tried before the hours that lead to its content; nothing is left, and nothing is changed.

    Raises:
        FileError: it cannot.
    """
    target = Path(path)
    try:
        if not target.exists():
            _try_folder(target.parent)
        elif target.is_file():
            target.open("ab").close()
        elif target.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        elif not os.access(target, os.W_OK):  # opening a pipe would wait for who reads it
            raise PermissionError(0, "it is not writable")
    except OSError as error:
        raise _refused(path, error, what) from None


def try_folder(path: str | os.PathLike[str], what: str = "") -> None:
    """As :func:`try_file`, of a folder in which files will be made, itself among what is made.

    Raises:
        FileError: there can be none.
    """
    try:
        _try_folder(Path(path))
    except OSError as error:
        raise _refused(path, error, what) from None


def _try_folder(path: Path) -> None:
    """Make a file without a name there, or where its first folder would be made."""
    place = next(one for one in (path.absolute(), *path.absolute().parents) if os.path.lexists(one))
    if not place.is_dir():
        raise NotADirectoryError(0, f"{place} is no folder")
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise OSError(error.errno, f"{place} is not writable ({error.strerror or error})") from None


def _refused(path: str | os.PathLike[str], error: OSError, what: str) -> FileError:
    return FileError(f"{what}{os.fspath(path)} cannot be written: {error.strerror or error}")
