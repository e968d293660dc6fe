"""The op table on a device, each op in a process that may end: :func:`table` is what ``on_gpu.py`` calls.

``python tests/on_gpu_table.py SWEEP FIRST LAST`` sweeps over a part of it and prints one line of JSON an op. The sweeps:

- ``reference``: results and gradients of our mode are Torch's bits;
- ``autocast``: results have the dtypes of native Paddle under autocast, for which its kernels need not work;
- ``compare``: nobody is accused, with Paddle's kernels for the CPU in the place of those for the device.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import paddle
import torch
from helpers import Call, flat, takes
from trials import DOORS, FIRST, differentiable, wanted

import padiff_shim
from padiff_shim.dispatch.entry_point import EntryPoint
from padiff_shim.frameworks.memory import to_torch
from padiff_shim.trees import mapped
from padiff_shim.verdicts import HARD

PATIENCE = 400  # seconds for a part of the table


def on_gpu():
    return paddle.get_device().startswith("gpu")


def torch_device():
    """Torch's name of the device that Paddle is on."""
    return "cuda" if on_gpu() else "cpu"


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def dtype_name(tensor):
    return str(tensor.dtype).rpartition(".")[2]


def host(tensor):
    """The values on the host, without a kernel; of bfloat16 the bits."""
    if isinstance(tensor, paddle.Tensor):
        return tensor.detach().numpy()
    side = tensor.detach().cpu()
    return (side.view(torch.uint16) if side.dtype is torch.bfloat16 else side).numpy()


def same(ours, theirs):
    """Equal bit for bit, NaN and the sign of zero too."""
    ours, theirs = host(ours), host(theirs)
    return ours.shape == theirs.shape and ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


def all_same(ours, theirs):
    return all(same(mine, other) for mine, other in zip(flat(ours), flat(theirs), strict=True))


def short(error, limit):
    """The end of an error's text, on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' | '.join(lines)[-limit:]}"


class Way(NamedTuple):
    """A way to call an op: a door, and whether its indices are int32."""

    op: object
    entry: object
    narrow: bool = False

    def samples(self):
        return [sample for sample in self.op.samples if takes(self.op, self.entry, sample)]

    def call(self, sample, dtype="float32", *, grad=False):
        call = Call(self.op, self.entry, sample, dtype, grad=grad)
        if not self.narrow:
            return call
        narrowed = [array.astype("int32") if getattr(array, "dtype", None) == np.int64 else array for array in call.values]
        return Call(self.op, self.entry, sample, dtype, grad=grad, values=narrowed)


def ways(op, entry):
    """The table's own way, and those to take where Paddle refuses its arguments there."""
    yield Way(op, entry)
    yield Way(op, entry, narrow=True)
    yield from (Way(*case.values) for case in DOORS if case.values[0] is op and case.values[1] is not entry)


def judged(judge, op, entry):
    """(word, text) of an op by the first way whose arguments Paddle accepts."""
    errors = []
    for way in ways(op, entry):
        try:
            return judge(way)
        except Exception as error:
            errors.append(error)
            if "(InvalidArgument)" not in str(error):
                break
    return "error", short(errors[0], 160)


# Under the reference: Torch's bits.


class Pulled(NamedTuple):
    """A call under the reference and its backward."""

    call: Call
    results: object
    ends: list  # the results that the backward began at
    seeds: list  # what arrived there
    run: object

    @property
    def gradients(self):
        return [leaf.grad for leaf in wanted(self.call.tensors)]


def pulled(call):
    with padiff_shim.reference("torch") as run:
        results = call.run()
        ends = differentiable(results)
        seeds = [paddle.to_tensor(values(*end.shape).astype(dtype_name(end))) for end in ends]
        if ends:
            paddle.autograd.backward(ends, seeds)
    return Pulled(call, results, ends, seeds, run)


def torch_gradients(ours, theirs, leaves):
    """Torch's gradients of what Paddle's backward began at."""
    pairs = zip(flat(ours.results), flat(theirs), strict=True)
    ends = [other for mine, other in pairs if any(mine is end for end in ours.ends)]
    seeds = [to_torch(seed) for seed in ours.seeds]
    return torch.autograd.grad(ends, wanted(leaves), seeds, allow_unused=True)


def agree(mine, other):
    """Whether two gradients do; none stands for zeros."""
    if mine is None:
        return other is None or not host(other).any()
    return other is not None and same(mine, other.contiguous())


def gradients_word(ours, theirs, leaves, again):
    """What is to be said of the gradients; ``again``: Torch's call once more, with leaves."""
    expected = torch_gradients(ours, theirs, leaves)
    layouts = ours.call.op.layouts
    turned = [
        grad.t() if layouts and leaf is leaves[1] and grad is not None else grad for leaf, grad in zip(wanted(leaves), expected)
    ]
    if all(agree(mine, other) for mine, other in zip(ours.gradients, turned, strict=True)):
        return "same"
    repeated = torch_gradients(ours, *again)
    stable = all(first is second is None or same(first, second) for first, second in zip(repeated, expected))
    return "other gradient" if stable else "Torch's own gradients differ"


def bits(way, sample, *, grad):
    """(word, text) of a call and its backward against Torch's."""
    call = way.call(sample, grad=grad)
    theirs, leaves = call.torch(grad)
    ours = pulled(call)
    if way.op.name not in ours.run.substituted:
        return "native", str(dict(ours.run.native))
    again = way.call(sample, grad=grad).torch(grad)
    if not all_same(ours.results, theirs):
        return ("other value" if all_same(again[0], theirs) else "Torch's own differ"), ""
    return (gradients_word(ours, theirs, leaves, again) if ours.ends else "same"), ""


