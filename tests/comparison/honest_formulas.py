"""Honest results of every op that has a named fault: a fault that explains rounding explains nothing.

A result is Torch's own in the narrow dtype (where it is near the formula's in float64), or the formula's with an error of float32
at every step, its sign by chance, rounded at the end: each is as a right kernel may give it.
``python tests/comparison/honest_formulas.py 10000 30`` judges so many pairs for each op, or as many as so many seconds allow,
forward and gradient, and prints how many were accused (of some ops alone: name them behind).
"""

import functools
import itertools
import sys
import time

import numpy as np
import torch

from padiff_shim import numerics
from padiff_shim.catalogue.registry import ops
from padiff_shim.dispatch.operands import flat
from padiff_shim.numerics import noise
from padiff_shim.numerics.generic import Variant
from padiff_shim.numerics.precision import KINDS
from padiff_shim.table.samples import Ints, Sample
from padiff_shim.verdicts import NEGLIGIBLE, Verdict

DTYPES = (torch.float32, torch.float32, torch.float16, torch.bfloat16)
ACCUSED = Verdict.UNVERIFIED.severity + 1
BESIDE_EXACT = "exact and Torch's"
RUNS = 5  # of which each two are a pair
SAMPLES = {  # beside those of the table
    "scaled_dot_product_attention": [Sample(*[(1, 3, 2, 4)] * 3, is_causal=True), Sample((1, 7, 1, 3), (1, 9, 1, 3), (1, 9, 1, 3))],
    "segment_pool": [Sample((6, 3), Ints((6,), 0, 1), pooltype=kind) for kind in ("SUM", "MEAN", "MAX")],
    "eigvalsh": [Sample((4, 4))],
    "pdist": [Sample((5, 3)), Sample((4, 6), p=3.0)],
    "norm_except_dim": [Sample((4, 3), dim=0)],
}
VALUES = {
    "as drawn": lambda rng, array, tiny: array,
    "alike": lambda rng, array, tiny: array,  # see Pairs
    "large": lambda rng, array, tiny: array * 30.0,
    "logits": lambda rng, array, tiny: array * 8.0,
    "tiny": lambda rng, array, tiny: array * tiny**0.5,
    "zeros": lambda rng, array, tiny: np.where(rng.random(array.shape) < 0.5, 0.0, array),
    "rows": lambda rng, array, tiny: np.broadcast_to(array[..., :1], array.shape) if array.ndim else array,
    "ties": lambda rng, array, tiny: np.round(array * 2) / 2,
    "offset": lambda rng, array, tiny: array + 20.0,
    "infinite": lambda rng, array, tiny: np.where(rng.random(array.shape) < 0.1, rng.choice((-np.inf, np.inf), array.shape), array),
}


