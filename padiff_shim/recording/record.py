"""``padiff_shim.record``: a run on disk, to be compared with another one later and elsewhere."""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import flag, model as checked_model, one_of, path, whole
from ..catalogue.registry import families
from ..dispatch.call_site import CallSite, call_site
from ..dispatch.frames import paused
from ..errors import ArgumentError, FileError, ModeError, described, ended_with
from ..language import tr
from ..modes.environment import prepare, processes, rank
from ..runlog.encoding import encode
from ..runlog.events import CLIPPED, IN_STEP, LOSS, STATE, JsonTable
from ..runlog.optimizer_settings import Settings
from ..runs.run import command
from ..trees import elements, is_tensor, leaves, numbers, parts
from . import provenance, tensors as contents
from .files import RecordFile, present
from .settings import WrittenSettings
from .tensors import NORM, WEIGHT

Named = Callable[[], Iterable[tuple[str, Any]]]  # names and tensors of a model
OptimizerState = tuple[Any, str, Any]  # a parameter, what an optimizer keeps for it by name, and that tensor
Wanted = Callable[[Mapping[str, Any], str], bool]  # whether a record with this digest is to be written


class OwnTensors:
    """The tensors that a run has made, by identity; it keeps none of them alive."""

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


class StepRecorder:
    """What recordings of single tensors and of fingerprints do alike when observers tell of optimizers' steps and of clipping.

    Attributes:
        step: the number of the step.
        active: whether this step is recorded.
        inside: of a step or clipping, whose own calls are none of the program's.
        thread: the one that is recorded.
    """

    active: Any

    def __init__(self, first_step: int) -> None:
        self.step, self.inside, self.thread = first_step, False, threading.get_ident()
        self._clipped: dict[int, Settings] = {}  # how the program clipped gradients, by their parameters' identity
        self._settings = WrittenSettings()
        self._updated = False  # an optimizer ran: what is computed next belongs to the next step

    def looks_on(self) -> bool:
        """Whether this thread is recorded."""
        return threading.get_ident() == self.thread

    def computes(self) -> None:
        """The program computes something: after an optimizer's update this is the next step."""
        if self._updated:
            self.next_step()

    def next_step(self) -> None:
        """The next step begins."""
        raise NotImplementedError

    def clip(self, parameters: Sequence[Any], how: Settings, call: Callable[[], Any]) -> Any:
        """A program's ``call`` clips these parameters' gradients, as a step may do itself, and how: they are written before."""
        if len(parameters) == 1 and "clip_norm" in how:
            how = {**how, "clip_each_norm": how["clip_norm"]}
        with paused():
            self._in_step(parameters)
            self._clipped.update(dict.fromkeys(map(id, parameters), how))
        self.inside = True
        try:
            norm = call()
        finally:
            self.inside = False
        self.clipped([(parameter, gradient_in_step(parameter)) for parameter in parameters], norm)
        return norm

    def updating(self, parameters: Iterable[Any], optimizer: Any = None, reader: Any = None) -> None:
        """An optimizer's step begins: the gradients of the model's parameters as it uses them, changed or not, before clipping.

        ``reader`` reads its settings.
        """
        with paused():
            parameters, clipped = list(parameters), self._clipped
            self._in_step([parameter for parameter in parameters if id(parameter) not in clipped] if clipped else parameters)
            if optimizer is not None and self.active:
                event = self._settings.event(self.step, optimizer, reader, clipped, self._namer(parameters))
                if event is not None:
                    self._write_event(encode(event))
            for parameter in parameters if clipped else ():
                clipped.pop(id(parameter), None)

    def clipped(self, gradients: Iterable[tuple[Any, Any]], norm: Any) -> None:
        """Parameters and their gradients behind clipping, and the norm by which they were clipped, if any."""
        raise NotImplementedError

    def stepped(self, parameters: Iterable[Any], states: Callable[[], Iterable[OptimizerState]]) -> None:
        """An optimizer has updated these parameters; what it keeps for them."""
        raise NotImplementedError

    def _in_step(self, parameters: Iterable[Any]) -> None:
        """Gradients as a step uses them."""
        raise NotImplementedError

    def _namer(self, parameters: Sequence[Any]) -> Callable[[Any], str]:
        """What tells the names of an optimizer's parameters."""
        raise NotImplementedError

    def _write_event(self, line: bytes) -> None:
        raise NotImplementedError


