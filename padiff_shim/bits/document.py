"""docs/bitwise.md, written from the formulations: ``python -m padiff_shim.bits.document``; tests ``--check``.

The figures are measured as the page is written, and differ from machine to machine; ``--check`` compares everything else.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ..catalogue.formulations import formulations
from ..measure.distance import Distance
from ..table.formulation import CAUSES, Formulation
from .measuring import apart, ran

PAGE = Path(__file__).resolve().parents[2] / "docs" / "bitwise.md"
DTYPES = ("float32", "bfloat16")
_EXAMPLE = """\
# Why the bits of a right port differ, and what to write

[中文](zh/bitwise.md)

"Right within rounding" says that a port is right. Whoever aligns it bit by bit asks further: at which line do the bits part, why,
and what makes them equal? `padiff_shim.bitwise(port, original, inputs)` answers, and so does the command line. Of
[a small port](../examples/bitwise_port.py) with three lines that its original writes differently:

```
$ padiff-shim bitwise examples/bitwise_port.py:Port examples/bitwise_port.py:Original \\
    --inputs examples/bitwise_port.py:batch --weights random
3 origins of different bits; with these 3 changes all 9 results and 15 gradients are identical
paddle 3.3.1, torch 2.13.0+cpu, numpy 2.4.6, python 3.11.7, cpu
1. rounding: RMSNorm: multiplied by rsqrt or divided by sqrt: results differ by 1 ulp in 46.5% of elements
     paddle examples/bitwise_port.py:20: sqrt, div
            y = x / paddle.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
     torch  examples/bitwise_port.py:39: rsqrt, mul
            y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
     why    the reciprocal root is rounded before it multiplies; a division rounds once
     share  66.5% of the final difference
     was    y = x / paddle.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
     write  y = (x * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-06)) * self.weight
2. rounding: scale of attention: results and gradients differ by 2 ulp in 77.8% of elements
     paddle examples/bitwise_port.py:21: mul, bmm
            scores = paddle.matmul(self.q(y) * 24**-0.5, self.k(y), transpose_y=True)
     torch  examples/bitwise_port.py:40: bmm, mul
            scores = torch.matmul(self.q(y), self.k(y).mT) * 24**-0.5
     why    scores are rounded after the scale or before it, and the scale divides or multiplies; both roots
       round twice
     share  26.3% of the final difference
     was    scores = paddle.matmul(self.q(y) * 24**-0.5, self.k(y), transpose_y=True)
     write  q1 = self.q(y)
     write  scores = paddle.matmul(q1, self.k(y), transpose_y=True) * q1.shape[-1] ** (-0.5)
3. fused: SiLU by its formula: results and gradients differ by 1 ulp in 33.8% of elements
     paddle examples/bitwise_port.py:25: sigmoid, mul
            return x + self.down(gate * F.sigmoid(gate) * self.up(y))
     torch  examples/bitwise_port.py:43: silu
            return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))
     why    the kernel rounds once, the formulas at each step; their backward is another formula
     share  7.2% of the final difference
     was    return x + self.down(gate * F.sigmoid(gate) * self.up(y))
     write  return x + self.down(F.silu(gate) * self.up(y))
0 of 9 results identical
The origins explain 100.0% of the final difference.
┏━━━━━━━━━━━━━┳━━━━━━━━━┳━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━┓
┃ layer       ┃ origins ┃ calls ┃ largest, ulp ┃ mean, ulp ┃ elements that differ ┃
┡━━━━━━━━━━━━━╇━━━━━━━━━╇━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━┩
│ q           │         │     1 │            2 │      0.27 │                55.1% │
│ k           │         │     1 │            2 │      0.29 │                57.4% │
│ v           │         │     1 │            3 │      0.29 │                57.4% │
│ norm        │         │     1 │          1.5 │      0.11 │                42.1% │
│ gate        │         │     1 │            2 │      0.12 │                54.1% │
│ up          │         │     1 │            2 │      0.23 │                54.4% │
│ down        │         │     1 │          1.5 │      0.21 │                72.7% │
│ (the model) │ 1, 2, 3 │     1 │            1 │      0.11 │                46.3% │
└─────────────┴─────────┴───────┴──────────────┴───────────┴──────────────────────┘
[exit status 1]
```

- **An origin** is a call, or several that belong together, that gets the original's operands bit for bit and makes other bits of
  them: results, or gradients. Which values belong together is known from a run of both in float64. Then every value of the port
  that has a partner is exchanged for the original's as soon as it is made: what a call makes differently is its own doing.
- **The change** was tried: the other spellings of the formulations below, or else the original's own calls in Paddle's words, are
  replayed on these very operands, and then in a run of forward and backward. `answer.apply()`, or `--apply`, writes the changes
  into the files.
- **The layout of an operand** may be all that differs: then the line that lays it out is named, though the bits part in a call that
  reads it. The change is another spelling of that line, or a copy (`.contiguous()`), or no copy.
