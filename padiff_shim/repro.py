"""One call of a run as a script of its own: paddle, torch and numpy, and nothing of this library."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pprint
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import repro_oracles
from .bind import parse
from .encoding import finite, numeric
from .errors import PadiffShimError
from .excerpt import Excerpt, expression
from .op import Entry, Op

_RESULTS = ("grad", "paddle", "torch")
_MARK = "# --- from here on: the script ---\n"
_GAP = 4  # a view that spans more than this times its own size is packed densely


def _file(folder: Path, log: str, index: Any) -> Path:
    return folder / f"{log}-{index}.npz"


def _flat(array: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """The memory that an array spans, and its strides in elements; those of wide gaps are closed."""
    spans = 1 + sum((size - 1) * stride // array.itemsize for size, stride in zip(array.shape, array.strides))
    backward = any(stride < 0 or stride % array.itemsize for stride in array.strides)
    if not array.size or backward or spans > _GAP * array.size:
        array = array.copy(order="K")
        spans = array.size
    flat = np.lib.stride_tricks.as_strided(array, (spans,), (array.itemsize,)).copy()
    return flat, [stride // array.itemsize for stride in array.strides]


def _pack(record: Mapping[str, Any], arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    packed: dict[str, np.ndarray] = {}
    layout = {}
    for name, given in arrays.items():
        array = np.asarray(given)
        packed[name], strides = _flat(array)
        layout[name] = {"shape": list(array.shape), "strides": strides}
    packed["layout"], packed["record"] = np.array(json.dumps(layout)), np.array(json.dumps(finite(dict(record))))
    return packed


def save_inputs(folder: str | os.PathLike[str], record: Mapping[str, Any], arrays: Mapping[str, Any], log: str = "call") -> Path:
    """Save the tensors of one call as ``<log>-<index>.npz`` in ``folder``.

    Args:
        record: the call's record, with its ``index``.
        arrays: by operand name (``"x"``; ``"operands[0]"`` for an op over a sequence) the operands as the kernels got them, the
            weight of a Linear as [out, in]; ``"paddle"`` and ``"torch"``, the judged tensor of each side; ``"grad"``, the incoming
            gradient. NumPy arrays of any strides, which are kept; bfloat16 as raw uint16. Nothing is kept of them.
        log: name of the log file without its ending.

    Raises:
        OSError: the file cannot be written.
    """
    path = _file(Path(folder), log, record.get("index"))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **_pack(record, arrays))  # type: ignore[arg-type]
    return path


def drop_inputs(folder: str | os.PathLike[str], record: Mapping[str, Any], log: str = "call") -> None:
    """Remove what :func:`save_inputs` saved for this record, if it is there."""
    with contextlib.suppress(OSError):
        _file(Path(folder), log, record.get("index")).unlink()


def load_inputs(
    folder: str | os.PathLike[str], record: Mapping[str, Any], log: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The record and the arrays that :func:`save_inputs` saved for this record of this log.

    Raises:
        PadiffShimError: nothing was saved for it; the message names the calls that have something.
    """
    path = _file(Path(folder), log, record.get("index"))
    if not path.is_file():
        known = sorted(int(one.stem.rpartition("-")[2]) for one in path.parent.glob(f"{log}-*.npz"))
        there = f"saved ones: {', '.join(map(str, known[:20]))}" if known else "no call of this run has any"
        raise PadiffShimError(
            f"the operands of call {record.get('index')} were not saved ({there}). compare(keep_inputs=N) saves those of the first "
            "N calls from mismatch_from= up"
        )
    with np.load(path) as file:
        layout = json.loads(str(file["layout"]))
        arrays = {
            name: np.lib.stride_tricks.as_strided(flat := file[name], one["shape"], [s * flat.itemsize for s in one["strides"]])
            for name, one in layout.items()
        }
        return json.loads(str(file["record"])), arrays