class Writer(StepRecorder):
    """Turns tensors into records.

    Args:
        file: where they go.
        full: whether values are written, or digests, figures and samples alone.
        steps: the steps that are recorded; None: all.
        first_step: the number of the step with which it begins.
        weights: parameters and buffers of the model by name, or None without a model.
        parameters, gradients: those of the model by name, or None where they are not recorded.
        states: whether optimizers' states are written.
    """

    def __init__(
        self,
        file: RecordFile,
        *,
        full: bool,
        steps: range | None = None,
        first_step: int = 0,
        weights: Named | None = None,
        parameters: Named | None = None,
        gradients: Named | None = None,
        states: bool = False,
    ) -> None:
        super().__init__(first_step)
        self._file, self._full, self._steps, self._states = file, full, steps, states
        self._weights, self._parameters, self._gradients = weights, parameters, gradients
        self._last: dict[tuple[str, str, str], str] = {}  # digests of the parameters and gradients that were written last
        self._inputs: set[str] = set()  # digests of the inputs of this step
        self.own = OwnTensors()
        self._busy = threading.local()
        self._call = 0
        self._begun = False  # the weights at the start are written

    @property
    def busy(self) -> bool:
        """Whether this thread is in the middle of writing: what it computes now is not the program's."""
        return getattr(self._busy, "yes", False)

    @property
    def active(self) -> bool:
        """Whether this step is recorded."""
        return self._steps is None or self.step in self._steps

    def begin(self) -> None:
        """The weights with which the first recorded step begins, and its parameters."""
        if self.active and not self._begun:
            self._begun = True
            for name, tensor in self._weights() if self._weights is not None else ():
                self._write({"kind": "input", "name": name}, WEIGHT, tensor)
            self._named("parameter", self._parameters)

    def reads(self, arguments: Iterable[tuple[str, Any]]) -> JsonTable:
        """What a call is about to read, for its record: a digest of each operand's bits, and the arguments that are no tensors."""
        operands: list[JsonTable] = []
        numbers: dict[str, str] = {}
        self._busy.yes = True
        try:
            for name, value in arguments:
                tensors = [(path, tensor) for path, tensor in leaves(value, name) if is_tensor(tensor)]
                operands += [
                    _operand(".".join(filter(None, (path, part))), dense)
                    for path, tensor in tensors
                    for part, dense in parts(tensor)
                ]
                if not tensors and (text := _plain_argument(value)):
                    numbers[name] = text
        finally:
            self._busy.yes = False
        return {"operands": operands, **({"arguments": numbers} if numbers else {})}

    def op(self, names: tuple[str, ...], function: str, result: Any, site: CallSite, layer: str, reads: JsonTable) -> None:
        """The results of one call; ``names`` of the table's ops that it may be, the likeliest first; what it :meth:`reads`."""
        if not self._begin():
            return
        record = {"kind": "op", "name": names[0], "layer": layer, **_line(site), **reads}
        if family := op_families().get(names[0]):
            record["family"] = family
        if len(names) > 1:
            record["names"] = list(names)
        if function:
            record["function"] = function
        self._tree(record, result)

    def layer(self, path: str, kind: str, result: Any, site: CallSite) -> None:
        """What a layer returned."""
        if not self._begin():
            return
        self._tree({"kind": "layer", "name": kind, "layer": path, **_line(site)}, result)

    def note(self, name: str, value: Any, site: CallSite, layer: str) -> None:
        """Values of the program's own; behind an update they belong to its step, and what it updated comes first."""
        if self._updated:
            self.end()
        self._call += 1
        if self.active:
            self._tree({"kind": "note", "name": name, "layer": layer, **_line(site)}, value)

    def loss(self, tensor: Any) -> None:
        """A backward starts from this tensor: all that is known of gradients without a model."""
        if self._weights is None and self._begin():
            self._tree({"kind": LOSS, "name": LOSS, "layer": ""}, tensor)

    def inputs(self, name: str, data: Iterable[tuple[str, Any]], site: CallSite, layer: str) -> None:
        """Data that a call of ``name`` takes; once a step."""
        if not self._begin():
            return
        for tensor_path, tensor in data:
            self._write({"kind": "input", "name": name, "layer": layer, **_line(site)}, tensor_path, tensor, self._is_new_input)

    def gradients(self) -> None:
        """The gradients that have changed; after an update they belong to no step, and clipped ones are of another kind."""
        if not self._updated and not self._clipped:
            self._named("gradient", self._gradients)

    def clipped(self, gradients: Iterable[tuple[Any, Any]], norm: Any) -> None:
        """See :class:`StepRecorder`."""
        if self._gradients is None or not self.active:
            return
        with paused():
            if norm is not None:
                self._call += 1
                self._tree({"kind": "note", "name": NORM, "layer": ""}, norm)
            self._of_parameters(CLIPPED, ((parameter, "", gradient) for parameter, gradient in gradients))

    def _in_step(self, parameters: Iterable[Any]) -> None:
        if self._gradients is not None:
            self._of_parameters(IN_STEP, ((parameter, "", gradient_in_step(parameter)) for parameter in parameters))

    def _namer(self, parameters: Sequence[Any]) -> Callable[[Any], str]:
        names = {id(parameter): f"parameter {place}" for place, parameter in enumerate(parameters)}
        names |= {id(tensor): name for name, tensor in (self._weights() if self._weights is not None else ())}
        return lambda parameter: names[id(parameter)]

    def _write_event(self, line: bytes) -> None:
        self._file.lines(line, 0)

    def stepped(self, parameters: object, states: Callable[[], Iterable[OptimizerState]]) -> None:
        """See :class:`StepRecorder`."""
        with paused():
            self._of_parameters(STATE, states() if self._states else ())
        self.updated()

    def _of_parameters(self, kind: str, tensors: Iterable[OptimizerState]) -> None:
        """Tensors that belong to the model's parameters, under the parameters' names."""
        if self._weights is None or not self.active:
            return
        names = {id(tensor): name for name, tensor in self._weights()}
        self._call += 1
        for parameter, part, tensor in tensors:
            name = names.get(id(parameter))
            if name is not None and tensor is not None:
                self._write({"kind": kind, "name": name}, part, tensor)

    def end(self) -> None:
        """A step or the recording ends: the model's parameters and buffers that have changed since they were written."""
        self._named("parameter", self._parameters)

    def updated(self) -> None:
        """An optimizer has run; the next call begins a step."""
        self._updated = True

    def next_step(self) -> None:
        """See :class:`StepRecorder`."""
        self._updated = False
        self.end()
        self.step += 1
        self._last = {key: value for key, value in self._last.items() if key[0] != "gradient"}
        self._inputs.clear()
        self.begin()

    def _begin(self) -> bool:
        """Another call of the program; whether it is recorded."""
        self.computes()
        self._call += 1
        return self.active

    def _named(self, kind: str, named: Named | None) -> None:
        if named is None or not self.active:
            return
        self._call += 1
        for name, tensor in named():
            self._write({"kind": kind, "name": name}, "", tensor, self._has_changed)

    def _tree(self, record: Mapping[str, Any], tree: Any) -> None:
        for tensor_path, tensor in leaves(tree):
            self._write({**record, "tensor": "out"}, tensor_path, tensor)

    def _has_changed(self, record: Mapping[str, Any], digest: str) -> bool:
        """Whether its digest differs from the one that was written last."""
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
        record |= {"call": self._call, "step": self.step, **_form(tensor)}
        try:
            array, bits = _dense(tensor)
        except Exception as error:  # distributed, or of a layout of its own
            self._file.tensor({**record, "left_out": f"no values: {type(error).__name__}: {str(error)[:200]}"})
            return
        digest = contents.digest(bits)
        if wanted is not None and not wanted(record, digest):
            return
        record |= {"digest": digest, "figures": contents.figures(array)}
        full = self._full and record["kind"] != "input"
        if record["kind"] == "input":
            record |= {"left_out": "an input", "rows": [] if record["tensor"] == WEIGHT else contents.rows(bits)}
        elif not full:
            record["left_out"] = "values='digest'"
        self._file.tensor(record, bits if full else None, lambda: contents.sample(array))


