"""Recording fingerprints: which tensors a step has, under which names, and the line that the step becomes.

Each tensor is described once (``"type": "tensors"``); a step is one line of hashes and figures (docs/record.md).
:mod:`.paddle_run` and :mod:`.torch_run` look on while a program runs.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..dispatch.call_site import call_site
from ..runlog.encoding import encode
from ..runlog.events import CLIPPED, LOSS
from ..trees import elements, leaves, parts
from .device_fingerprints import DeviceFingerprints
from .files import RecordFile
from .fingerprints import STORED, StepFingerprints
from .record import StepRecorder, gradient_in_step
from .tensors import INPUT, NORM, WEIGHT

_LATEST = 0.05  # seconds after which steps are written
Framework = Any  # a tensor, layer or parameter of Paddle or Torch

Of = tuple[str, str, str, str]  # kind, name, layer, and the place in a call's operands or results


class _Expected(NamedTuple):
    """The tensor that the last step had in a place: shape and dtype as its framework has them.

    Attributes:
        add: adds it by its address; None of one that is looked for elsewhere than in its memory.
        weight: the tensor itself where it stays the same one from step to step, in the same memory.
        address: of that memory, or 0.
    """

    number: int
    of: Of
    shape: Any
    dtype: Any
    add: Callable[[int], None] | None
    weight: Any
    address: int


class FingerprintRun(StepRecorder):
    """Collects the fingerprints of a run, and writes them step by step.

    Args:
        file: where they go.
        side: what it has to know of the framework, as :class:`~.paddle_run.PaddleView`.
        model: whose names come first, or None.
        every: only steps whose number is a multiple of it are recorded.
        first_step: the number of the step with which it begins.
    """

    def __init__(self, file: RecordFile, side: Any, model: Framework | None, every: int, first_step: int) -> None:
        super().__init__(first_step)
        self._file, self._side, self._every = file, side, every
        self._step = StepFingerprints(DeviceFingerprints())
        self._known: dict[tuple[Of, int, tuple[int, ...], str], int] = {}  # numbers of tensors that are described
        self._sequence: list[_Expected] = []  # the tensors of this step so far, and of the step before beyond them
        self._undescribed: list[dict[str, Any]] = []
        self._of: list[int] = []  # the step's tensors, in order
        self._roots: list[tuple[Framework, bool]] = []  # models, and whether they have parameters of their own
        self._layers: dict[int, Of] = {}  # by identity
        self._names: dict[int, tuple[Of, ...]] = {}  # of gradients, clipped ones and parameters, by the parameter's identity
        self._running: list[Of] = []
        self._changed = list[bytes]()  # events of optimizers that are to be written
        self._ended: list[tuple[int, str]] = []  # steps that are to be written, and the spans of their tensors
        self._wrote = 0.0
        self.active, self.records = first_step % every == 0, 0
        self._starts = True  # no step has ended yet
        if model is not None:
            self._root(model)

    # What the observers call

    def enter(self, layer: Framework, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """A layer begins."""
        of = self._layers.get(id(layer))
        if self._running:
            self._running.append(of or self._new_layer(layer))
            return
        self.computes()
        if of is None or not any(layer is root for root, _ in self._roots):
            self._root(layer)
            of = self._layers[id(layer)]
        self._running.append(of)
        if self.active:
            kind: Any = self._side.tensor_type
            alone = len(args) == 1 and not kwargs and type(args[0]) is kind  # in less time
            operands: Iterable[tuple[str, Any]] = [("[0]", args[0])] if alone else leaves((*args, *kwargs.values()))
            for path, tensor in operands:
                if isinstance(tensor, kind) and tensor.is_leaf and id(tensor) not in self._names:  # else the program has made it
                    self._add([((INPUT, of[1], of[2], path), tensor)])

    def leave(self, result: Any) -> None:
        """The layer that began last has returned."""
        if not self._running:
            return
        of = self._running.pop()
        if not self.active:
            return
        if type(result) is self._side.tensor_type:
            self._add([(of, result)])
        elif result is not None:
            for place, tensor in leaves(result):
                if isinstance(tensor, self._side.tensor_type):
                    self._add([((*of[:3], place), tensor)])

    def failed(self) -> None:
        """A layer ended with an error."""
        if self._running:
            self._running.pop()

    def loss(self, tensor: Framework) -> None:
        """A backward starts from this tensor."""
        self.computes()
        if self.active:
            self._add([(_LOSS, tensor)])

    def clipped(self, gradients: Iterable[tuple[Framework, Framework]], norm: Framework | None) -> None:
        """See :class:`~.record.StepRecorder`."""
        if self.active:
            if norm is not None:
                self._add_any(("note", NORM, "", ""), norm)
            self._add([(self._named(parameter)[1], gradient) for parameter, gradient in gradients if gradient is not None])

    def _in_step(self, parameters: Iterable[Framework]) -> None:
        if self.active:
            gradients = [(parameter, gradient_in_step(parameter)) for parameter in parameters]
            self._add([(self._named(parameter)[0], gradient) for parameter, gradient in gradients if gradient is not None])

    def _namer(self, parameters: object) -> Callable[[Framework], str]:
        return lambda parameter: self._named(parameter)[0][1]

    def _write_event(self, line: bytes) -> None:
        self._changed.append(line)

    def stepped(self, parameters: Iterable[Framework], states: object) -> None:
        """See :class:`~.record.StepRecorder`."""
        if self.active:
            self._add([(self._named(parameter)[2], parameter) for parameter in parameters])
        self._updated = True

    def note(self, name: str, value: Any, site: object, layer: str) -> None:
        """Values of the program's own; behind an update they belong to its step."""
        for path, tensor in leaves(value) if self.active else ():
            self._add_any(("note", name, layer, path), tensor)

    def next_step(self) -> None:
        """See :class:`~.record.StepRecorder`."""
        self._end_step()
        self._updated = self._starts = False
        self.step += 1
        self.active = self.step % self._every == 0

    def end(self) -> None:
        """Write what there is; buffers and weights that no optimizer has updated in this step are those at the end."""
        updated = {expected.of for expected in self._sequence[: len(self._of)]}
        for root, _ in self._roots if self.active and self._of else ():
            for _, tensor in self._side.named(root):
                of = self._names[id(tensor)][2]
                if of not in updated and not self._starts:
                    self._add([(of, tensor)])
        self._end_step()
        self.write()

    # Names

    def _root(self, model: Framework) -> None:
        """A model that the program itself calls; its weights at the start, where the run has just begun."""
        named = [(name, tensor) for name, tensor in self._side.named(model) if id(tensor) not in self._names]
        prefix = f"{type(model).__name__}." if named and any(holds for _, holds in self._roots) else ""
        self._roots.append((model, bool(named)))
        for path, layer in self._side.sublayers(model):
            self._layers.setdefault(id(layer), _of_layer(prefix + path, layer))
        for name, tensor in named:
            self._names[id(tensor)] = _of_parameter(prefix + name)
        if self._starts:
            self._add([((INPUT, prefix + name, "", WEIGHT), tensor) for name, tensor in named])

    def _new_layer(self, layer: Framework) -> Of:
        """A layer that no model had when it was first called."""
        for root, _ in self._roots:
            for path, child in self._side.sublayers(root):
                if child is layer:
                    return self._layers.setdefault(id(layer), _of_layer(path, layer))
        return _of_layer(".".join(filter(None, (self._running[-1][2], type(layer).__name__))), layer)

    def _named(self, parameter: Framework) -> tuple[Of, ...]:
        """Of a parameter's gradient, its clipped one and itself; no model may have had it when it was first called."""
        known = self._names.get(id(parameter))
        if known is not None:
            return known
        for root, _ in self._roots:
            for name, tensor in self._side.named(root):
                self._names.setdefault(id(tensor), _of_parameter(name))
        own = getattr(parameter, "name", None) or f"parameter {len(self._names)}"
        return self._names.setdefault(id(parameter), _of_parameter(own))

    # Fingerprints

    def _add(self, tensors: Iterable[tuple[Of, Framework]]) -> None:
        """Tensors of the step. Steps mostly have the same tensors in the same order as the step before."""
        sequence, numbers, address_of = self._sequence, self._of, self._side.address
        for of, tensor in tensors:
            if len(numbers) < len(sequence):
                number, of_known, shape, dtype, add, weight, address = sequence[len(numbers)]
                if add is not None and (of_known is of or of_known == of):
                    if tensor is not weight or tensor.data_ptr() != address:
                        alike = tensor.shape == shape and (tensor.dtype is dtype or tensor.dtype == dtype)
                        address = address_of(tensor) if alike else 0
                    if address:
                        add(address)
                        numbers.append(number)
                        continue
            self._add_any(of, tensor)

    def _add_any(self, of: Of, tensor: Framework) -> None:
        """As :meth:`_add`, of a tensor or an array that is another than before."""
        position, sequence = len(self._of), self._sequence
        dtype = str(tensor.dtype).rpartition(".")[2]
        size = math.prod(tensor.shape) if dtype in STORED and isinstance(tensor, self._side.tensor_type) else 0
        add = self._step.adder(size, dtype) if size else None
        address = self._side.address(tensor) if size else 0
        if add is not None and address:
            add(address)
        elif not self._add_elsewhere(tensor):
            return
        number = self._described(of, tensor, dtype)
        if position >= len(sequence) or sequence[position].number != number:
            del sequence[position:]
            weight = (tensor, address) if of[0] == "parameter" else (None, 0)
            sequence.append(_Expected(number, of, tensor.shape, tensor.dtype, add, *weight))
        self._of.append(number)

    def _add_elsewhere(self, tensor: Framework) -> bool:
        """Whether a tensor that does not lie in C order on the host has dense values, which are added."""
        device = self._side.on_device(tensor)
        if device is not None:
            self._step.add_on_device(device)
            return True
        try:
            ((_, dense),) = parts(tensor)
            self._step.add(*elements(dense))
        except (TypeError, ValueError, RuntimeError):  # sparse, distributed, or of a layout of its own
            return False
        return True

    def _described(self, of: Of, tensor: Framework, dtype: str) -> int:
        """The number of a tensor's description, new or known."""
        kind, name, layer, place = of
        count = sum(expected.of == of for expected in self._sequence[: len(self._of)])
        shape = tuple(tensor.shape)
        known = self._known.get((of, count, shape, dtype))
        if known is None:
            known = self._known[of, count, shape, dtype] = len(self._known)
            site = call_site() if kind in ("layer", INPUT, LOSS, "note") and place != WEIGHT else None
            lines = {} if site is None else {"site": str(site), "file": site.name, "line": site.line}
            self._undescribed.append({
                "kind": kind, "name": name, "tensor": place, "layer": layer, **lines, "call": count,
                "shape": list(shape), "dtype": dtype,
            })  # fmt: skip
        return known

    def _end_step(self) -> None:
        """The step has ended. Short steps are written together: a killed process loses less than :data:`_LATEST` seconds."""
        if self._of:
            self._step.end_step()
            self._ended.append((self.step, _spans(tuple(self._of))))
            self.records += len(self._of)
            self._of = []
            if self._starts:
                self._sequence = [expected for expected in self._sequence if expected.of[3] != WEIGHT]
        if time.perf_counter() - self._wrote > _LATEST:
            self.write()

    def write(self) -> None:
        """The lines of the steps that have ended, behind descriptions of tensors that are new."""
        lines, self._changed = self._changed, []
        if self._undescribed:
            first = len(self._known) - len(self._undescribed)
            lines.append(encode({"type": "tensors", "first": first, "tensors": self._undescribed}))
            self._undescribed = []
        records = 0
        for (step, spans), (bits, figures) in zip(self._ended, self._step.take()):
            content, numbers = bits.astype(">u8").tobytes().hex(), figures.astype(">f4").tobytes().hex()
            lines.append(
                f'{{"type":"step","step":{step},"of":[{spans}],"bits":"{content}","figures":"{numbers}"}}\n'.encode("ascii")
            )
            records += len(bits)
        self._ended = []
        if lines:
            self._file.lines(b"".join(lines), records)
        self._wrote = time.perf_counter()