def alternatives(way, sample):
    """The alternative formulas that fail on the device, with their errors."""
    op, call = way.op, way.call(sample)
    texts = []
    for name, fault in op.faults.items():
        operands = op.arguments(sample, call.torch()[1])[: op.leading]
        try:
            fault.formula(op.oracle or op.reference, *operands, *call.attributes)
        except NotImplementedError:
            continue
        except Exception as error:
            texts.append(f"{name}: {str(error).splitlines()[0][:120]}")
    return texts


def under_reference(way):
    sample = way.samples()[0]
    word, text = bits(way, sample, grad=True)
    if word == "native":  # an op without a gradient is ours where none is wanted
        word, text = bits(way, sample, grad=False)
    failing = alternatives(way, sample)
    return (f"{word}, alternative fails", " ".join([text, *failing])) if failing else (word, text)


# Under autocast: Paddle's dtypes.


def cast_dtypes(way, dtype, low, level):
    with paddle.amp.auto_cast(level=level, dtype=low):
        return [dtype_name(result) for result in flat(way.call(way.samples()[0], dtype).run())]


def under_autocast(way):
    differs, refusal, compared = [], None, 0
    for low, level in [(low, level) for low in ("float16", "bfloat16") for level in ("O1", "O2")]:
        for dtype in ("float32", low):
            try:
                native = cast_dtypes(way, dtype, low, level)
            except Exception as error:
                refusal = error
                continue
            compared += 1
            with padiff_shim.reference("torch") as run:
                ours = cast_dtypes(way, dtype, low, level)
            if ours != native and not run.native:
                differs.append(f"{level} {low} of {dtype}: {ours}, natively {native}")
    if not compared:
        raise refusal
    return ("other dtype", "; ".join(differs)) if differs else ("same", "")


# Compared: nobody is accused.


def answer_on_host():
    """From now on Paddle's own kernels are those for the CPU: honest ones, that round otherwise."""
    build = EntryPoint.__init__

    def to_host(value):
        return value.cpu() if isinstance(value, paddle.Tensor) else value

    def to_device(value):
        return value.cuda() if on_gpu() and isinstance(value, paddle.Tensor) else value

    def hosted(native):
        def call(*args, **kwargs):
            with paddle.base.framework._dygraph_place_guard(paddle.CPUPlace()):
                result = native(*mapped(args, to_host), **mapped(kwargs, to_host))
            return mapped(result, to_device)

        return call

    def rebuilt(self, *args, **kwargs):
        build(self, *args, **kwargs)
        self.native = hosted(self.native)

    EntryPoint.__init__ = rebuilt


def under_compare(way):
    verdicts, texts = [], []
    for sample in way.samples()[:2]:
        with padiff_shim.compare("torch") as run:
            way.call(sample).run()
        verdicts += [str(call.verdict) for call in run.calls]
        texts += [f"{call.verdict} {call.hypothesis} {call.stats}" for call in run.calls if call.verdict in HARD]
        texts += [f"native {dict(run.native)}"] if run.native else []
        texts += [f"warned {text}" for text in run.warnings if "could not" in text or "Error" in text]
    accused = any("WRONG" in text or "NONFINITE" in text for text in texts)
    return "accused" if accused else "+".join(sorted(set(verdicts))) or "none", "; ".join(texts)[:300]


SWEEPS = {"reference": under_reference, "autocast": under_autocast, "compare": under_compare}


def sweep(name, first, last):
    """In this process: a line before each op, so that the one that ends it is known, and a line after it."""
    if name == "compare":
        answer_on_host()
    torch.set_default_device(torch_device())
    for number, case in list(enumerate(FIRST))[first:last]:
        op, entry = case.values
        print(json.dumps((number, op.name, "begun", "")), flush=True)
        print(json.dumps((number, op.name, *judged(SWEEPS[name], op, entry))), flush=True)
    print(json.dumps((last, "", "end", "")), flush=True)


def part(name, first, last):
    """The lines of a part of the table, in processes of their own: one that ends is followed by another, behind its op."""
    lines = []
    while first < last:
        words = [sys.executable, __file__, "--device", paddle.get_device(), name, str(first), str(last)]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        rows = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[")]
        lines += [row for row in rows if row[2] not in ("begun", "end")]
        if not rows:
            return [*lines, (first, "", "process", ended.stderr[-600:])]
        number, op, word, _ = rows[-1]
        if word == "end":
            break
        lines.append((number, op, "process", f"ended with {ended.returncode}: {ended.stderr.strip()[-200:]}"))
        first = number + 1
    return lines


def table(name):
    """A sweep over the whole table: prints what differs, and gives a summary."""
    parts = max(1, (os.cpu_count() or 2) // 2)
    bounds = [len(FIRST) * number // parts for number in range(parts + 1)]
    with ThreadPoolExecutor(parts) as pool:
        lines = [line for lines in pool.map(part, [name] * parts, bounds[:-1], bounds[1:]) for line in lines]
    for _, op, word, text in sorted(lines, key=lambda line: (line[2], line[0])):
        if word != "same" and (text or name == "reference"):
            print(f"       {word}: {op} {text}", flush=True)
    return str(dict(collections.Counter(line[2] for line in lines)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", choices=SWEEPS)
    parser.add_argument("first", type=int, help="number of the first op")
    parser.add_argument("last", type=int, help="number behind the last op")
    parser.add_argument("--device", default="gpu", help="as paddle.set_device takes it")
    options = parser.parse_args()
    paddle.set_device(options.device)
    sweep(options.sweep, options.first, options.last)
