"""What a proof costs, against one run of either model: forward, with gradients, and a training of three steps.

The pairs are those of `examples/zoo`, as they are and larger; all ports are right. A row times the Torch model, the Paddle model
natively and `prove` in turns in one process, on one thread, in processor time; the ratio is prove / (Torch + Paddle).
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when the frameworks are imported
sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import demo_prove
    import paddle
    import torch
import wrong_ports
from bench_memory import forget_peak, resident
from machine import machine
from rich.console import Console
from rich.progress import track
from zoo.pairs import Pair, build

import padiff_shim
from padiff_shim.proof import programs, prove

STEPS = 3
PHASES = ("forward", "both", "train")


class Case(NamedTuple):
    """A module of the zoo, and the sizes that are set in it."""

    name: str
    sizes: dict[str, Any]

    def __str__(self) -> str:
        return self.name + (f" ({', '.join(f'{key.lower()} {value}' for key, value in self.sizes.items())})" if self.sizes else "")


CASES = (
    Case("gpt", {}),
    Case("gpt", {"D": 256, "HEADS": 8, "LAYERS": 6, "LENGTH": 64}),
    Case("bert", {}),
    Case("t5", {}),
    Case("vit", {}),
    Case("resnet", {}),
    Case("mobilenet", {}),
    Case("unet", {}),
    Case("tagger", {}),
)


def built(case: Case) -> Pair:
    """The pair of a case in float32, with the module's sizes set."""
    module = importlib.import_module(f"zoo.{case.name}")
    for name, value in case.sizes.items():
        setattr(module, name, value)
    return build(case.name, "float32")


def runs(pair: Pair, phase: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One run of the Torch model and of the Paddle model, as a program without any of this would make it."""

    def torch_run() -> None:
        arrays = {name: torch.from_numpy(array) for name, array in pair.arrays.items()}
        optimizer = torch.optim.AdamW(pair.torch.parameters(), lr=0.0) if phase == "train" else None
        for _ in range(STEPS if optimizer else 1):
            _, loss = pair.module.torch_step(pair.torch, **arrays)
            if phase != "forward":
                loss.backward()
            if optimizer:
                optimizer.step()
            pair.torch.zero_grad()

    def paddle_run() -> None:
        arrays = {name: paddle.to_tensor(array) for name, array in pair.arrays.items()}
        optimizer = paddle.optimizer.AdamW(0.0, parameters=pair.paddle.parameters()) if phase == "train" else None
        for _ in range(STEPS if optimizer else 1):
            _, loss = pair.module.paddle_step(pair.paddle, **arrays)
            if phase != "forward":
                loss.backward()
            if optimizer:
                optimizer.step()
            pair.paddle.clear_gradients()

    return torch_run, paddle_run


def proving(pair: Pair, phase: str) -> Callable[[], Any]:
    """A proof of the pair."""
    more = {"optimizer": "AdamW", "steps": STEPS} if phase == "train" else {}
    ours, theirs = demo_prove.PaddleStep(pair.paddle, pair.module), demo_prove.TorchStep(pair.torch, pair.module)

    def prove() -> None:
        proof = padiff_shim.prove(ours, theirs, dict(pair.arrays), phase=phase, **more)
        assert proof.verdict is padiff_shim.ProofVerdict.CODE_CORRECT, str(proof)

    return prove


def best(function: Callable[[], Any], budget: float) -> float:
    """Seconds of processor time: the best of as many calls as fit into ``budget`` seconds."""
    seconds, end = [], time.perf_counter() + budget
    while not seconds or time.perf_counter() < end:
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return min(seconds)


def measured(case: Case, rounds: int, budget: float) -> list[list[str]]:
    """A row for each phase: milliseconds of the best round, and the median ratio."""
    pair = built(case)
    rows = []
    for phase in PHASES:
        ways = [*runs(pair, phase), proving(pair, phase)]
        for way in ways:
            way()
        gc.collect()
        times = [[best(way, budget) for way in ways] for _ in range(rounds)]
        ratio = statistics.median(prove / (theirs + ours) for theirs, ours, prove in times)
        rows.append([str(case), phase, *(f"{min(column) * 1e3:.1f}" for column in zip(*times)), f"{ratio:.2f}"])
    return rows


def _named(side: Any) -> str:
    """The run of a side, in words."""
    if side.framework == "torch":
        return "run Torch"
    return "run on Torch's kernels" if side.shim else "run Paddle"


PIECES: tuple[tuple[Any, str, Callable[[Any], str]], ...] = (
    (prove, "duplicate", lambda _: "copy both"),
    (prove, "read_both", lambda _: "match weights"),
    (prove, "match", lambda _: "match weights"),
    (prove, "preconditions", lambda _: "inputs, transfer"),
    (programs.ModelSide, "run", _named),
    (prove, "_compared", lambda _: "compare"),
)
PARTS = ("copy both", "match weights", "inputs, transfer", "run Torch", "run on Torch's kernels", "run Paddle", "compare")


def pieces(case: Case, phase: str, times: int) -> list[str]:
    """A row: milliseconds of the parts of a proof without training, of the whole, and of the models' own runs; medians."""
    pair = built(case)
    prove, rounds = proving(pair, phase), []
    now: dict[str, float] = {}

    def timed(original: Callable[..., Any], name: Callable[[Any], str]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return original(*args, **kwargs)
            finally:
                key = name(args[0])
                now[key] = now.get(key, 0.0) + time.process_time() - start

        return call

    with contextlib.ExitStack() as patches:
        for owner, name, label in PIECES:
            patches.enter_context(mock.patch.object(owner, name, timed(getattr(owner, name), label)))
        for _ in range(times):
            now.clear()
            start = time.process_time()
            prove()
            rounds.append({**now, "prove": time.process_time() - start})
    medians = [statistics.median(round_[part] for round_ in rounds[1:]) for part in (*PARTS, "prove")]
    own = [statistics.median(best(way, 0) for _ in range(times)) for way in runs(pair, phase)]
    return [str(case), phase, *(f"{value * 1e3:.1f}" for value in (*medians, *own))]


def wrong_alone(name: str, what: str) -> None:
    """Print seconds of a processor or GiB of one step of both models, and of a proof of a port of :mod:`wrong_ports`."""
    build, change, verdict = wrong_ports.CASES[name]
    padiff_shim.prove(paddle.nn.Linear(3, 3), torch.nn.Linear(3, 3), torch.ones(2, 3))  # what is imported and made once
    before = resident("VmRSS")
    port, original, inputs = build()

    def step() -> None:
        original(torch.from_numpy(inputs)).sum().backward()
        port(paddle.to_tensor(inputs)).sum().backward()

    def measured(function: Callable[[], Any]) -> float:
        gc.collect()
        if what == "memory":
            forget_peak()
            function()
            return (resident("VmHWM") - before) / 2**30
        function()  # what it allocates is the process's own from then on, see HELD
        gc.collect()
        start = time.process_time()
        function()
        return time.process_time() - start

    step()
    whole = measured(step)
    original.zero_grad()
    for parameter in port.parameters():
        parameter.clear_gradient(False)
    change(port)
    counts: list[int] = []

    def prove() -> None:
        proof = padiff_shim.prove(port, original, inputs)
        assert proof.verdict.name == verdict, str(proof)
        counts.append(len(proof.mistakes))

    proving = measured(prove)
    print(json.dumps([counts[0], whole, proving]))


# Freed memory stays the process's: on a virtual machine to get it for the first time costs as much as computing in it.
HELD = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}


def wrong(name: str) -> list[str]:
    """A row of the table: time and memory, each measured in a process of its own."""
    row = [name]
    for what, settings in (("time", HELD), ("memory", {})):
        command = [sys.executable, __file__, "--wrong", name, "--what", what]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **settings})
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr[-2000:]}")
        mistakes, step, proof = json.loads(done.stdout.splitlines()[-1])
        row += [str(mistakes)] if what == "time" else []
        row += [f"{step:.2f}", f"{proof:.2f}", f"{proof / step:.2f}"]
    return row