_LOSS: Of = (LOSS, LOSS, "", "")


@functools.lru_cache(16)
def _spans(numbers: tuple[int, ...]) -> str:
    """Of the numbers of a step's tensors: begin, end behind the last, begin, end..."""
    spans: list[int] = []
    for number in numbers:
        if spans and spans[-1] == number:
            spans[-1] += 1
        else:
            spans += [number, number + 1]
    return ",".join(map(str, spans))


def _of_layer(path: str, layer: Framework) -> Of:
    return "layer", type(layer).__name__, path, ""


def _of_parameter(name: str) -> tuple[Of, ...]:
    return ("gradient", name, "", ""), (CLIPPED, name, "", ""), ("parameter", name, "", "")


def watching_backwards(
    run: Any, looks_on: Callable[[], bool], ended: Callable[[], object] = lambda: None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes of functions that start a backward some that tell ``run`` from which tensors it starts, the outermost alone.

    ``ended`` is called when it has left its gradients.
    """
    inside = False

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside or not looks_on():
                return original(tensors, *args, **kwargs)
            for _, tensor in leaves(tensors):
                run.loss(tensor)
            inside = True
            try:
                result = original(tensors, *args, **kwargs)
            finally:
                inside = False
            ended()
            return result

        return backward

    return watched


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
