"""How far a reader walks: the files that one question enters, and the moves between files, counted by a profiler.

    python benchmarks/ways.py            # a table; docs/architecture.md holds it
    python benchmarks/ways.py proof      # one way, with its files

Each way runs twice, and the second run counts: what is learnt or loaded once is not part of it.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import paddle
import torch

import padiff_shim

ROOT = Path(padiff_shim.__file__).resolve().parent.parent
ROOMS = (str(ROOT / "padiff_shim") + "/", str(ROOT / "patches") + "/")


class Walk:
    """Counts, while it is open, the calls of this library's functions by file, and the moves from one file to another."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.moves = 0

    def __enter__(self) -> Walk:
        self._stack: list[str] = []
        sys.setprofile(self._event)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _event(self, frame: object, event: str, argument: object) -> None:
        if event not in ("call", "return"):
            return
        path = frame.f_code.co_filename  # type: ignore[attr-defined]
        if not path.startswith(ROOMS) or path.endswith("ways.py"):
            return
        if event == "return":
            if self._stack:
                self._stack.pop()
            return
        if self._stack and self._stack[-1] != path:
            self.moves += 1
        self._stack.append(path)
        self.calls[str(Path(path).relative_to(ROOT))] += 1


def tensors(*shapes: tuple[int, ...]) -> list[paddle.Tensor]:
    """Float32 tensors of these shapes that want gradients."""
    random = np.random.default_rng(0)
    return [paddle.to_tensor(random.standard_normal(shape, dtype=np.float32), stop_gradient=False) for shape in shapes]


def forward() -> Walk:
    """A substituted matmul + gelu."""
    with padiff_shim.reference("torch"):
        x, w = tensors((4, 8), (8, 8))
        with Walk() as walk:
            paddle.nn.functional.gelu(x @ w)
    return walk


def backward() -> Walk:
    """Its backward."""
    with padiff_shim.reference("torch"):
        x, w = tensors((4, 8), (8, 8))
        loss = paddle.nn.functional.gelu(x @ w).sum()
        with Walk() as walk:
            loss.backward()
    return walk


def compared() -> Walk:
    """A compared matmul + gelu, to their records."""
    with padiff_shim.compare("torch") as run:
        x, w = tensors((4, 8), (8, 8))
        with Walk() as walk:
            paddle.nn.functional.gelu(x @ w)
    assert run.calls
    return walk


class Original(torch.nn.Module):
    """Four linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x


class Port(paddle.nn.Layer):
    """The same, but for gelu's formula in the tanh form: the mistake."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = paddle.nn.LayerList([paddle.nn.Linear(8, 8) for _ in range(4)])

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        for layer in self.layers:
            x = paddle.nn.functional.gelu(layer(x), approximate=True)
        return x


def proof() -> Walk:
    """A proof of an MLP of four layers with one mistake, printed."""
    x = np.random.default_rng(0).standard_normal((4, 8), dtype=np.float32)
    with Walk() as walk:
        result = padiff_shim.prove(Port(), Original(), x)
        str(result)
    assert result.verdict is padiff_shim.ProofVerdict.CODE_DIFFERS
    return walk


def page() -> Walk:
    """A log read back and shown as a page."""
    with tempfile.TemporaryDirectory() as folder:
        with padiff_shim.compare("torch", log=folder):
            x, w = tensors((4, 8), (8, 8))
            paddle.nn.functional.gelu(x @ w).sum().backward()
        with Walk() as walk:
            padiff_shim.load(folder).save(str(Path(folder) / "page.html"))
    return walk


def recorded() -> Walk:
    """Two programs recorded (record), and the diff of their recordings, printed."""
    x = np.random.default_rng(0).standard_normal((4, 8), dtype=np.float32)
    models = (Original(), Port())
    with tempfile.TemporaryDirectory() as folder, Walk() as walk:
        for name, model, tensor in zip("ab", models, (torch.from_numpy(x), paddle.to_tensor(x)), strict=True):
            with padiff_shim.record(f"{folder}/{name}", model):
                model(tensor)
        str(padiff_shim.diff(f"{folder}/a", f"{folder}/b"))
    return walk


WAYS: dict[str, Callable[[], Walk]] = {
    "forward": forward,
    "backward": backward,
    "compared": compared,
    "proof": proof,
    "page": page,
    "recorded": recorded,
}


def main(names: list[str]) -> None:
    """Print the table, or the files of the ways that are named."""
    print(f"{'way':<10} {'files':>6} {'moves':>8} {'calls':>8}   what")
    for name in names or WAYS:
        WAYS[name]()
        walk = WAYS[name]()
        print(f"{name:<10} {len(walk.calls):>6} {walk.moves:>8,} {walk.calls.total():>8,}   {WAYS[name].__doc__}")
        for file, count in walk.calls.most_common() if names else ():
            print(f"    {count:>7,}  {file}")


if __name__ == "__main__":
    main(sys.argv[1:])