def _gradients(model: Any) -> Iterator[tuple[str, Any]]:
    """The gradients that a model's parameters have, by their names."""
    return ((name, parameter.grad) for name, parameter in model.named_parameters() if parameter.grad is not None)


def gradient_in_step(parameter: Any) -> Any:
    """The gradient that an optimizer's step will use, or None; ``main_grad`` of mixed precision comes first."""
    main = getattr(parameter, "main_grad", None)
    return main if main is not None else parameter.grad


def _form(tensor: Any) -> JsonTable:
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).rpartition(".")[2]}


def _dense(tensor: Any) -> tuple[contents.Array, contents.Array]:
    """The values, bfloat16 and float8 as float32, and the array that holds their bits."""
    bits, dtype = elements(tensor)
    return numbers(bits, dtype), bits


def _operand(name: str, tensor: Any) -> JsonTable:
    entry: JsonTable = {"name": name, **_form(tensor)}
    try:
        entry["digest"] = contents.digest(_dense(tensor)[1])
        if not getattr(tensor, "stop_gradient", not getattr(tensor, "requires_grad", False)):
            framework = sys.modules["paddle" if hasattr(tensor, "stop_gradient") else "torch"]
            entry |= {"graph": True} if framework.is_grad_enabled() else {}
        if not tensor.is_contiguous():
            entry["strides"] = str(list(tensor.stride() if callable(getattr(tensor, "stride", None)) else tensor.strides))
    except Exception:  # distributed, or of a layout of its own: which bits it has is not known
        return entry
    return entry


