"""Calls in memory that was filled with a byte before: what each of them gives, as JSON Lines.

``python poisoned.py PART BYTE FILE [FOLDER]`` writes ``[case, {result: digest}]``, or ``[case, null]`` where Paddle refuses it or
ends the process, and records the calls in the folder. Two runs with two bytes differ in what no kernel wrote.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import sys
import zlib

import numpy as np
import paddle
import paddle.nn.functional as F
from helpers import Call, entries, flat, takes
from paddle import _C_ops as C, _legacy_C_ops as L
from trials import arriving, differentiable, uninitialised
from unlisted_calls import CALLS

import padiff_shim
from padiff_shim.auditing import cases
from padiff_shim.catalogue.registry import ops

_PERTURB = -6  # glibc's M_PERTURB: fill what malloc gives


def digest(tensor):
    """Of the bits of a tensor; of one without memory nothing is known."""
    if not tensor._is_initialized():
        return ""
    array = (tensor.astype("float32") if tensor.dtype == paddle.bfloat16 else tensor).numpy()
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=8).hexdigest()


def digests(results):
    return {str(place): digest(result) for place, result in enumerate(results)}


def table():
    """Every sample at every entry point; then its gradients, all of them wanted."""
    for op, entry in entries():
        for number, sample in enumerate(op.samples):
            if takes(op, entry, sample):
                case = f"{op.name} {number} {entry.target}"
                yield "", case, lambda call=(op, entry, sample): at_entry(*call)
                if not entry.inplace:
                    yield "", f"{case} backward", lambda call=(op, entry, sample): backward(*call)


def at_entry(op, entry, sample):
    call = Call(op, entry, sample)
    result = call.run()
    return {} if uninitialised(call, result) else digests(flat(result))


def backward(op, entry, sample):
    call = Call(op, entry, sample, grad=True)
    ends = differentiable(call.run())
    paddle.autograd.backward(ends, arriving(ends, "float32"))
    wanted = {f"gradient {place}": getattr(tensor, "grad", None) for place, tensor in enumerate(call.tensors)}
    return {name: digest(grad) for name, grad in wanted.items() if grad is not None}


def empty():
    """Samples with axes of no elements."""
    for name in ops():
        for case in cases.cases(name):
            if case.empty:
                yield name, case.name, lambda case=case: audited(case)


def audited(case):
    call = cases.AuditCall(case)
    return digests(call.run(call.tensors(grad=False)))


def alone():
    """The gradient of each operand alone, from each result alone."""
    for name in ops():
        for case in cases.cases(name):
            if case.stress == cases.PLAIN.name and case.dtype == "float32":
                for place in range(len(cases.AuditCall(case).arrays)):
                    yield name, f"{case.name}, {place}", lambda case=case, place=place: gradient(case, place)


def gradient(case, place):
    call, gradients = cases.AuditCall(case), {}
    operands = call.tensors(grad=False)
    if not isinstance(operands[place], paddle.Tensor) or not operands[place].is_floating_point():
        return gradients
    operands[place].stop_gradient = False
    for number, end in enumerate(call.run(operands)):
        if not end.stop_gradient and end.is_floating_point():
            paddle.autograd.backward([end], arriving([end], "float32"))
            gradients[f"gradient {place} of {number}"] = digest(operands[place].grad)
            operands[place].clear_grad()
    return gradients


def unlisted():
    """What the op table lacks."""
    for source in CALLS:
        yield "", source, lambda source=source: evaluated(source)


def evaluated(source):
    rng = np.random.default_rng(zlib.crc32(source.encode()))

    def x(*shape):
        return paddle.to_tensor(rng.standard_normal(shape).astype("float32"))

    def p(*shape):
        return paddle.to_tensor(rng.uniform(0.5, 2, shape).astype("float32"))

    def i(shape, high, low=0, dtype="int64"):
        return paddle.to_tensor(rng.integers(low, high, shape).astype(dtype))

    def fixed(values, dtype="int64"):
        return paddle.to_tensor(np.array(values, dtype))

    def boxes(count):
        corner = rng.uniform(0, 3, (count, 2))
        return paddle.to_tensor(np.hstack([corner, corner + rng.uniform(0.5, 2, (count, 2))]).astype("float32"))

    def coo():
        return paddle.sparse.sparse_coo_tensor([[0, 1], [1, 0]], x(2), [3, 3])

    def csr():
        return paddle.sparse.sparse_csr_tensor([0, 1, 2, 2], [1, 0], x(2), [3, 3])

    names = {
        "x": x,
        "p": p,
        "i": i,
        "fixed": fixed,
        "boxes": boxes,
        "coo": coo,
        "csr": csr,
        "C": C,
        "L": L,
        "F": F,
        "paddle": paddle,
    }
    return digests(flat(eval(source, names)))


def ran(todo, output):
    """Each case, told as it begins and as it ends."""
    for case, run in todo:
        print(json.dumps(["begin", case]), file=output, flush=True)
        paddle.seed(1)
        try:
            answer = run()
        except Exception:  # another version's function, no kernel for it on the CPU, no backward
            answer = None
        print(json.dumps([case, answer]), file=output, flush=True)


def main(part, byte, path, folder=None):
    assert ctypes.CDLL(None).mallopt(_PERTURB, int(byte))
    with open(path, "w") as results:
        for answer in answered(part, folder):
            print(json.dumps(answer), file=results)


def answered(part, folder):
    """A process of their own for the calls of each op, and a further one behind a call that ends it."""
    by_op = {}
    for name, case, run in globals()[part]():
        by_op.setdefault(name, []).append((case, run))
    for todo in by_op.values():
        while todo:
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                with open(writing, "w") as output, padiff_shim.record(folder) if folder else contextlib.nullcontext():
                    ran(todo, output)
                os._exit(0)
            os.close(writing)
            with open(reading) as lines:
                answers = [json.loads(line) for line in lines]
            status = os.waitpid(child, 0)[1]
            begun = [case for word, case in answers if word == "begin"]
            yield from (answer for answer in answers if answer[0] != "begin")
            if status:
                yield [begun[-1], None]
            todo = todo[len(begun) :] if status else []


if __name__ == "__main__":
    main(*sys.argv[1:])
