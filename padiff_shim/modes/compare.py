"""``padiff_shim.compare``: the arguments, checked, and the mode that they open."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

from ..catalogue import known_differences as quirks
from ..comparison.sampling import Sampling
from ..dispatch.frames import Frame
from ..interrupts import raise_postponed
from ..measure.difference import Comparator
from ..runs.compare_run import CompareRun
from ..text import logged
from ..verdicts import Verdict
from .environment import processes, rank
from .mode import Mode
from .options import CompareOptions, filled, selection


class CompareMode(Mode):
    """A mode that compares instead of substituting; its :attr:`run` is a :class:`CompareRun`.

    Example:
        >>> import paddle
        >>> import padiff_shim
        >>> mode = padiff_shim.compare("torch")
        >>> run = mode.start()
        >>> y = paddle.ones([2, 2]) @ paddle.ones([2, 2])
        >>> mode.stop()
        >>> run.verdicts
        {'EQUAL': 1}
    """

    run: CompareRun
    _opener = "compare"
    _began: float | None = None  # when opening it began

    def start(self) -> CompareRun:
        """Open the mode in this thread; the first opening writes the log's header. Errors: see :meth:`Mode.start`."""
        sampling = self._plan.sampling
        self._began = sampling.clock() if sampling.entry else None  # what a process pays once is in no account
        super().start()
        return self.run

    def _open(self, frame: Frame) -> None:
        super()._open(frame)
        from ..comparison import plan
        from ..frameworks import settings
        from ..intercept import entry_points

        if self._plan.shadow is not None:
            self._say(entry_points.SHADOWS.acquire(self))
        if self.run.recorder.log is None:
            switches = settings.flags()
            self.run.begin(settings.environment(), switches, settings.concerns(switches))
        sampling = self._plan.sampling
        if sampling.accounts and not sampling.entry:
            plan.measure(sampling, frame)
        sampling.begin(self._began)
        if sampling.accounts:
            self._plan.opened(frame, entry_points.OPS)

    def _steps(self, frame: Frame) -> list[Callable[[], Any]]:
        """After the last opening the log is completed."""
        from ..comparison import gradients
        from ..intercept import entry_points

        plan = self._plan
        last = [
            lambda: self._say(entry_points.SHADOWS.release(self)),
            gradients.mode_closed,
            plan.step_ends,
            self._say_idle,
            self.run.recorder.close,
            functools.partial(plan.sampling.end, plan.sampling.clock()),
            raise_postponed,
            plan.outcome.conclude,
        ]
        return [*super()._steps(frame), *(functools.partial(self._after_all, step) for step in last)]

    def _after_all(self, step: Callable[[], Any]) -> None:
        if not self._frames:
            step()

    def _say_idle(self) -> None:
        sampling = self._plan.sampling
        if sampling.idle:
            self.run.counts.coverage.idle, self.run.counts.coverage.stretches = sampling.idle, sampling.stretches
            self.run.warn(
                logged(
                    "budget=: comparison paused in {idle} of {stretches} stretches of the program (from the start "
                    "of an outermost layer, or the end of a backward, to the next); calls made there are in no count",
                    idle=sampling.idle,
                    stretches=sampling.stretches,
                )
            )
        over = sampling.over
        if over is not None:
            self.run.warn(
                logged(
                    "budget=: in this program the hooks that always stay (of layers, backwards and optimizers) cost "
                    "{over:.0%} of the native time, which is more than the budget: it cannot be kept. A larger "
                    "network, or steps=, costs less",
                    over=over,
                )
            )

    def __enter__(self) -> CompareRun:
        return self.start()


