"""What a substituted call of 8x8 matrices, and its backward, are made of: each piece by itself, in microseconds.

The pieces do not add up to the whole: each is timed with its own code in the processor's caches, and the Python between them is in
none of them.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when the frameworks are imported

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import paddle
import torch
from bench_call import shown
from machine import machine
from rich.console import Console
from timing import seconds

import padiff_shim
from padiff_shim.frameworks.memory import to_paddle, to_torch
from padiff_shim.tape.calls import Walk
from padiff_shim.tape.twins import taped, taped_result

ROUNDS, BUDGET = 9, 0.03


def best(function: Callable[[], Any]) -> float:
    """Microseconds of the best of some rounds."""
    calls = max(1, int(BUDGET / max(1e-7, seconds(function, 50))))
    return min(seconds(function, calls) for _ in range(ROUNDS)) * 1e6


def pieces() -> list[list[str]]:
    """The rows of the table."""
    x, leaf = paddle.ones([8, 8]), paddle.ones([8, 8])
    leaf.stop_gradient = False
    theirs, their_leaf, gradient = torch.ones(8, 8), torch.ones(8, 8, requires_grad=True), torch.ones(8, 8)
    product = torch.matmul(their_leaf, their_leaf)
    pieces: dict[str, Callable[[], Any]] = {
        "Paddle's own call": lambda: paddle.matmul(x, x),
        "Torch's kernel": lambda: torch.matmul(theirs, theirs),
        "Torch's kernel with its graph": lambda: torch.matmul(their_leaf, their_leaf),
        "an operand to Torch": lambda: to_torch(x),
        "a result to Paddle": lambda: to_paddle(theirs),
        "a result to Paddle, on the tape": lambda: taped_result(product),
        "backward: Torch's engine": lambda: torch.autograd.grad(product, their_leaf, gradient, retain_graph=True),
    }
    rows = [[name, f"{best(function):.1f}"] for name, function in pieces.items()]
    with padiff_shim.reference("torch"):
        result = paddle.matmul(leaf, leaf)
        record = taped(result)
        pieces = {
            "backward: the walk over the graph": lambda: Walk([record.twin]),
            "backward: the whole": lambda: result.backward(x, retain_graph=True),
            "the whole call": lambda: paddle.matmul(x, x),
            "the whole call, on the tape": lambda: paddle.matmul(leaf, leaf),
        }
        rows += [[name, f"{best(function):.1f}"] for name, function in pieces.items()]
    return rows


def main() -> int:
    """Measure and print."""
    torch.set_num_threads(1)
    console = Console(width=None if sys.stdout.isatty() else 100)
    console.print(shown("Pieces of a call", ["8x8 float32", "µs"], pieces()), "")
    console.print("\n".join(machine()), highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
