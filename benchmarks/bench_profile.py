"""What ``reference(profile=True)`` costs: processor time of a step of a small network, with and without, best of many rounds.

python benchmarks/bench_profile.py
"""

from __future__ import annotations

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import paddle

import padiff_shim

ROUNDS, STEPS, LAYERS = 30, 10, 8


def made(width: int) -> tuple[paddle.nn.Layer, paddle.Tensor]:
    """A network whose kernels take next to no time, so that calls do."""
    layers = [layer for _ in range(LAYERS) for layer in (paddle.nn.Linear(width, width), paddle.nn.GELU())]
    return paddle.nn.Sequential(*layers), paddle.ones([4, width])


def step(model: paddle.nn.Layer, x: paddle.Tensor) -> None:
    """Forward and backward."""
    model(x).sum().backward()


def timed(model: paddle.nn.Layer, x: paddle.Tensor, *, profile: bool) -> tuple[float, int]:
    """Seconds of a step, and its calls."""
    with padiff_shim.reference("torch", profile=profile) as run:
        step(model, x)
        began = time.process_time()
        for _ in range(STEPS):
            step(model, x)
        seconds = (time.process_time() - began) / STEPS
    return seconds, sum(run.substituted.values()) // (STEPS + 1)


def main() -> None:
    """Print both, for small and for wider layers."""
    paddle.seed(0)
    padiff_shim.install()
    print("width  calls  plain us  profile us  more a call us")
    for width in (8, 512):
        model, x = made(width)
        times = {False: [], True: []}
        for _ in range(ROUNDS):
            for profile in times:
                times[profile].append(timed(model, x, profile=profile))
        plain, more = (min(seconds for seconds, _ in times[profile]) for profile in (False, True))
        calls = times[True][0][1]
        print(f"{width:5}  {calls:5}  {plain * 1e6:8.0f}  {more * 1e6:10.0f}  {(more - plain) / calls * 1e6:14.1f}")


if __name__ == "__main__":
    main()
