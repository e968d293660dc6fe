"""Arguments that a port gets wrong, derived from the declarations of ops: named in Paddle's words, mended by what is written?

`python examples/planted_arguments.py` calls each function of Paddle's that has the name of an op, with one argument left at another
value than the original's, and each pair of `planted_lines.py`; it prints what was not named, or not mended when what the finding
writes is written. With `--table` it prints the table of docs/prove.md, a row for each family of ops.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import paddle
import planted_lines
import torch

import padiff_shim
from padiff_shim.catalogue.registry import families, ops
from padiff_shim.table.op import Op
from padiff_shim.table.samples import Sample
from padiff_shim.text import fields_of

NOT_PORTED = frozenset({"data_format", "dtype", "seed", "place", "name"})  # said by every program in its own way


class Plant(NamedTuple):
    """A call with one wrong argument, and the original's op with the right one."""

    op: Op
    function: Callable[..., Any]
    sample: Sample
    argument: str
    wrong: Any

    def __str__(self) -> str:
        return f"{self.function.__name__}({self.argument}={self.wrong!r}) for {self.sample.attrs.get(self.argument)!r}"

    def proof(self, changed: dict[str, Any]) -> Any:
        """Prove the port with ``changed`` arguments."""
        op, function, sample = self.op, self.function, self.sample
        arguments = {**sample.attrs, **changed}
        attributes = op.attributes(sample)
        absent = [None] * (op.tensors - len(sample.operands))

        class Original(torch.nn.Module):
            def forward(self, *tensors: Any) -> Any:
                result = op.reference(
                    *(tensor * 1.0 if tensor.is_floating_point() else tensor for tensor in tensors), *absent, *attributes
                )
                return result[0] if isinstance(result, tuple) else result

        class Port(paddle.nn.Layer):
            def forward(self, *tensors: Any) -> Any:
                floats = [tensor * 1.0 if tensor.is_floating_point() else tensor for tensor in tensors]
                result = function(*floats, **arguments)
                return result[0] if isinstance(result, tuple) else result

        arrays = sample.arrays(np.random.default_rng(0), "float32")
        return padiff_shim.prove(Port(), Original(), tuple(arrays), phase="forward")


def plants() -> Iterator[Plant]:
    """All that the declarations give: for each op and argument one sample, and another value."""
    for op in ops().values():
        function = getattr(paddle.nn.functional, op.name, None) or getattr(paddle, op.name, None)
        if not callable(function) or op.operands or not op.tensors or op.random is not None:
            continue
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            continue
        values: dict[str, list[Any]] = {}
        for sample in op.samples:
            for name, value in sample.attrs.items():
                values.setdefault(name, [])
                if value not in values[name]:
                    values[name].append(value)
        for name in (values.keys() & parameters.keys()) - NOT_PORTED:
            for sample in op.samples:
                whole = all(isinstance(operand, tuple) or hasattr(operand, "low") for operand in sample.operands)
                if not whole or sample.empty or not sample.attrs.keys() <= parameters.keys() or name not in sample.attrs:
                    continue
                default = parameters[name].default
                others = [default] if default not in (inspect.Parameter.empty, None) else []
                others += [value for value in values[name] if type(value) is type(sample.attrs[name])]
                others = [value for value in others if value != sample.attrs[name]]
                if others:
                    yield Plant(op, function, sample, name, others[0])
                    break


class Answer(NamedTuple):
    """What became of a plant: whether its argument was named, whether writing what was written mends the port, and Torch's word."""

    plant: Plant
    named: bool
    mended: bool
    headline: str
    torchs: str = ""


def answered(plant: Plant) -> Answer | None:
    """The answer to a plant; None where the right call is not proven, or the wrong one gives the same."""
    try:
        if not plant.proof({}):
            return None
        proof = plant.proof({plant.argument: plant.wrong})
    except Exception:  # no call of the port's kind: Paddle refuses the value
        return None
    if not proof.mistakes:
        return None if proof else Answer(plant, False, False, proof.answer)
    write = proof.mistakes[0].write
    try:
        written = eval(f"dict({write})", {})
        mended = bool(written) and bool(plant.proof({plant.argument: plant.wrong, **written}))
    except Exception:  # what is written does not run
        written, mended = {}, False
    word, equals, _ = str(fields_of(proof.mistakes[0].text).get("other", "")).partition("=")
    return Answer(plant, plant.argument in written or mended, mended, proof.answer, word if equals else plant.argument)


def table(answers: list[Answer]) -> Iterator[str]:
    """The rows of docs/prove.md: a family of ops, Paddle's arguments with Torch's words for them, and what is not named."""
    yield "| family | Paddle's arguments (Torch's, where the name is another) | not named |"
    yield "| --- | --- | --- |"
    for family, names in families().items():
        cells: tuple[dict[str, list[str]], ...] = {}, {}
        for answer in answers:
            if answer.plant.op.name in names:
                word, other = answer.plant.argument, answer.torchs
                renamed = f" ({other})" if answer.mended and other not in (word, "") else ""
                cells[not answer.mended].setdefault(answer.plant.function.__name__.strip("_"), []).append(word + renamed)
        for line in planted_lines.LINES.values():
            if line.row[0] == family:
                cells[0].setdefault(line.row[1], []).append(line.row[2])
        if any(cells):
            shown = ("; ".join(f"`{call}` {', '.join(sorted({*words}))}" for call, words in cell.items()) for cell in cells)
            yield f"| {family} | {' | '.join(shown)} |"


def main() -> int:
    """Prove all, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", nargs="*", help="these alone")
    parser.add_argument("--table", action="store_true", help="print the table of docs/prove.md")
    options = parser.parse_args()
    answers = []
    for plant in plants():
        if options.ops and plant.op.name not in options.ops:
            continue
        answer = answered(plant)
        if answer is not None:
            answers.append(answer)
            if not (answer.mended or options.table):
                print(plant, "|", answer.headline[:150])
    if options.table:
        print("\n".join(table(answers)))
    named, mended = sum(answer.named for answer in answers), sum(answer.mended for answer in answers)
    print(f"wrong arguments: {named} of {len(answers)} named in Paddle's words, {mended} mended by what is written")
    if options.ops or options.table:
        return int(mended < len(answers))
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in planted_lines.LINES:
            try:
                planted_lines.steps_to_mend(name, Path(folder))
            except ValueError as error:
                wrong.append(str(error))
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    print(f"wrong lines: {len(planted_lines.LINES) - len(wrong)} of {len(planted_lines.LINES)} mended by what is written")
    return int(bool(wrong) or mended < len(answers))


if __name__ == "__main__":
    sys.exit(main())