def table(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 2) -> str:
    """Markdown, the first ``words`` columns of which are words."""
    rule = ["---" if place < words else "---:" for place in range(len(header))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, rule, *rows])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help="names of the zoo (default: all of the table)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=0.5, help="seconds for each way in a round")
    parser.add_argument("--pieces", action="store_true", help="where the time of a proof goes, in place of its ratio")
    parser.add_argument(
        "--wrong", nargs="?", const="", help="wrong ports, of the size that people port; of a name: in this process"
    )
    parser.add_argument("--what", choices=("time", "memory"), default="time", help="of a named wrong port")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="When training, we now always track")
    torch.set_num_threads(1)
    console = Console(stderr=True)
    if arguments.wrong:
        wrong_alone(arguments.wrong, arguments.what)
    elif arguments.wrong is not None:
        rows = [wrong(name) for name in track(wrong_ports.CASES, description="proofs", console=console, transient=True)]
        print(table(["port", "mistakes", "step s", "prove s", "ratio", "step GiB", "prove GiB", "ratio"], rows, words=1))
        print("", *machine(), sep="\n")
    else:
        right(arguments, console)


def right(options: argparse.Namespace, console: Console) -> None:
    """Print the table of right ports of the zoo."""
    cases = [case for case in CASES if not options.models or case.name in options.models]
    rows = []
    for case in track(cases, description="proofs", console=console, transient=True):
        rows += (
            [pieces(case, phase, 30) for phase in PHASES[:2]] if options.pieces else measured(case, options.rounds, options.budget)
        )
    own = [*PARTS, "prove", "Torch alone", "Paddle alone"] if options.pieces else ["Torch ms", "Paddle ms", "prove ms", "ratio"]
    print(table(["pair", "phase", *own], rows))
    print("", *machine(), sep="\n")


if __name__ == "__main__":
    main()
