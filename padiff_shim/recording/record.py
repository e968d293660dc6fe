"""``padiff_shim.record``: a run on disk, to be compared with another one later and elsewhere."""

from __future__ import annotations

import functools
import importlib
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import flag, one_of, path, whole
from ..dispatch.site import call_site
from ..errors import ArgumentError, FileError, ModeError, described
from ..modes.environment import prepare, rank
from .folder import RecordFile, present
from .writer import Writer

FRAMEWORKS = ("paddle", "torch")
VALUES = ("full", "digest")
GIGABYTE = 10**9


def record(
    folder: str | Path,
    model: Any = None,
    *,
    framework: str | None = None,
    values: str = "full",
    budget: int = 2 * GIGABYTE,
    calls: bool = True,
    layers: bool = True,
    parameters: bool = False,
    gradients: bool = False,
    overwrite: bool = False,
) -> Recording:
    """Write down what a Paddle or a Torch program computes, call by call and layer by layer.

    What is written can be compared with another recording by :func:`padiff_shim.diff`: of another machine, device, version or
    commit, or of the other framework. The program itself runs as it would: natively, or inside of whichever mode is open; no bit of
    it changes.

    Args:
        folder: where the files go; made if it does not exist. One folder takes all processes of a distributed run.
        model: the program's :class:`paddle.nn.Layer` or :class:`torch.nn.Module`. Its framework is the one that is recorded, and
            its parameters and gradients those that ``parameters`` and ``gradients`` mean.
        framework: ``"paddle"`` or ``"torch"``, where no model is given; then ``"paddle"`` is the default.
        values: ``"full"`` writes all values, ``"digest"`` a digest of the bits, figures and 64 elements of each tensor instead.
        budget: bytes of values that may be written; tensors that do not fit are written as with ``"digest"``.
        calls: write the results of op calls.
        layers: write what layers return.
        parameters: write the model's parameters and buffers, at the start and after each step.
        gradients: write the gradients of the model's parameters, when a backward has ended.
        overwrite: take the place of a recording of this rank that lies in the folder.

    Returns:
        A :class:`Recording`: a context manager, or ``start()`` and ``stop()``.

    Raises:
        ArgumentError: an argument that is not accepted; the message says what is.
        FileError: the folder cannot be written, or holds a recording of this rank already.
        BackendError: on entry, as for :func:`padiff_shim.reference` (recording a Paddle program needs Torch installed).
    """
    target = path("folder", folder)
    side = _framework(model, framework)
    one_of("values", values, VALUES)
    whole("budget", budget)
    for name, value in (
        ("calls", calls),
        ("layers", layers),
        ("parameters", parameters),
        ("gradients", gradients),
        ("overwrite", overwrite),
    ):
        flag(name, value)
    if (parameters or gradients) and model is None:
        raise ArgumentError(f"{'parameters' if parameters else 'gradients'}=True needs model=, whose they are")
    if not (calls or layers or parameters or gradients):
        raise ArgumentError("nothing would be recorded: calls=, layers=, parameters= and gradients= are all False")
    options = {
        "values": values,
        "budget": budget,
        "calls": calls,
        "layers": layers,
        "parameters": parameters,
        "gradients": gradients,
    }
    return Recording(target.absolute(), model, side, options, overwrite=overwrite)


def _framework(model: Any, framework: str | None) -> str:
    """Which framework is recorded."""
    own = None
    for name in FRAMEWORKS:
        module = sys.modules.get(name)
        kind = getattr(getattr(module, "nn", None), "Layer" if name == "paddle" else "Module", None)
        if kind is not None and isinstance(model, kind):
            own = name
    if model is not None and own is None:
        raise ArgumentError(f"model= is a paddle.nn.Layer or a torch.nn.Module, got {described(model)}")
    if framework is None:
        return own or "paddle"
    one_of("framework", framework, FRAMEWORKS)
    if own is not None and own != framework:
        raise ArgumentError(f"framework={framework!r}, but model= is a model of {own}")
    return framework