class Pairs:
    """Honest results of one random call, and what is asked to judge two of them."""

    def __init__(self, op, rng):
        self.op, self.seed, self.dtype = op, int(rng.integers(2**31)), DTYPES[int(rng.integers(len(DTYPES)))]
        samples = [sample for sample in (*op.samples, *SAMPLES.get(op.name, ())) if not sample.empty]
        sample = samples[int(rng.integers(len(samples)))]
        has_range = sample.within is not None or any(hasattr(operand, "low") for operand in sample.operands)
        kind = "as drawn" if has_range and rng.random() < 0.7 else list(VALUES)[int(rng.integers(len(VALUES)))]
        self.operands = [self._tensor(rng, array, kind) for array in sample.arrays(rng, "float64")]
        self.arguments = op.arguments(sample, self.operands)
        self.places = [at for at, operand in enumerate(self.operands) if getattr(operand, "is_floating_point", bool)()]
        self.tensors = [self.operands[at] for at in self.places]
        if kind == "alike":
            self.tensors = [self.tensors[0] if tensor.shape == self.tensors[0].shape else tensor for tensor in self.tensors]
        self.wanted, result = None, self.forward(op.reference, *self.tensors)
        if result.is_floating_point() and rng.random() < 0.5 and self.places:
            self.wanted = int(rng.integers(len(self.places)))
            grad = rng.standard_normal((1, *result.shape)).reshape(result.shape) if rng.random() < 0.7 else np.ones(result.shape)
            self.tensors.append(torch.from_numpy(np.array(grad)).to(result.dtype))

    def _tensor(self, rng, array, kind):
        if not isinstance(array, np.ndarray):
            return array
        if array.dtype.kind != "f":
            return torch.from_numpy(array)
        with np.errstate(all="ignore"):
            return torch.from_numpy(np.array(VALUES[kind](rng, array, KINDS[self.dtype].tiny))).to(self.dtype)

    def __str__(self):
        return f"{'result' if self.wanted is None else f'gradient {self.wanted}'} {self.dtype}"

    def forward(self, formula, *tensors):
        """The first result."""
        operands = list(self.operands)
        for at, tensor in zip(self.places, tensors):
            operands[at] = tensor
        rest = self.arguments[1:] if self.op.operands else self.arguments[len(operands) :]
        return flat(formula(*([operands] if self.op.operands else operands), *rest))[0]

    def kernel(self, *tensors, formula=None):
        """The result, or the gradient of one operand, as a function of the float operands and the incoming gradient."""
        formula = formula or self.op.oracle or self.op.reference
        if self.wanted is None:
            return self.forward(formula, *tensors)
        *operands, grad = tensors
        leaves = [tensor.detach().requires_grad_() for tensor in operands]
        with torch.enable_grad():
            result = self.forward(formula, *leaves)
            return torch.autograd.grad(result, leaves[self.wanted], grad.to(result.dtype))[0]

    def stepped(self, seed):
        """The formula's result with an error at every step, in float64."""
        unit = KINDS[torch.float32].format.unit
        mode = noise.RoundedSteps(noise.MoveSize(step=unit * 0.7, sums=unit * 0.3, unit=unit), seed)
        with noise.Functions(), mode:
            return self.kernel(*[tensor.double() for tensor in self.tensors]).detach()

    def results(self):
        """The pairs, each with the name of its kind."""
        native = self.kernel(*self.tensors, formula=self.op.reference).detach()
        exact = noise.exact(self.kernel, [tensor.double() for tensor in self.tensors])
        runs = [self.stepped(self.seed + number) for number in range(RUNS)]
        finite = exact.isfinite() & native.isfinite() & torch.stack(runs).isfinite().all(0)
        spread = torch.stack([(run - exact).abs() for run in runs]).amax(0)
        near = 4 * spread + 2 * KINDS[self.dtype].format.unit * exact.abs() + 4 * KINDS[self.dtype].tiny
        honest = bool(((native.double() - exact).abs() <= near)[finite].all())
        if not all(bool(tensor.isfinite().all()) for tensor in (*self.tensors, exact)):
            if honest and bool((native.isnan() == exact.isnan()).all()):
                yield BESIDE_EXACT, exact.to(native.dtype), native
            return
        rounded = [run.to(native.dtype) for run in runs]
        if honest and bool(finite.all()):
            yield from (("moved and Torch's", run, native) for run in rounded)
        yield from (("moved both", *pair) for pair in itertools.combinations(rounded, 2))

    def judged(self):
        """What was said of each pair, with the name of its kind."""
        own = self.op.oracle or self.op.reference
        variants = {
            name: Variant(
                functools.partial(self.kernel, formula=functools.partial(fault.formula, own)), fault.precision, fault.narrow
            )
            for name, fault in self.op.faults.items()
        }
        kernels = {"torch_kernel": self.kernel, "paddle_kernel": None, "operands": self.tensors, "variants": variants}
        for name, first, second in self.results():
            yield name, numerics.fallback(first, second, rng=np.random.default_rng(self.seed), **kernels)


def accuses(pair, judgement):
    """Whether somebody is said to be wrong; LOW_ACCURACY says that rounding may explain it.

    Beside an exact result Torch's kernel may be told the precision of its steps: interpolation has its weights in float32.
    """
    allowed = {Verdict.LOW_ACCURACY} | ({Verdict.PRECISION_MODE} if pair == BESIDE_EXACT else set())
    severe = judgement.verdict.severity >= ACCUSED and judgement.verdict not in allowed
    return severe and NEGLIGIBLE not in judgement.modifiers


def swept(op, pairs, seconds=1e9, seed=7):
    """(how many pairs were judged, the accusations in words) of an op."""
    rng, count, accusations, end = np.random.default_rng([seed, *op.name.encode()]), 0, [], time.process_time() + seconds
    calls = 0
    while count < pairs and time.process_time() < end and calls < 4 * pairs:
        calls += 1
        try:
            drawn = Pairs(op, rng)
            judgements = list(drawn.judged())
        except (RuntimeError, NotImplementedError):  # values or a dtype that Torch's formula has not
            continue
        count += len(judgements)
        accusations += [
            f"{drawn}, {name}: {judgement.verdict} {judgement.side} {judgement.hypothesis}; {judgement.reason}"
            for name, judgement in judgements
            if accuses(name, judgement)
        ]
    return count, accusations


def tried():
    """The ops with a named fault of which there are arguments."""
    return [op for op in ops().values() if op.faults and (op.samples or op.name in SAMPLES)]


def main(pairs, seconds, *names):
    """Prints a line for each op, and its first accusations."""
    for op in tried():
        if not names or op.name in names:
            begun = time.process_time()
            count, accusations = swept(op, int(pairs), float(seconds))
            print(f"{op.name}: {len(accusations)} of {count}, {time.process_time() - begun:.0f} s", flush=True)
            for text in accusations[:4]:
                print(f"    {text[:190]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
