"""Runs clean pairs and planted faults through the verdict, and through the rules that others use, and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from padiff_shim.catalogue.registry import ops
from padiff_shim.numerics import fallback, judge
from padiff_shim.verdicts import HARD, Judgement, Verdict

from .catalogue import FAULTS
from .kernels import CLEAN, paddle_kernel, torch_kernel
from .planted import Fault, Kernel
from .problems import TORCH, Problem
from .truth import truth

SOFT = frozenset({Verdict.LOW_ACCURACY, Verdict.LOCAL_SUSPECT})
QUIET = frozenset({Verdict.EQUAL, Verdict.ROUNDING, Verdict.UNVERIFIED})


def defect(problem: Problem) -> str | None:
    """The name of the Paddle 3.3.1 defect that this call meets, if any: such a native result is not a clean one."""
    numbers = [problem.values.get(name) for name in ("y", "alpha", "beta")]
    rounded = any(isinstance(n, float) and float(np.float32(n)) != n for n in numbers)
    if problem.dtype == "float64":
        if problem.op == "layer_norm" and problem.wanted != "bias":
            return "epsilon rounded to float32"
        if problem.op in ("pow", "addmm", "baddbmm") and rounded:
            return "number rounded to float32"
    if problem.op == "exp" and problem.dtype == "float16" and float(problem.values["x"].min()) < -50:
        return "exp of -58 to -52 in float16 is up to 1e-4"
    if problem.op == "softmax":
        x = problem.values["x"]
        if float((x - x.amax(problem.values["axis"], keepdim=True)).min()) < -64:
            return "x - max clipped at -64"
    return None


def verdict_of(problem: Problem, paddle: torch.Tensor, torch_: torch.Tensor, seed: int, *, audit: bool = False) -> Judgement:
    """What the library says of these two results."""
    model, values, quantity = ops()[problem.op].model, list(problem.values.values()), None
    if model is not None and problem.wanted == "out":
        quantity = model.forward(values)
    elif model is not None:
        quantity = model.gradient(problem.wanted, values, torch_kernel(problem.forward()), problem.grad)
    if quantity is None:
        return generic_verdict(problem, paddle, torch_, seed, audit=audit)
    return judge(quantity, paddle, torch_, rng=np.random.default_rng(seed), audit=audit)


def generic_verdict(problem: Problem, paddle: torch.Tensor, torch_: torch.Tensor, seed: int, *, audit: bool = False) -> Judgement:
    """What the library would say of these two results if the op had no rounding model."""
    names = [name for name, value in problem.values.items() if isinstance(value, torch.Tensor)]
    operands = [*(problem.values[name] for name in names), *([] if problem.grad is None else [problem.grad])]
    names += [] if problem.grad is None else ["grad"]

    def kernel(*tensors: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return torch_kernel(problem.change(**dict(zip(names, tensors))))

    kernels = {"torch_kernel": kernel, "paddle_kernel": None, "operands": operands}
    return fallback(paddle, torch_, rng=np.random.default_rng(seed), audit=audit, **kernels)


Judge = Callable[..., Judgement]


def assert_close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether ``torch.testing.assert_close`` complains, with its defaults."""
    rtol, atol = (1.3e-6, 1e-5) if a.dtype == torch.float32 else (1e-7, 1e-7)
    return not torch.allclose(a, b, rtol, atol, equal_nan=True)


def mean_rule(a: torch.Tensor, b: torch.Tensor) -> bool:
    """PaDiff's comparison with its defaults: the means, atol 0, rtol 1e-7."""
    return not np.allclose(a.double().mean().item(), b.double().mean().item(), atol=0.0, rtol=1e-7, equal_nan=True)


