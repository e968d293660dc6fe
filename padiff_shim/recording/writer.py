"""What a recording says of each call, layer, parameter and gradient, whichever framework it is of."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..dispatch.site import Site
from ..trees import as_array, is_tensor, leaves, parts
from . import figures
from .folder import RecordFile
from .reading import WEIGHT

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

    def op(self, names: tuple[str, ...], function: str, result: Any, site: Site, layer: str) -> None:
        """The results of one call; ``names`` of the table's ops that it may be, the likeliest first."""
        self._begin()
        record = {"kind": "op", "name": names[0], "layer": layer, **_line(site)}
        if len(names) > 1:
            record["names"] = list(names)
        if function:
            record["function"] = function
        self._tree(record, result)

    def layer(self, path: str, kind: str, result: Any, site: Site) -> None:
        """What a layer returned."""
        self._begin()
        self._tree({"kind": "layer", "name": kind, "layer": path, **_line(site)}, result)

    def note(self, name: str, value: Any, site: Site, layer: str) -> None:
        """What the program itself wants to be compared."""
        self._begin()
        self._tree({"kind": "note", "name": name, "layer": layer, **_line(site)}, value)

    def inputs(self, name: str, data: Iterable[tuple[str, Any]], site: Site, layer: str) -> None:
        """Data that a call of ``name`` is about to be given; once a step."""
        self._begin()
        for path, tensor in data:
            self._write({"kind": "input", "name": name, "layer": layer, **_line(site)}, path, tensor, self._is_new_input)

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
        for path, tensor in leaves(tree):
            self._write({**record, "tensor": "out"}, path, tensor)

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
        held = figures.as_bfloat16(array) if dtype == "bfloat16" else array
        digest = figures.digest(held)
        if wanted is not None and not wanted(record, digest):
            return
        record |= {"digest": digest, "figures": figures.figures(array)}
        full = self._full and record["kind"] != "input"
        if record["kind"] == "input":
            record |= {"left_out": "an input", "rows": [] if record["tensor"] == WEIGHT else figures.rows(held)}
        elif not full:
            record["left_out"] = "values='digest'"
        self._file.tensor(record, held if full else None, lambda: figures.sample(array))


def _line(site: Site) -> dict[str, Any]:
    return {"site": str(site), "file": site.file, "line": site.line}
