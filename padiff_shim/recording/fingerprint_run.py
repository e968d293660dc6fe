"""Recording fingerprints: which tensors a step has, under which names, and the line that the step becomes.

Each tensor is described once (``"type": "tensors"``); a step is one line of hashes and figures (docs/record.md). What looks on while
a program runs is :mod:`.paddle_fingerprints` and :mod:`.torch_fingerprints`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ..dispatch.call_site import call_site
from ..runlog.encoding import encode, finite
from ..runlog.events import LOSS
from ..trees import leaves
from .files import RecordFile
from .fingerprints import StepFingerprints
from .tensors import INPUT, WEIGHT, Array

Framework = Any  # a tensor, layer or parameter of Paddle or Torch


class Side(Protocol):
    """What the recording has to know of a framework."""

    tensor_type: type

    def content(self, tensor: Framework) -> tuple[Array, bool] | None:
        """The values on the host, and whether they are the bits of bfloat16; None for a tensor without dense values."""

    def on_device(self, tensor: Framework) -> Framework | None:
        """A Torch tensor over the same memory on a GPU; None on the host."""

    def named(self, model: Framework) -> Iterator[tuple[str, Framework]]:
        """Parameters and buffers of a model, by their names."""

    def sublayers(self, model: Framework) -> Iterable[tuple[str, Framework]]:
        """Layers of a model, by their paths."""

    def gradient(self, parameter: Framework) -> Framework | None:
        """The gradient that an optimizer's step will use."""


