"""Which ops of the table have no second derivative: ``python tests/second_orders.py`` tries each, natively and under reference.

Each op is differentiated twice at its first entry point, on the first of its samples that has a first derivative there.
"""

import os
import warnings
from collections import defaultdict

os.environ.setdefault("OMP_NUM_THREADS", "1")

import paddle
from helpers import Call, takes
from trials import FIRST, arriving, differentiable, wanted

import padiff_shim

HAS, LACKS, FIRST_ALONE = "have it", "raise", "have no first derivative here"


def second(op, entry):
    """What comes of the second derivative of an op."""
    for sample in op.samples:
        if not takes(op, entry, sample):
            continue
        call = Call(op, entry, sample, grad=True)
        leaves = wanted(call.tensors)
        try:
            ends = differentiable(call.run())
            seeds = arriving(ends, "float32")
            for seed in seeds:
                seed.stop_gradient = False
            paddle.grad(ends, leaves, seeds, retain_graph=True, allow_unused=True)
        except Exception:
            continue
        try:
            grads = paddle.grad(ends, leaves, seeds, create_graph=True, allow_unused=True)
            grads = [grad for grad in grads if grad is not None and not grad.stop_gradient]
            paddle.grad(grads, [*leaves, *seeds], [paddle.ones_like(grad) for grad in grads], allow_unused=True)
        except Exception:
            return LACKS
        return HAS
    return FIRST_ALONE


def counts():
    """Paddle's kernels and reference mode -> what comes of it -> the ops."""
    table = {"natively": defaultdict(list), "under reference": defaultdict(list)}
    for case in FIRST:
        op, entry = case.values
        table["natively"][second(op, entry)].append(op.name)
        with padiff_shim.reference("torch"):
            table["under reference"][second(op, entry)].append(op.name)
    return table


def lines():
    """The counts, and under reference the names."""
    for where, outcomes in counts().items():
        yield f"{where}: " + ", ".join(f"{len(outcomes[what])} ops {what}" for what in (HAS, LACKS, FIRST_ALONE))
        if where != "natively":
            yield f"raise under reference: {', '.join(sorted(outcomes[LACKS]))}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    padiff_shim.install()
    print(*lines(), sep="\n")