def ulp64(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Any element further than 64 representable numbers away."""
    integer = torch.int32 if a.dtype == torch.float32 else torch.int64
    steps = [x.contiguous().view(integer).long() for x in (a, b)]
    lowest = torch.iinfo(integer).min
    ordered = [torch.where(s < 0, lowest - s, s) for s in steps]
    return bool((ordered[0] - ordered[1]).abs().max() > 64)


RULES: dict[str, Callable[[torch.Tensor, torch.Tensor], bool]] = {
    "assert_close": assert_close,
    "PaDiff mean": mean_rule,
    "64 ULP": ulp64,
}


@dataclass(frozen=True)
class Outcome:
    """One judged pair. ``fault`` None: a clean pair, ``kernel`` names it. ``size``: of the fault, in units of B1."""

    problem: str
    op: str
    dtype: str
    wanted: str
    kernel: str
    fault: Fault | None
    size: float
    planted: str
    judged: Judgement
    others: dict[str, bool]

    @property
    def visible(self) -> bool:
        """A fault of at least one unit."""
        return self.fault is not None and self.size >= 1

    @property
    def flagged(self) -> bool:
        """Any verdict beyond equal, rounding and unverified."""
        return self.judged.verdict not in QUIET

    @property
    def right_side(self) -> bool:
        """The planted side and no other."""
        return self.judged.side.value == self.planted

    @property
    def detected(self) -> bool:
        """Flagged, and the planted side among those named."""
        return self.flagged and self.judged.side.value in (self.planted, "both")

    @property
    def false_alarm(self) -> bool:
        """A hard class for a clean pair."""
        return self.fault is None and self.judged.verdict in HARD


def _outcome(
    problem: Problem, kernel: str, fault: Fault | None, size: float, planted: str, pair: dict, seed: int, judge: Judge
) -> Outcome:
    judged = judge(problem, pair["paddle"], pair["torch"], seed)
    others = {name: rule(pair["paddle"], pair["torch"]) for name, rule in RULES.items()}
    return Outcome(problem.label, problem.op, problem.dtype, problem.wanted, kernel, fault, size, planted, judged, others)


def clean_pairs(problems: Iterable[Problem], seed: int, judge: Judge = verdict_of) -> Iterator[Outcome]:
    """Paddle's kernel against torch's, and every rearrangement that applies, on a side drawn at random."""
    rng = np.random.default_rng(seed)
    for problem in problems:
        ours = torch_kernel(problem)
        if defect(problem) is None:
            pair = {"paddle": paddle_kernel(problem), "torch": ours}
            yield _outcome(problem, "native", None, 0.0, "", pair, int(rng.integers(2**31)), judge)
        for name, kernel in CLEAN.items():
            other = kernel(problem, rng)
            if other is not None:
                side = ("paddle", "torch")[int(rng.integers(2))]
                pair = {"paddle": ours, "torch": ours, side: other}
                yield _outcome(problem, name, None, 0.0, "", pair, int(rng.integers(2**31)), judge)


def _size(fault: Fault, problem: Problem, faulty: np.ndarray, clean: np.ndarray, seed: int) -> float:
    """What the fault moves, in B1 units: by the oracle; for careless arithmetic by the error that it adds to the clean kernel's."""
    exact, unit = truth(problem)
    if not np.isfinite(faulty).all():
        return np.inf
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if fault.kind == "arithmetic":
            return float((np.abs(faulty - exact) / unit).max() - (np.abs(clean - exact) / unit).max())
        moved = fault.plant(Kernel("oracle"), problem, np.random.default_rng(seed))
        if moved is None:  # nothing there but rounding, such as a bit of a number that is exactly 0
            return 0.0
        size = np.abs(moved - exact) / unit
    return float(size.max()) if np.isfinite(size).all() else np.inf


def planted(problems: Iterable[Problem], seed: int, share: float = 1.0, judge: Judge = verdict_of) -> Iterator[Outcome]:
    """The faults that apply, on a side drawn at random. Of the many that apply nearly everywhere, only a random ``share``."""
    rng = np.random.default_rng(seed)
    for problem in problems:
        if problem.wanted != "out" and problem.grad is None:
            continue
        clean = {"paddle": torch_kernel(problem) if defect(problem) else paddle_kernel(problem), "torch": torch_kernel(problem)}
        for fault in FAULTS:
            if rng.random() >= share and not fault.rare and fault.kind not in ("arithmetic", "semantics"):
                continue
            side, luck = ("paddle", "torch")[int(rng.integers(2))], int(rng.integers(2**31))
            kernel = Kernel("torch" if defect(problem) else side)
            faulty = fault.plant(kernel, problem, np.random.default_rng(luck))
            if faulty is None:
                continue
            if faulty.shape != tuple(clean[side].shape):
                raise ValueError(f"{fault.name}: {problem.label} gives {faulty.shape}")
            size = _size(fault, problem, faulty, clean[side].numpy(), luck)
            pair = {**clean, side: torch.from_numpy(np.array(faulty)).to(TORCH[problem.dtype])}
            yield _outcome(problem, "native", fault, size, side, pair, luck, judge)


def counts(outcomes: Iterable[Outcome]) -> Counter:
    """(row, verdict) -> how many; the row is "clean" or the fault's kind, visible faults only."""
    counts: Counter = Counter()
    for outcome in outcomes:
        if outcome.fault is None or outcome.visible:
            counts[outcome.fault.kind if outcome.fault else "clean", outcome.judged.verdict] += 1
    return counts
