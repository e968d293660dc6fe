"""`auto_diff` beside PaDiff 0.2.0 on the same ports: which mistakes are noticed, which right ports pass, what it costs.

The ports are those of `examples/demo_prove.py`: mistakes planted into a GPT, a BERT, a ResNet and an LSTM, one at a time, and the
same ports without. Each tool runs in a process of its own, for PaDiff exchanges functions of both frameworks when it is imported;
`--padiff-python` names an interpreter that has it (`pip install --no-deps padiff==0.2.0 pyyaml`). Without one its rows say why.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when the frameworks are imported
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]
TIGHT = {"atol": 1e-4, "rtol": 0, "compare_mode": "strict"}  # the example of PaDiff's documentation
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "PaDiff 0.2.0, defaults": ("padiff", {}),
    "PaDiff 0.2.0, strict, atol 1e-4": ("padiff", TIGHT),
    "auto_diff, defaults": ("auto_diff", {}),
    "auto_diff, strict, atol 1e-4": ("auto_diff", TIGHT),
}


def ports(demo: Any, models: list[str], folder: Path) -> Iterator[tuple[bool, Any, Any, dict[str, Any], bool]]:
    """(whether it is right, Paddle's model, Torch's, arrays, whether the weights are to be taken over) of every port."""
    import numpy as np
    import torch

    import padiff_shim

    for name in models:
        for planted in [None, *demo.MODELS[name]]:
            module = demo.planted_port(name, [planted] if planted else [], folder)
            torch.manual_seed(0)
            theirs, ours = module.torch_model(), module.paddle_model()
            demo.drop_nothing(theirs)
            demo.drop_nothing(ours)
            if planted is not None and planted.change is not None:
                padiff_shim.transfer_weights(theirs, ours)
                planted.change(ours)
            arrays = demo.arrays_of(module, np.random.default_rng(0), "float32")
            inputs = {key: arrays[key] for key in demo.INPUTS[name]}
            yield planted is None, *_called_by_name(ours, theirs), inputs, planted is None or planted.change is None


def _called_by_name(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """Both models within one that hands its keyword arguments on in their order: PaDiff knows no others."""
    import paddle
    import torch

    class Paddle(paddle.nn.Layer):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__()
            self.model = ours

        def forward(self, **arrays: Any) -> Any:
            return self.model(*arrays.values())

    class Torch(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = theirs

        def forward(self, **arrays: Any) -> Any:
            return self.model(*arrays.values())

    return Paddle(), Torch()


def asking(tool: str, options: dict[str, Any]) -> Callable[[Any, Any, dict[str, Any], bool], bool]:
    """A function that asks a tool whether a port is right."""
    if tool == "padiff":
        from padiff import auto_diff
    else:
        from padiff_shim import auto_diff
    import paddle
    import torch

    def ask(ours: Any, theirs: Any, arrays: dict[str, Any], weights: bool) -> bool:
        inputs = tuple({key: make(array) for key, array in arrays.items()} for make in (paddle.to_tensor, torch.tensor))
        return bool(auto_diff(ours, theirs, inputs, auto_weights=weights, options=options))

    return ask


def child(tool: str, options: dict[str, Any], models: list[str]) -> None:
    """Ask one tool about all ports; print a line of JSON for each."""
    warnings.filterwarnings("ignore")
    sys.path.insert(0, os.getcwd())  # where PaDiff writes its logs
    os.environ["PADIFF_CUDA_MEMORY"] = "OFF"  # as in its own tests of recurrent layers, which cannot be moved
    ask = asking(tool, options)
    import demo_prove

    with tempfile.TemporaryDirectory() as name:
        os.makedirs(folder := Path(name) / "ports")
        for right, ours, theirs, arrays, weights in ports(demo_prove, models, folder):
            start, error = time.process_time(), ""
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    answer = ask(ours, theirs, arrays, weights)
            except Exception as failed:  # counted
                answer, error = None, f"{type(failed).__name__}: {str(failed).strip().splitlines()[-1][:80]}"
            print("ROW", json.dumps([right, answer, time.process_time() - start, error]), flush=True)


def asked(python: str, tool: str, options: dict[str, Any], models: list[str]) -> list[Any] | str:
    """The rows of a tool; or why there are none."""
    words = [python, __file__, "--child", tool, json.dumps(options), "--models", *models]
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    if run.returncode:
        return (run.stderr.strip().splitlines() or ["it ended without a word"])[-1]
    return [json.loads(line[4:]) for line in run.stdout.splitlines() if line.startswith("ROW ")]


def row(rows: list[Any]) -> list[str]:
    """Counts and seconds of a tool."""
    wrong, right = [row for row in rows if not row[0]], [row for row in rows if row[0]]
    failed = sum(answer is None for _, answer, _, _ in rows)
    return [
        f"{sum(answer is False for _, answer, _, _ in wrong)} of {len(wrong)}",
        f"{sum(answer is True for _, answer, _, _ in right)} of {len(right)}",
        str(failed),
        f"{statistics.median(seconds for _, _, seconds, _ in right):.2f}",
        f"{statistics.median(seconds for _, _, seconds, _ in wrong):.2f}",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=["gpt", "bert", "resnet", "tagger"], help="of the demo")
    parser.add_argument("--padiff-python", default=sys.executable, help="an interpreter that has padiff 0.2.0")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], json.loads(options.child[1]), options.models)
        return
    print("| tool | mistakes noticed | right ports pass | errors | s, right port | s, mistake |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |", flush=True)
    for name, (tool, chosen) in TOOLS.items():
        rows = asked(options.padiff_python if tool == "padiff" else sys.executable, tool, chosen, options.models)
        cells = [f"skipped: {rows}", "", "", "", ""] if isinstance(rows, str) else row(rows)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    from machine import machine

    print("", *machine(), sep="\n")


if __name__ == "__main__":
    main()