class FingerprintRun:
    """Collects the fingerprints of a run, and writes them step by step.

    Args:
        file: where they go.
        side: the framework.
        model: whose names come first, or None.
        every: only steps whose number is a multiple of it are recorded.
    """

    def __init__(self, file: RecordFile, side: Side, model: Framework | None, every: int) -> None:
        self._file, self._side, self._every = file, side, every
        self._step = StepFingerprints()
        self._numbers: dict[tuple[Any, ...], int] = {}  # of described tensors
        self._undescribed: list[dict[str, Any]] = []
        self._of: list[int] = []  # the step's tensors, in order
        self._counts: dict[tuple[str, str, str], int] = {}  # of calls in this step
        self._roots: list[tuple[Framework, str]] = []
        self._paths: dict[int, str] = {}  # of layers, by identity
        self._names: dict[int, str] = {}  # of parameters, by identity
        self._dtypes: dict[Any, str] = {}
        self._spans: dict[tuple[int, ...], str] = {}
        self._running: list[str] = []
        self._thread = threading.get_ident()
        self._updated = False
        self.step, self.active = 0, True
        if model is not None:
            self._root(model)

    # What the observers call

    def elsewhere(self) -> bool:
        """Whether this is another thread than the one that began."""
        return threading.get_ident() != self._thread

    def enter(self, layer: Framework, operands: Any) -> None:
        """A layer begins."""
        if self._running:
            path = self._paths.get(id(layer))
            if path is None:
                path = self._new_path(layer)
            self._running.append(path)
            return
        self._begin()
        if not any(layer is root for root, _ in self._roots):
            self._root(layer)
        self._running.append(self._paths.get(id(layer), ""))
        if self.active:
            for path, tensor in leaves(operands):
                if isinstance(tensor, self._side.tensor_type) and id(tensor) not in self._names:
                    self._add(INPUT, type(layer).__name__, self._running[-1], path, tensor)

    def leave(self, layer: Framework, result: Any) -> None:
        """A layer has returned."""
        if not self._running:
            return
        path = self._running.pop()
        if not self.active:
            return
        if isinstance(result, self._side.tensor_type):
            self._add("layer", type(layer).__name__, path, "", result)
        elif result is not None:
            for place, tensor in leaves(result):
                if isinstance(tensor, self._side.tensor_type):
                    self._add("layer", type(layer).__name__, path, place, tensor)

    def failed(self) -> None:
        """A layer ended with an error."""
        if self._running:
            self._running.pop()

    def loss(self, tensor: Framework) -> None:
        """A backward starts from this tensor."""
        self._begin()
        if self.active:
            self._add(LOSS, LOSS, "", "", tensor)

    def updating(self, parameters: Sequence[Framework]) -> None:
        """An optimizer is about to update these parameters."""
        self._begin()
        if self.active:
            for parameter in parameters:
                gradient = self._side.gradient(parameter)
                if gradient is not None:
                    self._add("gradient", self._name(parameter), "", "", gradient)

    def updated(self, parameters: Sequence[Framework]) -> None:
        """An optimizer has updated these parameters; what is computed next belongs to the next step."""
        if self.active:
            for parameter in parameters:
                self._add("parameter", self._name(parameter), "", "", parameter)
        self._updated = True

    def note(self, name: str, value: Any, site: object, layer: str) -> None:
        """Values of the program's own."""
        self._begin()
        for path, tensor in leaves(value) if self.active else ():
            self._add("note", name, "", path, tensor)

    def next_step(self) -> None:
        """The next step begins."""
        self._write()
        self._updated = False
        self._counts.clear()
        self.step += 1
        self.active = self.step % self._every == 0

    def end(self) -> None:
        """Write what there is."""
        self._write()

    # Names

    def _begin(self) -> None:
        if self._updated:
            self.next_step()

    def _root(self, model: Framework) -> None:
        """A model that is called by the program itself; its weights at the start, where the run has just begun."""
        named = [(name, tensor) for name, tensor in self._side.named(model) if id(tensor) not in self._names]
        prefix = f"{type(model).__name__}." if named and any(prefix_of for _, prefix_of in self._roots) else ""
        self._roots.append((model, f"{prefix}{type(model).__name__}" if named else ""))
        for path, layer in self._side.sublayers(model):
            self._paths.setdefault(id(layer), prefix + path)
        for name, tensor in named:
            self._names[id(tensor)] = prefix + name
        if self.step == 0:
            for name, tensor in named:
                self._add(INPUT, prefix + name, "", WEIGHT, tensor)

    def _new_path(self, layer: Framework) -> str:
        """The path of a layer that no model had when it was first called."""
        for root, _ in self._roots:
            for path, child in self._side.sublayers(root):
                if child is layer:
                    self._paths[id(layer)] = path
                    return path
        return ".".join(filter(None, (self._running[-1], type(layer).__name__)))

    def _name(self, parameter: Framework) -> str:
        name = self._names.get(id(parameter))
        if name is None:
            for root, _ in self._roots:
                for known, tensor in self._side.named(root):
                    self._names.setdefault(id(tensor), known)
            name = self._names.setdefault(id(parameter), getattr(parameter, "name", None) or f"parameter {len(self._names)}")
        return name

    # Fingerprints

    def _add(self, kind: str, name: str, layer: str, place: str, tensor: Framework) -> None:
        dtype = self._dtypes.get(tensor.dtype)
        if dtype is None:
            dtype = self._dtypes[tensor.dtype] = str(tensor.dtype).rpartition(".")[2]
        shape = tuple(tensor.shape)
        of = (kind, layer or name, place)
        count = self._counts.get(of, 0)
        self._counts[of] = count + 1
        key = (kind, layer, name, place, count, shape, dtype)
        device = self._side.on_device(tensor)
        if device is not None:
            self._step.add_on_device(device)
        else:
            content = self._side.content(tensor)
            if content is None:
                return
            self._step.add(content[0], bfloat16=content[1])
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            site = call_site() if kind in ("layer", INPUT, LOSS, "note") and place != WEIGHT else None
            lines = {} if site is None else {"site": str(site), "file": site.file, "line": site.line}
            self._undescribed.append({
                "kind": kind, "name": name, "tensor": place, "layer": layer, **lines, "call": count, "shape": list(shape), "dtype": dtype
            })  # fmt: skip
        self._of.append(number)

    def _write(self) -> None:
        """The line of this step, behind descriptions of tensors that are new."""
        if not self._of:
            return
        lines = b""
        if self._undescribed:
            first = len(self._numbers) - len(self._undescribed)
            lines = encode({"type": "tensors", "first": first, "tensors": self._undescribed})
            self._undescribed = []
        bits, figures = self._step.take()
        flat = figures.reshape(-1)
        if np.isfinite(flat).all():
            text = ",".join(["%.7g"] * len(flat)) % tuple(flat.tolist())
        else:
            text = encode({"figures": finite([float(f"{figure:.7g}") for figure in flat.tolist()])}).decode()[len('{"figures":[') : -3]
        content = bits.astype(">u8").tobytes().hex()
        line = f'{{"type":"step","step":{self.step},"of":[{self._span()}],"bits":"{content}","figures":[{text}]}}\n'
        self._file.line(lines + line.encode("ascii"), len(self._of))
        self._of = []

    def _span(self) -> str:
        """The numbers of the step's tensors as spans: begin, end behind the last, begin, end..."""
        key = tuple(self._of)
        text = self._spans.get(key)
        if text is None:
            spans: list[int] = []
            for number in key:
                if spans and spans[-1] == number:
                    spans[-1] += 1
                else:
                    spans += [number, number + 1]
            if len(self._spans) > 64:
                self._spans.clear()
            text = self._spans[key] = ",".join(map(str, spans))
        return text


class Replacements:
    """Methods of a framework's classes that are replaced while a recording is open; what somebody else put there stays."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def put(self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Replace ``owner.name`` by what ``make`` makes of it."""
        original = vars(owner)[name]
        replacement = make(original)
        setattr(owner, name, replacement)
        self._replaced.append((owner, name, original, replacement))

    def undo(self) -> None:
        """Put everything back."""
        for owner, name, original, replacement in reversed(self._replaced):
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)
        self._replaced = []