class Recording:
    """A run that is being written down: ``with padiff_shim.record(folder) as recording:``.

    ``folder``: where. :meth:`note` adds values of the program's own, :meth:`next_step` ends a step where no optimizer does.
    """

    def __init__(self, folder: Path, model: Any, framework: str, options: dict[str, Any], *, overwrite: bool) -> None:
        self.folder, self.framework = folder, framework
        self._model, self._options, self._overwrite = model, options, overwrite
        self._file: RecordFile | None = None
        self._writer: Writer | None = None
        self._watched: Any = None
        self._began = 0.0
        self._tried = False

    def __repr__(self) -> str:
        state = f"open, {self.records:,} records" if self._watched is not None else f"{self.records:,} records"
        return f"<padiff_shim.Recording of {self.framework} in {self.folder}: {state}>"

    @property
    def records(self) -> int:
        """How many tensors were written."""
        return self._file.records if self._file is not None else 0

    def start(self) -> Recording:
        """Begin to write."""
        self._tried = True
        if self._file is not None:
            raise ModeError("this recording was started already: a folder takes one recording; call padiff_shim.record anew")
        if self.framework in _open:
            raise ModeError(f"another recording of {self.framework} is open ({_open[self.framework].folder}): stop it first")
        if self.framework == "paddle":
            prepare()
        side = importlib.import_module(f".{self.framework}_run", __package__)
        self._make_room()
        header = {"rank": rank(), "framework": self.framework, "options": self._options, **side.surroundings()}
        self._file = RecordFile(self.folder, header, self._options["budget"])
        wanted = [name for name in ("parameters", "gradients") if self._options[name]]
        named = {name: functools.partial(getattr(side, name), self._model) for name in wanted}
        self._writer = Writer(self._file, full=self._options["values"] == "full", **named)
        self._began = time.perf_counter()
        self._watched = side.Watched(self._writer, calls=self._options["calls"], layers=self._options["layers"], tell=self._remark)
        if self._model is not None:
            self._writer.weights(side.parameters(self._model))
        self._writer.parameters()
        self._watched.begin()
        _open[self.framework] = self
        return self

    def stop(self, how: str = "closed") -> None:
        """Write the last line; ``how`` the recorded program ended."""
        watched, self._watched = self._watched, None
        if watched is None or self._file is None or self._writer is None:
            raise ModeError("this recording is not open")
        _open.pop(self.framework, None)
        try:
            watched.end()
            self._writer.gradients()
            self._writer.parameters()
        finally:
            self._file.close(how, time.perf_counter() - self._began)

    def note(self, name: str, value: Any) -> Any:
        """Write tensors, arrays or numbers of the program's own under a name (a loss, a metric); returns ``value``."""
        if self._writer is None or self._watched is None:
            raise ModeError("this recording is not open")
        held = np.asarray(value) if isinstance(value, (int, float, complex)) else value
        self._writer.note(name, held, call_site(), "")
        return value

    def next_step(self) -> None:
        """The next step begins; an optimizer's update ends one by itself."""
        if self._writer is None or self._watched is None:
            raise ModeError("this recording is not open")
        self._writer.next_step()

    def _remark(self, message: str) -> None:
        if self._file is not None:
            self._file.event("warning", message)

    def _make_room(self) -> None:
        """The folder has no recording of this rank."""
        there = present(self.folder, rank())
        if there and not self._overwrite:
            held = f"{self.folder} holds a recording of rank {rank()} already ({there[0].name})"
            raise FileError(f"{held}: choose another folder, or overwrite=True")
        for file in there:
            try:
                file.unlink()
            except OSError as error:
                raise FileError(f"{file} cannot be removed: {error.strerror or error}") from None

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if self._watched is None and error is None:
            return  # stopped inside of the block
        if self._watched is not None:
            self.stop("closed" if error is None else f"{kind.__name__}: {str(error)[:500]}")

    def __del__(self) -> None:
        if not getattr(self, "_tried", True):
            message = f"a recording in {self.folder} was never started: use `with padiff_shim.record(folder):`"
            warnings.warn(message, RuntimeWarning, stacklevel=2)


_open: dict[str, Recording] = {}
