"""How far the reported CTRL (48 layers) and Reformer (12 layers) drift from their originals, and whether that is rounding.

Prints the hidden states' mean and largest differences: natively, on Torch's kernels, and in float64.
With `--plot FOLDER` also pictures.
"""

from __future__ import annotations

import argparse
import pathlib
import warnings

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import paddle
from demo_prove_seeds import TWELVE, ctrl, reformer

import padiff_shim


def main() -> None:
    """One table for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, help="folder for a PNG of each model")
    parser.add_argument("--whole", action="store_true", help="every layer's result, too")
    options = parser.parse_args()
    paddle.set_device("cpu")
    for pair in (ctrl("float32"), reformer(TWELVE)):
        drift = padiff_shim.prove(pair.port, pair.original, pair.inputs, phase="forward").drift()
        print(f"{pair.name}, {pair.dtype}: {drift.headline}")
        if options.plot is not None:
            options.plot.mkdir(parents=True, exist_ok=True)
            print(drift.save(options.plot / f"drift-{pair.name.split()[0].lower()}.png"))
        if not options.whole:
            drift.rows = [row for row in drift.rows if row.kind == "output"]
        print(drift, flush=True)


if __name__ == "__main__":
    main()