def _literal(value: Any) -> str:
    """An attribute as Python source; dtypes as the framework's own."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, str) and value.startswith("torch.") and value[6:].isidentifier():
        return value
    return repr(value)


class _Arguments:
    """The arguments of one call as source, by parameter name."""

    def __init__(self, op: Op, record: Mapping[str, Any], names: Iterable[str]) -> None:
        parsed = parse(op.params)
        params = [aliases[0] for aliases, _ in parsed]
        self.tensors = [name for name in names if name not in _RESULTS]
        given = {one["name"]: numeric(one["number"]) for one in record["inputs"] if "number" in one}
        self.values: dict[str, str] = {}
        for place, (name, (_, default)) in enumerate(zip(params, parsed)):
            if place >= (1 if op.operands else op.tensors):
                self.values[name] = _literal(numeric(record["attributes"].get(name, default)))
            elif op.operands:
                self.values[name] = "[" + ", ".join(_name(tensor) for tensor in self.tensors) + "]"
            elif name in self.tensors:
                self.values[name] = _name(name)
            else:
                self.values[name] = _literal(given.get(name))
        self.dtype = self.values.get("dtype", "None")
        self.head = ", ".join(_name(tensor) for tensor in self.tensors)

    def torch(self) -> str:
        return ", ".join("dtype" if name == "dtype" and value != "None" else value for name, value in self.values.items())

    def paddle(self, entry: Entry) -> str:
        values = {**self.values, "dtype": self.dtype.replace("torch.", "paddle.")}
        words = [values[aliases[0]] for aliases, _ in parse(entry.params)]
        return ", ".join(words)


def _name(tensor: str) -> str:
    return tensor.replace("[", "_").replace("]", "")


def _calls(op: Op, entry: Entry, record: Mapping[str, Any], arrays: Mapping[str, Any]) -> tuple[list[str], Excerpt]:
    """Source of the three functions that the parts call, and of what they need."""
    arguments = _Arguments(op, record, arrays)
    excerpt = Excerpt()
    reference = expression(op.reference, excerpt)
    oracle = repro_oracles.ORACLES.get(op.name) if record["dtype"] == "float64" and record["phase"] == "forward" else None
    lines = [
        f"def run_paddle({arguments.head}):",
        f"    return {entry.target}({arguments.paddle(entry)}){'[0]' if entry.returns_list else ''}",
        "",
        "",
        f"def run_torch({arguments.head}, dtype={arguments.dtype}):",
        f"    return {reference}({arguments.torch()})",
        "",
        "",
    ]
    if oracle is None:
        return [*lines, "exact = None"], excerpt
    own = Excerpt(prefix="exact_")
    name = expression(oracle, own)
    excerpt.imports |= own.imports
    values = ", ".join("None" if name == "dtype" else value for name, value in arguments.values.items())
    return [*lines, own.text(), "", "", f"def exact({arguments.head}):", f"    return {name}({values})"], excerpt


def write(
    record: Mapping[str, Any],
    arrays: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    environment: Mapping[str, Any] | None = None,
) -> Path:
    """Write the script ``path`` and its data beside it (``.npz``); returns the script's path.

    The script runs Paddle's call by the entry point that the program used, and the torch reference, which is written out in it, on
    the saved tensors; it holds both against the reference in float64 (for float64: a formula in long double where there is one).
    It exits 1 if the side that the verdict blames is off by more than the recorded bound at the recorded place, else 0.

    Args:
        record, arrays: as :func:`save_inputs` takes them.
        environment: versions of the run, shown beside those found.

    Raises:
        PadiffShimError: an operand is missing, or the op is not one of the table.
        OSError: a file cannot be written.
    """
    from .registry import ops

    op = ops().get(record["op"])
    entry = next((one for one in op.entries if one.target == record["entry"]), None) if op is not None else None
    if op is None or entry is None:
        raise PadiffShimError(f"op {record['op']!r} with entry {record['entry']!r} is not in the table of this version")
    wanted = [one["name"] for one in record["inputs"] if "number" not in one] + (["grad"] if record["phase"] == "backward" else [])
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise PadiffShimError(f"the saved tensors of call {record.get('index')} lack {', '.join(missing)}")
    known = {**finite(dict(record)), "environment": dict(environment or {}), "transposed": list(op.layouts)}
    functions, excerpt = _calls(op, entry, known, arrays)
    body = Path(__file__).with_name("repro_parts.py").read_text(encoding="utf-8").partition(_MARK)[2]
    script = Path(path)
    parts = [_opening(known, script), excerpt.header(), f'DATA = Path(__file__).with_suffix(".npz")\nRECORD = {_shown(known)}\n\n']
    parts += [excerpt.text(), "", "", *functions, "", body]
    script.parent.mkdir(parents=True, exist_ok=True)
    np.savez(script.with_suffix(".npz"), **_pack(record, arrays))  # type: ignore[arg-type]
    script.write_text("\n".join(parts), encoding="utf-8")
    return script


def _opening(record: Mapping[str, Any], script: Path) -> str:
    said = " ".join(str(record.get("reason") or "").split())
    where = " ".join(f"{record.get('site') or ''} {record.get('layer') or ''}".split())
    return "\n".join(
        (
            f"# {record['op']} {record['tensor']}, {record['verdict']}, side {record['side']}: {said}",
            f"# Seen at {where}. Written by padiff_shim.",
            f"# Needs paddle, torch and numpy, and {script.with_suffix('.npz').name} beside it.",
            "# Exit status 1: the difference is there; 0: it is not.",
        )
    )


def _shown(record: Mapping[str, Any]) -> str:
    return pprint.pformat(dict(record), width=120, sort_dicts=False)
