"""The process in which kernels are tried: it may die of one of them.

It reads requests from its standard input, a JSON object a line, and answers with events, one a line, on the file descriptor that it
gets. Before it runs a case it sends its name, so that the listener knows which call ended the process.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..dispatch.entry_point import spelled, typed
from ..errors import FileError, PadiffShimError
from ..runlog.encoding import finite
from ..text import logged
from .cases import NAMES, PRELUDE, AuditCall, laid_out


class _Named:
    """An operand under its name in the program."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def write(call: AuditCall, path: Path, says: str) -> Path:
    """Write a case as a program of Paddle and NumPy alone, with its operands beside it (``.npz``); ``says``: what it shows.

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
        floating = array.dtype.kind == "f"
        held[name], strides, offset = laid_out(array, call.layout if floating else "contiguous")
        made = f'paddle.to_tensor(saved["{name}"])'
        if strides is not None:
            made = f"paddle.as_strided({made}, {list(array.shape)}, {strides}, {offset}).detach()"
        if floating and call.case.dtype == "bfloat16":
            made += '.astype("bfloat16")'
        lines += [f"{name} = {made}", *([f"{name}.stop_gradient = False"] if floating else [])]
    lines += ["", f"out = {_expression(call, named)}", *_BACKWARD.splitlines()]
    text = f'"""{call.case.name}: {says}"""\n\nfrom pathlib import Path\n\nimport numpy as np\n{PRELUDE}\n'
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path.with_suffix(".npz"), **held)
        path.write_text("\n".join([text, 'saved = np.load(Path(__file__).with_suffix(".npz"))', *lines, ""]), encoding="utf-8")
    except OSError as error:
        raise FileError("the program {path} cannot be written: {strerror}", path=path, strerror=error.strerror or error) from error
    return path


_BACKWARD = """
results = [result for result in (out if isinstance(out, (list, tuple)) else [out]) if isinstance(result, paddle.Tensor)]
for result in results:
    print(result)
ends = [result for result in results if not result.stop_gradient]
if ends:
    paddle.autograd.backward(ends)
    print("the backward has ended")
"""


def _expression(call: AuditCall, named: list[Any]) -> str:
    if call.program is not None:
        return call.program.source
    import paddle

    op, entry = call.op, call.entry
    assert entry is not None
    values = op.arguments(call.sample, named)
    values = (*values[: op.leading], *(typed(value, paddle) for value in values[op.leading :]))
    arguments = spelled(entry, dict(zip(op.names, values)), {*op.names[: op.leading], *call.sample.attrs})
    return f"{entry.target}({', '.join(map(repr, arguments))})"


Tell = Callable[..., None]
KEPT = ("tensor", "phase", "shape", "dtype", "verdict", "side", "hypothesis", "modifiers", "quirk", "reason", "stats", "entry")
MANY = 100_000  # calls whose operands are kept until the op is done


def main(descriptor: int, device: str) -> None:
    """Serve requests until the input ends."""
    warnings.simplefilter("ignore")
    out = os.fdopen(descriptor, "w", encoding="utf-8")

    def tell(event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, **fields}), file=out, flush=True)

    import paddle

    from ..modes.reference import install

    try:
        if device:
            paddle.set_device(device)
        install()
    except Exception as error:  # an unknown device, or one that this Paddle cannot use: nothing can be tried
        tell("refused", why=f"{type(error).__name__}: {error}")
        return
    tell("ready", **_environment())
    for line in sys.stdin:
        request = json.loads(line)
        if request["ask"] == "op":
            # All cases of one op, behind the case `after` if there is one
            name = request["op"]
            from ..modes.compare import compare

            todo = _behind(name, request["after"])
            listener = _Listener(Path(request["folder"]) / "repro", name, tell)
            mode = compare(
                "torch", ops=[name], audit=1, mismatch_from="UNVERIFIED", callback=listener.note, keep_inputs=MANY,
                progress=False,
            )  # fmt: skip
            with mode as run:
                for case in todo:
                    listener.case = case.name
                    listener.refusals.update(_case(case, tell))
                    listener.write(run)
            counted = {"calls": run.counts.calls, "judged": run.counts.records, "verdicts": run.verdicts}
            tell("done", **counted, refusals=dict(listener.refusals), native=run.native.get(name, {}), warnings=run.warnings)
        elif request["ask"] == "left":
            tell("left", calls=len(_behind(request["op"], request["after"])), why=request["why"])
        else:
            _script(request["case"], Path(request["path"]), request["says"], tell)


def _environment() -> dict[str, Any]:
    from ..frameworks import settings

    environment = settings.environment() | {"processor": settings.processor()}
    return {"environment": {name: str(value) for name, value in environment.items()}}


def _behind(name: str, after: str) -> list[Any]:
    """The cases of an op, behind the case ``after`` if there is one."""
    from .cases import cases

    todo = list(cases(name))
    return todo[[case.name for case in todo].index(after) + 1 :] if after else todo


def _case(case: Any, tell: Tell) -> list[str]:
    """One case; the sentences say what was refused."""
    from .cases import AuditCall

    try:
        call = AuditCall(case)
    except ValueError:
        return []
    tell("begin", case=case.name)
    refused = []
    for grad in (False, True) if case.empty else (True,):  # of operands without elements only the results can be compared
        try:
            results = call.run(call.tensors(grad=grad))
        except Exception as error:
            return [logged("Paddle refuses {operands}: {error}", operands=case.stress, error=_first_line(error))]
        try:
            call.backward(results)
        except Exception as error:
            refused.append(f"Paddle has no backward ({case.dtype}): {_first_line(error)}")
    return refused


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    chosen = next((line for line in reversed(lines) if "Error" in line or line.startswith("(")), lines[-1] if lines else "")
    return f"{type(error).__name__}: {chosen}"


class _Listener:
    """Passes on what a comparison finds, and writes a script for the first record of each kind."""

    def __init__(self, folder: Path, op: str, tell: Tell) -> None:
        self.folder, self.op, self.tell, self.case = folder, op, tell, ""
        self.refusals: Counter[str] = Counter()
        self._waiting: list[dict[str, Any]] = []
        self._written: dict[Any, str] = {}

    def note(self, record: Mapping[str, Any]) -> None:
        """The callback of the comparison."""
        self._waiting.append(dict(record))

    def write(self, run: Any) -> None:
        """A case is over: its records go out, each with the name of a script that shows its kind."""
        for record in self._waiting:
            key = tuple(map(str, (record.get(name) for name in ("tensor", "dtype", "verdict", "side", "hypothesis", "quirk"))))
            if key not in self._written:
                self._written[key] = self._script(run, record)
            fields = {name: record.get(name) for name in KEPT}
            self.tell("record", case=self.case, script=self._written[key], **finite(fields))
        self._waiting.clear()

    def _script(self, run: Any, record: Mapping[str, Any]) -> str:
        from .cases import AuditCall, find

        if record["verdict"] == "UNVERIFIED":
            return ""
        path = self.folder / f"{self.op}_{len(self._written)}.py"
        try:
            run.repro(int(record["index"]), path)
        except PadiffShimError:  # results in lists, calls without an entry of their own: the call alone, without a judge
            write(AuditCall(find(self.case)), path, str(record["reason"]))
        return path.name


def _script(case: str, path: Path, says: str, tell: Tell) -> None:
    """A program for a case that ended the process."""
    from .cases import AuditCall, find

    write(AuditCall(find(case)), path, says)
    tell("written", path=path.name)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
