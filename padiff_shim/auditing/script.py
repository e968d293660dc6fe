"""A case as a program of its own: Paddle and NumPy alone, with the operands beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..dispatch.spelling import spelled, typed
from ..errors import FileError
from .cases import NAMES, Call
from .programs import PRELUDE
from .stress import laid_out


class _Named:
    """An operand under its name in the program."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def write(call: Call, path: Path, says: str) -> Path:
    """Write the program ``path`` and its operands (``.npz``); ``says``: what is to be seen.

    Raises:
        FileError: a file cannot be written.
    """
    held: dict[str, Any] = {}
    lines, named = [], []
    for number, array in enumerate(call.arrays):
        name = NAMES[number] if call.program is not None else f"operand_{number}"
        if not isinstance(array, np.ndarray):
            named.append(array)
            continue
        named.append(_Named(name))
        lines += _made(call, name, array, held)
    lines += ["", f"out = {_expression(call, named)}", *_BACKWARD.splitlines()]
    text = f'"""{call.case.name}: {says}"""\n\nfrom pathlib import Path\n\nimport numpy as np\n{PRELUDE}\n'
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path.with_suffix(".npz"), **held)
        path.write_text("\n".join([text, 'saved = np.load(Path(__file__).with_suffix(".npz"))', *lines, ""]), encoding="utf-8")
    except OSError as error:
        raise FileError(f"the program {path} cannot be written: {error.strerror or error}") from error
    return path


_BACKWARD = """
results = [one for one in (out if isinstance(out, (list, tuple)) else [out]) if isinstance(one, paddle.Tensor)]
for one in results:
    print(one)
ends = [one for one in results if not one.stop_gradient]
if ends:
    paddle.autograd.backward(ends)
    print("the backward has ended")
"""


def _made(call: Call, name: str, array: Any, held: dict[str, Any]) -> list[str]:
    floating = array.dtype.kind == "f"
    held[name], strides, offset = laid_out(array, call.layout if floating else "contiguous")
    made = f'paddle.to_tensor(saved["{name}"])'
    if strides is not None:
        made = f"paddle.as_strided({made}, {list(array.shape)}, {strides}, {offset}).detach()"
    if floating and call.case.dtype == "bfloat16":
        made += '.astype("bfloat16")'
    return [f"{name} = {made}", *([f"{name}.stop_gradient = False"] if floating else [])]


def _expression(call: Call, named: list[Any]) -> str:
    if call.program is not None:
        return call.program.source
    import paddle

    op, entry = call.op, call.entry
    assert entry is not None
    given = op.arguments(call.sample, named)
    given = (*given[: op.leading], *(typed(value, paddle) for value in given[op.leading :]))
    arguments = spelled(entry, dict(zip(op.names, given)), {*op.names[: op.leading], *call.sample.attrs})
    return f"{entry.target}({', '.join(map(repr, arguments))})"
