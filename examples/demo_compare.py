"""Compare one epoch of digits_paddle with Torch, call by call, with a fault planted in one layer; write the HTML report.

The fault: the second encoder layer's linear2 rounds its inputs to 11 significant bits before it multiplies, as TF32 tensor cores
do, and nobody says so. Every other call is Paddle's own kernel. Exit status 1: the first and the worst verdict do not name the
planted fault by op, layer, line and side.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from pathlib import Path
from typing import Any

from digits_data import Config, load_data
from rich.console import Console

import padiff_shim
from padiff_shim import testing
from padiff_shim.progress import Waiting

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import digits_paddle
import torch

LAYER = "layers.1.linear2"


def to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Round float32 to 11 significant bits, to nearest even."""
    bits = tensor.contiguous().view(torch.int32)
    return (bits + (0xFFF + (bits >> 13 & 1)) & ~0x1FFF).view(torch.float32)


def tf32_linear(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *_: Any) -> torch.Tensor:
    """What a kernel with TF32 inputs gives in place of ``out``."""
    return torch.nn.functional.linear(to_tf32(x), to_tf32(weight), bias)


def planted_line() -> int:
    """The line of digits_paddle.py that calls the planted layer."""
    lines, first = inspect.getsourcelines(digits_paddle.EncoderLayer.forward)
    return first + next(number for number, line in enumerate(lines) if "linear2" in line)


def main() -> int:
    """Train an epoch under compare mode, report, check that the fault was named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--html", type=Path, default=Path("demo-report.html"), help="where the report goes")
    parser.add_argument("--log", type=Path, default=None, help="keep the log in this folder")
    args = parser.parse_args()
    console = Console(highlight=False)
    config, data = Config(epochs=1), load_data()
    model = digits_paddle.build_model(config)
    console.rule("compare mode: one epoch of digits_paddle.py with a planted fault")
    planted, mode = testing.planted("linear", tf32_linear, layer=LAYER), padiff_shim.compare("torch", log=args.log)
    with Waiting("training, and judging every call"), planted, mode as run:
        digits_paddle.train(model, data, config)
    console.print(str(run), markup=False)
    run.save(args.html)
    first, worst = run.first_divergence(), run.worst(1)[0]
    console.print(f"\nPlanted: {LAYER}, digits_paddle.py:{planted_line()}, Paddle's side, TF32 inputs")
    console.print(f"First divergence: {first}\nWorst call:       {worst}", markup=False)
    console.print(f"Report: {args.html}")
    named = all(
        (call.op, call.layer, str(call.side), call.line) == ("linear", LAYER, "paddle", planted_line()) for call in (first, worst)
    )
    console.print("The fault is named by op, layer, line and side." if named else "[red]The fault was NOT named.[/]")
    return 0 if named else 1


if __name__ == "__main__":
    sys.exit(main())