- **A repetition** (of key heads, say) before or behind other calls has its gradient summed at another place of the backward. It is
  tried behind the calls that read it, or before those whose result it repeats.
- **Gradients of several readers** are added up from the last reader to the first. Where the original has another order, the change
  is a copy of the tensor: `y_0 = y.clone()`, and which calls read it in place of `y`.
- **With all changes** the port runs once more, with nothing of the original's: the first line counts what is identical then. An
  origin for which no spelling that was tried gives the original's bits says so.
- **The table** follows the difference through the layers, in units in the last place (ulp) of a tensor's largest element. `share`
  says how much of the final difference goes when an origin is mended; origins are mended one after the other.
- **Optimizers**: `phase="train"` takes `optimizer=` and `steps=` as [`prove`](prove.md) does. Both programs' steps then get the
  original's weights and gradients: an update written by hand, clipping, a scale that is taken off the gradients. Torch's own
  optimizers use fused multiply-adds, which no Paddle op makes: where one differs from a line of the port's, the answer says that no
  change is known, or which optimizer of Paddle's makes the same bits.
  Not known is what differs in 16 bits without copies in float32: Torch's SGD rounds the elements behind the last whole vector of a
  weight otherwise, and in a Linear's weight, which lies transposed, those are other elements.
- **Clipping by hand**: the line of a global norm is named, with Torch's norm of norms as the change.
  `paddle.nn.utils.clip_grad_norm_` and `ClipGradByGlobalNorm` make its bits as they are. `max_norm / norm` in place of Torch's
  `max_norm / (norm + 1e-6)` is no rounding: the proof names it.
- **Micro-batches**: a batch that one program computes in parts, and the other as a whole, is named so. If the original computes the
  parts, no change is known. A factor of the loss that the step takes off the gradients (`/ n`, a loss scale) belongs into both
  programs or into none, for their gradients are compared before the step; else the proof names the factor.
- **Tables** (sines, frequencies, positions) that depend on no input are named at the line that makes them, with the original's
  steps as the change. Of a table that NumPy made, or a line that makes several, the line that reads it is named, mostly without a
  change.
- **A branch that a backward recomputes** (`recompute`, `torch.utils.checkpoint`) has each origin once.
- **Not said** is anything of a port that computes something else: prove it first. Of the forward and the backward the first step is
  looked into. The patch needs Python 3.11, whose frames tell the columns of an expression; without it the spelling is printed.

`make demo-bitwise` exchanges five or six formulations in each of five ports, one and several at a time, in float32 and bfloat16,
writes the printed changes into the sources, and compares all bits. Of 90 exchanges that make other bits all 90 are named at their
line with the right cause, and for all 90 the written change makes the port identical; on a port as it is no origin is named.

`make demo-bitwise-nlp` asks of two ports of paddlenlp as they are. BERT has two origins, in float32 and in bfloat16: the sum of its
embeddings, and the scale of attention. With both changes all 30 results and 39 gradients are identical. A Reformer with LSH
attention has two in each dtype: in float32 the layout of a mean's operand, and a product by a reciprocal root where the original
divides; in bfloat16 that product, and a root of the keys. With both changes all 38 results are identical.

