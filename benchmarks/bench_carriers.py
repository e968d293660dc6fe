"""Which calls carry the native difference of the zoo's models, and the experiment: the same op on Torch's kernel in that layer.

`removed`: how much of the difference, along itself, is gone when the rest runs natively. It is at least the op's own part, and more
where others round otherwise only because of it.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_prove import Case, built, demo_prove, machine, paddle, torch

import padiff_shim

NAMES = ("gpt", "bert", "t5", "vit", "resnet", "unet", "tagger")


def runner(port: Any, arrays: dict[str, Any]) -> Callable[[Any], Any]:
    """A function that gives all outputs of the port within a mode, as one array of float64."""
    held = {name: tensor.clone() for name, tensor in port.state_dict().items()}

    def run(mode: Any) -> Any:
        with paddle.no_grad(), mode:
            output = port(**{name: paddle.to_tensor(array) for name, array in arrays.items()})
        port.set_state_dict(held)
        outputs = output["outputs"] if isinstance(output["outputs"], (tuple, list)) else [output["outputs"]]
        return np.concatenate([tensor.numpy().astype(np.float64).ravel() for tensor in [*outputs, output["loss"]]])

    return run


def experiment(name: str, most: int) -> None:
    """Print a model's carriers, and what their ops take away."""
    pair = built(Case(name, {}))
    port, original = demo_prove.PaddleStep(pair.paddle, pair.module), demo_prove.TorchStep(pair.torch, pair.module)
    start = time.process_time()
    proof = padiff_shim.prove(port, original, dict(pair.arrays), weights="as-is", phase="forward")
    middle = time.process_time()
    carried = proof.carriers()
    seconds = middle - start, time.process_time() - middle
    print(f"\n## {name}\n{proof!s}\nprove {seconds[0]:.2f} s, carriers {seconds[1]:.2f} s")
    run = runner(port, pair.arrays)
    shim = run(padiff_shim.reference("torch"))
    apart = run(contextlib.nullcontext()) - shim
    for row in [row for row in carried if row.layer][:most]:
        left = run(padiff_shim.reference("torch", ops=row.op, layers=row.layer)) - shim
        print(f"{row.layer} {row.op}: own {row.own:.1%}, share {row.share:.1%}, removed {1 - (left @ apart) / (apart @ apart):.1%}")


def main() -> None:
    """All models that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--most", type=int, default=4, help="rows that are tried")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.models or NAMES:
        experiment(name, arguments.most)
    print("", *machine(), sep="\n")


if __name__ == "__main__":
    main()