def _plain_argument(value: Any) -> str:
    """An argument that is no tensor, as a text; "" where it is none that can be compared."""
    if isinstance(value, (list, tuple)):
        texts = [_plain_argument(item) for item in value]
        return f"[{', '.join(texts)}]" if all(texts) else ""
    if type(value).__name__ in ("dtype", "VarType", "DataType"):
        return str(value).rpartition(".")[2].lower()
    return repr(value)[:200] if isinstance(value, (bool, int, float, complex, str, slice)) else ""


@functools.cache
def op_families() -> dict[str, str]:
    """Op -> its family in the table."""
    return {name: family for family, names in families().items() for name in names}


def _line(site: CallSite) -> dict[str, Any]:
    return {"site": str(site), "file": site.name, "line": site.line}


FRAMEWORKS = ("paddle", "torch")
VALUES = ("full", "digest", "fingerprint")
GIGABYTE = 10**9
_ASKED = ("calls", "layers", "parameters", "gradients", "states")
# What is recorded where the user does not say, by ``values``; fingerprints always are of layers, parameters and gradients.
_DEFAULTS = {"calls": True, "layers": True, "parameters": False, "gradients": False, "states": False}


def record(
    folder: str | Path,
    model: Any = None,
    *,
    framework: str | None = None,
    values: str = "full",
    every: int = 1,
    steps: range | None = None,
    first_step: int = 0,
    budget: int = 2 * GIGABYTE,
    calls: bool | None = None,
    layers: bool | None = None,
    parameters: bool | None = None,
    gradients: bool | None = None,
    states: bool | None = None,
    overwrite: bool = False,
) -> Recording:
    """Write down what a Paddle or a Torch program computes, call by call and layer by layer, or step by step as fingerprints.

    :func:`padiff_shim.diff` compares two recordings: of other machines, devices, versions or commits, or of both frameworks. The
    program itself runs as it would, natively or under whichever mode is open; no bit of it changes.

    Args:
        folder: where the files go; made if it does not exist. One folder takes all processes of a distributed run.
        model: the program's :class:`paddle.nn.Layer` or :class:`torch.nn.Module`. Its framework is the one that is recorded, and
            its parameters and gradients those that ``parameters`` and ``gradients`` mean.
        framework: ``"paddle"`` or ``"torch"``, where no model is given; then ``"paddle"`` is the default.
        values: ``"full"`` writes all values, ``"digest"`` a digest of the bits, figures and 64 elements of each tensor instead.
            ``"fingerprint"``, for long runs, writes one line a step: a 64-bit hash, norm, mean, largest magnitude and a projection
            of the loss, of layers' outputs, gradients as an optimizer's step uses them, and parameters after it; a model is not
            needed.
        every: of fingerprints: record each ``every``-th step, from step 0.
        steps: record these steps alone, as ``range(199, 202)``; not of fingerprints.
        first_step: the number of the step with which the program begins, as behind a checkpoint; without it
            :func:`padiff_shim.diff` looks for the step itself.
        budget: bytes of values that may be written; tensors that do not fit are written as with ``"digest"``.
        calls: write the results of op calls; default True.
        layers: write what layers return; default True.
        parameters: write the model's parameters and buffers, at the start and after each step; default False.
        gradients: write the gradients of the model's parameters, when a backward has ended, and once more as an optimizer's
            step is about to use them; default False.
        states: write what optimizers keep for the model's parameters, behind each step: moments, and master weights of mixed
            precision, under Paddle's names (``moment1``, ``velocity``, ``master_weight``); default False.
        overwrite: take the place of a recording of this rank that lies in the folder.

    Returns:
        A :class:`Recording`: a context manager, or ``start()`` and ``stop()``.

    Raises:
        ArgumentError: an argument that is not accepted; the message says what is.
        FileError: the folder cannot be written, or holds a recording of this rank already.
        BackendError: on entry, as for :func:`padiff_shim.reference` (recording a Paddle program needs Torch installed).

    >>> import padiff_shim, tempfile, torch
    >>> folder = tempfile.mkdtemp()
    >>> with padiff_shim.record(folder, framework="torch") as recording:
    ...     _ = torch.exp(torch.zeros(3))
    >>> recording.records
    2
    >>> bool(padiff_shim.diff(folder, folder))
    True
    """
    target = path("folder", folder)
    side = _framework(model, framework)
    one_of("values", values, VALUES)
    whole("budget", budget)
    flag("overwrite", overwrite)
    wishes = dict(zip(_ASKED, (calls, layers, parameters, gradients, states)))
    for name, wish in wishes.items():
        if wish is not None:
            flag(name, wish)
    if whole("every", every) < 1:
        raise ArgumentError(tr("every= is a whole number from 1 on, got 0"))
    if steps is not None and not (isinstance(steps, range) and steps.step == 1 and 0 <= steps.start < steps.stop):
        raise ArgumentError(
            tr("steps= is a range of steps that are recorded, as range(199, 202), got {steps}", steps=described(steps))
        )
    options: dict[str, Any] = {"values": values, **({"first_step": first_step} if whole("first_step", first_step) else {})}
    if values == "fingerprint":
        named = [name for name, wish in wishes.items() if wish is not None]
        if named or steps is not None:
            option = named[0] if named else "steps"
            raise ArgumentError(
                tr("{option}= does not go with values='fingerprint', which records layers, gradients and parameters", option=option)
            )
        options["every"] = every
    else:
        if every != 1:
            raise ArgumentError(tr("every= goes with values='fingerprint'; steps=range(...) chooses steps of other recordings"))
        options |= {"budget": budget, **{name: _DEFAULTS[name] if wish is None else wish for name, wish in wishes.items()}}
        for name in ("parameters", "gradients", "states"):
            if wishes[name] and model is None:
                raise ArgumentError(tr("{name}=True needs model=, whose they are", name=name))
        if not any(options[name] for name in _ASKED):
            raise ArgumentError(tr("nothing would be recorded: calls=, layers=, parameters=, gradients= and states= are all False"))
        if steps is not None:
            options["steps"] = [steps.start, steps.stop]
    return Recording(target.absolute(), model, side, options, overwrite=overwrite)


