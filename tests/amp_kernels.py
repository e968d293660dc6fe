"""Which kernels Paddle's C++ asks for a dtype under autocast: ``GLOG_v=6 python tests/amp_kernels.py`` calls each op of the table.

On the error stream a line ``CALL op`` stands before what Paddle logs of the op's first sample at its first entry point.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

from helpers import Call, running, takes
from paddle.base import core
from trials import FIRST

from padiff_shim.frameworks.autocast import grad_tracer


def mark(*words):
    print(*words, file=sys.stderr, flush=True)


def main():
    tracer, here = grad_tracer(), running()
    for case in FIRST:
        op, entry = case.values
        if op.name not in here:
            continue
        try:
            sample = next(sample for sample in op.samples if takes(op, entry, sample))
            call = Call(op, entry, sample, "float32")
        except Exception as error:
            mark("SKIP", op.name, repr(error)[:100])
            continue
        tracer._amp_level, tracer._amp_dtype = core.AmpLevel.O1, "bfloat16"
        mark("CALL", op.name)
        try:
            call.run()
        except Exception as error:
            mark("ERROR", op.name, repr(error)[:100])
        finally:
            mark("END", op.name)
            tracer._amp_level, tracer._amp_dtype = core.AmpLevel.O0, "float32"


main()