@filled(CompareOptions)
def compare(
    backend: str = "torch",
    *,
    ops: str | Iterable[str] | None = None,
    exclude: str | Iterable[str] = (),
    layers: str | Iterable[str] | None = None,
    steps: int | range | slice | Container[int] | Callable[[int], bool] | None = None,
    ranks: int | Container[int] | None = None,
    every: int | None = None,
    first: int | None = None,
    budget: str | float | None = None,
    carry: str = "native",
    on_mismatch: str = "log",
    mismatch_from: str | Verdict = Verdict.LOW_ACCURACY,
    callback: Callable[[dict[str, Any]], None] | None = None,
    equal: Comparator | None = None,
    log: str | Path | None = None,
    on_log_error: str = "warn",
    known_differences: str | Path | None = None,
    audit: int = 16,
    screening: bool | None = None,
    keep_inputs: int = 8,
    shadow: bool = False,
    progress: bool = True,
    linear_layout: str = "contiguous",
    to_static: str = "compiled",
    exact: bool = True,
    all_threads: bool = False,
    seed: int = 0,
) -> CompareMode:
    """Run Paddle's kernel and another framework's on the same live tensors at every covered call, and judge both.

    Args:
        backend, ops, exclude, layers, linear_layout, to_static, all_threads: as for :func:`padiff_shim.reference`.
        steps: compare in these steps only (number, range, slice, set or predicate). A step ends with an optimizer's update, or
            where ``run.next_step()`` is called.
        ranks: compare in processes of these ranks only (PADDLE_TRAINER_ID or RANK); in others everything runs natively.
        every: compare each n-th call of a kind: op, shapes and dtypes.
        first: compare the first ones of a kind, then call number n with probability first / n.
        budget: time that comparing may take, as a share of the native time: ``"10%"`` or ``0.1``.
        carry: whose results the program goes on with. ``"native"``: bit for bit as without comparing, gradients and random state
            included; ``"torch"``: results and gradients of torch's kernels.
        on_mismatch: what a verdict from ``mismatch_from`` up leads to: ``"log"``, ``"warn"`` (once per line and op) or ``"raise"``
            (:class:`MismatchError`). Known and negligible differences raise nothing, and one warning at the end counts them.
        callback: called with the record (a dict, docs/log.md) of each such verdict, known and negligible differences included
            (``quirk`` and ``modifiers`` tell them), muted ones not.
        equal: a comparator of your own, as of :func:`padiff_shim.difference`: asked about each result that differs, Paddle's first.
            True makes it ROUNDING with the modifier ``"accepted"``, False at least LOW_ACCURACY with the modifier ``"refused"``.
        log: folder of the log; default a temporary one that lives as long as the run object.
        on_log_error: when the log cannot be written: ``"warn"`` once and go on without it, or ``"raise"``.
        known_differences: a TOML file of known differences, to name or mute them.
        audit: one in so many bit-equal results of each place is checked against the oracle too (0: none).
        screening: a difference like those that were ROUNDING at the same place (line, layer, shapes, tensor) before is not judged
            again, and its record says so (``"screened"``); one in 16 is judged all the same. Default only with ``budget``.
        keep_inputs: operands of the first so many serious calls are saved, for ``run.repro``; known and negligible differences
            are kept only while there is room.
        shadow: also carry every value as torch alone would have made it, to tell incoming from local error; takes the time and
            memory of a second forward pass.
        progress: a live line on long runs, on terminals only.
        exact: False leaves ops that move or choose values (``concat``, ``gather``, ``max``...) on Paddle's kernels, counted as not
            compared.
        seed: of the sample of outputs that are checked; the program's own random state is never touched.

    Returns:
        A :class:`CompareMode`: a context manager giving a :class:`CompareRun`, a decorator, and ``start()`` / ``stop()``.

    Raises:
        PadiffShimError: for an argument that is not accepted; the message says what is.
        BackendError: as for :func:`padiff_shim.reference`.

    Example:
        >>> import paddle
        >>> import padiff_shim
        >>> x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> with padiff_shim.compare("torch") as run:
        ...     y = paddle.nn.functional.softmax(x) @ x
        >>> [call.op for call in run.calls]
        ['softmax', 'matmul']
    """
    return opened(CompareOptions(**locals()))


def opened(options: CompareOptions) -> CompareMode:
    """The mode of these options, whatever the environment and settings files say."""
    enabled, chosen = selection(options, opener="compare")
    screening = options.budget is not None if options.screening is None else options.screening
    sampling = Sampling(steps=options.steps, every=options.every, first=options.first, budget=options.budget, seed=options.seed)
    known = quirks.load(options.known_differences) if options.known_differences is not None else ()
    from ..comparison.judge import Consequences
    from ..comparison.plan import Comparison
    from ..comparison.replicas import ReplicaDigests

    # The options that the log's header has
    plain = ("every", "first", "budget", "carry", "audit", "shadow", "seed")
    steps = repr(options.steps) if options.steps is not None else None
    run = CompareRun(
        options.backend,
        options.linear_layout,
        folder=options.log,
        on_log_error=options.on_log_error,
        rank=rank(),
        ranks=processes(),
        carry=options.carry,
        options={"steps": steps, "screening": screening, **{name: getattr(options, name) for name in plain}},
        progress=options.progress,
    )
    outcome = Consequences(
        run,
        action=options.on_mismatch,
        threshold=Verdict(options.mismatch_from),
        callback=options.callback,
        keep=options.keep_inputs,
        known=known,
    )
    comparison = Comparison(
        run,
        sampling,
        outcome,
        carry=options.carry,
        audit=options.audit,
        screening=screening,
        equal=options.equal,
        shadow=options.shadow,
        moves=options.exact,
        seed=options.seed,
    )
    run.stepper = comparison.next_step
    if processes() > 1:
        comparison.replicas = ReplicaDigests(run.recorder)
    ranks = options.ranks
    if ranks is not None and not (rank() == ranks if isinstance(ranks, int) else rank() in ranks):
        comparison.aside = logged("not compared: rank {rank} is not among ranks=", rank=rank())
    return CompareMode(run, enabled, chosen, comparison, options)
