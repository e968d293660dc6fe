"""``padiff_shim.record``: a run on disk, to be compared with another one later and elsewhere."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import flag, one_of, path, whole
from ..dispatch.call_site import CallSite, call_site
from ..errors import ArgumentError, FileError, ModeError, described
from ..modes.environment import prepare, rank
from ..trees import as_array, is_tensor, leaves, parts
from . import folder
from .folder import WEIGHT, RecordFile, present

# ---- What a recording says of each call, layer, parameter and gradient, whichever framework it is of.

Named = Callable[[], Iterable[tuple[str, Any]]]  # names and tensors of a model
Wanted = Callable[[Mapping[str, Any], str], bool]


class OwnTensors:
    """The tensors that a run has made, by identity; none is kept alive."""

    def __init__(self) -> None:
        self._known: dict[int, weakref.ref[Any]] = {}

    def add(self, tree: Any) -> None:
        """All tensors of a result."""
        for _, tensor in leaves(tree):
            if tensor not in self and is_tensor(tensor):
                self._known[id(tensor)] = weakref.ref(tensor, functools.partial(self._gone, id(tensor)))

    def _gone(self, key: int, _: Any) -> None:
        self._known.pop(key, None)

    def others(self, tree: Any) -> list[tuple[str, Any]]:
        """(path, tensor) of those that the run has not made."""
        return [(path, tensor) for path, tensor in leaves(tree) if is_tensor(tensor) and tensor not in self]

    def __contains__(self, tensor: Any) -> bool:
        known = self._known.get(id(tensor))
        return known is not None and known() is tensor


class Writer:
    """Turns tensors into records.

    Args:
        file: where they go.
        full: whether values are written, or digests, figures and samples alone.
        parameters, gradients: those of the model by name, or None where they are not wanted.
    """

    def __init__(self, file: RecordFile, *, full: bool, parameters: Named | None = None, gradients: Named | None = None) -> None:
        self._file, self._full, self._parameters, self._gradients = file, full, parameters, gradients
        self._last: dict[tuple[str, str, str], str] = {}  # digests of the parameters and gradients that were written last
        self._inputs: set[str] = set()  # digests of the inputs of this step
        self.own = OwnTensors()
        self._busy = threading.local()
        self._call = self.step = 0
        self._updated = False  # an optimizer ran: what is computed next belongs to the next step

    @property
    def busy(self) -> bool:
        """Whether this thread is in the middle of writing: what it computes now is not the program's."""
        return getattr(self._busy, "yes", False)

    def op(self, names: tuple[str, ...], function: str, result: Any, site: CallSite, layer: str) -> None:
        """The results of one call; ``names`` of the table's ops that it may be, the likeliest first."""
        self._begin()
        record = {"kind": "op", "name": names[0], "layer": layer, **_line(site)}
        if len(names) > 1:
            record["names"] = list(names)
        if function:
            record["function"] = function
        self._tree(record, result)

    def layer(self, path: str, kind: str, result: Any, site: CallSite) -> None:
        """What a layer returned."""
        self._begin()
        self._tree({"kind": "layer", "name": kind, "layer": path, **_line(site)}, result)

    def note(self, name: str, value: Any, site: CallSite, layer: str) -> None:
        """What the program itself wants to be compared."""
        self._begin()
        self._tree({"kind": "note", "name": name, "layer": layer, **_line(site)}, value)

    def inputs(self, name: str, data: Iterable[tuple[str, Any]], site: CallSite, layer: str) -> None:
        """Data that a call of ``name`` is about to be given; once a step."""
        self._begin()
        for tensor_path, tensor in data:
            self._write({"kind": "input", "name": name, "layer": layer, **_line(site)}, tensor_path, tensor, self._is_new_input)

    def weights(self, named: Iterable[tuple[str, Any]]) -> None:
        """The parameters and buffers that the run begins with."""
        for name, tensor in named:
            self._write({"kind": "input", "name": name}, WEIGHT, tensor)

    def parameters(self) -> None:
        """The model's parameters and buffers that have changed since they were written."""
        self._named("parameter", self._parameters)

    def gradients(self) -> None:
        """The gradients that have changed; after an update they are none of a step's any more."""
        if not self._updated:
            self._named("gradient", self._gradients)

    def updated(self) -> None:
        """An optimizer has run; the next call begins a step."""
        self._updated = True

    def next_step(self) -> None:
        """The next step begins."""
        self._updated = False
        self.parameters()
        self.step += 1
        self._last = {key: value for key, value in self._last.items() if key[0] != "gradient"}
        self._inputs.clear()

    def _begin(self) -> None:
        if self._updated:
            self.next_step()
        self._call += 1

    def _named(self, kind: str, named: Named | None) -> None:
        if named is None:
            return
        self._call += 1
        for name, tensor in named():
            self._write({"kind": kind, "name": name}, "", tensor, self._has_changed)

    def _tree(self, record: Mapping[str, Any], tree: Any) -> None:
        for tensor_path, tensor in leaves(tree):
            self._write({**record, "tensor": "out"}, tensor_path, tensor)

    def _has_changed(self, record: Mapping[str, Any], digest: str) -> bool:
        """Whether it is another than it was when it was written last."""
        key = record["kind"], record["name"], record.get("tensor", "")
        before, self._last[key] = self._last.get(key), digest
        return before != digest

    def _is_new_input(self, record: Mapping[str, Any], digest: str) -> bool:
        new = digest not in self._inputs
        self._inputs.add(digest)
        return new

    def _write(self, record: Mapping[str, Any], path: str, tensor: Any, wanted: Wanted | None = None) -> None:
        """One tensor, if its record and digest are ``wanted``."""
        self._busy.yes = True
        try:
            for part, dense in parts(tensor):
                named = ".".join(filter(None, (path, part)))
                self._part({**record, **({"tensor": named} if named else {})}, dense, wanted)
        finally:
            self._busy.yes = False

    def _part(self, record: dict[str, Any], tensor: Any, wanted: Wanted | None) -> None:
        dtype = str(tensor.dtype).rpartition(".")[2]
        record |= {"call": self._call, "step": self.step, "shape": list(tensor.shape), "dtype": dtype}
        try:
            array = np.asarray(as_array(tensor))
        except Exception as error:  # distributed, or of a layout of its own: there are no values to be had
            self._file.tensor({**record, "left_out": f"no values: {type(error).__name__}: {str(error)[:200]}"})
            return
        held = folder.as_bfloat16(array) if dtype == "bfloat16" else array
        digest = folder.digest(held)
        if wanted is not None and not wanted(record, digest):
            return
        record |= {"digest": digest, "figures": folder.figures(array)}
        full = self._full and record["kind"] != "input"
        if record["kind"] == "input":
            record |= {"left_out": "an input", "rows": [] if record["tensor"] == WEIGHT else folder.rows(held)}
        elif not full:
            record["left_out"] = "values='digest'"
        self._file.tensor(record, held if full else None, lambda: folder.sample(array))


def _line(site: CallSite) -> dict[str, Any]:
    return {"site": str(site), "file": site.file, "line": site.line}


# ---- ``padiff_shim.record``: a run on disk, to be compared with another one later and elsewhere.

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