Where two runs of one Paddle program differ in their bits, record both: [`diff`](record.md#where-the-bits-part) names the calls and
settings.

"""
_HEAD = """\
## The same in maths, and other bits

Written by `make docs` from the declarations in [patches/_formulations/](../patches/_formulations); tests run each of them. Each
row holds lines that are the same in maths and differ in bits: {differing} computations in {spellings} spellings.
[At the end](#equal-bit-for-bit) stand {equal} that people take for different, and that are equal.

Teams that align a port bit by bit look for such lines for weeks. Where the original writes the one and the port the other, the port
is right, and no tolerance is needed either: write the same.

- **Both frameworks.** Each line was run in Paddle under `reference("torch")` and in Torch, as Torch programs write it, forward and
  backward. Paddle's line and Torch's are equal bit for bit, in float32 and in bfloat16: the differences are those of the lines, not
  those of the frameworks. In float64 all lines of a row agree to 1e-11 of the largest element.
- **Figures.** The largest difference, in units in the last place (ulp) of the tensor's largest element, and the share of elements
  that differ, of results (*forward*) and of the operands' gradients; against the row's first line. *zeros*: only the sign of a zero
  differs. `=`: the line is equal to the first in this dtype. Measured on random operands{machine}.
- *here*: what differs, and in which dtype, depends on kernels of the machine (blocks of a product, lanes of a sum). All else
  differs on every machine, for each step is rounded as its definition says; `make test-isa` tries it under other instruction sets.

From Python, a program's calls are searched for these lines, and any spelling is run on operands:

```python
import paddle
from padiff_shim.bits.calls import recording
from padiff_shim.bits.patterns import match
from padiff_shim.bits.spelling import replay

q, k = paddle.randn([2, 4, 9, 80]), paddle.randn([2, 4, 9, 80])
with recording() as recorder:
    paddle.nn.functional.softmax(paddle.matmul(q, k, transpose_y=True) * 80**-0.5)
for candidate in match(recorder.calls):
    if candidate.formulation.name == "scale of attention":
        operands = {{name: recorder.tensor(value) for name, value in candidate.operands.items()}}
        for place in candidate.others:
            written = candidate.formulation.spellings[place].paddle
            print(written, float((replay(written, operands) - recorder.tensor(candidate.results[0])).abs().max()))
```
"""
_EQUAL = """\
### Equal bit for bit

These are equal on every machine, in float32 and in bfloat16, forward and backward: nothing has to be rewritten.
"""


def text(*, measured: bool = True) -> str:
    """The whole page; ``measured=False`` leaves the figures out."""
    declared = formulations().values()
    differing = [formulation for formulation in declared if not formulation.equal]
    head = _HEAD.format(
        differing=len(differing),
        spellings=sum(len(formulation.spellings) for formulation in differing),
        equal=len(declared) - len(differing),
        machine=f", one thread, on {_machine()}" if measured else "",
    )
    sections = [_section(cause, title, differing, measured=measured) for cause, title in CAUSES.items()]
    return _EXAMPLE + "\n".join(
        [head, *sections, _EQUAL, *_equal(formulation for formulation in declared if formulation.equal), ""]
    )


def _machine() -> str:
    """The processor's name."""
    try:
        named = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        named = None
    return named[1].strip() if named else "this machine"


def _section(cause: str, title: str, declared: list[Formulation], *, measured: bool) -> str:
    """A cause, and a row for each further spelling of its formulations."""
    rows: list[tuple[str, ...]] = [("", "written", "or", *DTYPES, "why", "seen in"), ("---",) * 7]
    for formulation in declared:
        if formulation.cause == cause:
            rows += _rows(formulation, measured=measured)
    return "\n".join([f"### {title}", "", *("| " + " | ".join(row) + " |" for row in rows), ""])


def _rows(formulation: Formulation, *, measured: bool) -> Iterator[tuple[str, ...]]:
    figures = {dtype: _figures(formulation, dtype) if measured else [] for dtype in DTYPES}
    first, *others = (spelling.paddle for spelling in formulation.spellings)
    for place, other in enumerate(others):
        cells = [figures[dtype][place] if measured else "" for dtype in DTYPES]
        beside = (formulation.why, formulation.seen) if not place else ("", "")
        yield (f"**{formulation.name}**" if not place else "", _code(first) if not place else "", _code(other), *cells, *beside)


def _figures(formulation: Formulation, dtype: str) -> list[str]:
    """How far each further spelling is from the first."""
    first, *others = ran(formulation, dtype)
    where = " *here*" if dtype in formulation.may_differ else ""
    shown = []
    for other in others:
        parts = zip(("forward", "gradient"), apart(first, other, dtype))
        differing = [f"{name} {_shown(far)}" for name, far in parts if far.share]
        shown.append("<br>".join(differing) + where if differing else "=")
    return shown


def _shown(far: Distance) -> str:
    size = f"{_rounded(far.ulp)} ulp" if far.ulp else "zeros"
    return f"{size}, {_rounded(100 * far.share)} %"


def _rounded(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


def _code(source: str) -> str:
    """Lines of a spelling in a cell of a table."""
    return "<br>".join(f"`{line}`".replace("|", "\\|") for line in source.replace("    ", "\u00a0\u00a0").splitlines())


def _equal(declared: Iterator[Formulation]) -> Iterator[str]:
    yield "| | written | or | why |"
    yield "| --- | --- | --- | --- |"
    for formulation in declared:
        first, *others = (_code(spelling.paddle) for spelling in formulation.spellings)
        yield f"| **{formulation.name}** | {first} | {'<br>or '.join(others)} | {formulation.why} |"


def without_figures(page: str) -> str:
    """A page as ``text(measured=False)`` gives it."""
    lines = []
    page = re.sub(r"[\d.]+ ulp", "ulp", page)
    for line in re.sub(r"(Measured on random operands), one thread, on [^\n]*\.", r"\1.", page).splitlines():
        cells = line.split(" | ")
        if len(cells) == 7 and not cells[0].startswith("| ---") and "written" not in cells[1]:
            cells[3:5] = ["", ""]
        lines.append(" | ".join(cells))
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Writes the page, or with ``--check`` says whether it is as it would be written, but for figures: exit status 0, else 1."""
    parser = argparse.ArgumentParser(prog="python -m padiff_shim.bits.document", description="Write docs/bitwise.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    check = parser.parse_args(arguments).check
    if not PAGE.parent.is_dir():
        print(f"{PAGE.parent} is no folder: the page is written in a checkout of the sources", file=sys.stderr)
        return 1
    if not check:
        PAGE.write_text(text(), encoding="utf-8")
        return 0
    stale = not PAGE.is_file() or without_figures(PAGE.read_text(encoding="utf-8")) != without_figures(text(measured=False))
    if stale:
        print(f"{PAGE} is out of date: run `make docs`", file=sys.stderr)
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