def _framework(model: Any, framework: str | None) -> str:
    """Which framework is recorded."""
    own = None if model is None else checked_model("model=", model)
    if framework is None:
        return own or "paddle"
    one_of("framework", framework, FRAMEWORKS)
    if own is not None and own != framework:
        raise ArgumentError(tr("framework={framework}, but model= is a model of {own}", framework=repr(framework), own=own))
    return framework


class Recording:
    """A run that is being written down: ``with padiff_shim.record(folder) as recording:``, or :meth:`start` and :meth:`stop`.

    Attributes:
        folder: where, absolute.
        framework: ``"paddle"`` or ``"torch"``.
        joins: processes of the same run may have written into the folder already: a launcher's, for its ranks.
        alone: the recorded run has this process alone, whatever a launcher says.
    """

    def __init__(self, folder: Path, model: Any, framework: str, options: dict[str, Any], *, overwrite: bool) -> None:
        self.folder, self.framework = folder, framework
        self._model, self._options, self._overwrite = model, options, overwrite
        self._file: RecordFile | None = None
        self._writer: Any = None  # a Writer, or a FingerprintRun
        self._observer: Any = None
        self._began = 0.0
        self._tried = self.joins = self.alone = False

    def __repr__(self) -> str:
        state = f"{self.records:,} {'record' if self.records == 1 else 'records'}"
        state = state if self._observer is None else f"open, {state}"
        lost = "" if self._file is None or not self._file.lost else f"; {self._file.lost}"
        return f"<padiff_shim.Recording of {self.framework} in {self.folder}: {state}{lost}>"

    def discard(self) -> None:
        """Remove the files of a recording that was stopped."""
        if self._file is not None:
            self._file.discard()

    @property
    def records(self) -> int:
        """How many tensors were written so far; fingerprints when their step has ended."""
        return 0 if self._file is None else max(self._file.records, getattr(self._writer, "records", 0))

    def start(self) -> Recording:
        """Begin to write.

        Raises:
            ModeError: it was started already, or another recording of this framework is open.
            FileError: the folder cannot be written, or holds a recording of this rank.
        """
        self._tried = True
        if self._file is not None:
            raise ModeError(tr("this recording was started already: a folder takes one recording; call padiff_shim.record anew"))
        if self.framework in _open:
            raise ModeError(
                tr(
                    "another recording of {framework} is open ({folder}): stop it first",
                    framework=self.framework,
                    folder=_open[self.framework].folder,
                )
            )
        if self.framework == "paddle":
            prepare()
        options = self._options
        side = importlib.import_module(f".{self.framework}_run", __package__)
        self._make_room()
        ranks = 1 if self.alone else processes()
        header = {"rank": rank(), "ranks": ranks, "framework": self.framework, "options": options, **side.surroundings()}
        if self._model is not None:
            marked = {name: tensor for name, tensor in side.view.named(self._model) if getattr(tensor, "is_distributed", False)}
            axes = {name: getattr(tensor, "split_axis", None) for name, tensor in marked.items()}  # over ranks, of fleet's layers
            if axes := {name: axis for name, axis in axes.items() if type(axis) is int}:
                header["split_axes"] = axes
            known = {"configuration": provenance.configuration(self._model), "checkpoint": provenance.checkpoint(self._model)}
            header |= {name: text for name, text in known.items() if text}
        if text := command():
            header["command"] = text
        self._began = time.perf_counter()
        if options["values"] == "fingerprint":
            self._file = RecordFile(self.folder, header, 0)
            self._observer = side.fingerprints(self._file, self._model, options["every"], options.get("first_step", 0))
            self._writer = self._observer.run
        else:
            self._file = RecordFile(self.folder, header, options["budget"])
            weights = None if self._model is None else functools.partial(side.view.named, self._model)
            self._writer = Writer(
                self._file,
                full=options["values"] == "full",
                steps=range(*options["steps"]) if "steps" in options else None,
                first_step=options.get("first_step", 0),
                weights=weights,
                parameters=weights if options["parameters"] else None,
                gradients=functools.partial(_gradients, self._model) if options["gradients"] else None,
                states=options["states"],
            )
            self._observer = side.observer(
                self._writer, self._model, calls=options["calls"], layers=options["layers"], warn=self._remark
            )
            self._writer.begin()
        self._observer.begin()
        _open[self.framework] = self
        return self

    def stop(self, how: str = "closed") -> None:
        """Write the last line; ``how`` the recorded program ended.

        Raises:
            ModeError: the recording is not open.
        """
        writer, observer = self._opened(), self._observer
        assert self._file is not None
        self._observer = None
        _open.pop(self.framework, None)
        try:
            observer.end()
            writer.end()
        finally:
            self._file.close(how, time.perf_counter() - self._began)

    def note(self, name: str, value: Any) -> Any:
        """Write tensors, arrays or numbers of the program's own under a name (a loss, a metric); returns ``value``.

        Raises:
            ModeError: the recording is not open.
        """
        array = np.asarray(value) if isinstance(value, (int, float, complex)) else value
        self._opened().note(name, array, call_site(), "")
        return value

    def next_step(self) -> None:
        """Begin the next step; an optimizer's update ends one by itself.

        Raises:
            ModeError: the recording is not open.
        """
        self._opened().next_step()

    def stepping(self, parameters: Iterable[Any]) -> None:
        """Write the gradients of the model's parameters as an optimizer's step would use them now, without such a step.

        Raises:
            ModeError: the recording is not open.
        """
        self._opened().updating(parameters)

    def _opened(self) -> Any:
        if self._writer is None or self._observer is None:
            raise ModeError(tr("this recording is not open"))
        return self._writer

    def _remark(self, message: str) -> None:
        if self._file is not None:
            self._file.event("warning", message)

    def _make_room(self) -> None:
        """See that the folder has no recording of this rank."""
        files = present(self.folder, rank()) if not self.joins else []
        if files and not self._overwrite:
            raise FileError(
                tr(
                    "{folder} holds a recording of rank {rank} already ({file}): use another, or --overwrite (overwrite=True)",
                    folder=self.folder,
                    rank=rank(),
                    file=files[0].name,
                )
            )
        for file in files:
            try:
                file.unlink()
            except OSError as error:
                raise FileError(tr("{file} cannot be removed: {strerror}", file=file, strerror=error.strerror or error)) from None

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._observer is None and error is None:
            return  # stopped inside of the block
        if self._observer is not None:
            self.stop((error is not None and ended_with(error)) or "closed")

    def __del__(self) -> None:
        if not getattr(self, "_tried", True):
            message = tr("a recording in {folder} was never started: use `with padiff_shim.record(folder):`", folder=self.folder)
            warnings.warn(message, RuntimeWarning, stacklevel=2)


_open: dict[str, Recording] = {}
