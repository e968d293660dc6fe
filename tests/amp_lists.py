"""Where Paddle's lists for autocast and Torch's differ, asked of both.

``python tests/amp_lists.py`` prints the table of docs/run.md.
"""

import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from helpers import Call, flat, takes
from trials import FIRST

from padiff_shim.frameworks import autocast

DTYPE = torch.bfloat16
LOW, WIDE, OWN, PARTS = "low", "float32", "as its operands", "in parts"
_KINDS = {(DTYPE, DTYPE): LOW, (torch.float32, torch.float32): WIDE, (torch.float32, DTYPE): OWN}
HEAD = "| Paddle, O1 | Torch on a CPU | ops |", "|---|---|---|"


def in_python(op):
    return not any(part in op.entries[0].target for part in ("_C_ops", "Tensor."))


def of_paddle(op):
    """What Paddle's lists make of an op's operands."""
    white, black = autocast._update_list(None, None, "O1", "bfloat16")
    name = op.amp[0] or op.name
    if op.products or (in_python(op) and name not in white | black and name != "pool2d"):
        return PARTS
    return LOW if name in white else WIDE if name in black else OWN


def of_torch(op, entry):
    """What Torch's autocast makes of an op's operands, by the dtypes of its results; None where it has no kernel to tell."""
    formula, sample = (
        op.reference if op.definition is None else op.definition.formula,
        next(sample for sample in op.samples if takes(op, entry, sample)),
    )
    dtypes = []
    for dtype in (torch.float32, DTYPE):
        call = Call(op, entry, sample)
        sides = [torch.tensor(value) if isinstance(value, np.ndarray) else value for value in call.values]
        sides = [side.to(dtype) if isinstance(side, torch.Tensor) and side.is_floating_point() else side for side in sides]
        if op.layouts:
            sides[1] = sides[1].t().contiguous()
        try:
            with torch.autocast("cpu", dtype=DTYPE):
                results = flat(formula(*op.arguments(sample, sides)[: op.leading], *call.attributes))
        except (RuntimeError, NotImplementedError, ValueError):
            return None
        dtypes.append(next((result.dtype for result in results if result.is_floating_point()), None))
    return _KINDS.get(tuple(dtypes))


def rows():
    """The lines of the table."""
    groups = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op, entry in (case.values for case in FIRST):
            paddle_kind, torch_kind = of_paddle(op), of_torch(op, entry)
            if torch_kind is not None and torch_kind != paddle_kind and not (paddle_kind == PARTS and torch_kind == OWN):
                groups.setdefault((paddle_kind, torch_kind), []).append(op.name)
    return [
        f"| {paddle_kind} | {torch_kind} | {', '.join(f'`{name}`' for name in sorted(names))} |"
        for (paddle_kind, torch_kind), names in sorted(groups.items())
    ]


if __name__ == "__main__":
    print(*HEAD, *rows(), sep="\n")
